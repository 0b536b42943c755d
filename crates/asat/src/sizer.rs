//! The source of team sizes: when it evaluates, by what evidence, and what follows.
//!
//! # Protocol
//! 1. The engine calls [`TeamSizer::between_regions`] before a fork of an outermost master, once in
//!    at most 16 forks and at least every few milliseconds of forks. Where no evaluation is due the
//!    call reads the tick counter and compares.
//! 2. One master at a time evaluates; another one that comes meanwhile forks.
//! 3. The evidence goes to the [`Course`], and the number of threads of its controller is the limit
//!    from the next fork on.
//!
//! Tests, which keep the team busy, are held by a master that is the only one, with workers that it
//! has already; their cost is bounded ([`Budget`]). Where there are other masters, whose regions
//! would make each test bad, or a worker is missing, a thread is added without a test: the next
//! evaluation judges it.
//!
//! A dip that fails costs a few milliseconds: the [`Course`] says when one is due.
//!
//! # Papers
//! P3. What is added beside it is told at each option of [`Settings`].

use crate::controller::{Controller, Step, Verdict};
use crate::course::{Attempt, Course};
use crate::meeting::{Meeting, Passage, Plan};
use crate::settings::{Evidence, Settings};
use crate::statistics::Statistics;
use crate::timetable::{Budget, Pulse, nanoseconds};
use crate::witness::{Roster, Witness};
use engine::process::Born;
use engine::sizer::Moment;
use engine::{MaskAndQuota, TeamSizer};
use platform::affinity::Tid;
use platform::clock::{Ticks, monotonic_ns};
use platform::load;
use platform::lock::Mutex;
use std::ptr;
use std::sync::atomic::{
    AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::Duration;

/// A team whose size follows what the machine can run. On lines of its own: threads that fork or
/// wait read it.
#[derive(Debug)]
#[repr(align(128))]
pub struct Asat {
    limit: AtomicUsize,
    /// Ticks before which no evaluation is due.
    due: AtomicU64,
    available: MaskAndQuota,
    settings: Settings,
    /// How its tests go.
    plan: Plan,
    roster: Roster,
    judge: Arc<Mutex<Judge>>,
}

impl Asat {
    /// Begins with as many threads as mask, quota and `settings` allow.
    pub fn new(settings: Settings) -> Self {
        let available = MaskAndQuota::of_program();
        let most = most(&settings, &available);
        let now = monotonic_ns();
        let seed = settings.jitter.seed(now);
        let mut pulse = Pulse::new(nanoseconds(settings.interval), seed);
        let first = pulse.next();
        let mut meeting = Meeting::default();
        meeting.make_room(most);
        let controller = Controller::new(settings.rules, most, most);
        let course = match settings.evidence {
            Evidence::Passive => {
                Course::paced(controller, now, seed.map(|seed| seed.wrapping_add(1)))
            }
            Evidence::Barrier | Evidence::Watch => Course::published(controller),
        };
        let judge = Judge {
            course,
            pulse,
            budget: Budget::new(now),
            witness: Witness::new(now, engine::absences()),
            meeting,
            statistics: Statistics { threads: most, most, ..Statistics::default() },
        };
        let plan = plan(&settings);
        Self {
            limit: AtomicUsize::new(most),
            due: AtomicU64::new(Ticks::now().raw().saturating_add(ticks(first))),
            available,
            settings,
            plan,
            roster: Roster::new(),
            judge: Arc::new(Mutex::new(judge)),
        }
    }

    /// True when an evaluation is due. Cost: a reading of the tick counter.
    #[inline]
    pub fn is_due(&self) -> bool {
        // ORDERING: Acquire - pairs with the Release of `between_regions`, though the lock orders
        // what follows.
        Ticks::now().raw() >= self.due.load(Acquire)
    }

    /// What it does can be read from any thread ([`Observer::last`]) from now on.
    pub(crate) fn publish(&self) {
        // Leaked: a sizer or two for each process, and any thread may read it at any time.
        let observer = Observer { judge: Arc::clone(&self.judge), born: Born::now() };
        let observer = Box::into_raw(Box::new(observer));
        // ORDERING: Release - pairs with the Acquire of `Observer::last`.
        LAST.store(observer, Release);
    }

    /// The most threads that the program may have now.
    pub(crate) fn most(&self) -> usize {
        most(&self.settings, &self.available)
    }

    /// An evaluation, by a master that has nothing else to do now. True when the limit changed.
    fn evaluate(&self, judge: &mut Judge, moment: &Moment) -> bool {
        let most = self.most();
        let had_others = most != judge.course.controller().most();
        if had_others {
            judge.course.set_most(most);
            judge.meeting.make_room(most);
        }
        let before = judge.threads();
        // What threads waited for on other processors than they may use now says nothing of these.
        let is_of_now = !had_others || self.settings.evidence != Evidence::Passive;
        match judge.verdict(self, moment).filter(|_| is_of_now) {
            Some(verdict) => judge.follow(self, verdict, moment),
            None => judge.statistics.blind += 1,
        }
        let threads = judge.threads();
        (judge.statistics.threads, judge.statistics.most) = (threads, most);
        // ORDERING: Relaxed - a number on its own.
        self.limit.store(threads, Relaxed);
        threads != before
    }
}

/// What reads the statistics of a sizer that the engine owns.
#[derive(Debug)]
pub(crate) struct Observer {
    judge: Arc<Mutex<Judge>>,
    born: Born,
}

/// Of the sizer that was published last in this process.
static LAST: AtomicPtr<Observer> = AtomicPtr::new(ptr::null_mut());

impl Observer {
    /// That of the sizer that was published last. Not the parent's in a forked child: a thread that
    /// the child does not have may have its lock.
    pub(crate) fn last() -> Option<&'static Self> {
        // ORDERING: Acquire - pairs with the Release of `Asat::publish`.
        // SAFETY: - null, or leaked there.
        let last = unsafe { LAST.load(Acquire).as_ref() };
        last.filter(|observer| !observer.born.is_parents())
    }

    pub(crate) fn statistics(&self) -> Statistics {
        // Nothing of it is half done where a thread panicked.
        self.judge.lock().unwrap_or_else(PoisonError::into_inner).statistics
    }
}

impl TeamSizer for Asat {
    #[inline]
    fn limit(&self) -> usize {
        // ORDERING: Relaxed - a number on its own.
        self.limit.load(Relaxed)
    }

    fn room(&self) -> usize {
        self.available.limit()
    }

    fn enlist(&self, index: usize, tid: Tid) {
        self.roster.enlist(index, tid);
    }

    fn refresh(&self) {
        self.available.refresh();
        // A mask that became smaller counts at once; what the controller makes of it comes with the
        // next evaluation.
        // ORDERING: Relaxed - as above.
        self.limit.fetch_min(self.most(), Relaxed);
    }

    fn between_regions(&self, moment: &Moment) {
        if !self.is_due() {
            return;
        }
        let mut judge = match self.judge.try_lock() {
            Ok(judge) => judge,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        self.evaluate(&mut judge, moment);
        let next = ticks(judge.pulse.next());
        // ORDERING: Release - see above.
        self.due.store(Ticks::now().raw().saturating_add(next), Release);
    }

    /// Its workers are the parent's.
    fn survives_fork(&self) -> bool {
        false
    }
}

/// What evaluations go by.
#[derive(Debug)]
struct Judge {
    course: Course,
    pulse: Pulse,
    budget: Budget,
    witness: Witness,
    meeting: Meeting,
    statistics: Statistics,
}

impl Judge {
    /// That the program has now.
    fn threads(&self) -> usize {
        self.course.controller().threads()
    }

    /// What is seen of the threads that there are; `None`: nothing.
    fn verdict(&mut self, asat: &Asat, moment: &Moment) -> Option<Verdict> {
        let threads = self.threads();
        match asat.settings.evidence {
            Evidence::Barrier | Evidence::Watch if threads == 1 => Some(Verdict::Good),
            Evidence::Barrier | Evidence::Watch => self.test(threads, &asat.plan, moment),
            Evidence::Passive => {
                let now = monotonic_ns();
                let team = (moment.master, threads);
                let sample = self.witness.look(&asat.roster, team, now, engine::absences());
                match sample.verdict(|| has_room(asat, threads, moment)) {
                    // No number at all: the kernel does not count. A team that only slept needs no
                    // test.
                    None if sample.shares.is_empty() && threads > 1 => {
                        self.test(threads, &asat.plan, moment)
                    }
                    verdict => verdict,
                }
            }
        }
    }

    /// Does what follows from `verdict`.
    fn follow(&mut self, asat: &Asat, verdict: Verdict, moment: &Moment) {
        self.statistics.evaluations += 1;
        self.statistics.bad += u64::from(verdict != Verdict::Good);
        self.statistics.doubtful += u64::from(matches!(verdict, Verdict::Doubtful { .. }));
        match self.course.evaluate(verdict, monotonic_ns()) {
            Step::Stay => {}
            Step::Drop(fewer) => self.statistics.dropped += fewer as u64,
            Step::Dip(threads) => self.dip(asat, threads, moment),
        }
    }

    /// A test with one thread more, if it is time for one.
    fn dip(&mut self, asat: &Asat, threads: usize, moment: &Moment) {
        let now = monotonic_ns();
        let has_room = self.course.believes(now) && has_room(asat, threads, moment);
        if !self.course.is_due(has_room, now) {
            return;
        }
        let attempt = if can_test(threads, moment) {
            match self.test(threads, &asat.plan, moment) {
                Some(verdict) => {
                    self.statistics.dips += 1;
                    self.statistics.bad_dips += u64::from(verdict != Verdict::Good);
                    Attempt::Tested(verdict)
                }
                None => Attempt::TooDear,
            }
        } else {
            Attempt::Untestable
        };
        self.statistics.added += u64::from(self.course.attempted(attempt, now));
    }

    /// Keeps a team of `threads` busy for a moment; `None` where that cannot be, or has cost
    /// enough.
    fn test(&mut self, threads: usize, plan: &Plan, moment: &Moment) -> Option<Verdict> {
        let most = plan.watch.saturating_add(plan.bad_time);
        if !can_test(threads, moment) || !self.budget.allows(monotonic_ns(), nanoseconds(most)) {
            return None;
        }
        let passage = self.meeting.hold(threads, plan)?;
        let Passage { time, missing, cost } = passage;
        self.budget.spend(nanoseconds(cost));
        let statistics = &mut self.statistics;
        statistics.tests += 1;
        statistics.tested += cost;
        statistics.longest = statistics.longest.max(time);
        Some(verdict_of(missing))
    }
}

/// How tests go by `settings` on this kernel.
fn plan(settings: &Settings) -> Plan {
    let &Settings { bad_time, early_stop, evidence, .. } = settings;
    let watch = match evidence {
        Evidence::Barrier => Duration::ZERO,
        Evidence::Passive | Evidence::Watch => Plan::of_this_kernel().watch,
    };
    Plan { bad_time, watch, early_stop }
}

/// True when the machine runs so few threads that `threads` of the program have processors.
fn has_room(asat: &Asat, threads: usize, moment: &Moment) -> bool {
    load::runnable().is_some_and(|all| {
        let others = (all as usize).saturating_sub(moment.awake);
        others + threads <= asat.available.limit()
    })
}

/// True when the calling master may keep a team of `threads` busy: it has the workers, and no other
/// master's regions are in the way.
fn can_test(threads: usize, moment: &Moment) -> bool {
    moment.masters <= 1 && threads <= moment.workers + 1
}

fn verdict_of(missing: usize) -> Verdict {
    if missing == 0 { Verdict::Good } else { Verdict::Bad { missing } }
}

/// The most threads that a team may have now.
fn most(settings: &Settings, available: &MaskAndQuota) -> usize {
    available.limit().min(settings.most.unwrap_or(usize::MAX)).max(1)
}

/// Nanoseconds in ticks.
fn ticks(ns: u64) -> u64 {
    Ticks::from_us(ns / 1000)
}
