//! The two areas of a program and the page of all programs as they lie in memory: lines, sizes.
//!
//! Lines of different writers are 128 bytes apart (the adjacent-line prefetcher moves pairs of 64).
//! Fields are only ever added at the end of a line or of an area; whatever moves or changes meaning
//! is a new [`VERSION`](crate::header::VERSION). All zeros is a valid state of every field.

use platform::affinity::{CpuId, CpuSet};
use platform::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::grant::{CpuLine, GrantArea};
use crate::header::{Header, Kind, Layout};
use crate::park::ParkWord;
use crate::report::ReportLine;

pub use crate::global::{GLOBAL_SIZE, Global, LifeLine, StateLine};

/// Virtual processors that a program can publish.
pub const MAX_VPS: usize = 1024;
/// The size of the `down` area.
pub const DOWN_SIZE: usize = 2 * 4096;
/// The size of the `up` area.
pub const UP_SIZE: usize = 17 * 4096;

/// What the manager asks of the program.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct NoticeLine {
    asked: AtomicU32,
    preempted: AtomicU32,
    grace_ns: AtomicU64,
}

impl NoticeLine {
    /// The manager's side: how many processors the program shall let go of (they are not in its
    /// grant any more).
    pub fn ask_for(&self, processors: u32) {
        // ORDERING: Relaxed - a number on its own; the grant word says what is left.
        self.asked.store(processors, Ordering::Relaxed);
    }

    /// Processors that the manager took from the grant and on which virtual processors may still
    /// run. They have until the grace is over; then they are squeezed.
    pub fn asked(&self) -> u32 {
        // ORDERING: Relaxed - a number on its own.
        self.asked.load(Ordering::Relaxed)
    }

    /// The manager's side: how many virtual processors are squeezed.
    pub fn set_preempted(&self, vps: u32) {
        // ORDERING: Relaxed - a number on its own; which ones is in their words.
        self.preempted.store(vps, Ordering::Relaxed);
    }

    /// Virtual processors that run squeezed onto processors of others of this program: work that
    /// wants help (M5).
    pub fn preempted(&self) -> u32 {
        // ORDERING: Relaxed - a number on its own.
        self.preempted.load(Ordering::Relaxed)
    }

    /// The manager's side: the time between asking and squeezing.
    pub fn set_grace_ns(&self, grace_ns: u64) {
        // ORDERING: Relaxed - a number on its own.
        self.grace_ns.store(grace_ns, Ordering::Relaxed);
    }

    /// The time between asking and squeezing.
    pub fn grace_ns(&self) -> u64 {
        // ORDERING: Relaxed - a number on its own.
        self.grace_ns.load(Ordering::Relaxed)
    }
}

/// What the manager says about one virtual processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It has no processor.
    #[default]
    None = 0,
    /// It runs on its processor; where the word names none, on any.
    Run = 1,
    /// It has none any more and shall stop at the next safe point.
    Asked = 2,
    /// It did not, and was bound to the processors that its program keeps.
    Squeezed = 3,
}

/// The manager's view of one virtual processor: bits 0-15 its processor + 1, bits 16-17 the
/// verdict.
#[derive(Debug, Default)]
#[cfg_attr(not(loom), repr(transparent))]
pub struct VpWord(AtomicU32);

impl VpWord {
    /// The manager's side. Numbers of processors are below [`MAX_CPUS`](crate::grant::MAX_CPUS).
    pub fn set(&self, cpu: Option<CpuId>, verdict: Verdict) {
        let word = cpu.map_or(0, |cpu| (cpu.0 + 1) & 0xffff) | (verdict as u32) << 16;
        // ORDERING: Relaxed - before the grant word of its epoch, which is stored with Release
        // (`grant.publish`); later changes (a squeeze) stand on their own.
        if self.0.load(Ordering::Relaxed) != word {
            self.0.store(word, Ordering::Relaxed);
        }
    }

    /// Its processor, if it has one, and the verdict.
    pub fn get(&self) -> (Option<CpuId>, Verdict) {
        // ORDERING: Relaxed - after the grant word, which is loaded with Acquire (`grant.read`).
        let word = self.0.load(Ordering::Relaxed);
        let verdict = match word >> 16 & 3 {
            1 => Verdict::Run,
            2 => Verdict::Asked,
            3 => Verdict::Squeezed,
            _ => Verdict::None,
        };
        ((word & 0xffff).checked_sub(1).map(CpuId), verdict)
    }
}

/// Manager to program. The program maps it read-only.
#[derive(Debug)]
#[repr(C)]
pub struct Down {
    /// What this area is.
    pub header: Header,
    /// What the program may use.
    pub grant: GrantArea,
    /// What it is asked for.
    pub notice: NoticeLine,
    /// Its virtual processors. The word of virtual processor i is written before the grant of its
    /// epoch.
    pub vps: [VpWord; MAX_VPS],
}

impl Default for Down {
    fn default() -> Self {
        Self {
            header: Header::default(),
            grant: GrantArea::default(),
            notice: NoticeLine::default(),
            vps: std::array::from_fn(|_| VpWord::default()),
        }
    }
}

/// What the program wants.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct RequestLine {
    requested: AtomicU32,
    max: AtomicU32,
    flags: AtomicU32,
    lowest: AtomicU32,
    released_ns: AtomicU64,
    turns: AtomicU32,
    crowd: AtomicU32,
}

/// What a program says of its teams that have more threads than the program has processors: those
/// take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crowd {
    /// How often a thread of such a team waited, modulo 2^32. Unchecked.
    pub turns: u32,
    /// The threads of the team that did so last. Unchecked.
    pub threads: u32,
}

/// The program's teams have a fixed size: it gains nothing from processors beyond its request and
/// cannot use fewer without sharing.
pub const FLAG_FIXED_TEAM: u32 = 1;
/// The request is low because the program is in a serial phase: it will want more again in a
/// moment, and what it holds may stay where it is as long as no other program wants it.
pub const FLAG_SERIAL: u32 = 2;

/// One copy of the request line, each word read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Processors that the program wants now. Unchecked.
    pub requested: u32,
    /// The most that it could use. Unchecked.
    pub max: u32,
    /// `FLAG_*`. Unchecked.
    pub flags: u32,
    /// Processors below which it gains nothing from running (0 and 1 mean the same). Unchecked.
    pub lowest: u32,
    /// When it released a processor last, on the monotonic clock. Unchecked; for reports.
    pub released_ns: u64,
}

impl RequestLine {
    /// The program's side: the number wanted now; true when it differs from the number before.
    pub fn ask(&self, processors: u32) -> bool {
        // ORDERING: Relaxed - only this process writes the word; two of its threads are ordered by
        // the swap below.
        if self.requested.load(Ordering::Relaxed) == processors {
            return false;
        }
        // ORDERING(request.ask): AcqRel - Release: everything the program did before it asked;
        // pairs with
        // ORDERING(request.read). Acquire: the watcher, which writes the number of another thread
        // into new areas, sees what that thread wanted (`client::registration`). The doorbell's
        // system call comes after it.
        self.requested.swap(processors, Ordering::AcqRel) != processors
    }

    /// The program's side: whether the next request is that of a serial phase ([`FLAG_SERIAL`]).
    #[inline]
    pub fn set_serial(&self, serial: bool) {
        // ORDERING: Relaxed, both - only this process writes the word, under its own lock; `ask`
        // publishes it.
        let flags = self.flags.load(Ordering::Relaxed);
        let now = if serial { flags | FLAG_SERIAL } else { flags & !FLAG_SERIAL };
        if now != flags {
            self.flags.store(now, Ordering::Relaxed);
        }
    }

    /// The program's side: the fewest processors with which it can do something; true when that is
    /// new.
    pub fn set_lowest(&self, processors: u32) -> bool {
        // ORDERING: Relaxed - a number on its own; the doorbell follows.
        self.lowest.swap(processors, Ordering::Relaxed) != processors
    }

    /// The program's side: a processor was released at `now`.
    pub fn note_release(&self, now_ns: u64) {
        // ORDERING: Relaxed - a report.
        self.released_ns.store(now_ns, Ordering::Relaxed);
    }

    /// The program's side: threads of a team of `threads`, which are more than the program has
    /// processors, waited `turns` times more.
    pub fn note_turns(&self, turns: u32, threads: u32) {
        // ORDERING: Relaxed, both - a count, of which nothing is lost, and a hint.
        self.turns.fetch_add(turns, Ordering::Relaxed);
        if self.crowd.load(Ordering::Relaxed) != threads {
            self.crowd.store(threads, Ordering::Relaxed);
        }
    }

    /// What the program says of such teams. The manager's side; nothing of it may be trusted.
    pub fn crowd(&self) -> Crowd {
        // ORDERING: Relaxed, both - a count and a hint.
        Crowd {
            turns: self.turns.load(Ordering::Relaxed),
            threads: self.crowd.load(Ordering::Relaxed),
        }
    }

    /// Fills the line in. The manager's side, before the program gets the area: so it never reads
    /// zeros for a request.
    pub fn write(&self, request: Request) {
        // ORDERING: Relaxed, all four - the area travels through the socket afterwards.
        self.requested.store(request.requested, Ordering::Relaxed);
        self.max.store(request.max, Ordering::Relaxed);
        self.flags.store(request.flags, Ordering::Relaxed);
        self.lowest.store(request.lowest, Ordering::Relaxed);
    }

    /// One copy of what stands there. The manager's side; nothing of it may be trusted.
    pub fn read(&self) -> Request {
        Request {
            // ORDERING(request.read): Acquire - pairs with ORDERING(request.ask).
            requested: self.requested.load(Ordering::Acquire),
            // ORDERING: Relaxed, all four - numbers on their own.
            max: self.max.load(Ordering::Relaxed),
            flags: self.flags.load(Ordering::Relaxed),
            lowest: self.lowest.load(Ordering::Relaxed),
            released_ns: self.released_ns.load(Ordering::Relaxed),
        }
    }
}

/// What a program says about one of its virtual processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VpState {
    /// Not said.
    #[default]
    Unknown = 0,
    /// It runs.
    Running = 1,
    /// It sleeps at a safe point.
    Parked = 2,
}

/// What the program says of one virtual processor, and where that sleeps.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct VpLine {
    tid: AtomicU32,
    state: AtomicU32,
    /// Where it sleeps when it has no processor. The only word of this area that the manager
    /// writes, too.
    pub park: ParkWord,
}

impl VpLine {
    /// The program's side: the kernel thread of this virtual processor; 0 = none.
    pub fn set_tid(&self, tid: u32) {
        // ORDERING: Relaxed - a number on its own; the manager asks the kernel whose thread it is.
        self.tid.store(tid, Ordering::Relaxed);
    }

    /// The kernel thread that the program names. Unchecked.
    pub fn tid(&self) -> u32 {
        // ORDERING: Relaxed - a number on its own.
        self.tid.load(Ordering::Relaxed)
    }

    /// The program's side: what the virtual processor does now.
    pub fn set_state(&self, state: VpState) {
        // ORDERING: Relaxed - for reports; nothing hangs on it.
        self.state.store(state as u32, Ordering::Relaxed);
    }

    /// The state that the program names. Unchecked; an unknown number is `Unknown`.
    pub fn state(&self) -> VpState {
        // ORDERING: Relaxed - as in `set_state`.
        match self.state.load(Ordering::Relaxed) {
            1 => VpState::Running,
            2 => VpState::Parked,
            _ => VpState::Unknown,
        }
    }
}

/// The processors that the program gave back and does not want yet.
#[derive(Debug, Default)]
#[repr(C)]
pub struct ReleaseLine(CpuLine);

impl ReleaseLine {
    /// The program's side: gives a processor back. True when it was not given back before.
    pub fn add(&self, cpu: CpuId) -> bool {
        self.0.insert(cpu)
    }

    /// The program's side: wants everything again. True when something had been given back.
    pub fn clear(&self) -> bool {
        self.0.clear()
    }

    /// The manager's side; nothing of it may be trusted.
    pub fn read(&self) -> CpuSet {
        let cpus = self.0.read();
        // ORDERING(release.read): Acquire fence - what ran on a released processor is over; pairs
        // with
        // ORDERING(release.add).
        fence(Ordering::Acquire);
        cpus
    }
}

/// Program to manager. The manager trusts nothing in it.
#[derive(Debug)]
#[repr(C)]
pub struct Up {
    /// What this area is.
    pub header: Header,
    /// What the program wants.
    pub request: RequestLine,
    /// What it gave back.
    pub released: ReleaseLine,
    /// What it measured.
    pub report: ReportLine,
    /// Its virtual processors.
    pub vps: [VpLine; MAX_VPS],
}

// SAFETY: - `repr(C)`, atomics only (see the type).
//         - the size is asserted below and in tests/golden_layout.rs.
unsafe impl Layout for Down {
    const SIZE: usize = DOWN_SIZE;
    const KIND: Kind = Kind::Down;

    fn header(&self) -> &Header {
        &self.header
    }
}

// SAFETY: - `repr(C)`, atomics only (see the type).
//         - the size is asserted below and in tests/golden_layout.rs.
unsafe impl Layout for Up {
    const SIZE: usize = UP_SIZE;
    const KIND: Kind = Kind::Up;

    fn header(&self) -> &Header {
        &self.header
    }
}

// Loom's atomics are larger than words; a model never maps an area.
#[cfg(not(loom))]
const _: () = assert!(size_of::<Down>() <= DOWN_SIZE && size_of::<Up>() <= UP_SIZE);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_vp_word_keeps_processor_and_verdict() {
        let word = VpWord::default();
        assert_eq!(word.get(), (None, Verdict::None));
        for verdict in [Verdict::None, Verdict::Run, Verdict::Asked, Verdict::Squeezed] {
            for cpu in [None, Some(CpuId(0)), Some(CpuId(1023))] {
                word.set(cpu, verdict);
                assert_eq!(word.get(), (cpu, verdict));
            }
        }
    }

    #[test]
    fn an_unknown_state_is_no_state() {
        let line = VpLine::default();
        line.set_state(VpState::Parked);
        assert_eq!(line.state(), VpState::Parked);
        line.state.store(77, Ordering::Relaxed);
        assert_eq!(line.state(), VpState::Unknown);
    }

    #[test]
    fn released_processors_add_up_until_all_are_wanted_again() {
        let line = ReleaseLine::default();
        assert!(!line.clear());
        assert!(line.add(CpuId(3)) && line.add(CpuId(900)) && !line.add(CpuId(3)));
        assert_eq!(line.read(), [CpuId(3), CpuId(900)].into_iter().collect());
        assert!(!line.add(CpuId(5000)), "beyond what the arena can name nothing happens");
        assert!(line.clear());
        assert!(line.read().is_empty());
    }
}
