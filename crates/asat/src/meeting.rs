//! The timed barrier: all threads of a team meet, and stamp the time when they come and go.
//!
//! # Protocol
//! 1. Each thread stamps its entry and waits until all have entered. The *passage* is the time from
//!    the first entry to the last leave: microseconds where each thread has a processor,
//!    milliseconds where one waits for its turn.
//! 2. In a *watch* ([`Plan::watch`]) the threads then stay together for longer than two turns of
//!    the scheduler and read the clock all the time. A gap in the readings of one of them is a time
//!    without a processor. This kernel lets a thread that was just woken run before a busy
//!    stranger, so that the barrier alone misses most of these.
//! 3. Each thread leaves the time of its last look where the others see it. With an early stop a
//!    thread that finds another one's look too old ends the meeting for all: a bad test costs
//!    little more than its threshold.
//!
//! The team is the engine's: no thread is made or ends. A thread that has not begun when the
//! meeting was stopped is not waited for, where the engine may take its part back.
//!
//! # Orderings
//! Relaxed throughout: numbers on their own, which are judged after the join of the region. The
//! count of entries publishes nothing.
//!
//! # Papers
//! P3 section 3. The watch and the early stop are ours.

use crate::calibration;
use crate::settings::BAD_TIME;
use engine::Member;
use engine::team::{Concurrency, Team};
use platform::clock::Ticks;
use platform::sync::CachePadded;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// How a meeting goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// A longer passage, or gap, is bad.
    pub bad_time: Duration,
    /// How long the threads stay together after the barrier.
    pub watch: Duration,
    /// It ends as soon as it is bad.
    pub early_stop: bool,
}

impl Plan {
    /// What the default version tests by: a watch that is long enough for this kernel, and ends as
    /// soon as it is bad. Cost: three system calls.
    #[must_use]
    pub fn of_this_kernel() -> Self {
        Self { bad_time: BAD_TIME, watch: calibration::watch(), early_stop: true }
    }
}

/// What a meeting found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// The time from the first entry to the last leave; in a watch the longest gap in any thread's
    /// time, or the time by which the last one left too late.
    pub time: Duration,
    /// Threads that had no processor for longer than the bad time.
    pub missing: usize,
    /// What the whole test took, with waking the team and the join.
    pub cost: Duration,
}

/// Threads of a watch may enter so late: they are being woken.
const LATE_ENTRY: Duration = Duration::from_millis(5);

/// Looks between two at the others.
const LOOKS_PER_ROUND: u32 = 16;

/// One thread's line.
#[derive(Debug, Default)]
struct Seat {
    /// 0: it has not entered.
    entry: AtomicU64,
    /// Its last look.
    beat: AtomicU64,
    /// The longest time between two of its looks, in ticks.
    gap: AtomicU64,
    leave: AtomicU64,
}

/// Where threads meet; kept, so that a test allocates nothing.
#[derive(Debug, Default)]
pub struct Meeting {
    seats: Vec<CachePadded<Seat>>,
    common: CachePadded<Common>,
}

#[derive(Debug, Default)]
struct Common {
    entered: AtomicUsize,
    size: AtomicUsize,
    first: AtomicU64,
    is_over: AtomicBool,
    /// In ticks: bad time, watch, and the latest entry.
    bad_time: AtomicU64,
    watch: AtomicU64,
    late_entry: AtomicU64,
    stops_early: AtomicBool,
}

impl Meeting {
    /// Room for `threads`; what there is stays.
    pub fn make_room(&mut self, threads: usize) {
        if threads > self.seats.len() {
            self.seats.resize_with(threads, CachePadded::default);
        }
    }

    /// Lets a team of `threads` meet, the caller among them; outside all regions. `None` where
    /// there is no room for them, or no such team.
    pub fn hold(&mut self, threads: usize, plan: &Plan) -> Option<Passage> {
        if threads > self.seats.len() {
            return None;
        }
        let begin = Ticks::now();
        self.prepare(threads, plan);
        let team = Team::reserve_available(threads);
        if team.size() != threads {
            return None;
        }
        // Only a thread that stopped early can leave the others' parts to the engine: it is done
        // with its own before they begin.
        let concurrency =
            if plan.early_stop { Concurrency::Offered } else { Concurrency::Promised };
        // SAFETY: - `attend` takes a `Meeting`, may run on many threads at once, and does not
        //           unwind.
        //         - its parts wait for each other until the meeting is over: those that the caller
        //           runs for others come after its own, when it is.
        unsafe { team.run_in(concurrency, attend, std::ptr::from_ref(&*self).cast()) };
        Some(Passage { cost: begin.elapsed(), ..self.judge(plan) })
    }

    fn prepare(&mut self, threads: usize, plan: &Plan) {
        let ticks =
            |time: Duration| Ticks::from_us(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        // A barrier alone knows no other limit; a bad one may then last as long as it likes.
        let is_watch = !plan.watch.is_zero();
        self.common = CachePadded::new(Common {
            entered: AtomicUsize::new(0),
            size: AtomicUsize::new(threads),
            first: AtomicU64::new(u64::MAX),
            is_over: AtomicBool::new(false),
            bad_time: AtomicU64::new(ticks(plan.bad_time)),
            watch: AtomicU64::new(ticks(plan.watch)),
            late_entry: AtomicU64::new(ticks(if is_watch {
                LATE_ENTRY.max(plan.bad_time)
            } else {
                plan.bad_time
            })),
            stops_early: AtomicBool::new(plan.early_stop),
        });
        for seat in &mut self.seats {
            **seat = Seat::default();
        }
    }

    fn is_over(&self) -> bool {
        self.common.is_over.load(Relaxed)
    }

    /// The part of thread `id`.
    fn attend(&self, id: usize) {
        let common = &self.common;
        if self.is_over() {
            return;
        }
        let own = &self.seats[id];
        let entry = Ticks::now().raw();
        // ORDERING: Relaxed, here and below - see the module head.
        own.beat.store(entry, Relaxed);
        own.entry.store(entry, Relaxed);
        common.first.fetch_min(entry, Relaxed);
        common.entered.fetch_add(1, Relaxed);
        let size = common.size.load(Relaxed);
        let mut look = Look { own, last: entry, gap: 0, looks: 0 };
        let late_entry = common.late_entry.load(Relaxed);
        let mut now = entry;
        while common.entered.load(Relaxed) < size && !self.is_over() {
            now = look.at_clock();
            if common.stops_early.load(Relaxed)
                && now.saturating_sub(common.first.load(Relaxed)) > late_entry
            {
                common.is_over.store(true, Relaxed);
            }
        }
        let watch = common.watch.load(Relaxed);
        if watch > 0 {
            // What was missed before all had come is no gap: a thread was being woken.
            look.gap = 0;
            let end = now.max(own.beat.load(Relaxed)).saturating_add(watch);
            while now < end && !self.is_over() {
                now = look.at_clock();
                if look.looks.is_multiple_of(LOOKS_PER_ROUND)
                    && common.stops_early.load(Relaxed)
                    && (look.gap > common.bad_time.load(Relaxed) || self.misses_one(size, now, end))
                {
                    common.is_over.store(true, Relaxed);
                }
            }
        }
        own.gap.store(look.gap, Relaxed);
        own.leave.store(Ticks::now().raw(), Relaxed);
    }

    /// True when a thread that should be here has not looked for too long.
    fn misses_one(&self, size: usize, now: u64, end: u64) -> bool {
        let bad = self.common.bad_time.load(Relaxed);
        self.seats[..size].iter().any(|seat| {
            seat.leave.load(Relaxed) == 0
                && now < end
                && now.saturating_sub(seat.beat.load(Relaxed)) > bad
        })
    }

    /// What was found, after the join.
    fn judge(&self, plan: &Plan) -> Passage {
        let common = &self.common;
        let seats = &self.seats[..common.size.load(Relaxed)];
        let first = common.first.load(Relaxed);
        let bad = common.bad_time.load(Relaxed);
        let leaves = seats.iter().map(|seat| seat.leave.load(Relaxed)).filter(|leave| *leave > 0);
        let (last, soonest) = leaves.fold((first, u64::MAX), |(last, soonest), leave| {
            (last.max(leave), soonest.min(leave))
        });
        let absent = seats.iter().filter(|seat| seat.entry.load(Relaxed) == 0).count();
        let is_watch = !plan.watch.is_zero();
        // A thread is late by what it took longer than the others, by its gap, or by its entry.
        let late_by = |seat: &Seat| {
            let entry = seat.entry.load(Relaxed);
            if is_watch {
                let leave = seat.leave.load(Relaxed).saturating_sub(soonest);
                seat.gap.load(Relaxed).max(leave)
            } else {
                let leave = seat.leave.load(Relaxed).saturating_sub(soonest);
                entry.saturating_sub(first).max(leave)
            }
        };
        let late = seats.iter().filter(|seat| late_by(seat) > bad).count();
        let longest = seats.iter().map(|seat| late_by(seat)).max().unwrap_or(0);
        let mut ticks = if is_watch { longest } else { last.saturating_sub(first) };
        if absent > 0 {
            ticks = ticks.max(bad.saturating_add(1));
        }
        let missing = match (absent + late, ticks > bad) {
            (_, false) => 0,
            (none, true) => none.max(1),
        };
        Passage { time: Ticks::duration(ticks), missing, cost: Duration::ZERO }
    }
}

/// A thread's looks at the clock.
struct Look<'a> {
    own: &'a Seat,
    last: u64,
    gap: u64,
    looks: u32,
}

impl Look<'_> {
    fn at_clock(&mut self) -> u64 {
        platform::sync::pause();
        let now = Ticks::now().raw();
        self.gap = self.gap.max(now.saturating_sub(self.last));
        self.last = now;
        self.looks = self.looks.wrapping_add(1);
        self.own.beat.store(now, Relaxed);
        now
    }
}

/// # Safety
/// - `data` points to a live [`Meeting`] with a seat for each member.
unsafe fn attend(data: *const (), member: Member) {
    // SAFETY: - caller's contract.
    let meeting = unsafe { &*data.cast::<Meeting>() };
    meeting.attend(member.id as usize);
}
