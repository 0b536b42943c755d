//! How values are read, for the command line and for the configuration.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use platform::affinity::CpuSet;

use super::run::Placement;
use crate::duration;
use crate::history::Keep;
use crate::limits::{self, Weight};
use crate::trace;

/// The least bound of a history's file, in bytes: an empty one takes a good part of it.
const HISTORY_LEAST: u64 = 4 << 20;

/// The drop-in library can name nodes below this one.
const MOST_NODES: u32 = 64;

/// The half-life of a fair share unless another one is said.
const HALF_LIFE: Duration = Duration::from_secs(7 * 86_400);

/// How many programs may run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// As many as come.
    Any,
    /// At most this many.
    AtMost(u32),
}

impl Level {
    /// The number, if there is one.
    pub fn number(self) -> Option<u32> {
        match self {
            Self::Any => None,
            Self::AtMost(number) => Some(number),
        }
    }
}

/// How long a manager without programs stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleExit {
    /// For ever.
    Never,
    /// After this time.
    After(Duration),
}

/// Where a manager listens for browsers and Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Nowhere.
    Off,
    /// At this address.
    At(SocketAddr),
}

impl Listen {
    /// The address, if there is one.
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Off => None,
            Self::At(address) => Some(address),
        }
    }
}

/// In which order programs of several users wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FairShare {
    /// First come, first served.
    Off,
    /// By what their users consumed, which counts by half after this time.
    HalfLife(Duration),
}

impl FairShare {
    /// The half-life, if there is one.
    pub fn half_life(self) -> Option<Duration> {
        match self {
            Self::Off => None,
            Self::HalfLife(time) => Some(time),
        }
    }
}

impl std::fmt::Display for FairShare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::HalfLife(time) => f.write_str(&duration::show(*time)),
        }
    }
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::At(address) => address.fmt(f),
        }
    }
}

pub(crate) fn policy(text: &str) -> Result<String, String> {
    limits::policy(text).map(|_| text.to_owned()).map_err(|unknown| unknown.to_string())
}

pub(crate) fn quantum(text: &str) -> Result<Duration, duration::DurationError> {
    let possible = limits::quantum();
    duration::parse_within(
        text,
        Duration::from_nanos(*possible.start()),
        Duration::from_nanos(*possible.end()),
    )
}

pub(crate) fn grace(text: &str) -> Result<Duration, duration::DurationError> {
    let possible = limits::grace();
    duration::parse_within(
        text,
        Duration::from_nanos(*possible.start()),
        Duration::from_nanos(*possible.end()),
    )
}

pub(crate) fn level(text: &str) -> Result<Level, String> {
    if text == "any" {
        return Ok(Level::Any);
    }
    text.parse()
        .map(Level::AtMost)
        .map_err(|_| format!("{text:?} is no number of programs; it is 0 to {}, or any", u32::MAX))
}

pub(crate) fn most(text: &str) -> Result<Level, String> {
    match text.parse() {
        _ if text == "any" => Ok(Level::Any),
        Ok(number @ 1..) => Ok(Level::AtMost(number)),
        _ => Err(format!("{text:?} is no number of processors; it is 1 to {}, or any", u32::MAX)),
    }
}

pub(crate) fn processors(text: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| format!("{text:?} is no number of processors; it is 1 to {}", u32::MAX))
}

/// What a program is started for.
pub(crate) fn label(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > limits::MAX_LABEL {
        let (most, length) = (limits::MAX_LABEL, text.len());
        return Err(format!("a label has 1 to {most} bytes, not {length}; say it in a word"));
    }
    Ok(text.to_owned())
}

/// The number of what waits.
pub(super) fn submission(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        format!(
            "{text:?} is no number of what waits; `cpumgr queue` shows them, first on each line"
        )
    })
}

/// The number of a process.
pub(super) fn pid(text: &str) -> Result<i32, String> {
    text.parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| format!("{text:?} is no number of a process; it is 1 to {}", i32::MAX))
}

pub(crate) fn size(text: &str) -> Result<u64, String> {
    let (number, unit) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit: Option<u64> = match unit {
        "" => Some(1),
        "K" => Some(1 << 10),
        "M" => Some(1 << 20),
        "G" => Some(1 << 30),
        _ => None,
    };
    let bytes = number
        .parse()
        .ok()
        .zip(unit)
        .and_then(|(number, unit): (u64, u64)| number.checked_mul(unit));
    bytes.filter(|bytes| *bytes >= trace::LEAST).ok_or_else(|| {
        format!("{text:?} is no size; it is 64K or more: a number of bytes, or of K, M or G")
    })
}

/// Where a history is kept.
pub(crate) fn keep(text: &str) -> Result<Keep, String> {
    match text {
        "on" => Ok(Keep::On),
        "off" => Ok(Keep::Off),
        path if path.starts_with('/') => Ok(Keep::In(path.into())),
        other => Err(format!("{other:?} is not possible here; it is on, off, or an absolute path")),
    }
}

/// The bound of a history's file: less than the least has room for nothing.
pub(crate) fn history_size(text: &str) -> Result<u64, String> {
    let bytes = size(text).ok().filter(|bytes| *bytes >= HISTORY_LEAST);
    bytes.ok_or_else(|| {
        format!(
            "{text:?} is no size of a history; it is 4M or more: a number of bytes, or of K, M or G"
        )
    })
}

/// A time that may be long: `90d`, or as any other one.
pub(crate) fn age(text: &str) -> Result<Duration, String> {
    let days = text.strip_suffix('d').and_then(|it| it.parse::<u32>().ok());
    if let Some(days) = days {
        return Ok(Duration::from_secs(86_400 * u64::from(days)));
    }
    duration::parse(text).map_err(|error| format!("{error}; or days: 90d"))
}

/// A time after which a program is ended: none is no limit that any program could keep.
pub(crate) fn time_limit(text: &str) -> Result<Duration, String> {
    match age(text)? {
        Duration::ZERO => Err("a program cannot run for no time; write a longer one: 30min".into()),
        time => Ok(time),
    }
}

/// Of the fair share of a queue.
pub(crate) fn fair_share(text: &str) -> Result<FairShare, String> {
    let possible = Duration::from_secs(60)..=Duration::from_secs(3650 * 86_400);
    let time = match text {
        "off" => return Ok(FairShare::Off),
        "on" => Some(HALF_LIFE),
        _ => age(text).ok().filter(|time| possible.contains(time)),
    };
    time.map(FairShare::HalfLife).ok_or_else(|| {
        format!(
            "{text:?} is not possible here; it is off, on (7d), or a half-life from 1min to 3650d"
        )
    })
}

/// A file that the manager writes, whose standard output is not that of the command.
pub(super) fn file_of_manager(path: PathBuf) -> Result<PathBuf, &'static str> {
    match path == Path::new("-") {
        true => Err("a trace does not go to standard output; name a file (./- is one, too)"),
        false => Ok(path),
    }
}

pub(super) fn parameter(text: &str) -> Result<(String, String), String> {
    let split = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    split.ok_or_else(|| format!("{text:?} is no parameter; one is KEY=VALUE"))
}

pub(crate) fn weight(text: &str) -> Result<Weight, String> {
    limits::weight(text)
        .ok_or_else(|| format!("{text:?} is no weight; it is a number from 0.001 to 1000"))
}

/// Where pages come to be.
pub(super) fn placement(text: &str) -> Result<Placement, String> {
    let (scheme, rest) =
        text.split_once(':').map_or((text, None), |(scheme, rest)| (scheme, Some(rest)));
    let read = match (scheme, rest) {
        ("first-touch", None) => Some(Placement::FirstTouch),
        ("round-robin", None) => Some(Placement::RoundRobin),
        ("random", None) => Some(Placement::Random(None)),
        ("random", Some(seed)) => seed.parse().ok().map(|seed| Placement::Random(Some(seed))),
        ("worst-case", None) => Some(Placement::WorstCase(None)),
        ("worst-case", Some(node)) => {
            let node = node.parse().ok().filter(|node| *node < MOST_NODES);
            node.map(|node| Placement::WorstCase(Some(node)))
        }
        _ => None,
    };
    read.ok_or_else(|| {
        format!(
            "{text:?} is no placement; it is first-touch, round-robin, random, random:SEED, \
             worst-case or worst-case:NODE with a node below {MOST_NODES}"
        )
    })
}

/// A list as the kernel or as taskset writes it: `0-31:2` is every second one there.
pub(crate) fn cpus(text: &str) -> Result<CpuSet, String> {
    let item = |item: &str| match item.trim().split_once(':') {
        Some((range, stride)) if !stride.contains('/') => format!("{range}:1/{stride}"),
        _ => item.to_owned(),
    };
    if text.trim().is_empty() {
        return Err("no processor is named; a list is 0-3,8 or 0-31:2, as for taskset".into());
    }
    let items: Vec<String> = text.split(',').map(item).collect();
    CpuSet::parse_list(&items.join(",")).map_err(|error| error.to_string())
}

pub(crate) fn idle_exit(text: &str) -> Result<IdleExit, duration::DurationError> {
    match text {
        "never" => Ok(IdleExit::Never),
        _ => duration::parse(text).map(IdleExit::After),
    }
}

/// A port alone is one of the loopback address.
pub(crate) fn listen(text: &str) -> Result<Listen, String> {
    if text == "off" {
        return Ok(Listen::Off);
    }
    let alone = text.parse().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    alone.or_else(|_| text.parse()).map(Listen::At).map_err(|_| {
        format!(
            "{text:?} is not possible here; it is a port, or an address with one as \
             127.0.0.1:9477 or [::1]:9477, or off"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_read_as_they_are_written_and_nothing_else_is() {
        for text in
            ["first-touch", "round-robin", "random", "random:0", "worst-case", "worst-case:63"]
        {
            assert_eq!(placement(text).unwrap().to_string(), text);
        }
        for bad in ["", "worst", "first-touch:1", "random:x", "worst-case:64", "worst-case:"] {
            assert!(placement(bad).unwrap_err().contains("worst-case:NODE"), "{bad}");
        }
    }

    #[test]
    fn a_fair_share_is_a_half_life_of_minutes_to_years_and_is_read_as_it_is_shown() {
        let days = |days: u64| FairShare::HalfLife(Duration::from_secs(days * 86_400));
        for (text, meant) in
            [("off", FairShare::Off), ("on", days(7)), ("3d", days(3)), ("48h", days(2))]
        {
            assert_eq!(fair_share(text), Ok(meant));
            assert_eq!(fair_share(&meant.to_string()), Ok(meant));
        }
        for bad in ["", "0d", "59s", "3651d", "week"] {
            assert!(fair_share(bad).is_err_and(|what| what.contains("3650d")), "{bad}");
        }
    }
}
