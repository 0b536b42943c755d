//! Samples of the addresses that a thread accesses, by the processor: `perf_event_open(2)` with
//! `PERF_SAMPLE_ADDR`.
//!
//! # Protocol
//! 1. [`memory_events`] names what this machine's processors can sample with addresses, best first.
//! 2. [`Sampler::open`] for each thread; the kernel writes a record for each sample into a ring
//!    that is mapped here. It counts the calling process's own code only, never the kernel's.
//! 3. [`Sampler::drain`] reads the ring: what was read is the kernel's to write again. A ring that
//!    was full has lost samples, of which the kernel says how many.
//!
//! # Records
//! The kernel's answer is bytes: [`parse`] is a pure function, and takes nothing for granted. Each
//! record begins with `u32` kind, `u16` flags, `u16` size; a sample goes on with what was asked
//! for, in the kernel's order: `u32` process, `u32` thread, `u64` address, `u32` processor, `u32`
//! that is not used.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};

use crate::affinity::Tid;
use crate::error::{SysResult, check_made};
use crate::mapping::{self, READ_WRITE};

// The kernel's numbers (linux/perf_event.h), which the C library's bindings lack.
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_ADDR: u64 = 1 << 3;
const SAMPLE_CPU: u64 = 1 << 7;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HV: u64 = 1 << 6;
/// Where the two bits of `precise_ip` begin.
const PRECISE: u32 = 15;
const FLAG_CLOEXEC: libc::c_ulong = 8;
const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;
const RECORD_LOST_SAMPLES: u32 = 13;
/// Bytes of a record's head, and of a sample with it.
const HEAD: usize = 8;
const SAMPLE: usize = HEAD + 24;
/// Pages of a ring beside the first one, which has its positions; a power of two.
const RING_PAGES: usize = 8;
/// Where the first page has the positions: the kernel's, then ours.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

const TYPE_SOFTWARE: u32 = 1;
/// `PERF_COUNT_SW_PAGE_FAULTS`.
const PAGE_FAULTS: u64 = 2;

/// `struct perf_event_attr` in its second size, `PERF_ATTR_SIZE_VER1`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample: u64,
    read: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
    config2: u64,
}

/// What is sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it is called, for reports.
    pub name: String,
    kind: u32,
    config: u64,
    config1: u64,
    /// How exactly a sample is of the instruction that it names, 0 to 3.
    precise: u64,
    /// One sample in so many events.
    period: u64,
}

impl Event {
    /// Page faults: what every kernel can sample, also where the processor cannot. For tests.
    pub fn page_faults() -> Self {
        let name = "page faults".to_owned();
        Self { name, kind: TYPE_SOFTWARE, config: PAGE_FAULTS, config1: 0, precise: 0, period: 1 }
    }

    /// The same with another period.
    #[must_use]
    pub fn every(self, period: u64) -> Self {
        Self { period: period.max(1), ..self }
    }
}

/// The events of this machine's processors whose samples have addresses, best first. An error says
/// in plain words why there is none.
pub fn memory_events() -> Result<Vec<Event>, String> {
    memory_events_in(Path::new("/sys/bus/event_source/devices"))
}

/// One load or operation in so many: about a thousand samples in a second of a thread.
const PERIOD: u64 = 100_003;

fn memory_events_in(root: &Path) -> Result<Vec<Event>, String> {
    let text = |path: &str| crate::file::text(root.join(path)).ok();
    let number = |path: &str| text(path)?.trim().parse::<u32>().ok();
    let mut found = Vec::new();
    let mut why = "this machine's processors offer no events that the kernel knows, or a virtual \
                   machine hides them"
        .to_owned();
    // Of hybrid processors the large cores.
    for unit in ["cpu", "cpu_core"] {
        let Some(kind) = number(&format!("{unit}/type")) else { continue };
        let precise = number(&format!("{unit}/caps/max_precise")).unwrap_or(0);
        let Some(event) = text(&format!("{unit}/events/mem-loads")) else {
            why = format!("the processor's events ({unit}) have no loads with addresses");
            continue;
        };
        if precise == 0 {
            why = "the processor's samples are not precise (max_precise is 0)".to_owned();
            continue;
        }
        let format = |field: &str| text(&format!("{unit}/format/{field}"));
        match configured(&event, format) {
            Some((config, config1)) => found.push(Event {
                name: format!("{unit}/mem-loads"),
                kind,
                config,
                config1,
                precise: u64::from(precise.min(3)),
                period: PERIOD,
            }),
            None => why = format!("{unit}/events/mem-loads is not as documented"),
        }
    }
    if let Some(kind) = number("ibs_op/type") {
        // AMD's: it samples operations; those without an address are left out.
        let (config, config1, precise) = (0, 0, 0);
        let name = "ibs_op".to_owned();
        // The unit takes multiples of 16.
        found.push(Event { name, kind, config, config1, precise, period: PERIOD / 16 * 16 });
    }
    if found.is_empty() { Err(why) } else { Ok(found) }
}

/// The two words of an event such as `event=0xcd,umask=0x1,ldlat=3`, by the places that the unit
/// documents for each field, such as `config:0-7`.
fn configured(event: &str, format: impl Fn(&str) -> Option<String>) -> Option<(u64, u64)> {
    let mut words = [0u64; 2];
    for term in event.trim().split(',') {
        let (field, value) = term.split_once('=').unwrap_or((term, "1"));
        let value = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok()?,
            None => value.parse().ok()?,
        };
        let place = format(field)?;
        let (word, bits) = place.trim().split_once(':')?;
        let word = match word {
            "config" => 0,
            "config1" => 1,
            _ => return None,
        };
        let (low, high) = bits.split_once('-').unwrap_or((bits, bits));
        let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
        let width = high.checked_sub(low)?.checked_add(1)?;
        let shifted = value.checked_shl(low)?;
        let fits = width >= u64::BITS || value >> width == 0;
        if low >= u64::BITS || !fits || shifted >> low != value {
            return None;
        }
        words[word] |= shifted;
    }
    Some((words[0], words[1]))
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The kernel's number of the thread.
    pub thread: u32,
    /// The address that it accessed.
    pub address: u64,
    /// The number of the processor that it ran on.
    pub processor: u32,
}

/// What a piece of a ring had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounts {
    /// Samples.
    pub samples: u64,
    /// Samples that the ring had no room for.
    pub lost: u64,
    /// Bytes that are no record, to the end of what there was.
    pub garbage: u64,
}

/// Reads all records between two positions of a ring, which grow for ever: byte `p` is at
/// `ring[p % ring.len()]`. Records may go over the ring's end. After a record that is none the rest
/// cannot be read.
pub fn parse(ring: &[u8], tail: u64, head: u64, mut tell: impl FnMut(Sample)) -> RingCounts {
    let mut tally = RingCounts::default();
    let size = ring.len() as u64;
    let length = head.wrapping_sub(tail);
    if size == 0 || length > size {
        // Positions that no ring has.
        return RingCounts { garbage: length.min(size), ..tally };
    }
    let mut at = 0;
    while at < length {
        let word = |offset: usize| -> u32 {
            let byte = |index: u64| {
                let place = tail.wrapping_add(at + offset as u64 + index) % size;
                ring[usize::try_from(place).unwrap_or(0)]
            };
            u32::from_ne_bytes([byte(0), byte(1), byte(2), byte(3)])
        };
        let left = length - at;
        let bytes = if left < HEAD as u64 { 0 } else { u64::from(length_of(word(4))) };
        if bytes < HEAD as u64 || bytes > left || !bytes.is_multiple_of(8) {
            return RingCounts { garbage: tally.garbage.saturating_add(left), ..tally };
        }
        let long = |offset: usize| {
            let [low, high] = [word(offset), word(offset + 4)].map(u32::to_ne_bytes);
            u64::from_ne_bytes([low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]])
        };
        match (word(0), bytes) {
            (RECORD_SAMPLE, bytes) if bytes >= SAMPLE as u64 => {
                tally.samples += 1;
                let (thread, address) = (word(HEAD + 4), long(HEAD + 8));
                tell(Sample { thread, address, processor: word(HEAD + 16) });
            }
            (RECORD_SAMPLE, bytes) => tally.garbage = tally.garbage.saturating_add(bytes),
            // Its identity, then how many.
            (RECORD_LOST, 24..) => tally.lost = tally.lost.saturating_add(long(HEAD + 8)),
            (RECORD_LOST_SAMPLES, 16..) => tally.lost = tally.lost.saturating_add(long(HEAD)),
            // Throttling, and what newer kernels have.
            _ => {}
        }
        at += bytes;
    }
    tally
}

/// The size of a record, which is the second half of the second word of its head.
fn length_of(word: u32) -> u16 {
    let bytes = word.to_ne_bytes();
    u16::from_ne_bytes([bytes[2], bytes[3]])
}

/// One thread's samples.
#[derive(Debug)]
pub struct Sampler {
    /// Closed when it is dropped: then nothing is sampled any more.
    _event: OwnedFd,
    ring: NonNull<u8>,
    page: usize,
    /// A copy of the ring: the kernel writes on.
    copy: Vec<u8>,
}

// SAFETY: - the mapping is this value's alone, and may be read from any thread.
unsafe impl Send for Sampler {}

impl Sampler {
    /// Samples a thread of this process from now on.
    ///
    /// # Errors
    /// `EACCES`, `EPERM`: not permitted ([`why_refused`] says it in words), also where too much
    /// memory is locked; `ENOENT`, `EOPNOTSUPP`, `EINVAL`: there is no such event; `ESRCH`: the
    /// thread ended; `EMFILE`: too many files are open.
    pub fn open(event: &Event, thread: Tid) -> SysResult<Self> {
        let request = PerfEventAttr {
            kind: event.kind,
            size: u32::try_from(size_of::<PerfEventAttr>()).unwrap_or(u32::MAX),
            config: event.config,
            config1: event.config1,
            period: event.period,
            sample: SAMPLE_TID | SAMPLE_ADDR | SAMPLE_CPU,
            flags: EXCLUDE_KERNEL | EXCLUDE_HV | event.precise << PRECISE,
            ..PerfEventAttr::default()
        };
        // SAFETY: - the request is of the size that it names; the call keeps no address.
        let raw = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const request,
                thread.0,
                -1,
                -1,
                FLAG_CLOEXEC,
            )
        };
        // SAFETY: - made just now.
        let event = unsafe { check_made("perf_event_open", i32::try_from(raw).unwrap_or(-1)) }?;
        let event = crate::descriptor::above_streams(event)?;
        let page = crate::numa::page_bytes();
        let length = NonZeroUsize::new((RING_PAGES + 1) * page).expect("not 0");
        let ring = mapping::map(length, READ_WRITE, libc::MAP_SHARED, Some(event.as_fd()))?;
        Ok(Self { _event: event, ring: ring.cast(), page, copy: vec![0; RING_PAGES * page] })
    }

    /// Reads what was sampled since the last time.
    pub fn drain(&mut self, tell: impl FnMut(Sample)) -> RingCounts {
        let position = |offset: usize| {
            // SAFETY: - in the first page, aligned for a word; the kernel writes it atomically.
            unsafe { AtomicU64::from_ptr(self.ring.as_ptr().add(offset).cast()) }
        };
        // ORDERING: Acquire - pairs with the kernel's barrier: the records before it are whole.
        let head = position(DATA_HEAD).load(Acquire);
        // ORDERING: Acquire - ours alone; as strong as the other one.
        let tail = position(DATA_TAIL).load(Acquire);
        let size = self.copy.len() as u64;
        let length = head.wrapping_sub(tail).min(size);
        let begin = usize::try_from(tail % size).unwrap_or(0);
        let length = usize::try_from(length).unwrap_or(0);
        let first = length.min(self.copy.len() - begin);
        for (from, bytes) in [(begin, first), (0, length - first)] {
            // SAFETY: - within the pages after the first one, and in the copy of the same size.
            // What lies between the two positions the kernel does not write before `tail` says so.
            unsafe {
                let ring = self.ring.as_ptr().add(self.page + from);
                self.copy.as_mut_ptr().add(from).copy_from_nonoverlapping(ring, bytes);
            }
        }
        let tally = parse(&self.copy, tail, head, tell);
        // ORDERING: Release - the records were read before the kernel may write over them.
        position(DATA_TAIL).store(head, Release);
        tally
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // SAFETY: - our mapping, of which no reference is left.
        let result = unsafe { mapping::unmap(self.ring.cast(), (RING_PAGES + 1) * self.page) };
        debug_assert_eq!(result, Ok(()), "munmap of a whole mapping");
    }
}

/// Why the kernel refused to sample, in plain words.
pub fn why_refused(error: crate::error::SysError) -> String {
    match error.errno() {
        libc::EACCES | libc::EPERM if error.call() == "mmap" => {
            "the rings of samples need more locked memory than kernel.perf_event_mlock_kb and the \
             limit of locked memory allow"
                .to_owned()
        }
        libc::EACCES | libc::EPERM => {
            let level = crate::file::text("/proc/sys/kernel/perf_event_paranoid");
            let level = level.unwrap_or_else(|error: io::Error| error.to_string());
            format!(
                "sampling is not permitted: kernel.perf_event_paranoid is {}, 2 or less is needed, \
                 or CAP_PERFMON",
                level.trim()
            )
        }
        libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::EINVAL => {
            format!("the processor or the kernel does not sample this event: {error}")
        }
        libc::ENOSYS => "this kernel has no performance events".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
