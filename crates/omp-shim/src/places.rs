//! Places: sets of processors, as `OMP_PLACES` names them, and which place a thread is said to be
//! in.
//!
//! # What places do (D14)
//! Queries answer what follows from the control variables; `omp_display_affinity` shows the truth.
//! Explicit places are a fence: [`Fence::put_up`] narrows the initial thread's mask to the
//! processors that they name before the engine looks at it, so that the engine binds within, and
//! says so when it registers: a manager grants processors inside only, as long as it manages some
//! of them. Where in the fence a thread runs, the engine and the manager decide.

use crate::env::{Bind, Environment};
use crate::frame::Frame;
use crate::icv::settings;
use crate::message;
use platform::affinity::{self, CpuId, CpuSet, Tid};
use platform::cgroup::{Limits, usable_processors};
use platform::lock::Once;
use platform::topology::{Cpu, Topology};
use std::ops::Range;

/// A parsed `OMP_PLACES`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// One place for each unit of this kind, at most `count`.
    Abstract {
        /// The unit.
        unit: Unit,
        /// The limit.
        count: Option<usize>,
    },
    /// These processors.
    Explicit(Vec<Vec<u32>>),
}

/// What an abstract name counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Hardware threads.
    Threads,
    /// Cores.
    Cores,
    /// Packages.
    Sockets,
    /// Last-level caches.
    Caches,
    /// Memory nodes.
    Nodes,
}

/// More processors or places than this in one variable is a typing error, not a machine.
const LIMIT: usize = 1 << 16;

impl Request {
    /// Reads the value of `OMP_PLACES`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text: String =
            text.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_lowercase();
        if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Self::parse_abstract(&text);
        }
        let mut rest = Cursor(&text);
        let mut places: Vec<Vec<u32>> = Vec::new();
        loop {
            let excluded = rest.eat('!');
            let more = rest.place_interval()?;
            if excluded {
                for place in more {
                    let before = places.len();
                    places.retain(|other| *other != place);
                    // Most likely a typing error, as in the original.
                    if places.len() == before {
                        return None;
                    }
                }
            } else {
                places.extend(more);
            }
            if places.len() > LIMIT {
                return None;
            }
            if rest.0.is_empty() {
                break;
            }
            if !rest.eat(',') {
                return None;
            }
        }
        (!places.is_empty()).then_some(Self::Explicit(places))
    }

    fn parse_abstract(text: &str) -> Option<Self> {
        let (name, count) = match text.split_once('(') {
            None => (text, None),
            Some((name, rest)) => {
                let count: usize = rest.strip_suffix(')')?.parse().ok()?;
                if count == 0 {
                    return None;
                }
                (name, Some(count))
            }
        };
        let unit = match name {
            "threads" => Unit::Threads,
            "cores" => Unit::Cores,
            "sockets" => Unit::Sockets,
            "ll_caches" => Unit::Caches,
            "numa_domains" => Unit::Nodes,
            _ => return None,
        };
        Some(Self::Abstract { unit, count })
    }
}

/// The places of the process; empty when threads are not bound.
pub(crate) fn list() -> &'static [CpuSet] {
    static LIST: Once<Vec<CpuSet>> = Once::new();
    LIST.get_or_init(|| match &settings().fence {
        Some(fence) => fence.places.clone(),
        None => make(&settings().environment),
    })
}

/// What explicit places keep the program in.
#[derive(Debug)]
pub(crate) struct Fence {
    places: Vec<CpuSet>,
    /// Processors that the program had before, quota counted: what `omp_get_num_procs` answers
    /// (D4).
    pub(crate) processors: usize,
}

impl Fence {
    /// Keeps the program in its explicit places, if it has some. Places that are all elsewhere are
    /// as good as not given: they go out of `environment`.
    pub(crate) fn put_up(environment: &mut Environment) -> Option<Self> {
        let is_explicit = match (&environment.places, &environment.cpu_affinity) {
            (Some(places), _) => matches!(Request::parse(places), Some(Request::Explicit(_))),
            (None, cpus) => cpus.is_some(),
        };
        if !is_explicit || !environment.binds() {
            return None;
        }
        let before = affinity::affinity(None).ok()?;
        let places = make(environment);
        let inside = places.iter().flat_map(CpuSet::iter).collect::<CpuSet>();
        if inside.is_empty() {
            (environment.places, environment.cpu_affinity) = (None, None);
            return None;
        }
        let processors = usable_processors(&before, &Limits::read().unwrap_or_default());
        // The caller is the initial thread, but for a library that is loaded late. A thread that
        // cannot be bound stays where it is, as without places.
        let initial = Tid(std::process::id().cast_signed());
        let _ = affinity::set_affinity(Some(initial), &inside);
        let _ = affinity::set_affinity(None, &inside);
        Some(Self { places, processors })
    }
}

fn make(environment: &Environment) -> Vec<CpuSet> {
    if !environment.binds() {
        return Vec::new();
    }
    let Ok(mask) = affinity::affinity(None) else { return Vec::new() };
    let request = match (&environment.places, &environment.cpu_affinity) {
        (Some(places), _) => Request::parse(places),
        (None, Some(cpus)) => Some(Request::Explicit(cpu_affinity(cpus))),
        (None, None) => None,
    };
    let request = request.unwrap_or(Request::Abstract { unit: Unit::Cores, count: None });
    let topology = Topology::read().ok().or_else(|| Topology::flat(&mask));
    let places = request.resolve(&mask, topology.as_ref());
    if let (Request::Explicit(asked), found) = (&request, places.len())
        && found < asked.len()
    {
        message::warn(&format!(
            "{} of the {} places of OMP_PLACES or GOMP_CPU_AFFINITY contain no processor that this program may use ({mask}){}",
            asked.len() - found,
            asked.len(),
            if found == 0 { "; they are ignored" } else { "" }
        ));
    }
    places
}

/// The processors of a `GOMP_CPU_AFFINITY` that was found well formed, one place each.
fn cpu_affinity(text: &str) -> Vec<Vec<u32>> {
    let items = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|item| !item.is_empty());
    let expand = |item: &str| -> Option<Vec<u32>> {
        let (range, stride) = item.split_once(':').map_or((item, "1"), |pair| pair);
        let (from, to) = range.split_once('-').map_or((range, range), |pair| pair);
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        Some((from..=to).step_by(stride.parse::<usize>().ok()?.max(1)).take(LIMIT).collect())
    };
    items.filter_map(expand).flatten().map(|cpu| vec![cpu]).collect()
}

impl Request {
    /// The places that exist within `mask`.
    fn resolve(&self, mask: &CpuSet, topology: Option<&Topology>) -> Vec<CpuSet> {
        match self {
            Self::Explicit(places) => places
                .iter()
                .map(|place| {
                    CpuSet::from_iter(place.iter().map(|cpu| CpuId(*cpu))).intersection(mask)
                })
                .filter(|place| !place.is_empty())
                .collect(),
            Self::Abstract { unit, count } => {
                let mut places = units(*unit, mask, topology);
                places.truncate(count.unwrap_or(usize::MAX));
                places
            }
        }
    }
}

/// One place for each unit that has processors in `mask`, in order of its first processor.
fn units(unit: Unit, mask: &CpuSet, topology: Option<&Topology>) -> Vec<CpuSet> {
    let key = |cpu: CpuId| {
        let known: Option<&Cpu> = topology.and_then(|topology| topology.get(cpu));
        known.map_or(cpu.0, |known| match unit {
            Unit::Threads => cpu.0,
            Unit::Cores => known.core,
            Unit::Sockets => known.package,
            Unit::Caches => known.llc,
            Unit::Nodes => known.node,
        })
    };
    let mut places: Vec<(u32, CpuSet)> = Vec::new();
    for cpu in mask.iter() {
        match places.iter_mut().find(|(unit, _)| *unit == key(cpu)) {
            Some((_, place)) => {
                place.insert(cpu);
            }
            None => places.push((key(cpu), CpuSet::single(cpu))),
        }
    }
    places.into_iter().map(|(_, place)| place).collect()
}

/// Where a thread is said to be: its place, and the partition that its own regions may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The place.
    pub(crate) place: usize,
    /// The partition.
    pub(crate) partition: Range<usize>,
}

/// The thread's standing; `None` when there are no places.
pub(crate) fn standing(frame: &Frame) -> Option<Standing> {
    let places = list().len();
    (places > 0).then(|| standing_of(frame, places))
}

fn standing_of(frame: &Frame, places: usize) -> Standing {
    let team = frame.team();
    match team.parent() {
        None => Standing { place: 0, partition: 0..places },
        Some(parent) => {
            let parent = standing_of(parent, places);
            assign(team.bind(), &parent, frame.size as usize, frame.id as usize)
        }
    }
}

/// The standing of thread `id` of `size` in a region of a thread that stands at `parent` (OpenMP
/// 5.1, 2.6.2).
fn assign(bind: Bind, parent: &Standing, size: usize, id: usize) -> Standing {
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
            Standing { place: if id == 0 { parent.place } else { partition.start }, partition }
        }
        Bind::Spread => {
            let place = first + (own + id * count / size) % count;
            Standing { place, partition: place..place + 1 }
        }
        _ if size <= count => Standing { place: first + (own + id) % count, partition },
        _ => Standing { place: first + (own + id * count / size) % count, partition },
    }
}

/// What is left of the text.
struct Cursor<'a>(&'a str);

impl Cursor<'_> {
    fn eat(&mut self, c: char) -> bool {
        match self.0.strip_prefix(c) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn number(&mut self) -> Option<i64> {
        let negative = self.eat('-');
        let end = self.0.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len());
        let value: i64 = self.0[..end].parse::<u32>().ok()?.into();
        self.0 = &self.0[end..];
        Some(if negative { -value } else { value })
    }

    /// `[:length[:stride]]`
    fn repetition(&mut self) -> Option<(usize, i64)> {
        if !self.eat(':') {
            return Some((1, 1));
        }
        let length =
            usize::try_from(self.number()?).ok().filter(|length| (1..=LIMIT).contains(length))?;
        let stride = if self.eat(':') { self.number()? } else { 1 };
        Some((length, stride))
    }

    /// `place[:length[:stride]]`, where a place is `{...}` or one processor.
    fn place_interval(&mut self) -> Option<Vec<Vec<u32>>> {
        let place = if self.eat('{') {
            self.resources()?
        } else {
            vec![u32::try_from(self.number()?).ok()?]
        };
        let (length, stride) = self.repetition()?;
        (0..length).map(|step| shifted(&place, step, stride)).collect()
    }

    /// `[!]number[:length[:stride]],...}`
    fn resources(&mut self) -> Option<Vec<u32>> {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        loop {
            let excluded = self.eat('!');
            let first = u32::try_from(self.number()?).ok()?;
            let (length, stride) = self.repetition()?;
            for step in 0..length {
                let one = shifted(&[first], step, stride)?;
                if excluded { without.extend(one) } else { with.extend(one) }
            }
            if self.eat('}') {
                break;
            }
            if !self.eat(',') {
                return None;
            }
        }
        with.retain(|cpu| !without.contains(cpu));
        (!with.is_empty()).then_some(with)
    }
}

fn shifted(place: &[u32], step: usize, stride: i64) -> Option<Vec<u32>> {
    let by = i64::try_from(step).ok()?.checked_mul(stride)?;
    place.iter().map(|cpu| u32::try_from(i64::from(*cpu) + by).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explicit(text: &str) -> Vec<Vec<u32>> {
        match Request::parse(text) {
            Some(Request::Explicit(places)) => places,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn intervals_repeat_places_and_processors() {
        assert_eq!(explicit("{0,1},{2,3}"), [[0, 1], [2, 3]]);
        assert_eq!(explicit("{0:2}:2:2"), [[0, 1], [2, 3]]);
        assert_eq!(explicit(" { 0 : 4 : 2 } "), [[0, 2, 4, 6]]);
        assert_eq!(explicit("{6}:3:-2"), [[6], [4], [2]]);
        assert_eq!(explicit("{0:4,!2},{9},!{9}"), [[0, 1, 3]]);
        assert_eq!(explicit("3,5"), [[3], [5]]);
    }

    #[test]
    fn abstract_names_take_a_count() {
        assert_eq!(
            Request::parse("Cores (4)"),
            Some(Request::Abstract { unit: Unit::Cores, count: Some(4) })
        );
        assert_eq!(
            Request::parse("threads"),
            Some(Request::Abstract { unit: Unit::Threads, count: None })
        );
    }

    #[test]
    fn close_fills_places_in_order_and_spread_leaves_gaps() {
        let parent = Standing { place: 0, partition: 0..8 };
        let close: Vec<usize> =
            (0..4).map(|id| assign(Bind::Close, &parent, 4, id).place).collect();
        assert_eq!(close, [0, 1, 2, 3]);
        let spread: Vec<Standing> = (0..4).map(|id| assign(Bind::Spread, &parent, 4, id)).collect();
        assert_eq!(spread.iter().map(|s| s.place).collect::<Vec<_>>(), [0, 2, 4, 6]);
        assert_eq!(spread[3].partition, 6..8);
        assert!((0..3).all(|id| assign(Bind::Primary, &parent, 3, id) == parent));
    }

    #[test]
    fn more_threads_than_places_share_them_evenly() {
        let parent = Standing { place: 1, partition: 0..2 };
        for bind in [Bind::Close, Bind::Spread, Bind::True] {
            let places: Vec<usize> = (0..4).map(|id| assign(bind, &parent, 4, id).place).collect();
            assert_eq!(places, [1, 1, 0, 0], "{bind:?}");
        }
    }

    #[test]
    fn processors_outside_the_mask_are_left_out() {
        let mask = CpuSet::parse_list("0-3").unwrap();
        let places = Request::parse("{0:2},{2:9},{7}").unwrap().resolve(&mask, None);
        assert_eq!(places.iter().map(ToString::to_string).collect::<Vec<_>>(), ["0-1", "2-3"]);
        assert_eq!(Request::parse("threads(3)").unwrap().resolve(&mask, None).len(), 3);
        assert_eq!(cpu_affinity("3 0-4:2, 7"), [[3], [0], [2], [4], [7]]);
    }

    #[test]
    fn broken_texts_are_refused() {
        for text in [
            "",
            "{0,1",
            "{}",
            "{0}:0",
            "cores(0)",
            "cores(4",
            "tables",
            "{0},",
            "{0}:2:-1",
            "{0:99999999}",
            "{-1}",
            "{0},!{1}",
            "!{0}",
            "!{0},{0}",
        ] {
            assert_eq!(Request::parse(text), None, "{text}");
        }
    }
}
