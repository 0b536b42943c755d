//! Places: sets of processors, as `OMP_PLACES` and `GOMP_CPU_AFFINITY` name them.

use platform::affinity::{CpuId, CpuSet};
use platform::topology::{Cpu, Topology};

/// A parsed `OMP_PLACES`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlacesSpec {
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

impl PlacesSpec {
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

/// The processors of a `GOMP_CPU_AFFINITY` that was found well formed, one place each.
pub(super) fn cpu_affinity(text: &str) -> Vec<Vec<u32>> {
    let items = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|item| !item.is_empty());
    let expand = |item: &str| -> Option<Vec<u32>> {
        let (range, stride) = item.split_once(':').map_or((item, "1"), |pair| pair);
        let (from, to) = range.split_once('-').map_or((range, range), |pair| pair);
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        Some((from..=to).step_by(stride.parse::<usize>().ok()?.max(1)).take(LIMIT).collect())
    };
    items.filter_map(expand).flatten().map(|cpu| vec![cpu]).collect()
}

impl PlacesSpec {
    /// The places that exist within `mask`.
    pub(super) fn resolve(&self, mask: &CpuSet, topology: Option<&Topology>) -> Vec<CpuSet> {
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
        match PlacesSpec::parse(text) {
            Some(PlacesSpec::Explicit(places)) => places,
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
            PlacesSpec::parse("Cores (4)"),
            Some(PlacesSpec::Abstract { unit: Unit::Cores, count: Some(4) })
        );
        assert_eq!(
            PlacesSpec::parse("threads"),
            Some(PlacesSpec::Abstract { unit: Unit::Threads, count: None })
        );
    }

    #[test]
    fn processors_outside_the_mask_are_left_out() {
        let mask = CpuSet::parse_list("0-3").unwrap();
        let places = PlacesSpec::parse("{0:2},{2:9},{7}").unwrap().resolve(&mask, None);
        assert_eq!(places.iter().map(ToString::to_string).collect::<Vec<_>>(), ["0-1", "2-3"]);
        assert_eq!(PlacesSpec::parse("threads(3)").unwrap().resolve(&mask, None).len(), 3);
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
            assert_eq!(PlacesSpec::parse(text), None, "{text}");
        }
    }
}
