//! The working set of each grain on this machine: as large beside its caches as the paper's was
//! beside its own.
//!
//! # Rule
//! The paper's processors had a cache of 1 MB each, and no other. Its 10K elements were 0.24 of one
//! of them, its 100K elements 0.6 of all four together, its 1M elements six times all of them. Here
//! the first two are the same parts of the caches of level 2, and the third is twice the last
//! level. What 4M elements want is a matter of memory: the group in which they page is made for
//! them, and they stay.
//!
//! An element computes for longer where there are fewer of them, so that an iteration takes the
//! paper's time whatever its working set is.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use clap::ValueEnum;

use super::version::Grain;

/// Bytes of an element.
const ELEMENT: u64 = 24;
/// Steps of the published element, as the program counts them.
const WORK: u64 = 120;

/// Whose caches the working sets are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Sizes {
    /// This machine's.
    Scaled,
    /// The paper's: 10K, 100K, 1M and 4M elements, whatever the machine is.
    Published,
}

/// Caches of data, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Caches {
    /// Of level 2, of one processor.
    second: u64,
    /// Of the last level.
    last: u64,
}

/// A working set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Set {
    pub(super) elements: u64,
    /// Steps of one element.
    pub(super) work: u64,
}

impl Set {
    /// Of `grain` on so many processors with `caches`; `None`: as published.
    pub(super) fn of(grain: Grain, caches: Option<Caches>, processors: usize) -> Set {
        let published = grain.published();
        let Some(Caches { second, last }) = caches else {
            return Set { elements: published, work: WORK };
        };
        let bytes = match grain {
            Grain::S => second * 24 / 100,
            Grain::W => second * 6 / 10 * processors as u64,
            Grain::A => last * 2,
            Grain::B => return Set { elements: published, work: WORK },
        };
        // Hundreds: the serial part is so many elements in a hundred.
        let elements = (bytes / ELEMENT / 100).max(1) * 100;
        let work = (WORK * published + elements / 2) / elements;
        Set { elements, work: work.max(1) }
    }

    /// For the program's command line.
    pub(super) fn arguments(self) -> [String; 4] {
        let Set { elements, work } = self;
        ["--elements".into(), elements.to_string(), "--work".into(), work.to_string()]
    }
}

impl Caches {
    /// Of a processor.
    pub(super) fn of(processor: u32) -> anyhow::Result<Caches> {
        let folder = format!("/sys/devices/system/cpu/cpu{processor}/cache");
        Caches::below(Path::new(&folder))
    }

    fn below(folder: &Path) -> anyhow::Result<Caches> {
        let entries =
            fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        let mut of_data = Vec::new();
        for entry in entries {
            let index = entry.with_context(|| folder.display().to_string())?.path();
            let is_index = |name: &OsStr| name.to_string_lossy().starts_with("index");
            if !index.file_name().is_some_and(is_index) {
                continue;
            }
            let read = |name: &str| {
                let path = index.join(name);
                let text = fs::read_to_string(&path);
                text.map(|text| text.trim().to_owned())
                    .with_context(|| format!("cannot read {}", path.display()))
            };
            if read("type")? != "Instruction" {
                let level: u32 = read("level")?.parse().context("the level of a cache")?;
                of_data.push((level, bytes(&read("size")?)?));
            }
        }
        of_data.sort_unstable();
        let &(_, last) = of_data
            .last()
            .with_context(|| format!("{} tells of no cache of data", folder.display()))?;
        // A machine with one level has no other.
        let second = of_data.iter().find(|(level, _)| *level >= 2).map_or(last, |(_, size)| *size);
        Ok(Caches { second, last })
    }
}

/// `512K`, `32768K`, `1M`.
fn bytes(text: &str) -> anyhow::Result<u64> {
    let (digits, unit) = match text.strip_suffix('K') {
        Some(digits) => (digits, 1 << 10),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1 << 20)),
    };
    let count: u64 = digits.parse().with_context(|| format!("the size of a cache: `{text}`"))?;
    ensure!(count > 0, "a cache of no bytes");
    Ok(count * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHES: Caches = Caches { second: 512 << 10, last: 32 << 20 };

    #[test]
    fn the_paper_s_caches_give_about_the_paper_s_sets_and_others_the_same_part() {
        let papers = Caches { second: 1 << 20, last: 1 << 20 };
        assert_eq!(Set::of(Grain::S, Some(papers), 4), Set { elements: 10_400, work: 115 });
        assert_eq!(Set::of(Grain::W, Some(papers), 4), Set { elements: 104_800, work: 115 });
        assert_eq!(Set::of(Grain::S, Some(CACHES), 2), Set { elements: 5_200, work: 231 });
        assert_eq!(Set::of(Grain::W, Some(CACHES), 2), Set { elements: 26_200, work: 458 });
        assert_eq!(Set::of(Grain::A, Some(CACHES), 2), Set { elements: 2_796_200, work: 43 });
        let paging = Set { elements: 4_000_000, work: 120 };
        assert_eq!(Set::of(Grain::B, Some(CACHES), 2), paging);
        assert_eq!(Set::of(Grain::S, None, 2), Set { elements: 10_000, work: 120 });
    }

    #[test]
    fn an_iteration_takes_as_long_as_published() {
        for grain in [Grain::S, Grain::W] {
            for second in [128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20] {
                for processors in [1, 2, 4, 16] {
                    let caches = Caches { second, last: 64 << 20 };
                    let Set { elements, work } = Set::of(grain, Some(caches), processors);
                    let ratio = (elements * work) as f64 / (WORK * grain.published()) as f64;
                    // Up to a half step of each element.
                    let coarse = 0.5 * elements as f64 / (WORK * grain.published()) as f64;
                    assert!((ratio - 1.0).abs() <= coarse + 1e-9, "{grain} {caches:?}: {ratio}");
                }
            }
        }
    }

    #[test]
    fn caches_are_read_by_level_and_kind_and_a_wrong_size_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |index: &str, files: [(&str, &str); 3]| {
            fs::create_dir_all(folder.path().join(index)).unwrap();
            for (name, text) in files {
                fs::write(folder.path().join(index).join(name), text).unwrap();
            }
        };
        fs::write(folder.path().join("uevent"), "").unwrap();
        write("index0", [("level", "1\n"), ("type", "Data\n"), ("size", "32K\n")]);
        write("index1", [("level", "2\n"), ("type", "Instruction\n"), ("size", "64M\n")]);
        write("index3", [("level", "3\n"), ("type", "Unified\n"), ("size", "32M\n")]);
        write("index2", [("level", "2\n"), ("type", "Unified\n"), ("size", "512K\n")]);
        assert_eq!(Caches::below(folder.path()).unwrap(), CACHES);
        write("index2", [("level", "2\n"), ("type", "Unified\n"), ("size", "lots\n")]);
        let fault = format!("{:#}", Caches::below(folder.path()).unwrap_err());
        assert!(fault.contains("`lots`"), "{fault}");
        let none = tempfile::tempdir().unwrap();
        let fault = Caches::below(none.path()).unwrap_err().to_string();
        assert!(fault.contains("no cache"), "{fault}");
    }
}
