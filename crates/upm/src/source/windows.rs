//! When a source that samples by faults arms its areas, and which granules it divides: the windows
//! of [`TrapSource`](super::TrapSource), whose head has the protocol.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed},
};
use std::thread::JoinHandle;
use std::time::Duration;

use platform::SysError;
use platform::affinity::{Tid, affinity, set_affinity};
use platform::lock::Mutex;

use super::table::Placed;

/// The most granules, and single pages of unclear ones: half of the mappings that they may cost.
pub(super) const MOST_GRANULES: usize = 16_384;
/// 64 KiB.
pub(super) const SMALLEST_GRANULE: u32 = 16;
/// One page of so many may be undecided, and the counters can be judged.
const UNDECIDED: usize = 20;
/// How many times the windows that are enough pass before memory that none has seen is taken for
/// unused.
const PATIENCE: u64 = 4;

/// Nanoseconds between two looks of a thread whose source is paused, and at most.
const SHORTEST_REST: u64 = 200_000;
const LONGEST_REST: u64 = 1_000_000_000;

/// How a source samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrapParameters {
    /// Nanoseconds from one window to the next, in the mean.
    pub interval: u64,
    /// Nanoseconds that a window is open, at most; in any case it ends when the next one begins.
    pub length: u64,
    /// Windows of all recorded iterations, at most.
    pub windows: u64,
    /// Windows after which the counters can be judged, where something is undecided still.
    pub enough: u64,
    /// Where the random times begin.
    pub seed: u64,
    /// Looks before each window whether the areas are still there, for programs that did not
    /// promise it. Costs as much as to read `/proc/self/maps`.
    pub verifies: bool,
}

impl Default for TrapParameters {
    fn default() -> Self {
        Self {
            interval: 1_000_000,
            length: 1_000_000,
            windows: 256,
            enough: 12,
            seed: 0x9e37_79b9_7f4a_7c15,
            verifies: false,
        }
    }
}

/// What the source and its thread share.
pub(super) struct Shared {
    pub(super) placed: Placed,
    /// Taken by what arms. Never taken by the handler.
    pub(super) lock: Mutex<Sampling>,
    /// When the next window is due.
    pub(super) due: AtomicU64,
    pub(super) windows: AtomicU64,
    /// The window in which a granule was divided.
    pub(super) divided: AtomicU64,
    pub(super) stops: AtomicBool,
}

pub(super) struct Sampling {
    pub(super) random: u64,
    pub(super) fine: usize,
    /// All is armed in each window, whatever is decided: the windows of phases are compared.
    pub(super) is_whole: bool,
    /// Arming failed, or an area is lost: it is not tried again.
    pub(super) is_broken: bool,
    /// Why arming failed.
    pub(super) error: Option<SysError>,
    /// An area is not what it was.
    pub(super) is_lost: bool,
    /// Some accesses may fault.
    pub(super) is_armed: bool,
    /// When the next window begins.
    pub(super) begins: u64,
    /// When the one that is open ends.
    pub(super) closes: u64,
    pub(super) pause: Option<Pause>,
}

/// What a pause has interrupted.
pub(super) struct Pause {
    /// Nanoseconds that were left to the next window.
    left: u64,
    /// Those that were left of the one that was open, and what it had not opened.
    rest: Option<(u64, Vec<Range<usize>>)>,
}

/// Pieces that are armed in a window, at most, or one of each area; and again after a pause, where
/// the window ends if there are more. Each takes a system call.
pub(super) const MOST_PIECES: usize = 64;

impl Shared {
    /// Nothing is due.
    pub(super) fn new(placed: Placed, seed: u64) -> Self {
        let sampling = Sampling {
            random: seed | 1,
            fine: 0,
            is_whole: false,
            is_broken: false,
            error: None,
            is_lost: false,
            is_armed: false,
            begins: u64::MAX,
            closes: u64::MAX,
            pause: None,
        };
        Self {
            placed,
            lock: Mutex::new(sampling),
            due: AtomicU64::new(u64::MAX),
            windows: AtomicU64::new(0),
            divided: AtomicU64::new(0),
            stops: AtomicBool::new(false),
        }
    }

    /// Begins or ends a window when it is time.
    pub(super) fn look(&self, parameters: &TrapParameters) {
        // ORDERING: Relaxed - only says whether it is worth trying the lock.
        let now = platform::clock::monotonic_ns();
        if now < self.due.load(Relaxed) {
            return;
        }
        let Ok(mut sampling) = self.lock.try_lock() else { return };
        let table = self.placed.table();
        if sampling.pause.is_none() && sampling.closes <= now {
            if sampling.is_armed {
                table.disarm();
            }
            (sampling.is_armed, sampling.closes) = (false, u64::MAX);
        }
        // Also where the last window had nothing to arm: else one would begin at its end.
        if now < sampling.begins {
            // ORDERING: Relaxed - see above.
            self.due.store(sampling.begins.min(sampling.closes), Relaxed);
            return;
        }
        // ORDERING: Relaxed - both are written under the lock.
        let windows = self.windows.load(Relaxed);
        let is_over =
            windows >= parameters.windows || sampling.is_broken || sampling.pause.is_some();
        if is_over || !table.is_running.load(Relaxed) {
            // The last window still ends.
            sampling.begins = u64::MAX;
            self.due.store(sampling.closes, Relaxed);
            return;
        }
        if self.divide(&mut sampling) {
            // ORDERING: Relaxed - a number.
            self.divided.store(windows, Relaxed);
        }
        let pieces = if sampling.is_whole {
            table.whole()
        } else {
            // What was not seen yet may be, as long as others need samples.
            table.survey(true).pieces
        };
        if !pieces.is_empty() && parameters.verifies && !table.is_intact() {
            table.disarm();
            (sampling.is_broken, sampling.is_lost) = (true, true);
            return;
        }
        // What the last window has left armed is so until this one ends.
        sampling.is_armed |= !pieces.is_empty();
        if !pieces.is_empty()
            && let Err(error) = table.arm(&pieces)
        {
            table.disarm();
            (sampling.is_broken, sampling.is_armed) = (true, false);
            sampling.error = Some(error);
        }
        // ORDERING: Relaxed - a number.
        self.windows.store(windows + 1, Relaxed);
        let now = platform::clock::monotonic_ns();
        sampling.closes = now.saturating_add(parameters.length);
        self.set_due(&mut sampling, parameters.interval);
    }

    /// The next window begins at a random time from now: between nothing and twice the mean.
    pub(super) fn set_due(&self, sampling: &mut Sampling, interval: u64) {
        let wait = sampling.wait(interval);
        sampling.begins = platform::clock::monotonic_ns().saturating_add(wait);
        // ORDERING: Relaxed - see `look`.
        self.due.store(sampling.begins.min(sampling.closes), Relaxed);
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Sampling> {
        self.lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn pause(&self, parameters: &TrapParameters) {
        let mut sampling = self.lock();
        if sampling.pause.is_some() {
            return;
        }
        let now = platform::clock::monotonic_ns();
        let table = self.placed.table();
        let mut rest = None;
        if sampling.is_armed {
            let left = sampling.closes.saturating_sub(now);
            if left > 0 && table.can_be_armed_again() {
                rest =
                    Some((left, table.unopened(MOST_PIECES))).filter(|(_, left)| !left.is_empty());
            }
            table.disarm();
            sampling.is_armed = false;
        }
        // ORDERING: Relaxed - see `look`; written under its lock.
        self.due.store(u64::MAX, Relaxed);
        let left = sampling.begins.saturating_sub(now);
        // A window that is overdue would begin right at the resumption.
        let left = if left == 0 { sampling.wait(parameters.interval) } else { left };
        sampling.pause = Some(Pause { left, rest });
    }

    /// How long the thread may sleep: no window is due before. In a pause it looks now and then, so
    /// that to resume wakes no thread.
    pub(super) fn rest(&self) -> u64 {
        let wait = match &self.lock().pause {
            Some(Pause { left, .. }) => (*left).max(SHORTEST_REST),
            None => {
                // ORDERING: Relaxed - see `look`.
                self.due.load(Relaxed).saturating_sub(platform::clock::monotonic_ns())
            }
        };
        wait.min(LONGEST_REST)
    }

    pub(super) fn resume(&self, parameters: &TrapParameters) {
        let mut sampling = self.lock();
        let Some(Pause { left, rest }) = sampling.pause.take() else { return };
        // In the pause the program may have installed a handler of its own.
        if let Err(error) = super::table::handle_faults() {
            (sampling.begins, sampling.closes) = (u64::MAX, u64::MAX);
            (sampling.is_broken, sampling.error) = (true, Some(error));
            return;
        }
        let now = platform::clock::monotonic_ns();
        sampling.begins = now.saturating_add(left);
        sampling.closes = u64::MAX;
        let table = self.placed.table();
        // ORDERING: Relaxed - written under the lock.
        if let Some((left, pieces)) = rest.filter(|_| table.is_running.load(Relaxed)) {
            let is_lost = parameters.verifies && !table.is_intact();
            let armed = if is_lost { None } else { Some(table.arm_again(&pieces)) };
            if armed == Some(Ok(())) {
                (sampling.is_armed, sampling.closes) = (true, now.saturating_add(left));
            } else {
                table.disarm();
                sampling.is_broken = true;
                sampling.is_lost |= is_lost;
                sampling.error = armed.and_then(Result::err);
            }
        }
        // ORDERING: Relaxed - see `look`.
        self.due.store(sampling.begins.min(sampling.closes), Relaxed);
    }
}

impl Sampling {
    /// A random time: between nothing and twice the mean.
    pub(super) fn wait(&mut self, interval: u64) -> u64 {
        let sampling = self;
        // xorshift64*: the times need no better.
        sampling.random ^= sampling.random >> 12;
        sampling.random ^= sampling.random << 25;
        sampling.random ^= sampling.random >> 27;
        let random = sampling.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        let wait = (u128::from(interval) * 2 * u128::from(random)) >> 32;
        u64::try_from(wait).unwrap_or(interval)
    }
}

impl Shared {
    /// Divides granules whose majority is not clear; true when there was one.
    fn divide(&self, sampling: &mut Sampling) -> bool {
        let table = self.placed.table();
        let per_granule = 1usize << (table.granule_shift - table.page_shift);
        let room = MOST_GRANULES.saturating_sub(table.is_fine.len()) / per_granule;
        let divided = table.divide(room.saturating_sub(sampling.fine));
        sampling.fine += divided;
        divided > 0
    }

    /// Whether memory that no window has seen is waited for.
    fn waits(&self, parameters: &TrapParameters) -> bool {
        // ORDERING: Relaxed, both - numbers.
        let (windows, divided) = (self.windows.load(Relaxed), self.divided.load(Relaxed));
        windows.saturating_sub(divided) < parameters.enough.saturating_mul(PATIENCE)
    }

    /// Whether enough was sampled to decide by, after so many windows that were used.
    pub(super) fn is_enough(&self, parameters: &TrapParameters, used: u64) -> bool {
        // ORDERING: Relaxed - a number.
        let windows = self.windows.load(Relaxed);
        if windows >= parameters.windows {
            return true;
        }
        let survey = self.placed.table().survey(self.waits(parameters));
        survey.undecided == 0
            || windows.saturating_sub(used) >= parameters.enough
                && survey.undecided * UNDECIDED <= survey.used
    }
}

/// Starts the thread that begins windows; `None` where the system refuses it.
pub(super) fn begin(shared: Arc<Shared>, parameters: TrapParameters) -> Option<JoinHandle<()>> {
    let tick = move || {
        run_anywhere();
        // ORDERING: Acquire - pairs with the Release in `TrapSource::stop`; the lock decides the
        // rest.
        while !shared.stops.load(Acquire) {
            shared.look(&parameters);
            std::thread::park_timeout(Duration::from_nanos(shared.rest()));
        }
    };
    let thread = std::thread::Builder::new().name("nanos-upm".into());
    without_signals(|| thread.spawn(tick).ok())
}

/// The calling thread may run wherever a thread of the process may. Where that cannot be read or
/// set it stays where it is.
fn run_anywhere() {
    let Ok(threads) = platform::file::names("/proc/self/task") else { return };
    let ids = threads.iter().filter_map(|name| name.to_str()?.parse().ok()).map(Tid);
    let masks = ids.filter_map(|id| affinity(Some(id)).ok());
    if let Some(all) = masks.reduce(|all, mask| all.union(&mask)) {
        let _kept = set_affinity(None, &all);
    }
}

/// What is started meanwhile has every signal blocked: the program's signals are for the program's
/// threads.
fn without_signals<R>(start: impl FnOnce() -> R) -> R {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: - places for two sets, written before they are read.
    let is_blocked = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0
    };
    let started = start();
    if is_blocked {
        // SAFETY: - written above.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    }
    started
}
