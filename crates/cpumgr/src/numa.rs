//! `numa`: on which memory nodes the pages of a process are, and how much of its traffic goes to
//! other nodes where the machine counts that.
//!
//! The kernel's list (`numa_maps`) is read, which neither touches nor moves a page: queries by
//! `move_pages` would, while the kernel balances.

pub(crate) mod placement;
mod remote;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use platform::file;
use serde::Serialize;

use crate::cli::NumaArgs;
use crate::error::Error;
use crate::json;

/// Areas with fewer parts of a hundred of all pages are shown as one, unless all are asked for.
const SMALL: u64 = 1;

/// What was found.
#[derive(Debug, Serialize)]
struct Report {
    pid: i32,
    /// Kibibytes on each node.
    nodes: BTreeMap<u32, u64>,
    areas: Vec<Area>,
    /// Per cent of the reads of memory that went to another node.
    remote_percent: Option<f64>,
    /// Why there is no such number.
    remote_unknown: Option<String>,
}

/// Neighbouring mappings of one name and policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Area {
    name: String,
    policy: String,
    /// The first address, in hexadecimal.
    begin: String,
    mappings: u64,
    kib: BTreeMap<u32, u64>,
}

impl Area {
    fn sum(&self) -> u64 {
        self.kib.values().sum()
    }

    fn add(&mut self, other: &Self) {
        self.mappings += other.mappings;
        for (node, kib) in &other.kib {
            *self.kib.entry(*node).or_default() += kib;
        }
    }
}

/// Asks, and returns the text to show.
///
/// # Errors
/// There is no such process, it is another user's, or the kernel knows no nodes.
pub fn run(args: &NumaArgs) -> Result<String, Error> {
    let path = format!("/proc/{}/numa_maps", args.pid);
    let text = file::text(&path).map_err(|source| refused(args.pid, &path, source))?;
    if text.is_empty() {
        return Err(Error::Usage(format!(
            "process {} has no memory of its own: it ended, or is the kernel's",
            args.pid
        )));
    }
    let areas = areas(&text);
    let mut nodes = BTreeMap::new();
    for area in &areas {
        for (node, kib) in &area.kib {
            *nodes.entry(*node).or_default() += kib;
        }
    }
    let remote = remote::share(args.pid, Duration::from_secs_f64(args.seconds));
    let (remote_percent, remote_unknown) = match remote {
        Ok(percent) => (Some(percent), None),
        Err(reason) => (None, Some(reason)),
    };
    let report = Report { pid: args.pid, nodes, areas, remote_percent, remote_unknown };
    if args.json {
        return json::line("numa", &report);
    }
    Ok(report.table(args.all))
}

fn refused(pid: i32, path: &str, source: io::Error) -> Error {
    let is_there = file::text(format!("/proc/{pid}/stat")).is_ok();
    match source.kind() {
        io::ErrorKind::NotFound if is_there => {
            Error::Usage("this kernel keeps no list of nodes (CONFIG_NUMA)".to_owned())
        }
        io::ErrorKind::NotFound => Error::Usage(format!("there is no process {pid}")),
        io::ErrorKind::PermissionDenied => Error::Usage(format!(
            "process {pid} is another user's, or may not be inspected: its pages are shown to its \
             user and to root only"
        )),
        // It ended while it was read.
        _ if source.raw_os_error() == Some(nix::libc::ESRCH) => {
            Error::Usage(format!("there is no process {pid}"))
        }
        _ => Error::Io { what: "cannot read", path: path.into(), source },
    }
}

/// The mappings that hold pages, neighbours of one name and policy as one.
fn areas(text: &str) -> Vec<Area> {
    let mut areas: Vec<Area> = Vec::new();
    for mapping in text.lines().filter_map(mapping) {
        match areas.last_mut() {
            Some(last) if (&last.name, &last.policy) == (&mapping.name, &mapping.policy) => {
                last.add(&mapping);
            }
            _ => areas.push(mapping),
        }
    }
    areas.retain(|area| area.sum() > 0);
    areas
}

/// A line `ADDRESS POLICY [file=PATH | heap | stack] N0=PAGES ... kernelpagesize_kB=SIZE`.
fn mapping(line: &str) -> Option<Area> {
    let mut words = line.split_ascii_whitespace();
    let (begin, policy) = (words.next()?, words.next()?);
    let (mut name, mut size) = ("memory", 4);
    let mut pages = BTreeMap::new();
    for word in words {
        if let Some(path) = word.strip_prefix("file=") {
            name = path;
        } else if ["heap", "stack"].contains(&word) {
            name = word;
        } else if let Some(found) = word.strip_prefix("kernelpagesize_kB=") {
            size = found.parse().ok()?;
        } else if let Some((node, count)) =
            word.strip_prefix('N').and_then(|rest| rest.split_once('='))
            && let (Ok(node), Ok(count)) = (node.parse::<u32>(), count.parse::<u64>())
        {
            pages.insert(node, count);
        }
    }
    pages.values_mut().for_each(|count| *count *= size);
    Some(Area {
        name: name.to_owned(),
        policy: policy.to_owned(),
        begin: begin.to_owned(),
        mappings: 1,
        kib: pages,
    })
}

impl Report {
    fn table(&self, is_all: bool) -> String {
        let mut text = format!("process {}, KiB on each memory node\n", self.pid);
        let _ = write!(text, "{:<16} {:<14}", "begins at", "policy");
        for node in self.nodes.keys() {
            let _ = write!(text, "{:>12}", format!("node {node}"));
        }
        text += "  area\n";
        let whole: u64 = self.nodes.values().sum();
        let mut row = |begin: &str, policy: &str, kib: &BTreeMap<u32, u64>, name: &str| {
            let _ = write!(text, "{begin:<16} {policy:<14}");
            for node in self.nodes.keys() {
                let _ = write!(text, "{:>12}", kib.get(node).copied().unwrap_or(0));
            }
            let _ = writeln!(text, "  {name}");
        };
        let mut others: Option<Area> = None;
        let mut count = 0;
        for area in &self.areas {
            if is_all || area.sum() * 100 >= whole * SMALL {
                row(&area.begin, &area.policy, &area.kib, &area.name);
            } else {
                count += 1;
                match &mut others {
                    Some(others) => others.add(area),
                    None => others = Some(area.clone()),
                }
            }
        }
        if let Some(others) = others {
            row("", "", &others.kib, &format!("{count} smaller areas (--all shows them)"));
        }
        row("all", "", &self.nodes, "");
        let _ = match (self.remote_percent, &self.remote_unknown) {
            (Some(percent), _) => writeln!(text, "remote: {percent:.1} % of the reads of memory"),
            (None, reason) => {
                writeln!(text, "remote: not known: {}", reason.as_deref().unwrap_or("no counter"))
            }
        };
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
55d0 default file=/bin/a mapped=2 N0=2 kernelpagesize_kB=4
55d2 default file=/bin/a mapped=6 N0=4 N1=2 kernelpagesize_kB=4
6000 default heap anon=3 dirty=3 N1=3 kernelpagesize_kB=4
7000 interleave:0-1 anon=4 N0=2 N1=2 kernelpagesize_kB=2048
7f00 default
8000 default stack anon=1 N0=1 kernelpagesize_kB=4
";

    #[test]
    fn neighbours_of_one_name_are_one_area_and_pages_have_their_size() {
        let areas = areas(LIST);
        let names: Vec<&str> = areas.iter().map(|area| area.name.as_str()).collect();
        assert_eq!(names, ["/bin/a", "heap", "memory", "stack"]);
        assert_eq!(areas[0].kib, BTreeMap::from([(0, 24), (1, 8)]));
        assert_eq!((areas[0].mappings, areas[0].begin.as_str()), (2, "55d0"));
        assert_eq!(areas[2].kib, BTreeMap::from([(0, 4096), (1, 4096)]));
        assert_eq!(areas[2].policy, "interleave:0-1");
    }

    #[test]
    fn small_areas_are_one_row_unless_all_are_asked_for() {
        let report = Report {
            pid: 7,
            nodes: BTreeMap::from([(0, 4124), (1, 4116)]),
            areas: areas(LIST),
            remote_percent: None,
            remote_unknown: Some("no counter".to_owned()),
        };
        assert!(report.table(false).contains("3 smaller areas"));
        assert!(report.table(true).contains("/bin/a"));
        assert!(report.table(true).contains("remote: not known: no counter"));
    }

    #[test]
    fn lines_that_are_no_mappings_are_left_out() {
        assert!(areas("\nnonsense\n7000 default N0=x\n").is_empty());
    }
}
