//! Which way a team's work reaches its workers.
//!
//! # The choice
//! By *lines* (LWD) the master writes one line for each worker, and the worker arrives in the same
//! line: two transfers for each, and with one worker the least that is possible. By *broadcast*
//! (GWD) it writes one line that all read, and each arrives in a line of its own, through a leader
//! where the team spans several caches. [`Supply::Auto`] takes lines for up to [`FEW`] workers that
//! share the master's last-level cache, and broadcasts to more. A team larger than its processors
//! always gets lines: its members sleep, each is woken by itself, and a leader that waits for a
//! processor would only hold up its flock. The choice is made when the team's size changes; a fork
//! reads one number.
//!
//! # Papers
//! P1 section 3.1 compares both (Figures 3 and 4).

use crate::placement::nearness::{self, Placed};
use crate::program::config::Supply;

/// Workers that [`Supply::Auto`] supplies by lines.
const FEW: usize = 8;

/// Members that arrive through one leader: above this a flock costs its leader more than another
/// level costs the master (with reads of a line at distance L and c between two of them in flight,
/// two levels win from about 16 on).
const FLOCK: usize = 16;

impl Supply {
    /// The most workers that get lines in a team out of `members` (the master not counted).
    pub(crate) fn most_by_lines(self, members: &[&'static impl Placed]) -> usize {
        match self {
            Supply::Local => usize::MAX,
            Supply::Global => 0,
            Supply::Auto => {
                // One worker: its line carries the arrival, too; nothing can be better, whatever
                // the distance.
                if members.len() < 2 {
                    return usize::MAX;
                }
                let caches = caches(members);
                caches
                    .iter()
                    .skip(1)
                    .take(FEW)
                    .take_while(|&&cache| cache == caches[0])
                    .count()
                    .max(1)
            }
        }
    }
}

/// For each member of a team, the master first: its leader. A leader leads itself, and its number
/// is the lowest of its flock, so that the leaders of a team are those of any larger one.
pub(crate) fn leaders(members: &[&'static impl Placed]) -> Vec<usize> {
    flocks(&caches(members))
}

fn flocks(caches: &[u32]) -> Vec<usize> {
    let mut leader_of = Vec::with_capacity(caches.len());
    for (id, cache) in caches.iter().enumerate() {
        // The last flock of this cache, if it has room.
        let flock =
            (0..id).rev().find(|&other| caches[other] == *cache).map(|other| leader_of[other]);
        let has_room =
            |&leader: &usize| leader_of.iter().filter(|&&other| other == leader).count() < FLOCK;
        leader_of.push(flock.filter(has_room).unwrap_or(id));
    }
    leader_of
}

/// The last-level cache of each member, the master first, as far as it is known ([`nearness`]). One
/// whose place is not known counts as the master's neighbour.
fn caches(members: &[&'static impl Placed]) -> Vec<u32> {
    let Some(places) = nearness::places(members) else {
        return vec![0; members.len() + 1];
    };
    let here = places.clone().next().flatten().map_or(0, |place| place.cache);
    places.map(|place| place.map_or(here, |place| place.cache)).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_cache_up_to_sixteen_members_has_the_master_as_its_only_leader() {
        assert_eq!(flocks(&[0; 16]), [0; 16]);
        let forty = flocks(&[0; 40]);
        assert!(forty.iter().enumerate().all(|(id, &leader)| leader == id / 16 * 16));
    }

    #[test]
    fn each_cache_has_a_leader_of_its_own() {
        assert_eq!(flocks(&[3, 3, 5, 5, 3, 7, 5]), [0, 0, 2, 2, 0, 5, 2]);
    }

    proptest! {
        #[test]
        fn flocks_stay_in_one_cache_and_hold_for_every_smaller_team(caches in prop::collection::vec(0_u32..4, 1..80)) {
            let leader_of = flocks(&caches);
            for (id, &leader) in leader_of.iter().enumerate() {
                prop_assert!(leader <= id && leader_of[leader] == leader && caches[leader] == caches[id]);
                prop_assert!(leader_of.iter().filter(|&&other| other == leader).count() <= FLOCK);
            }
            for size in 1..caches.len() {
                prop_assert_eq!(&flocks(&caches[..size]), &leader_of[..size]);
            }
        }
    }
}
