//! How long a thread spins before it sleeps, in time, never in iterations.
//!
//! # Rules (../../docs/papers.md: D5, D7, D15, D16)
//! | situation | spins for |
//! |---|---|
//! | more threads than the program has processors now (nested teams and other masters' counted), or than there are where the program said how many threads it wants | not at all: hands over at once, for [`SHORT`] where no thread takes it, then sleeps |
//! | manager says that no other program wants a processor | [`HOT`]: the team of a dedicated machine stays hot |
//! | manager, processors are wanted elsewhere | [`SHORT`]; not at all while the thread that it waits for was lately ready on its own processor (`beside`) |
//! | no manager | between [`SHORTEST`](crate::waits::waiter::SHORTEST) and [`LONG`](crate::waits::waiter::LONG), as it paid lately (below) |
//! | no manager, and others were seen on our processors ([`Load`](crate::contention::Load)) | the same, at most [`SHORT`]; not at all as in the row above |
//! | no manager, no others were seen, `Waiting::Hot`, and there were never more threads than processors (else one that is hot may keep an inner team's thread from its processor) | [`HOT`] |
//! | `Waiting::Active` | for ever, unless the team is too large; a thread that has no work at all: [`SHORT`] where the manager says that processors are wanted elsewhere |
//! | `Waiting::Passive` | not at all |
//!
//! The situation is looked at again while spinning, so that a lost processor ends the spinning at
//! once.
//!
//! # Handing over
//! A thread that waits for another one on the same processor keeps just that one from coming. A
//! team larger than its processors hands over at once, by a yield, and where other processes get
//! what it yields by a sleep ([`LateYields`](crate::contention::LateYields)). Elsewhere a wait that
//! lasts longer than [`SHORT`], or would sleep, first looks around: a master asks where its late
//! member is ([`Stragglers`](crate::contention::Stragglers)), and where both share a processor the
//! master offers it by `sched_yield` and then sleeps, instead of spinning through the member's time
//! (M5, M14).
//!
//! A thread that waits in a barrier, a `join` or for nano-threads looks likewise (`beside`). It
//! asks, as far as it knows which thread it waits for, whether that thread is ready on the waiter's
//! own processor: the member that is awaited next, the master that is to let it go, the thief of
//! its half, the first few members of its scope. Such a look is due once in a millisecond: a thread
//! that just had one asks again, as long as it waits. No absence is noted there. Where the thread
//! was found on the waiter's processor, and others run on the program's processors, the next waits
//! until the next look sleep at once: the kernel leaves such threads together for many
//! milliseconds, and each wait would spin for [`SHORT`] or longer before it lets the other one
//! come. Without others they spin: a processor that is idle takes one of two threads that are
//! ready, and none of two that take turns by sleeping. In an overlap a worker, which waits for its
//! master, spins as the table says, and so does a member of a join that has nothing to do.
//!
//! # Learning
//! Each thread doubles its limit after a wait that spinning for
//! [`LONG`](crate::waits::waiter::LONG) would have covered, whether it slept in it or not, and
//! halves it after a longer one. On a quiet machine waits are short and threads stay awake; beside
//! other programs a partner that lost its processor is away for milliseconds, and after a few such
//! waits no thread spins for it.

use crate::contention::HOLE;
use crate::manager::Managed;
use crate::manager::source::{self, source};
use crate::program::config::Waiting;
use crate::program::program;
use crate::protocols::wait_point::{Look, SHORT, WaitPoint};
use crate::sizer::Lease;
use crate::waits::waiter::Waiter;
use crate::workers::pool::pool;
use platform::affinity::{Tid, current_cpu};
use platform::clock::Ticks;
use std::thread;

/// Microseconds of spinning in a team that no other program disturbs: serial parts of a millisecond
/// are many, and each sleep after one costs the next region a wake-up.
pub const HOT: u64 = 2000;

/// Looks of [`holds_soon`].
const FIRST_LOOKS: usize = 16;
/// Looks between two readings of the clock.
const LOOKS_PER_READING: u32 = 32;
/// The fewest times that a thread of an oversubscribed team hands its processor over before it
/// sleeps: each may be for a time slice.
const HAND_OVERS: u32 = 3;

/// True when one of `threads` threads may spin for a moment.
pub fn may_spin(threads: u32) -> bool {
    !is_oversubscribed(threads) && program().config().waiting != Waiting::Passive
}

/// Waits for about as long as a cache line needs to come, where spinning is allowed at all: true
/// when `look` came to hold. Nothing is set up for it and nothing has to be cleared away after it,
/// which a short wait would feel.
#[inline]
pub(crate) fn holds_soon(threads: u32, mut look: impl FnMut() -> bool) -> bool {
    may_spin(threads)
        && (0..FIRST_LOOKS).any(|_| {
            platform::sync::pause();
            look()
        })
}

/// What a thread finds that waits for any of `awaited`: one that waits for the caller's own
/// processor gets it. Cost: some 5 us for each of a few threads, once in a millisecond.
#[cold]
pub fn beside(
    waiter: &impl AsRef<Waiter>,
    threads: u32,
    awaited: impl Iterator<Item = Tid>,
) -> SpinAdvice {
    if is_oversubscribed(threads) {
        // They take turns anyway.
        return SpinAdvice::Spin;
    }
    match waiter.as_ref().stragglers().any_waits_for(current_cpu(), awaited) {
        Some(true) => {
            if source::managed_already().is_none() {
                program().load().note_if_full();
            }
            SpinAdvice::HandOver
        }
        Some(false) => SpinAdvice::Spin,
        None => SpinAdvice::Later,
    }
}

/// True when `threads` threads are more than the program has processors now.
pub(crate) fn is_oversubscribed(threads: u32) -> bool {
    !source::has_room_for(threads as usize)
}

/// What a waiting thread found when it looked around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpinAdvice {
    /// Nothing that speaks against spinning, as far as the rules allow it.
    Spin,
    /// It keeps a processor from the thread that it waits for.
    HandOver,
    /// It did not look, because it had just looked: it may ask again.
    Later,
}

impl From<()> for SpinAdvice {
    fn from((): ()) -> Self {
        SpinAdvice::Spin
    }
}

/// For what a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// For the others of a region that it is in.
    Inside,
    /// For work: it is idle, and has a processor to give back (D7).
    Idle,
}

/// Microseconds that one of `threads` threads may spin now.
pub(crate) fn limit(waiter: &Waiter, threads: u32, wait: Wait) -> u64 {
    if is_oversubscribed(threads) {
        return 0;
    }
    let has_processor_for_each = || {
        // All threads that the engine has ever started, and the outermost masters.
        let (program, created) = (program(), pool().created());
        created + program.masters().count().max(1) <= program.processors()
    };
    allowed(
        program().config().waiting,
        wait,
        || source().lease(),
        &Knowledge {
            is_load_seen: || program().load().is_seen(),
            is_beside: || wait == Wait::Inside && waiter.stragglers().is_beside(),
            has_processor_for_each,
            learnt: waiter.limit(),
        },
    )
}

/// What a thread knows by itself. What it has seen of other programs is asked for only where there
/// is no manager to say whether they want its processor.
struct Knowledge<L, B, P> {
    /// Others were seen on the program's processors.
    is_load_seen: L,
    /// The thread that it waits for was lately ready on its own processor.
    is_beside: B,
    /// There were never more threads than processors.
    has_processor_for_each: P,
    /// Microseconds by which spinning paid lately.
    learnt: u64,
}

/// The table of the module head for a thread that has a processor: microseconds.
fn allowed(
    waiting: Waiting,
    wait: Wait,
    lease: impl Fn() -> Lease,
    known: &Knowledge<impl Fn() -> bool, impl Fn() -> bool, impl Fn() -> bool>,
) -> u64 {
    match waiting {
        // A thread that is to stay hot does not keep what it has no use for from others.
        Waiting::Active if wait == Wait::Idle && lease() == Lease::Wanted => SHORT,
        Waiting::Active => u64::MAX,
        Waiting::Passive => 0,
        Waiting::Auto | Waiting::Hot => match lease() {
            Lease::Dedicated => HOT,
            Lease::Wanted if (known.is_beside)() => 0,
            Lease::Wanted => SHORT,
            Lease::Unmanaged if (known.is_load_seen)() => {
                if (known.is_beside)() {
                    0
                } else {
                    known.learnt.min(SHORT)
                }
            }
            Lease::Unmanaged if waiting == Waiting::Hot && (known.has_processor_for_each)() => HOT,
            Lease::Unmanaged => known.learnt,
        },
    }
}

/// Waits at `point` until `look` says `Ready`: [`wait_by`] its [`WaitPoint::sleep_until`].
pub fn wait<A: Into<SpinAdvice>>(
    point: &WaitPoint,
    waiter: &impl AsRef<Waiter>,
    threads: u32,
    linger: impl FnMut() -> A,
    look: impl FnMut() -> Look,
) {
    let sleep = |look| point.sleep_until(look);
    wait_by(sleep, waiter.as_ref(), (threads, Wait::Inside), linger, look);
}

/// Waits until `look` says `Ready`, as one of `threads` threads: spins as the rules allow, calling
/// `linger` once when that takes longer than [`SHORT`], or before it sleeps, and again while it
/// says `Later`; then calls `sleep` with it, which sleeps until it does.
pub(crate) fn wait_by<A: Into<SpinAdvice>, L: FnMut() -> Look>(
    sleep: impl FnOnce(L),
    waiter: &Waiter,
    (threads, wait): (u32, Wait),
    linger: impl FnMut() -> A,
    mut look: L,
) {
    if is_oversubscribed(threads) {
        // Not one look more: the thread that this one waits for most likely comes after it in the
        // kernel's queue (D15).
        if look() != Look::Ready {
            if wait == Wait::Inside {
                waiter.note_turn(threads);
            }
            wait_in_turn(sleep, waiter, linger, look);
        }
        return;
    }
    let mut spell = Spell::default();
    match spell.spin(waiter, (threads, wait), linger, &mut look) {
        Spun::Ready => {}
        // How long others kept the processor says nothing about how long to spin.
        Spun::ReadyAfterOthers(spun) => return waiter.counters().waited(spun),
        Spun::Pending => {
            waiter.counters().parked();
            sleep(look);
        }
    }
    if let Some(begin) = spell.started {
        let waited = begin.elapsed_ticks();
        if spell.was_beside {
            // The other one came because this one slept: spinning would have covered nothing.
            waiter.counters().waited(waited);
        } else {
            waiter.waited(waited);
        }
    }
}

/// The wait of a thread of an oversubscribed team: it hands its processor over, or sleeps at once
/// where other processes would get it. How long others kept the processor says nothing about how
/// long to spin where there is one for each.
fn wait_in_turn<A: Into<SpinAdvice>, L: FnMut() -> Look>(
    sleep: impl FnOnce(L),
    waiter: &Waiter,
    mut linger: impl FnMut() -> A,
    mut look: L,
) {
    waiter.safe_point();
    if yields_go_to_others(waiter) {
        let begin = Ticks::now();
        source().refresh();
        waiter.counters().parked();
        sleep(look);
        return waiter.counters().waited(begin.elapsed_ticks());
    }
    let late_yields = waiter.late_yields();
    let timing = late_yields.begin();
    let was_moved = waiter.hand_over();
    let seen = look();
    if seen == Look::Ready {
        return waiter.counters().waited(late_yields.end_unless(was_moved, timing));
    }
    let (timing, begin) = timing.of_longer();
    let is_ready = go_on_handing_over(SHORT, seen, &mut look);
    late_yields.end_unless(was_moved, timing);
    if !is_ready {
        let _: SpinAdvice = linger().into();
        waiter.counters().parked();
        sleep(look);
    }
    waiter.counters().waited(begin.elapsed_ticks());
}

/// One wait of a thread that has a processor to spin on.
#[derive(Debug, Default)]
struct Spell {
    /// First reading of the clock since the last progress.
    started: Option<Ticks>,
    last_reading: Option<Ticks>,
    /// It has looked around.
    lingered: bool,
    /// It does not spin, since the thread that it waits for was ready on its processor.
    was_beside: bool,
}

/// How spinning ended.
#[derive(Debug)]
enum Spun {
    /// The condition came to hold.
    Ready,
    /// It came to hold after the processor was handed over, and after these ticks of spinning.
    ReadyAfterOthers(u64),
    /// It does not hold, and the thread is to sleep.
    Pending,
}

impl Spell {
    /// Spins as long as the rules allow it. Between two readings of the clock: a look, a pause, and
    /// a count.
    #[inline(always)]
    fn spin<A: Into<SpinAdvice>>(
        &mut self,
        waiter: &Waiter,
        (threads, wait): (u32, Wait),
        mut linger: impl FnMut() -> A,
        look: &mut impl FnMut() -> Look,
    ) -> Spun {
        let mut looks = 0_u32;
        loop {
            match look() {
                Look::Ready => return Spun::Ready,
                Look::Progress => (self.started, self.last_reading) = (None, None),
                Look::Pending => {}
            }
            platform::sync::pause();
            looks = looks.wrapping_add(1);
            if !looks.is_multiple_of(LOOKS_PER_READING) {
                continue;
            }
            waiter.safe_point();
            let spun = self.read_clock();
            let allowed = limit(waiter, threads, wait);
            self.was_beside = allowed == 0 && waiter.stragglers().is_beside();
            let is_over = spun >= Ticks::about_us(allowed);
            let gives_way =
                (is_over || spun > Ticks::about_us(SHORT)) && self.gives_way(&mut linger);
            if gives_way {
                waiter.counters().handed_over();
                waiter.stragglers().note_beside();
            }
            // Where that is known it sleeps: a stranger on the processor would get what it yields.
            if (allowed == 0 || gives_way) && !self.was_beside && hand_over(0, look) {
                return Spun::ReadyAfterOthers(spun);
            }
            if is_over || gives_way {
                return Spun::Pending;
            }
        }
    }

    /// Ticks since the first reading. A hole since the last one is evidence of others on this
    /// processor.
    fn read_clock(&mut self) -> u64 {
        let now = Ticks::now();
        if let Some(last) = self.last_reading.replace(now)
            && now.since(last) > Ticks::about_us(HOLE)
        {
            program().load().note();
        }
        now.since(*self.started.get_or_insert(now))
    }

    /// Looks around, once: true when the thread keeps the processor from the one that it waits for.
    fn gives_way<A: Into<SpinAdvice>>(&mut self, mut linger: impl FnMut() -> A) -> bool {
        if self.lingered {
            return false;
        }
        let advice = linger().into();
        // Else a thread that is to stay awake would keep the processor for as long as this wait
        // takes.
        self.lingered = advice != SpinAdvice::Later;
        advice == SpinAdvice::HandOver
    }
}

/// True where a thread other than the one that this thread waits for gets what it yields. Programs
/// that a manager lets take turns yield to each other.
#[inline]
fn yields_go_to_others(waiter: &Waiter) -> bool {
    waiter.late_yields().take_turns()
        && !source::managed_already().is_some_and(Managed::takes_turns)
}

/// Hands the processor over to any thread that wants it: in an oversubscribed team most likely
/// the sibling that this thread waits for, and a yield costs less than a sleep. Where no thread
/// takes it a yield returns at once, and this goes on for `us` microseconds. True when the
/// condition came to hold.
fn hand_over(us: u64, look: &mut impl FnMut() -> Look) -> bool {
    thread::yield_now();
    let seen = look();
    seen == Look::Ready || go_on_handing_over(us, seen, look)
}

/// [`hand_over`] after its first yield, after which the last look brought `seen`.
#[cold]
#[inline(never)]
fn go_on_handing_over(us: u64, mut seen: Look, look: &mut impl FnMut() -> Look) -> bool {
    let mut begin = None;
    let mut yields = 0;
    loop {
        match seen {
            Look::Ready => return true,
            Look::Progress => (yields, begin) = (0, None),
            Look::Pending => yields += 1,
        }
        if yields >= HAND_OVERS {
            let now = Ticks::now();
            if now.since(*begin.get_or_insert(now)) >= Ticks::about_us(us) {
                return false;
            }
        }
        thread::yield_now();
        seen = look();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::waits::waiter::{LONG, SHORTEST};

    const WAITINGS: [Waiting; 4] = [Waiting::Auto, Waiting::Hot, Waiting::Active, Waiting::Passive];
    const LEASES: [Lease; 3] = [Lease::Dedicated, Lease::Wanted, Lease::Unmanaged];

    /// How long such a waiter may spin, with others seen or not, the awaited thread beside it or
    /// not, having learnt `learnt`.
    fn limit_of(
        waiting: Waiting,
        wait: Wait,
        lease: Lease,
        [is_load_seen, is_beside, has_room]: [bool; 3],
        learnt: u64,
    ) -> u64 {
        let known = Knowledge {
            is_load_seen: || is_load_seen,
            is_beside: || is_beside,
            has_processor_for_each: || has_room,
            learnt,
        };
        allowed(waiting, wait, || lease, &known)
    }

    /// The rules of D7, D15 and D16 once more, in the words of the documents: what is allowed in
    /// each of the 576 situations.
    #[test]
    fn each_situation_has_the_limit_that_the_table_says() {
        for (waiting, lease) in
            WAITINGS.into_iter().flat_map(|waiting| LEASES.map(|lease| (waiting, lease)))
        {
            for (wait, seen) in [Wait::Inside, Wait::Idle]
                .into_iter()
                .flat_map(|wait| [true, false].map(|seen| (wait, seen)))
            {
                for ((room, beside), learnt) in
                    [(true, true), (true, false), (false, true), (false, false)]
                        .into_iter()
                        .flat_map(|case| [SHORTEST, SHORT + 30, LONG].map(|learnt| (case, learnt)))
                {
                    let is_managed = lease != Lease::Unmanaged;
                    let expected = if waiting == Waiting::Passive {
                        0
                    } else if waiting == Waiting::Active {
                        let gives_back = wait == Wait::Idle && lease == Lease::Wanted;
                        if gives_back { 50 } else { u64::MAX }
                    } else if lease == Lease::Dedicated {
                        2000
                    } else if beside && (is_managed || seen) {
                        0
                    } else if is_managed {
                        50
                    } else if seen {
                        // As it paid, at most 50.
                        if learnt < 50 { learnt } else { 50 }
                    } else if waiting == Waiting::Hot && room {
                        2000
                    } else {
                        learnt
                    };
                    let found = limit_of(waiting, wait, lease, [seen, beside, room], learnt);
                    assert_eq!(
                        found, expected,
                        "{waiting:?} {wait:?} {lease:?}, seen: {seen}, beside: {beside}, \
                         room: {room}, {learnt}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_manager_s_word_needs_no_evidence() {
        let known = Knowledge {
            is_load_seen: || -> bool { panic!("evidence is not asked for under a manager") },
            is_beside: || false,
            has_processor_for_each: || -> bool { panic!("nor for this") },
            learnt: LONG,
        };
        for lease in [Lease::Dedicated, Lease::Wanted] {
            assert!(
                WAITINGS
                    .map(|waiting| allowed(waiting, Wait::Inside, || lease, &known))
                    .contains(&u64::MAX)
            );
        }
    }
}
