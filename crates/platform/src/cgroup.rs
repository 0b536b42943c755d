//! What control groups leave to this process: a quota of processor time, and a set of processors.
//! Versions 1 and 2 and systems that run both.
//!
//! # Rules
//! 1. Where a hierarchy is mounted comes from `/proc/self/mountinfo`, where we are in it from
//!    `/proc/self/cgroup`. The mount may show only a part of the hierarchy (containers): our path
//!    is taken relative to that part.
//! 2. Each group above ours limits us too: the quota is the least of them. What lies above the
//!    visible part cannot be read.
//! 3. A group without the files of a controller does not limit. A file that is there and is not
//!    understood is an error.
//!
//! How often a quota stopped the process: [`throttled_periods`].
//!
//! # Not here
//! The affinity mask: `affinity`. Shares and weights: they say what happens under contention, not
//! how many processors there are.

use std::ffi::OsStr;
use std::fmt;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::affinity::CpuSet;
use crate::file;

mod throttling;

pub use throttling::{throttled_periods, throttled_periods_in};

/// What the control groups of this process allow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Processors' worth of time in each period; `None` is no limit. The least over all groups
    /// above ours.
    pub quota: Option<f64>,
    /// The processors that the process may run on; `None` when no control group says so.
    pub cpuset: Option<CpuSet>,
}

/// Why the limits could not be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum CgroupError {
    /// A file is there, but cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file does not hold what the kernel documents.
    Garbage {
        /// The file.
        path: PathBuf,
        /// Its content or the line in question, cut to 80 characters.
        content: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl fmt::Display for CgroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, source } => {
                write!(f, "control group: cannot read {}: {source}", path.display())
            }
            Self::Garbage { path, content, reason } => {
                write!(f, "control group: {} holds {content:?}: {reason}", path.display())
            }
        }
    }
}

impl std::error::Error for CgroupError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl Limits {
    /// Reads the limits of this process. Some ten small files: do it now and then, not in a hot
    /// path.
    ///
    /// # Errors
    /// When a file is unreadable or garbage.
    pub fn read() -> Result<Self, CgroupError> {
        Self::read_from(Path::new("/proc"), Path::new(MOUNTED_AT))
    }

    /// Reads trees of the same form as `/proc` and `/sys/fs/cgroup`: mount points below
    /// `/sys/fs/cgroup` are looked for below `cgroup_root` instead. No control groups at all is no
    /// limits.
    ///
    /// # Errors
    /// When a file that is there is unreadable or garbage.
    pub fn read_from(proc_root: &Path, cgroup_root: &Path) -> Result<Self, CgroupError> {
        Self::read_at(&proc_root.join("self/cgroup"), proc_root, cgroup_root)
    }

    /// Reads the limits of another process, as far as its groups are below what is mounted here.
    ///
    /// # Errors
    /// As [`Limits::read`]. Of a process that is not there it is no limit.
    pub fn of_process(pid: i32) -> Result<Self, CgroupError> {
        let place = PathBuf::from(format!("/proc/{pid}/cgroup"));
        Self::read_at(&place, Path::new("/proc"), Path::new(MOUNTED_AT))
    }

    /// `places_file`: where the process is in each hierarchy.
    fn read_at(
        places_file: &Path,
        proc_root: &Path,
        cgroup_root: &Path,
    ) -> Result<Self, CgroupError> {
        let mounts_file = proc_root.join("self/mountinfo");
        let (Some(mounts), Some(places)) = (read_bytes(&mounts_file)?, read_bytes(places_file)?)
        else {
            return Ok(Self::default());
        };
        let places = parse_places(&places).map_err(|error| error.at(places_file))?;
        let mounts = parse_mounts(&mounts).map_err(|error| error.at(&mounts_file))?;
        let mut limits = Self::default();
        for place in &places {
            let Some(mount) = place.nearest_mount(&mounts) else { continue };
            let hierarchy = Hierarchy::new(mount, &place.path, cgroup_root);
            if mount.controls("cpu") {
                limits.tighten_quota(hierarchy.quota(&mount.kind)?);
            }
            if mount.controls("cpuset") {
                limits.tighten_cpuset(hierarchy.cpuset(&mount.kind)?);
            }
        }
        Ok(limits)
    }

    fn tighten_quota(&mut self, quota: Option<f64>) {
        self.quota = match (self.quota, quota) {
            (Some(known), Some(new)) => Some(known.min(new)),
            (known, new) => known.or(new),
        };
    }

    fn tighten_cpuset(&mut self, cpuset: Option<CpuSet>) {
        self.cpuset = match (self.cpuset.take(), cpuset) {
            (Some(known), Some(new)) => Some(known.intersection(&new)),
            (known, new) => known.or(new),
        };
    }
}

/// How many processors a team of spinning threads may use: those of `mask` and the cpuset, and not
/// more than the quota pays for. A fraction of a processor is not used, because a team with one
/// thread too many is throttled in the middle of a barrier. At least 1.
pub fn usable_processors(mask: &CpuSet, limits: &Limits) -> usize {
    let present = match &limits.cpuset {
        Some(cpuset) => mask.intersection(cpuset).len(),
        None => mask.len(),
    };
    // The cast saturates; a quota that is no number (none is made here) becomes 0 and thus 1.
    let paid = limits.quota.map_or(usize::MAX, |quota| quota.floor() as usize);
    present.min(paid).max(1)
}

const MOUNTED_AT: &str = "/sys/fs/cgroup";

/// Which version a hierarchy is of.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    V1 { options: Vec<String> },
    V2,
}

/// A mounted hierarchy.
#[derive(Debug)]
struct Mount {
    kind: Kind,
    /// The part of the hierarchy that the mount shows.
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    fn controls(&self, controller: &str) -> bool {
        match &self.kind {
            Kind::V1 { options } => options.iter().any(|option| option == controller),
            // Which controllers a group has shows in its files.
            Kind::V2 => true,
        }
    }

    /// A group's path below what the mount shows. `None` for one that it does not show; groups
    /// above the root of our cgroup namespace ("/..") never are.
    fn path_below<'a>(&self, group: &'a Path) -> Option<&'a Path> {
        let below = group.strip_prefix(&self.root).ok()?;
        below.components().all(|part| matches!(part, Component::Normal(_))).then_some(below)
    }
}

/// Where the process is in a hierarchy.
#[derive(Debug)]
struct CgroupPath {
    /// Empty for version 2.
    controllers: Vec<String>,
    path: PathBuf,
}

impl CgroupPath {
    /// The mount through which we see most of our groups. A hierarchy may be mounted several times,
    /// also with parts of it in which we are not (the groups of containers, seen from outside).
    fn nearest_mount<'a>(&self, mounts: &'a [Mount]) -> Option<&'a Mount> {
        let of_hierarchy = || mounts.iter().filter(|mount| self.belongs_to(mount));
        let holds_us = |mount: &&Mount| mount.path_below(&self.path).is_some();
        let widest =
            of_hierarchy().filter(holds_us).min_by_key(|mount| mount.root.components().count());
        widest.or_else(|| of_hierarchy().next_back())
    }

    fn belongs_to(&self, mount: &Mount) -> bool {
        match &mount.kind {
            Kind::V1 { options } => {
                !self.controllers.is_empty()
                    && self.controllers.iter().all(|name| options.contains(name))
            }
            Kind::V2 => self.controllers.is_empty(),
        }
    }
}

/// Our groups of one hierarchy, ours first.
struct Hierarchy {
    groups: Vec<PathBuf>,
}

impl Hierarchy {
    fn new(mount: &Mount, place: &Path, cgroup_root: &Path) -> Self {
        let top = match mount.point.strip_prefix(MOUNTED_AT) {
            Ok(below) => cgroup_root.join(below),
            Err(_) => mount.point.clone(),
        };
        // When the mount does not show our group, its top is the nearest one that we can see.
        let below = mount.path_below(place).unwrap_or(Path::new(""));
        Self { groups: below.ancestors().map(|group| top.join(group)).collect() }
    }

    fn quota(&self, kind: &Kind) -> Result<Option<f64>, CgroupError> {
        let mut limits = Limits::default();
        for group in &self.groups {
            limits.tighten_quota(match kind {
                Kind::V1 { .. } => quota_v1(group)?,
                Kind::V2 => quota_v2(group)?,
            });
        }
        Ok(limits.quota)
    }

    /// The set of the nearest group that has one. It lies within those of the groups above.
    fn cpuset(&self, kind: &Kind) -> Result<Option<CpuSet>, CgroupError> {
        let names: &[&str] = match kind {
            Kind::V1 { .. } => &["cpuset.effective_cpus", "cpuset.cpus"],
            Kind::V2 => &["cpuset.cpus.effective"],
        };
        for group in &self.groups {
            for name in names {
                let path = group.join(name);
                let Some(text) = read_text(&path)? else { continue };
                let set = CpuSet::parse_list(&text)
                    .map_err(|error| garbage(&path, &text, error.to_string()))?;
                // Empty is "not set": a process cannot run on no processor.
                if !set.is_empty() {
                    return Ok(Some(set));
                }
            }
        }
        Ok(None)
    }
}

fn quota_v2(group: &Path) -> Result<Option<f64>, CgroupError> {
    let path = group.join("cpu.max");
    let Some(text) = read_text(&path)? else { return Ok(None) };
    let bad = || {
        garbage(
            &path,
            &text,
            "expected \"max PERIOD\" or \"QUOTA PERIOD\" in microseconds".to_owned(),
        )
    };
    let (quota, period) = text.split_once(' ').ok_or_else(bad)?;
    let period = micros(period).ok_or_else(bad)?;
    if quota == "max" {
        return Ok(None);
    }
    Ok(Some(micros(quota).ok_or_else(bad)? / period))
}

fn quota_v1(group: &Path) -> Result<Option<f64>, CgroupError> {
    let quota_file = group.join("cpu.cfs_quota_us");
    let period_file = group.join("cpu.cfs_period_us");
    let Some(quota) = read_text(&quota_file)? else { return Ok(None) };
    if quota == "-1" {
        return Ok(None);
    }
    let expected = "expected microseconds above 0".to_owned();
    let Some(quota) = micros(&quota) else {
        return Err(garbage(&quota_file, &quota, format!("{expected}, or -1")));
    };
    let Some(period) = read_text(&period_file)? else {
        return Err(garbage(
            &quota_file,
            &quota.to_string(),
            format!("{} is missing", period_file.display()),
        ));
    };
    let Some(period) = micros(&period) else {
        return Err(garbage(&period_file, &period, expected));
    };
    Ok(Some(quota / period))
}

/// A number above 0.
fn micros(text: &str) -> Option<f64> {
    let whole: u64 = text.parse().ok()?;
    // Above 2^53 us (285 years) the value is rounded.
    (whole > 0).then_some(whole as f64)
}

/// A line that is not understood; [`Misread::at`] adds the file.
struct Misread {
    line: String,
    reason: &'static str,
}

impl Misread {
    fn new(line: &[u8], reason: &'static str) -> Self {
        Self { line: String::from_utf8_lossy(line).into_owned(), reason }
    }

    fn at(self, path: &Path) -> CgroupError {
        garbage(path, &self.line, self.reason.to_owned())
    }
}

/// Lines `number:controllers:path`.
fn parse_places(text: &[u8]) -> Result<Vec<CgroupPath>, Misread> {
    let place = |line| {
        let mut fields = <[u8]>::splitn(line, 3, |byte| *byte == b':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            return Err(Misread::new(line, "expected \"number:controllers:path\""));
        };
        let controllers = String::from_utf8_lossy(controllers);
        let controllers =
            controllers.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Ok(CgroupPath { controllers, path: OsStr::from_bytes(path).into() })
    };
    lines(text).map(place).collect()
}

fn parse_mounts(text: &[u8]) -> Result<Vec<Mount>, Misread> {
    lines(text).filter_map(|line| parse_mount(line).transpose()).collect()
}

/// A line of mountinfo, as proc(5) has it: number, parent, device, root, point, options, optional
/// fields, `-`, type, source, options of the file system. `None` for what is no control group.
fn parse_mount(line: &[u8]) -> Result<Option<Mount>, Misread> {
    let bad = || Misread::new(line, "expected a line of mountinfo as in proc(5)");
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let dash = fields.iter().position(|field| *field == b"-").ok_or_else(bad)?;
    let (Some(root), Some(point), Some(kind)) =
        (fields.get(3), fields.get(4), fields.get(dash + 1))
    else {
        return Err(bad());
    };
    let kind = match *kind {
        b"cgroup2" => Kind::V2,
        b"cgroup" => {
            let options = String::from_utf8_lossy(fields.get(dash + 3).ok_or_else(bad)?);
            Kind::V1 { options: options.split(',').map(str::to_owned).collect() }
        }
        _ => return Ok(None),
    };
    Ok(Some(Mount { kind, root: unescape(root), point: unescape(point) }))
}

/// Mountinfo writes blanks, tabs, line ends and backslashes as `\` and three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .filter(|_| first == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(octal.unwrap_or(first));
        rest = if octal.is_some() { &tail[3..] } else { tail };
    }
    OsStr::from_bytes(&bytes).into()
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// `None` when the file is missing, also because its group has just been removed.
fn read_bytes(path: &Path) -> Result<Option<Vec<u8>>, CgroupError> {
    match file::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error)
            if error.kind() == ErrorKind::NotFound
                || error.raw_os_error() == Some(libc::ENODEV) =>
        {
            Ok(None)
        }
        Err(source) => Err(CgroupError::Unreadable { path: path.to_owned(), source }),
    }
}

fn read_text(path: &Path) -> Result<Option<String>, CgroupError> {
    Ok(read_bytes(path)?.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()))
}

fn garbage(path: &Path, content: &str, reason: String) -> CgroupError {
    CgroupError::Garbage {
        path: path.to_owned(),
        content: content.chars().take(80).collect(),
        reason,
    }
}
