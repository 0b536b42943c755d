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
//! A virtual machine may report the whole cache of its host, which other machines share: the sets
//! of all copies that run at a time have at most [`SHARE`] of what memory there is
//! ([`memory::available`]). Where that is less than the caches ask for, sets are smaller, and the
//! record has both numbers.
//!
//! An element computes for longer where there are fewer of them, so that an iteration takes the
//! paper's time whatever its working set is.
//!
//! [`memory::available`]: super::memory::available

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
/// The sets of all copies have at most one part in so many of the memory.
const SHARE: u64 = 4;

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
    /// Elements that the caches ask for; more than there are where memory does not allow as many.
    pub(super) wanted: u64,
}

impl Set {
    /// Of `grain` on so many processors with `caches`; `None`: as published.
    pub(super) fn of(grain: Grain, caches: Option<Caches>, processors: usize) -> Set {
        let Some(Caches { second, last }) = caches else { return Set::published(grain) };
        let bytes = match grain {
            Grain::S => second * 24 / 100,
            Grain::W => second * 6 / 10 * processors as u64,
            Grain::A => last * 2,
            Grain::B => return Set::published(grain),
        };
        Set::with(grain, hundreds(bytes / ELEMENT))
    }

    fn published(grain: Grain) -> Set {
        Set::with(grain, grain.published())
    }

    /// Of so many elements, each with as many steps as an iteration's time asks for.
    fn with(grain: Grain, elements: u64) -> Set {
        let work = (WORK * grain.published() + elements / 2) / elements;
        Set { elements, work: work.max(1), wanted: elements }
    }

    /// No larger than a memory of `available` bytes allows to each of so many copies.
    pub(super) fn within(self, grain: Grain, available: u64, copies: usize) -> Set {
        let most = hundreds(available / SHARE / copies.max(1) as u64 / ELEMENT);
        if most >= self.elements {
            return self;
        }
        Set { wanted: self.wanted, ..Set::with(grain, most) }
    }

    /// What to say where memory does not allow the set that was wanted.
    pub(super) fn cut(self) -> Option<String> {
        (self.elements < self.wanted).then(|| {
            format!(
                "{} elements a copy, and not the {} that the caches ask for: all copies have one \
                 part in {SHARE} of the memory",
                self.elements, self.wanted
            )
        })
    }

    /// For the program's command line.
    pub(super) fn arguments(self) -> [String; 4] {
        let Set { elements, work, .. } = self;
        ["--elements".into(), elements.to_string(), "--work".into(), work.to_string()]
    }
}

/// So many, in hundreds: the serial part is so many elements in a hundred.
fn hundreds(elements: u64) -> u64 {
    (elements / 100).max(1) * 100
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
        let set = |elements, work| Set { elements, work, wanted: elements };
        assert_eq!(Set::of(Grain::S, Some(papers), 4), set(10_400, 115));
        assert_eq!(Set::of(Grain::W, Some(papers), 4), set(104_800, 115));
        assert_eq!(Set::of(Grain::S, Some(CACHES), 2), set(5_200, 231));
        assert_eq!(Set::of(Grain::W, Some(CACHES), 2), set(26_200, 458));
        assert_eq!(Set::of(Grain::A, Some(CACHES), 2), set(2_796_200, 43));
        assert_eq!(Set::of(Grain::B, Some(CACHES), 2), set(4_000_000, 120));
        assert_eq!(Set::of(Grain::S, None, 2), set(10_000, 120));
    }

    #[test]
    fn sets_of_all_copies_have_a_share_of_memory_and_the_record_has_both_numbers() {
        // A guest that reports its host's 480 MB.
        let shared = Caches { second: 2 << 20, last: 480 << 20 };
        let wanted = Set::of(Grain::A, Some(shared), 2);
        assert_eq!((wanted.elements, wanted.wanted), (41_943_000, 41_943_000));
        assert_eq!(wanted.cut(), None);
        for (available, copies) in [(24_u64 << 30, 8), (3 << 30, 1), (1 << 30, 3), (512 << 20, 8)] {
            let set = wanted.within(Grain::A, available, copies);
            let bytes = set.elements * ELEMENT * copies as u64;
            assert!(bytes <= available / SHARE && set.elements < wanted.elements, "{set:?}");
            // Not smaller than it has to be.
            assert!(bytes + 100 * ELEMENT * copies as u64 > available / SHARE, "{set:?}");
            assert_eq!((set.wanted, set.elements % 100), (41_943_000, 0));
            let ratio = (set.elements * set.work) as f64 / (WORK * 1_000_000) as f64;
            let coarse = 0.5 * set.elements as f64 / (WORK * 1_000_000) as f64;
            assert!((ratio - 1.0).abs() <= coarse + 1e-9, "{set:?}: {ratio}");
            let said = set.cut().unwrap();
            assert!(said.contains("41943000") && said.contains(&set.elements.to_string()));
        }
        // Where there is enough nothing changes, and no memory at all is no panic.
        assert_eq!(wanted.within(Grain::A, 64 << 30, 8), wanted);
        assert_eq!(wanted.within(Grain::A, u64::MAX, 1), wanted);
        assert_eq!(wanted.within(Grain::A, 0, 0).elements, 100);
        let small = Set::of(Grain::S, Some(shared), 2);
        assert_eq!(small.within(Grain::S, 1 << 30, 8), small);
    }

    #[test]
    fn an_iteration_takes_as_long_as_published() {
        for grain in [Grain::S, Grain::W] {
            for second in [128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20] {
                for processors in [1, 2, 4, 16] {
                    let caches = Caches { second, last: 64 << 20 };
                    let Set { elements, work, .. } = Set::of(grain, Some(caches), processors);
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
