//! Which place a thread is said to be in. These answers follow from the control variables (D14);
//! `omp_display_affinity` shows the truth.

use crate::frame::Frame;
use crate::settings::{Bind, fence, settings};
use platform::affinity::CpuSet;
use platform::lock::Once;
use std::ops::Range;

/// The places of the process; empty when threads are not bound.
pub(crate) fn list() -> &'static [CpuSet] {
    static LIST: Once<Vec<CpuSet>> = Once::new();
    LIST.get_or_init(|| match &settings().fence {
        Some(fence) => fence.places.clone(),
        None => fence::make(&settings().environment),
    })
}

/// Where a thread is said to be: its place, and the partition that its own regions may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlacePartition {
    /// The place.
    pub(crate) place: usize,
    /// The partition.
    pub(crate) partition: Range<usize>,
}

/// Where the thread is; `None` when there are no places.
pub(crate) fn place_partition(frame: &Frame) -> Option<PlacePartition> {
    let places = list().len();
    (places > 0).then(|| place_partition_of(frame, places))
}

fn place_partition_of(frame: &Frame, places: usize) -> PlacePartition {
    match frame.parent() {
        None => PlacePartition { place: 0, partition: 0..places },
        Some(parent) => {
            let parent = place_partition_of(parent, places);
            assign(frame.team().bind(), &parent, frame.size as usize, frame.id as usize)
        }
    }
}

/// Where thread `id` of `size` is in a region of a thread that is at `parent` (OpenMP 5.1, 2.6.2).
fn assign(bind: Bind, parent: &PlacePartition, size: usize, id: usize) -> PlacePartition {
    let partition = parent.partition.clone();
    let (first, count) = (partition.start, partition.len());
    let own = parent.place - first;
    match bind {
        Bind::Primary => parent.clone(),
        Bind::Spread if size <= count => {
            // The partition is cut into `size` pieces; the primary thread keeps the one that it is
            // in.
            let cut = |piece: usize| first + piece * count / size;
            let home = (0..size).find(|piece| cut(piece + 1) > parent.place).unwrap_or(0);
            let piece = (home + id) % size;
            let partition = cut(piece)..cut(piece + 1);
            PlacePartition {
                place: if id == 0 { parent.place } else { partition.start },
                partition,
            }
        }
        Bind::Spread => {
            let place = first + (own + id * count / size) % count;
            PlacePartition { place, partition: place..place + 1 }
        }
        _ if size <= count => PlacePartition { place: first + (own + id) % count, partition },
        _ => PlacePartition { place: first + (own + id * count / size) % count, partition },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_fills_places_in_order_and_spread_leaves_gaps() {
        let parent = PlacePartition { place: 0, partition: 0..8 };
        let close: Vec<usize> =
            (0..4).map(|id| assign(Bind::Close, &parent, 4, id).place).collect();
        assert_eq!(close, [0, 1, 2, 3]);
        let spread: Vec<PlacePartition> =
            (0..4).map(|id| assign(Bind::Spread, &parent, 4, id)).collect();
        assert_eq!(spread.iter().map(|s| s.place).collect::<Vec<_>>(), [0, 2, 4, 6]);
        assert_eq!(spread[3].partition, 6..8);
        assert!((0..3).all(|id| assign(Bind::Primary, &parent, 3, id) == parent));
    }

    #[test]
    fn more_threads_than_places_share_them_evenly() {
        let parent = PlacePartition { place: 1, partition: 0..2 };
        for bind in [Bind::Close, Bind::Spread, Bind::True] {
            let places: Vec<usize> = (0..4).map(|id| assign(bind, &parent, 4, id).place).collect();
            assert_eq!(places, [1, 1, 0, 0], "{bind:?}");
        }
    }
}
