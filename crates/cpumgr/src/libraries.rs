//! Which OpenMP libraries, and others, a process has mapped, and which of them is ours.
//!
//! The process chose what it maps, so nothing there is trusted. Names come from `/proc/PID/maps`.
//! Whether a library is ours is read from the file that is really mapped (`/proc/PID/map_files`,
//! where that is permitted), or from the one at the same path if it is the same inode.
//!
//! # Invariants
//! - L1 Nothing here waits for a program: no pipe, no device, and nothing of a file system that a
//!   program may answer for (FUSE, or one that this process does not see mounted) is opened.
//! - L2 What is read is bounded: [`MAPS`] of a process's maps, [`MOST`] libraries, of each what
//!   `elf` reads, and nothing after the time that the caller gives for all processes together.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use procfs::FromBufRead;
use procfs::process::{MMapPath, MemoryMap, MemoryMaps, MountInfo, Process};
use serde::Serialize;

use crate::elf::{Image, open_regular};
use crate::escape::escape;

/// The most that is read of a process's maps.
const MAPS: u64 = 16 << 20;
/// The most libraries of one process that are looked at.
const MOST: usize = 32;
/// What no other OpenMP library has in its file.
const MARK: &[u8] = b"NANOS_CPUMGR";

/// An OpenMP library that a program has mapped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Library {
    /// Its file, escaped.
    pub path: String,
    /// It is ours, by its content; false where that is not read (L1).
    pub ours: bool,
}

/// The kinds of file systems that are mounted here, by device.
#[derive(Debug)]
pub(crate) struct Mounts(BTreeMap<(i32, i32), String>);

impl Mounts {
    /// Reads them. Without /proc there are none.
    pub(crate) fn read() -> Self {
        let file = Process::myself().and_then(|own| own.open_relative("mountinfo"));
        file.map_or(Self(BTreeMap::new()), |file| Self::among(file.take(MAPS)))
    }

    fn among(file: impl Read) -> Self {
        let mounts = lines(file).filter_map(|line| MountInfo::from_line(&line).ok());
        Self(mounts.filter_map(|it| Some((device(&it.majmin)?, it.fs_type))).collect())
    }

    /// No program answers for the files of this device.
    fn are_the_kernels(&self, device: (i32, i32)) -> bool {
        self.0.get(&device).is_some_and(|kind| !kind.starts_with("fuse"))
    }
}

fn device(numbers: &str) -> Option<(i32, i32)> {
    let (major, minor) = numbers.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Whole lines; what is no UTF-8 in them is replaced.
fn lines(file: impl Read) -> impl Iterator<Item = String> {
    let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
    lines.map(|line| String::from_utf8_lossy(&line).into_owned())
}

/// The OpenMP libraries that process `pid` has mapped, as far as the kernel shows them to this
/// process, and as they are found until then.
pub(crate) fn of_process(pid: i32, mounts: &Mounts, until: Instant) -> Vec<Library> {
    let maps = Process::new(pid).and_then(|process| process.open_relative("maps"));
    let Ok(maps) = maps else { return Vec::new() };
    let mut found: Vec<Library> = Vec::new();
    for (path, map) in among(maps.take(MAPS), until, is_openmp) {
        let path = escape(path.as_os_str().as_encoded_bytes());
        match found.iter_mut().find(|it| it.path == path) {
            // One path may have named several files by and by.
            Some(known) => known.ours = known.ours || is_ours(pid, &map, mounts),
            None => found.push(Library { ours: is_ours(pid, &map, mounts), path }),
        }
    }
    found
}

/// Whether a file with this name is an OpenMP library.
pub(crate) fn is_openmp(name: &str) -> bool {
    ["libgomp", "libomp", "libiomp"].iter().any(|begin| name.starts_with(begin))
}

/// The maps of libraries that are meant by their names; of each file one, and one more for each
/// device.
pub(crate) fn among(
    maps: impl Read,
    until: Instant,
    is_meant: impl Fn(&str) -> bool,
) -> Vec<(PathBuf, MemoryMap)> {
    let mut found: Vec<(PathBuf, MemoryMap)> = Vec::new();
    let last = |line: &str| line.rfind('/').map_or(0, |at| at + 1);
    for line in lines(maps)
        .take_while(|_| Instant::now() < until)
        .filter(|line| is_meant(&line[last(line)..]))
    {
        let Some(map) = MemoryMaps::from_buf_read(line.as_bytes())
            .ok()
            .and_then(|maps| maps.0.into_iter().next())
        else {
            continue;
        };
        let MMapPath::Path(path) = &map.pathname else { continue };
        let is_known = found.iter().any(|(_, it)| {
            it.pathname == map.pathname && (it.dev, it.inode) == (map.dev, map.inode)
        });
        if !is_known && found.len() < MOST {
            found.push((path.clone(), map));
        }
    }
    found
}

/// Whether the file of a map is our library.
fn is_ours(pid: i32, map: &MemoryMap, mounts: &Mounts) -> bool {
    image(pid, map, mounts).is_some_and(|image| image.has_constant(MARK))
}

/// The file of a map, where it may be read (L1).
pub(crate) fn image(pid: i32, map: &MemoryMap, mounts: &Mounts) -> Option<Image> {
    let MMapPath::Path(path) = &map.pathname else { return None };
    if !mounts.are_the_kernels(map.dev) {
        return None;
    }
    let is_mapped = |data: &std::fs::Metadata| data.ino() == map.inode;
    let (from, to) = map.address;
    let mapped = PathBuf::from(format!("/proc/{pid}/map_files/{from:x}-{to:x}"));
    // As the process sees it: it may have another root.
    let below = |root: String| Path::new(&root).join(path.strip_prefix("/").unwrap_or(path));
    let file = open_regular(&mapped, is_mapped)
        .or_else(|_| open_regular(&below(format!("/proc/{pid}/root")), is_mapped))
        .or_else(|_| open_regular(path, is_mapped));
    file.ok().map(Image::of)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn openmp_libraries_are_found_among_the_maps_by_name() {
        let maps = b"7f00-7f01 r-xp 00000000 08:01 1 /opt/nanos/libgomp.so.1\n\
                     7f01-7f02 r--p 00000000 08:01 1 /opt/nanos/libgomp.so.1\n\
                     7f02-7f03 r-xp 00000000 08:01 2 /site \
                     packages/sklearn.libs/libgomp-a34b.so.1.0.0\n\
                     7f03-7f04 r-xp 00000000 08:01 3 /lib/libc.so.6\n7f04-7f05 rw-p 00000000 00:00 \
                     0 [heap]\n\
                     7f05-7f06 r-xp 00000000 08:01 4 /libgomp/other.so\n\
                     7f06-7f07 r-xp 00000000 08:01 5 /\xff/libomp.so\nlibgomp\n/libgomp\n";
        let soon = Instant::now() + Duration::from_secs(600);
        let found = among(&maps[..], soon, is_openmp);
        let found: Vec<_> =
            found.iter().map(|(path, map)| (path.to_str().unwrap(), map.inode)).collect();
        let expected = [
            ("/opt/nanos/libgomp.so.1", 1),
            ("/site packages/sklearn.libs/libgomp-a34b.so.1.0.0", 2),
            ("/\u{fffd}/libomp.so", 5),
        ];
        assert_eq!(found, expected);
        for nothing in [&b""[..], b"\xff/\n\n/"] {
            assert!(among(nothing, soon, is_openmp).is_empty());
        }
        assert!(among(&maps[..], Instant::now(), is_openmp).is_empty(), "the time is over");
    }

    #[test]
    fn no_program_answers_for_what_is_opened() {
        let mounts = Mounts::among(
            &b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
               23 22 0:50 / /home/x/\xffmnt rw,nosuid - fuse.sshfs host:/ rw\n24 22 0:51 / /m rw - \
               fuseblk /dev/sdb rw\nnonsense\n"[..],
        );
        assert!(mounts.are_the_kernels((8, 1)));
        for device in [(0, 50), (0, 51), (0, 52)] {
            assert!(!mounts.are_the_kernels(device), "{device:?}");
        }
        let own = Mounts::read();
        assert!(!own.0.is_empty());
    }
}
