//! The engine for programs that do not know of it: it is told where iterations of the outer loop
//! begin, finds what may be hot, records, moves, and turns itself off.
//!
//! # Protocol
//! On the thread that forks the program's regions:
//! 1. *Look*: nothing happens until an iteration begins ([`Pilot::iteration_begins`]).
//! 2. *Time*: one iteration runs as it is, so that it is known how long one takes: windows are
//!    spread over a whole one.
//! 3. *Record*: the areas are chosen ([`maps`]). Windows come in regions only
//!    ([`Pilot::region_begins`], [`Pilot::region_ends`]): outside them the program may hand its
//!    arrays to system calls. At the next iteration's beginning pages move, and the next one is
//!    recorded while that is so, or while too little was seen.
//! 4. *Done*, when no page should move any more; also when nothing can be done.
//!
//! [`Pilot::threads_moved`] begins again at 1, and so does a loop that ended while it was recorded
//! (I3).
//!
//! # Invariants
//! I1  Outside a region, and when it is done, no access faults.
//! I2  Windows are so far apart that their faults take about one part of `SHARE` of the time, and
//!     so few that all of them take about `TIMES` iterations, or there are `FEWEST_WINDOWS`.
//!     They are reckoned by what a fault takes on an idle machine: on a busy one the time of an
//!     iteration says nothing. Beside that, recorded iterations may take `FREE` nanoseconds more
//!     than others; then what was counted decides.
//!
//! I3  What a loop was recorded for that then ended was for nothing: probably it is not the outer
//!     one. The next one is looked at when the program has run so long that all of this was
//!     below one part of `WASTED` of it.
//!
//! # Limits
//! - A program that unmaps an array while it is recorded, in a region, or in the moment in which a
//!   window begins: another mapping at the same place could be armed once.
//! - Memory that a program gives a thread as its stack, without a guard page below, is taken for an
//!   array: glibc's and the library's own stacks have one.
//! - Arrays of a program that loads the library later (`dlopen`) and had them before are left out.
//! - A thread that is in no region may find memory armed, and not hand it to the system, while the
//!   program is in one.

use std::fmt::Write as _;
use std::ops::Range;

use platform::numa;

use crate::machine::{Engine, Machine};
use crate::maps::{self, Found, Kind, Own};
use crate::migrator::Parameters;
use crate::placement::Placement;
use crate::settings::Settings;
use crate::source::{AutoSource, Scope, TrapParameters};
use crate::statistics::{Off, Statistics};
use crate::topology::Topology;

/// Pages that an area has for each thread at least: the paper's arrays have more.
const PAGES_PER_THREAD: usize = 16;
/// Bytes that it has at least: what `malloc` takes from the system has more.
const SMALLEST: usize = 256 << 10;
/// Windows of an iteration, where it is long enough.
const WINDOWS: u64 = 24;
/// Nanoseconds between two of them, at least and at most.
const INTERVALS: Range<u64> = 1_000_000..500_000_000;
/// How many times longer than an iteration all recording takes.
const TIMES: u64 = 2;
/// Windows of all recorded iterations, at least and at most.
const FEWEST_WINDOWS: u64 = 64;
const MOST_WINDOWS: u64 = 256;
/// Nanoseconds that recording may take longer, whatever the reason.
const FREE: u64 = 2_000_000_000;
/// The time of a window's faults is at most one part of so many.
const SHARE: u64 = 10;
/// Nanoseconds of a fault, with what it disturbs, and bytes that it opens.
const FAULT: u64 = 10_000;
const OPENED: usize = 64 << 10;
/// What was recorded for nothing is at most one part of so many of the time, before it is tried
/// again.
const WASTED: u64 = 100;
/// How often it begins again because an area was unmapped.
const MOST_LOST: u32 = 3;
/// Decisions that the report has in full.
const SHOWN: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Look,
    Time,
    Record,
    Done,
}

/// See the module head.
pub struct Pilot {
    machine: Machine,
    settings: Settings,
    /// What is not the program's; its fault handler uses that.
    own: Own,
    /// No thread's stack has more bytes.
    stacks: Option<usize>,
    threads: usize,
    stage: Stage,
    upm: Option<Engine>,
    areas: Vec<Found>,
    /// When this iteration began.
    began: u64,
    /// Nanoseconds of an iteration that was not recorded.
    nominal: u64,
    /// Nanoseconds of all recorded ones, and how many.
    recorded: (u64, u64),
    /// When the first iteration began, and this recording; nanoseconds that recordings took for
    /// nothing.
    first: Option<u64>,
    recording: u64,
    wasted: u64,
    lost: u32,
    moved: u32,
    scattered: Option<usize>,
    why: Option<String>,
    clock: Box<dyn FnMut() -> u64 + Send>,
}

impl Pilot {
    /// One on a machine. Nothing of `own` is ever hot.
    pub fn new(machine: Machine, settings: Settings, own: Own) -> Self {
        let is_one = machine.topology().homes() < 2;
        Self {
            machine,
            settings,
            own,
            stacks: None,
            threads: 1,
            stage: if is_one { Stage::Done } else { Stage::Look },
            upm: None,
            areas: Vec::new(),
            began: 0,
            nominal: 0,
            recorded: (0, 0),
            first: None,
            recording: 0,
            wasted: 0,
            lost: 0,
            moved: 0,
            scattered: None,
            why: is_one.then(|| Off::OneNode.to_string()),
            clock: Box::new(platform::clock::monotonic_ns),
        }
    }

    /// Has `clock` read in place of the system's: nanoseconds from anywhere.
    #[must_use]
    pub fn with_clock(mut self, clock: impl FnMut() -> u64 + Send + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// Whether it has nothing to do until the threads move: it need not be told of anything else.
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Whether it has nothing to do even then.
    pub fn is_over(&self) -> bool {
        self.is_done() && self.machine.topology().homes() < 2
    }

    /// Whether the next iteration's beginning chooses areas.
    pub fn is_about_to_choose(&self) -> bool {
        self.stage == Stage::Time
    }

    /// No thread's stack has more bytes, if that is known. Then an array that the kernel has joined
    /// with the stack below it is found.
    pub fn set_stacks(&mut self, bytes: Option<usize>) {
        self.stacks = bytes;
    }

    /// An iteration of the outer loop begins, whose regions have so many threads.
    pub fn iteration_begins(&mut self, threads: usize) {
        let now = (self.clock)();
        match self.stage {
            Stage::Look => {
                let first = *self.first.get_or_insert(now);
                if now.saturating_sub(first) / WASTED < self.wasted {
                    return;
                }
                self.threads = threads;
                self.stage = Stage::Time;
            }
            Stage::Time => {
                self.nominal = now.saturating_sub(self.began);
                self.recorded = (0, 0);
                self.prepare();
            }
            Stage::Record => self.iteration_ends(now),
            Stage::Done => return,
        }
        self.began = (self.clock)();
    }

    /// The program is in the loop no more, or in another one.
    pub fn loop_ends(&mut self) {
        if self.stage != Stage::Done {
            self.waste();
            self.stop();
            self.stage = Stage::Look;
        }
    }

    /// A region begins.
    pub fn region_begins(&self) {
        if self.stage == Stage::Record
            && let Some(upm) = &self.upm
        {
            upm.resume();
        }
    }

    /// It ended.
    pub fn region_ends(&self) {
        if self.stage == Stage::Record
            && let Some(upm) = &self.upm
        {
            upm.pause();
        }
    }

    /// The program's threads are on other nodes than when they were recorded.
    pub fn threads_moved(&mut self) {
        if self.machine.topology().homes() >= 2 {
            self.stop();
            self.stage = Stage::Look;
            self.moved += 1;
            self.why = None;
        }
    }

    /// No outer loop was found, or the program does not bear it.
    pub fn give_up(&mut self, why: &str) {
        self.stop();
        self.stage = Stage::Done;
        self.why = Some(why.to_owned());
    }

    /// What is being recorded is of no use.
    fn waste(&mut self) {
        if self.stage == Stage::Record {
            let time = (self.clock)().saturating_sub(self.recording);
            let (recorded, laps) = self.recorded;
            let more = recorded.saturating_sub(self.nominal.saturating_mul(laps));
            // By I2, or what was seen.
            self.wasted += more.max(time / SHARE);
        }
    }

    fn stop(&mut self) {
        if let Some(upm) = &mut self.upm {
            upm.stop();
        }
    }

    /// Chooses the areas, and begins to record.
    fn prepare(&mut self) {
        self.areas = self.choose();
        if self.areas.is_empty() {
            let pages = PAGES_PER_THREAD * self.threads;
            return self.give_up(&format!("no writable memory of at least {pages} pages was seen"));
        }
        self.scatter();
        if !self.settings.is_on {
            return self.give_up("UPM is off");
        }
        let bytes: usize = self.areas.iter().map(|area| area.addresses.len()).sum();
        let faults = bytes.div_ceil(OPENED).div_ceil(self.threads.max(1));
        let window = u64::try_from(faults).unwrap_or(u64::MAX).saturating_mul(FAULT).max(1);
        let apart = (self.nominal / WINDOWS).max(window.saturating_mul(SHARE));
        let interval = apart.clamp(INTERVALS.start, INTERVALS.end);
        let windows = self.nominal.saturating_mul(TIMES) / window;
        let windows = windows.clamp(FEWEST_WINDOWS, MOST_WINDOWS);
        let length = interval;
        let sampling =
            TrapParameters { interval, length, windows, verifies: true, ..Default::default() };
        let source = AutoSource::new(self.settings.source, sampling);
        let topology = self.machine.topology().clone();
        let parameters =
            Parameters { critical_pages: self.settings.critical_pages, ..Parameters::default() };
        let mut upm = Engine::with(topology, self.machine.mover(), Box::new(source), parameters);
        if let Some(before) = self.upm.take() {
            upm.go_on_from(before);
        }
        let mut unwatched = None;
        self.areas.retain(|area| {
            let Range { start, end } = area.addresses;
            // SAFETY: - the mappings are private and plain. That they are unmapped meanwhile is
            // looked for before each window; see Limits.
            match unsafe { upm.watch_raw(start, end - start) } {
                Ok(_) => true,
                Err(error) => {
                    unwatched = Some(error.to_string());
                    false
                }
            }
        });
        if let (true, Some(error)) = (self.areas.is_empty(), unwatched) {
            return self.give_up(&error);
        }
        self.stage = Stage::Record;
        self.upm = Some(upm);
        self.recording = (self.clock)();
        self.record();
    }

    /// What may be hot now.
    fn choose(&self) -> Vec<Found> {
        let Ok(lines) = maps::read() else { return Vec::new() };
        let pages = PAGES_PER_THREAD * self.threads * numa::page_bytes();
        let here = 0u8;
        let mut own = self.own.clone();
        own.addresses.extend([(&raw const here).addr(), (&raw const *self).addr()]);
        // SAFETY: - takes a number.
        let program = unsafe { libc::getauxval(libc::AT_PHDR) };
        let program = usize::try_from(program).unwrap_or(0);
        let smallest = pages.max(SMALLEST);
        maps::candidates(&lines, program, &own, smallest, self.stacks)
    }

    /// The random scheme: what is there goes to random nodes, once.
    fn scatter(&mut self) {
        if let Some(Placement::Random(seed)) = self.settings.placement
            && self.scattered.is_none()
        {
            let areas = self.areas.iter().map(|area| area.addresses.clone());
            let pages: Vec<usize> =
                areas.flat_map(|area| area.step_by(numa::page_bytes())).collect();
            self.scattered = Some(self.machine.scatter(&pages, seed));
        }
    }

    fn record(&mut self) {
        let Some(upm) = &mut self.upm else { return };
        // SAFETY: - as in `prepare`.
        unsafe { upm.begin(Scope::Iteration) };
        upm.pause();
        if !upm.is_recording() {
            self.stage = Stage::Done;
        }
    }

    fn iteration_ends(&mut self, now: u64) {
        let lap = now.saturating_sub(self.began);
        self.recorded = (self.recorded.0 + lap, self.recorded.1 + 1);
        let (time, laps) = self.recorded;
        let more = time.saturating_sub(self.nominal.saturating_mul(laps));
        let is_dear = more > FREE.max(self.nominal.saturating_mul(TIMES));
        let Some(upm) = &mut self.upm else { return };
        if !is_dear && !upm.is_lost() && upm.is_recording() && !upm.is_enough() {
            return;
        }
        upm.stop();
        if upm.is_lost() {
            self.waste();
            self.lost += 1;
            self.stage = Stage::Look;
            if self.lost > MOST_LOST {
                self.give_up("the program unmaps its arrays in each iteration");
            }
            return;
        }
        if is_dear {
            upm.migrate_now();
            return self.give_up("recording took too long");
        }
        upm.migrate_memory();
        if upm.is_on() {
            self.record();
        } else {
            self.stage = Stage::Done;
        }
    }

    /// What was done, if anything.
    pub fn statistics(&self) -> Option<&Statistics> {
        self.upm.as_ref().map(Engine::statistics)
    }

    /// Why no page was put on a random node, where the settings ask for that.
    pub fn unscattered(&self) -> Option<&str> {
        let is_asked = matches!(self.settings.placement, Some(Placement::Random(_)));
        if !is_asked || self.scattered.is_some() || self.machine.topology().homes() < 2 {
            return None;
        }
        Some(self.why.as_deref().unwrap_or("no outer loop was found"))
    }

    /// What was done, and why: lines for the program's end.
    pub fn report(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let mut line = |line: std::fmt::Arguments<'_>| {
            let _whole = writeln!(text, "{line}");
        };
        if let Some(nodes) = self.settings.pretended {
            line(format_args!(
                "upm: {nodes} nodes are pretended (UPM_NODES): no page really moves"
            ));
        }
        for area in &self.areas {
            let Range { start, end } = area.addresses;
            let kind = match area.kind {
                Kind::Static => "static data",
                Kind::Anonymous => "anonymous memory",
            };
            let pages = (end - start) / numa::page_bytes();
            line(format_args!("upm: hot area {start:#x}-{end:#x}: {kind}, {pages} pages"));
        }
        if let Some(pages) = self.scattered {
            line(format_args!("upm: {pages} pages were put on random nodes"));
        }
        if self.recorded.1 > 0 {
            let (nominal, laps) = (self.nominal / 1000, self.recorded.1);
            let mean = self.recorded.0 / 1000 / laps;
            line(format_args!(
                "upm: {laps} iterations were recorded, {mean} us each; {nominal} us otherwise"
            ));
        }
        if self.moved > 0 {
            line(format_args!("upm: {} times the threads went to other nodes", self.moved));
        }
        if self.lost > 0 {
            line(format_args!(
                "upm: {} recordings came to nothing: the program unmapped what was recorded",
                self.lost
            ));
        }
        match &self.why {
            Some(why) => line(format_args!("upm: off: {why}")),
            None if self.stage == Stage::Look && self.upm.is_none() => {
                line(format_args!("upm: no outer loop was found"));
            }
            None => {}
        }
        if let Some(statistics) = self.statistics() {
            text += &shown(statistics);
        }
        text
    }
}

/// Statistics with the first decisions only.
pub fn shown(statistics: &Statistics) -> String {
    let mut statistics = statistics.clone();
    let more = statistics.decisions.len().saturating_sub(SHOWN);
    statistics.decisions.truncate(SHOWN);
    let more = if more > 0 { format!("  and {more} decisions more\n") } else { String::new() };
    format!("{statistics}{more}")
}
