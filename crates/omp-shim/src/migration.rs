//! Page migration: the paper's calls, and programs whose pages follow their threads without a call
//! (`UPM=on`). What moves, and why, is the crate `upm`'s; here it is told where regions begin and
//! end, and where iterations of the outer loop do.
//!
//! # Cost
//! A program that has neither pays nothing: [`is_watched`] is the load that a region makes for
//! `OMP_DISPLAY_AFFINITY` anyway. So does one whose engine has ended for good; under a manager it
//! may go on, and a region costs a lock and some loads.
//!
//! # What the library knows of a program
//! Regions by the addresses of their bodies, in order: the engine's detector finds the outer loop
//! in them. Which bytes a loop touches it does not know: compiled code deals out static loops
//! itself, without a call, and no call of any loop names an array. So references are sampled by
//! access rights, in regions only; a program that wants them counted exactly says what its threads
//! touch ([`touched`], [`ran`]).
//!
//! # Forks
//! A child has none of this: its pages are the parent's, or copies. It may begin anew by
//! [`start`].

use crate::process::copies::Host;
use crate::process::ending;
use crate::process::message;
use crate::settings::settings;
use engine::period::{Loop, Period};
use engine::process::Born;
use platform::affinity::CpuId;
use platform::aside::Aside;
use platform::lock::Mutex;
use platform::message::say;
use std::ptr;
use std::sync::PoisonError;
use std::sync::atomic::{
    AtomicBool, AtomicPtr,
    Ordering::{AcqRel, Acquire, Relaxed},
};
use upm::maps::{self, Own};
use upm::source::{Ledger, Pattern};
use upm::{Library, Machine, Pilot, Placement, Topology};

/// Regions without a loop after which none is looked for any more.
const VAIN: u32 = 65_536;

/// Regions tell of themselves.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);
/// Of this process, or of its parent; leaked.
static STATE: AtomicPtr<State> = AtomicPtr::new(ptr::null_mut());
/// The program describes its loops.
static IS_DESCRIBED: AtomicBool = AtomicBool::new(false);

struct State {
    born: Born,
    ledger: std::sync::Arc<Ledger>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// By the paper's calls.
    library: Option<Library>,
    /// Of a program that makes none.
    tracker: Option<IterationTracker>,
    /// The manager's grant that was seen last, and the nodes of its processors.
    grant: Option<(u32, Vec<u32>)>,
}

/// Tells the pilot where iterations begin.
struct IterationTracker {
    pilot: Pilot,
    period: Period,
    /// The loop, and how far its iteration is.
    timed: Option<(Loop, usize)>,
    /// Regions since there was one.
    looked: u32,
    /// The place of the frame of the thread whose regions are followed; 0: none yet.
    master: usize,
}

/// A region that was told of.
#[derive(Clone, Copy, Default)]
pub(crate) struct Told {
    pilot: bool,
    library: bool,
}

/// Whether regions are to tell of themselves. Cost: a load.
#[inline]
pub(crate) fn is_watched() -> bool {
    // ORDERING: Relaxed - what it leads to has a lock.
    IS_WATCHED.load(Relaxed)
}

/// The library is loaded, and the settings are read. Before the program's main function.
pub(crate) fn at_load() {
    let environment = &settings().environment;
    let upm = environment.upm;
    if environment.display_affinity {
        // ORDERING: Relaxed - see `is_watched`.
        IS_WATCHED.store(true, Relaxed);
    }
    if !matches!(settings().host, Host::Own) || (!upm.is_on && upm.placement.is_none()) {
        if upm.reports {
            report_at_exit();
        }
        return;
    }
    let machine = match Machine::new(upm) {
        Ok(machine) => machine,
        Err(error) => return message::warn(&format!("upm: {error}; pages stay where they are")),
    };
    if let Some(placement) = upm.placement
        && let Err(error) = machine.place(placement)
    {
        let why = match placement {
            Placement::WorstCase(node) if error.is(libc::EINVAL) => {
                format!("node {node} has no memory")
            }
            _ => error.to_string(),
        };
        message::warn(&format!("UPM_PLACEMENT: {why}; pages are put as without it"));
    }
    if upm.reports {
        report_at_exit();
    }
    // The random scheme needs it, too: the kernel has none.
    let is_random = matches!(upm.placement, Some(Placement::Random(_)));
    if is_random && machine.topology().homes() > 1 {
        ending::at_exit("UPM_PLACEMENT", say_unscattered);
    }
    if upm.is_on || is_random {
        let lines = match maps::read() {
            Ok(lines) => lines,
            Err(error) => {
                let what = "/proc/self/maps cannot be read";
                return message::warn(&format!("upm: {what}: {error}; pages stay where they are"));
            }
        };
        let own = Own {
            addresses: vec![(&raw const STATE).addr(), ptr::from_ref(settings()).addr()],
            code: at_load as *const () as usize,
            earlier: maps::anonymous(&lines),
        };
        let pilot = Pilot::new(machine, upm, own);
        let mut inner = fresh().inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.tracker = Some(IterationTracker {
            pilot,
            period: Period::new(),
            timed: None,
            looked: 0,
            master: 0,
        });
        inner.watch();
    }
}

/// A state for this process.
fn fresh() -> &'static State {
    let state = Box::into_raw(Box::new(State {
        born: Born::now(),
        ledger: std::sync::Arc::default(),
        inner: Mutex::default(),
    }));
    // ORDERING: AcqRel - publishes it. Of two that are made at once one is left to its maker.
    STATE.swap(state, AcqRel);
    // SAFETY: - leaked just now.
    unsafe { &*state }
}

/// The state of this process, if it has one.
fn state() -> Option<&'static State> {
    // ORDERING: Acquire - pairs with `fresh`.
    // SAFETY: - null, or leaked.
    unsafe { STATE.load(Acquire).as_ref() }.filter(|state| !state.born.is_parents())
}

/// What it protects is whole wherever a panic could leave it.
fn with<R>(work: impl FnOnce(&mut Inner) -> R) -> Option<R> {
    let state = state()?;
    let _aside = Aside::begin();
    let mut inner = state.inner.lock().unwrap_or_else(PoisonError::into_inner);
    Some(work(&mut inner))
}

/// The thread of frame `master` forks the outermost region `region`, of `threads` threads.
#[cold]
pub(crate) fn region_begins(master: usize, region: usize, threads: usize) -> Told {
    let told = with(|inner| {
        inner.look_at_grant();
        let mut told = Told::default();
        if let Some(library) = &mut inner.library {
            library.enter();
            told.library = true;
        }
        if let Some(tracker) = &mut inner.tracker {
            told.pilot = tracker.region_begins(master, region, threads);
        }
        inner.watch();
        told
    });
    told.unwrap_or_default()
}

/// It is joined.
#[cold]
pub(crate) fn region_ends(told: Told) {
    if !told.pilot && !told.library {
        return;
    }
    with(|inner| {
        if let (true, Some(library)) = (told.library, &mut inner.library) {
            library.leave();
        }
        if let (true, Some(tracker)) = (told.pilot, &inner.tracker) {
            tracker.pilot.region_ends();
        }
    });
}

impl Inner {
    /// Whether regions are to go on telling of themselves.
    fn watch(&self) {
        let is_followed = self.tracker.as_ref().is_some_and(|tracker| {
            !tracker.pilot.is_done() || (!tracker.pilot.is_over() && engine::is_to_follow())
        });
        let is_watched =
            is_followed || self.library.is_some() || settings().environment.display_affinity;
        // ORDERING: Relaxed - see `is_watched`.
        IS_WATCHED.store(is_watched, Relaxed);
    }

    /// The manager may have moved the program's threads to other nodes.
    fn look_at_grant(&mut self) {
        if !engine::is_to_follow() {
            return;
        }
        let epoch = engine::grant_epoch();
        if self.grant.as_ref().is_some_and(|(seen, _)| *seen == epoch) {
            return;
        }
        let nodes = engine::granted().map(|cpus| nodes_of(cpus.iter())).unwrap_or_default();
        let before = self.grant.replace((epoch, nodes));
        let (_, now) = self.grant.as_ref().expect("just set");
        // What cannot be read is no move.
        let have_moved = before
            .is_some_and(|(_, before)| !before.is_empty() && !now.is_empty() && before != *now);
        if have_moved {
            if let Some(tracker) = &mut self.tracker {
                tracker.timed = None;
                tracker.pilot.threads_moved();
            }
            if let Some(library) = &mut self.library {
                library.threads_moved();
            }
        }
    }
}

/// The nodes of processors, each as often as it has one; empty where they cannot be read.
fn nodes_of(cpus: impl Iterator<Item = CpuId>) -> Vec<u32> {
    let Ok(machine) = Machine::new(settings().environment.upm) else { return Vec::new() };
    let pretended = machine.topology().processors();
    let real = platform::topology::Topology::read();
    let mut nodes: Vec<u32> = cpus
        .filter_map(|cpu| match pretended.get(cpu.0 as usize) {
            Some(node) => Some(u32::from(node.0)),
            None => {
                let cpus = real.as_ref().ok()?.cpus();
                cpus.iter().find(|known| known.id == cpu).map(|known| known.node)
            }
        })
        .collect();
    nodes.sort_unstable();
    nodes
}

impl IterationTracker {
    /// True when the region's end is to be told, too.
    fn region_begins(&mut self, master: usize, region: usize, threads: usize) -> bool {
        if self.pilot.is_done() {
            return false;
        }
        if self.master == 0 {
            self.master = master;
        }
        if self.master != master {
            return false;
        }
        match (self.period.note(region), &mut self.timed) {
            (None, timed) => {
                if timed.take().is_some() {
                    self.pilot.loop_ends();
                }
                self.looked += 1;
                if self.looked >= VAIN {
                    self.pilot.give_up(&format!("no outer loop was found in {VAIN} regions"));
                }
            }
            (Some(found), Some((timed, at))) if *timed == found => {
                *at += 1;
                if *at >= found.length {
                    *at = 0;
                    if self.pilot.is_about_to_choose() {
                        self.pilot.set_stacks(largest_stack());
                    }
                    self.pilot.iteration_begins(threads);
                }
            }
            (Some(found), timed) => {
                if timed.replace((found, 0)).is_some() {
                    self.pilot.loop_ends();
                }
                self.looked = 0;
                self.pilot.iteration_begins(threads);
            }
        }
        self.pilot.region_begins();
        true
    }
}

/// What no stack of the program's threads exceeds: `None` where it has threads that are not the
/// library's, whose stacks it does not know.
fn largest_stack() -> Option<usize> {
    const LEAST: usize = 8 << 20;
    /// What the C library adds.
    const MORE: usize = 64 << 10;
    let tasks = platform::file::names("/proc/self/task").ok()?;
    let mut others = 0;
    for task in tasks {
        let comm = std::path::Path::new("/proc/self/task").join(task).join("comm");
        let name = platform::file::text(comm).unwrap_or_default();
        others += usize::from(!name.starts_with("nanos-"));
    }
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: - a place for the limit.
    let is_read = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) } == 0;
    let default = match limit.rlim_cur {
        // The C library takes less than `LEAST` then.
        libc::RLIM_INFINITY => LEAST,
        bytes => usize::try_from(bytes).ok()?,
    };
    let own = settings().environment.stack_size.unwrap_or(0);
    // One is the program's first thread.
    (is_read && others <= 1).then(|| default.max(own).max(LEAST) + MORE)
}

/// Registers what writes the report.
fn report_at_exit() {
    extern "C" fn report() {
        if state().is_none() && !STATE.load(Relaxed).is_null() {
            // A forked child.
            return;
        }
        let said = with(|inner| {
            if let Some(library) = &mut inner.library {
                library.stop();
                say(format_args!("{}", upm::pilot::shown(library.statistics()).trim_end()));
            }
            if let Some(tracker) = &inner.tracker {
                say(format_args!("{}", tracker.pilot.report().trim_end()));
            }
            inner.library.is_some() || inner.tracker.is_some()
        });
        if said != Some(true) {
            say(format_args!("upm: the program did not ask for page migration, and UPM is off"));
        }
    }
    ending::at_exit("UPM_REPORT", report);
}

/// Says at the end that the random scheme did nothing. A program without a region, such as a shell
/// that starts others, is silent.
extern "C" fn say_unscattered() {
    with(|inner| {
        if let Some(tracker) = inner.tracker.as_ref().filter(|tracker| tracker.master != 0)
            && let Some(why) = tracker.pilot.unscattered()
        {
            message::warn(&format!(
                "UPM_PLACEMENT: random: {why}; pages took turns on the nodes, as with round-robin"
            ));
        }
    });
}

/// The paper's calls begin, anew where they had begun. False when the machine cannot be read; then
/// it was said.
pub(crate) fn start() -> bool {
    let state = state().unwrap_or_else(fresh);
    let upm = settings().environment.upm;
    let library = match Library::new(upm, state.ledger.clone()) {
        Ok(library) => library,
        Err(error) => {
            message::warn(&format!("upmlib_init: {error}"));
            return false;
        }
    };
    with(|inner| {
        inner.library = Some(library);
        if let Some(tracker) = &mut inner.tracker {
            tracker.pilot.give_up("the program migrates by itself");
        }
        // ORDERING: Relaxed - a hint; `describe` looks under the lock.
        IS_DESCRIBED.store(false, Relaxed);
        inner.watch();
    });
    true
}

/// What the library does; `None` before [`start`].
pub(crate) fn library<R>(work: impl FnOnce(&mut Library) -> R) -> Option<R> {
    with(|inner| inner.library.as_mut().map(work)).flatten()
}

/// The ledger, once [`start`] was called; the first time what the program says counts from then on.
#[inline]
fn ledger() -> Option<&'static Ledger> {
    let state = state()?;
    // ORDERING: Relaxed - the ledger is the state's, whichever call comes first.
    if !IS_DESCRIBED.load(Relaxed) {
        library(|library| drop(library.ledger()))?;
        IS_DESCRIBED.store(true, Relaxed);
    }
    Some(&state.ledger)
}

/// The calling thread touches these bytes once.
pub(crate) fn touched(begin: usize, length: usize) {
    if let Some(ledger) = ledger() {
        ledger.touched_here(begin..begin.saturating_add(length));
    }
}

/// The calling thread runs these iterations of a loop.
pub(crate) fn ran(pattern: &Pattern, first: usize, last: usize) {
    if let Some(ledger) = ledger() {
        ledger.ran_here(pattern, first..last);
    }
}
