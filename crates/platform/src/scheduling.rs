//! What the kernel's scheduler says of a thread of this process: how long it ran, how long it
//! waited for a processor, and where it is; and how long the calling thread's turns are.
//!
//! What it waited, and where it is, stands in small files of `/proc`, opened at each look (some 5
//! us): a descriptor that is kept would be some other file once the program closed all that it does
//! not know. For looks in waits that are long already.

use crate::affinity::{CpuId, Tid};
use crate::error::{SysResult, check};
use crate::file;
use std::io::Write;
use std::time::Duration;

/// How long the thread has waited for a processor in its life, while it was ready to run; up to the
/// last time that it got one. `None` where the kernel does not count (`CONFIG_SCHED_INFO`), or the
/// thread has ended.
///
/// ```
/// # use nanothreads_platform as platform;
/// use platform::{affinity::current_tid, scheduling::run_delay};
/// if let Some(before) = run_delay(current_tid()) {
///     std::thread::yield_now();
///     assert!(run_delay(current_tid()) >= Some(before));
/// }
/// ```
pub fn run_delay(tid: Tid) -> Option<Duration> {
    experience(tid).map(|experience| experience.delayed)
}

/// How a thread fared in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Experience {
    /// It had a processor for so long, up to the last tick or switch.
    pub ran: Duration,
    /// It was ready and waited for one: see [`run_delay`].
    pub delayed: Duration,
}

/// How long the thread ran and waited, as [`run_delay`] has it. Allocates nothing.
pub fn experience(tid: Tid) -> Option<Experience> {
    read(tid, "schedstat", parse_experience)
}

/// How often the thread lost its processor while it would have gone on, in its life. `None` when it
/// has ended. Allocates nothing. Cost: some 15 us, three times those of [`experience`].
pub fn involuntary_switches(tid: Tid) -> Option<u64> {
    read(tid, "status", parse_involuntary)
}

/// How long the thread has had a processor in its life; `None` when it has ended. Cost: a system
/// call.
///
/// ```
/// # use nanothreads_platform as platform;
/// use platform::{affinity::current_tid, scheduling::processor_time};
/// let before = processor_time(current_tid()).expect("this thread lives");
/// assert!((0..1_000_000_u32).fold(0, |sum: u32, i| std::hint::black_box(sum ^ i)) < u32::MAX);
/// assert!(processor_time(current_tid()) > Some(before));
/// ```
pub fn processor_time(tid: Tid) -> Option<Duration> {
    // What the kernel calls the clock of a thread's scheduled time; the C library's function wants
    // a thread that is known to live.
    let clock = !tid.0 << 3 | 0b110;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: - `time` is ours; a number that is no clock is an error.
    let answer = unsafe { libc::clock_gettime(clock, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).ok().filter(|_| answer == 0)?;
    Some(Duration::new(seconds, u32::try_from(time.tv_nsec).ok()?))
}

/// The processor on which the thread runs or waits to run; `None` when it sleeps, or has ended.
pub fn processor_of_ready(tid: Tid) -> Option<CpuId> {
    read(tid, "stat", parse_ready)
}

/// The scheduling policy by which a thread gets its turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulingPolicy {
    /// In short pieces, and before all threads of the usual policies while it is in a hurry
    /// ([`Haste::hurry`]).
    Either,
    /// Before all threads of the usual policies, as long as it has something to do: `SCHED_FIFO`,
    /// the lowest priority. What the thread starts has the usual turns. The kernel leaves such a
    /// thread on the processor where it ran last, instead of bringing it to the thread that woke
    /// it. With an idle processor that has to be woken between them, a wake takes some 20 us
    /// longer.
    First,
    /// The same share as before in shorter turns. Such a thread does not wait for the end of a
    /// longer turn of another thread (2.8 ms, and up to the next tick) when it becomes ready,
    /// unless it has had more than its share. Needs no privilege; kernels before 6.12 take no
    /// notice of it.
    Short,
    /// As it was: the thread has a policy that was chosen for it.
    Unchanged,
}

/// The turns of a thread that has little to do, and that soon.
#[derive(Debug)]
pub struct Haste {
    turns: SchedulingPolicy,
    short: libc::sched_attr,
    is_first: bool,
}

impl Haste {
    /// Gives the calling thread turns in pieces of `slice`, 100 us to 100 ms, where the kernel has
    /// such; and gives it its turns first, where that is allowed (`CAP_SYS_NICE`, `RLIMIT_RTPRIO`):
    /// in a hurry, or always, where there are no short turns.
    ///
    /// # Errors
    /// What a sandbox says.
    pub fn begin(slice: Duration) -> SysResult<Self> {
        let now = attributes()?;
        let slice = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
        let short =
            libc::sched_attr { sched_runtime: slice, sched_deadline: 0, sched_period: 0, ..now };
        let mut haste = Self { turns: SchedulingPolicy::Unchanged, short, is_first: false };
        if !has_usual_policy(&now) {
            return Ok(haste);
        }
        set(short)?;
        let has_short = attributes()?.sched_runtime == slice;
        haste.turns = match haste.put(true) {
            Ok(()) if has_short => SchedulingPolicy::Either,
            Ok(()) => SchedulingPolicy::First,
            Err(error) if error.is(libc::EPERM) => SchedulingPolicy::Short,
            Err(error) => return Err(error),
        };
        haste.hurry(false)?;
        Ok(haste)
    }

    /// What was to be had.
    pub fn turns(&self) -> SchedulingPolicy {
        self.turns
    }

    /// Whether the calling thread, which began this, is in a hurry from now on. A system call when
    /// that changes something.
    ///
    /// # Errors
    /// `EPERM`, when the permission was taken away: nothing has changed.
    pub fn hurry(&mut self, hurries: bool) -> SysResult<()> {
        if self.turns != SchedulingPolicy::Either || self.is_first == hurries {
            return Ok(());
        }
        self.put(hurries)
    }

    fn put(&mut self, first: bool) -> SysResult<()> {
        // What says that children have usual turns may be taken away by the privileged only, and
        // stays.
        let flags = RESET_ON_FORK;
        set(if first {
            let (policy, priority) = (libc::SCHED_FIFO.cast_unsigned(), 1);
            libc::sched_attr {
                sched_policy: policy,
                sched_flags: flags,
                sched_priority: priority,
                sched_nice: 0,
                sched_runtime: 0,
                ..self.short
            }
        } else {
            libc::sched_attr { sched_flags: flags, ..self.short }
        })?;
        self.is_first = first;
        Ok(())
    }
}

/// Gives the calling thread a nice value, from -20 (the most favourable) to 19: which part of a
/// processor it gets beside other threads. What it starts inherits it.
///
/// # Errors
/// `EACCES`: a value below the thread's own, without the privilege or the limit for it.
///
/// ```
/// # use nanothreads_platform as platform;
/// std::thread::spawn(|| assert_eq!(platform::scheduling::set_nice(19), Ok(()))).join().unwrap();
/// ```
pub fn set_nice(nice: i32) -> SysResult<()> {
    // SAFETY: - takes numbers only. 0: the calling thread, for the kernel has a value for each.
    let answer = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    check("setpriority", answer.into()).map(|_| ())
}

/// Turns of the calling thread that are longer than usual, its share of the processor unchanged. A
/// thread that takes turns with others that use the caches as much as it does then finds its data
/// gone less often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongTurns {
    before: u64,
    slice: u64,
}

impl LongTurns {
    /// Begins turns in pieces of `slice`, 100 us to 100 ms. `None`: they are as long already, the
    /// thread has a policy that was chosen for it, or the kernel has no turns of a thread's own
    /// (before 6.12). Needs no privilege. What the thread starts meanwhile inherits them. Cost:
    /// three system calls.
    ///
    /// # Errors
    /// What a sandbox says: nothing has changed.
    pub fn begin(slice: Duration) -> SysResult<Option<Self>> {
        let now = attributes()?;
        let slice = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
        if !has_usual_policy(&now) || now.sched_runtime >= slice {
            return Ok(None);
        }
        set(libc::sched_attr { sched_runtime: slice, ..now })?;
        let is_taken = attributes()?.sched_runtime == slice;
        Ok(is_taken.then_some(Self { before: now.sched_runtime, slice }))
    }

    /// Turns as they were before, unless they were changed meanwhile: on the same thread, or on one
    /// that inherited them. Calls nothing but the kernel. Cost: two system calls.
    ///
    /// # Errors
    /// As [`LongTurns::begin`].
    pub fn end(self) -> SysResult<()> {
        let now = attributes()?;
        if !has_usual_policy(&now) || now.sched_runtime != self.slice {
            return Ok(());
        }
        set(libc::sched_attr { sched_runtime: self.before, ..now })
    }
}

/// How long a turn of the calling thread is, in which no other thread of its kind has the
/// processor. `None` where the kernel does not say: kernels before 6.12 tell whole ticks only, and
/// for less than one nothing. Cost: at most two system calls.
///
/// ```
/// # use nanothreads_platform as platform;
/// assert!(platform::scheduling::slice().is_none_or(|slice| !slice.is_zero()));
/// ```
pub fn slice() -> Option<Duration> {
    let own = attributes().ok().filter(has_usual_policy).map_or(0, |now| now.sched_runtime);
    if own > 0 {
        return Some(Duration::from_nanos(own));
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: - `time` lives through the call. 0: the calling thread.
    if unsafe { libc::sched_rr_get_interval(0, &raw mut time) } != 0 {
        return None;
    }
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let slice = Duration::new(seconds, u32::try_from(time.tv_nsec).ok()?);
    (!slice.is_zero()).then_some(slice)
}

fn has_usual_policy(attributes: &libc::sched_attr) -> bool {
    [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&attributes.sched_policy.cast_signed())
}

/// Those of the calling thread.
fn attributes() -> SysResult<libc::sched_attr> {
    let size = size_of::<libc::sched_attr>();
    // SAFETY: - a structure of numbers, for which zeros are valid.
    let mut now: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: - the kernel writes at most `size` bytes to `now`, which lives through the call.
    let read = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut now, size, 0) };
    check("sched_getattr", read)?;
    now.size = u32::try_from(size).expect("the structure is small");
    Ok(now)
}

/// Sets those of the calling thread.
fn set(attributes: libc::sched_attr) -> SysResult<()> {
    // SAFETY: - the kernel reads `size` bytes of `attributes`, which lives through the call.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    check("sched_setattr", done).map(drop)
}

/// Of `sched_setattr`.
const RESET_ON_FORK: u64 = 1;

/// What `parse` finds in a file of the thread; `None` when it ended meanwhile, too.
fn read<R>(tid: Tid, name: &str, parse: impl FnOnce(&str) -> Option<R>) -> Option<R> {
    let (mut path, mut text) = ([0; 64], [0; 4096]);
    let mut rest = &mut path[..];
    write!(rest, "/proc/self/task/{tid}/{name}").ok()?;
    let left = rest.len();
    let path = str::from_utf8(&path[..path.len() - left]).ok()?;
    let length = file::beginning(path, &mut text).ok()?;
    // The name of a thread may hold any bytes. What follows it does not.
    let text = &text[..length];
    match str::from_utf8(text) {
        Ok(text) => parse(text),
        Err(_) => parse(&String::from_utf8_lossy(text)),
    }
}

/// Three numbers: nanoseconds on a processor, nanoseconds waiting for one, time slices.
fn parse_experience(text: &str) -> Option<Experience> {
    let mut fields = text.split_ascii_whitespace();
    let (ran, delayed, _) = (fields.next()?, fields.next()?, fields.next()?);
    let time = |text: &str| text.parse().ok().map(Duration::from_nanos);
    Some(Experience { ran: time(ran)?, delayed: time(delayed)? })
}

/// A line of its own, the last one.
fn parse_involuntary(text: &str) -> Option<u64> {
    let line = text.lines().rev().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    line?.trim().parse().ok()
}

/// Field 3 is the state, field 39 the processor. Field 2 is the name in parentheses, and may hold
/// anything.
fn parse_ready(text: &str) -> Option<CpuId> {
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    if fields.next()? != "R" {
        return None;
    }
    fields.nth(35)?.parse().ok().map(CpuId)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::affinity::{CpuSet, affinity, current_tid, set_affinity};

    /// The kernel's word for the calling thread, by both files, where it has them.
    #[test]
    fn switches_of_a_thread_are_counted_up_and_no_thread_has_none() {
        let own = current_tid();
        let Some(before) = involuntary_switches(own) else {
            return crate::skip!("the kernel does not count switches");
        };
        assert!(involuntary_switches(own) >= Some(before));
        assert_eq!(involuntary_switches(Tid(i32::MAX)), None);
        assert_eq!(experience(Tid(i32::MAX)), None);
    }
    use proptest::prelude::*;

    #[test]
    fn a_running_thread_is_ready_where_it_runs_and_a_sleeping_one_nowhere() {
        std::thread::spawn(|| {
            let here = affinity(None).unwrap().first().unwrap();
            set_affinity(None, &CpuSet::single(here)).unwrap();
            assert_eq!(processor_of_ready(current_tid()), Some(here));
            let (tid, own) = std::sync::mpsc::channel();
            let (end, wait) = std::sync::mpsc::channel::<()>();
            let sleeper = std::thread::spawn(move || {
                tid.send(current_tid()).unwrap();
                wait.recv().unwrap_err();
            });
            let sleeper_tid = own.recv().unwrap();
            while processor_of_ready(sleeper_tid).is_some() {
                std::thread::yield_now();
            }
            drop(end);
            sleeper.join().unwrap();
        })
        .join()
        .unwrap();
    }

    /// What one of many turns takes that two threads of one processor have by yields, in the best
    /// of some rounds: yields, and microseconds.
    fn turn() -> (f64, f64) {
        use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
        const TURNS: u32 = 100;
        const ROUNDS: u32 = 5;
        let here = CpuSet::single(
            affinity(None).expect("this thread's mask").first().expect("it runs somewhere"),
        );
        let turn = AtomicU32::new(0);
        let take = |own: u32| {
            set_affinity(None, &here).expect("a processor of the mask");
            let rounds = (0..ROUNDS).map(|round| {
                let (begin, mut count) = (std::time::Instant::now(), 0_u32);
                for at in (round * TURNS..(round + 1) * TURNS).filter(|at| at % 2 == own) {
                    while turn.load(SeqCst) != at {
                        count += 1;
                        std::thread::yield_now();
                    }
                    turn.store(at + 1, SeqCst);
                }
                let us = begin.elapsed().as_secs_f64() * 1e6;
                (f64::from(count) / f64::from(TURNS), us / f64::from(TURNS))
            });
            rounds.fold((f64::INFINITY, f64::INFINITY), |best, round| {
                (best.0.min(round.0), best.1.min(round.1))
            })
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(|| take(1));
            let own = scope.spawn(|| take(0)).join().expect("it ended");
            let other = other.join().expect("so did this one");
            // Each yields while it is the other one's turn: of the two counts the larger one says
            // what a turn takes.
            (own.0.max(other.0), own.1.min(other.1))
        })
    }

    /// The engine's teams on too few processors rest on it. Counted, because a turn lasts as long
    /// as others on the processor want: a thread that yields in vain does so thousands of times in
    /// a time slice. Prints the time that the documents quote.
    #[test]
    fn threads_of_one_processor_pass_it_to_each_other_by_yields() {
        let (yields, us) = turn();
        println!("a turn by std::thread::yield_now {us:.3} us");
        assert!(yields < 20.0, "{yields:.1} yields for a turn");
    }

    #[test]
    fn a_hasty_thread_is_first_or_keeps_policy_and_priority() {
        // SAFETY: - asks of the calling thread.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        std::thread::spawn(move || {
            let before = policy();
            let slice = Duration::from_micros(100);
            let mut haste = Haste::begin(slice).unwrap();
            println!("{:?}", haste.turns());
            let own = || policy() & !libc::SCHED_RESET_ON_FORK;
            for hurries in [true, true, false, true] {
                haste.hurry(hurries).unwrap();
                let child = std::thread::spawn(policy).join().unwrap();
                assert_eq!(child, before, "what it starts has the usual turns");
                match haste.turns() {
                    SchedulingPolicy::First => assert_eq!(own(), libc::SCHED_FIFO),
                    SchedulingPolicy::Either if hurries => assert_eq!(own(), libc::SCHED_FIFO),
                    SchedulingPolicy::Either => {
                        assert_eq!(own(), before);
                        assert_eq!(
                            u128::from(attributes().unwrap().sched_runtime),
                            slice.as_nanos()
                        );
                    }
                    SchedulingPolicy::Short | SchedulingPolicy::Unchanged => {
                        assert_eq!(own(), before)
                    }
                }
            }
            if own() == libc::SCHED_FIFO {
                assert_eq!(Haste::begin(slice).unwrap().turns(), SchedulingPolicy::Unchanged);
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn long_turns_end_as_what_was_before_and_leave_alone_what_the_program_set() {
        std::thread::spawn(|| {
            let slice = || Duration::from_nanos(attributes().unwrap().sched_runtime);
            let (before, long) = (slice(), Duration::from_millis(20));
            let Some(turns) = LongTurns::begin(long).unwrap() else {
                assert_eq!(slice(), before);
                return crate::skip!("this kernel has no turns of a thread's own");
            };
            assert_eq!(slice(), long);
            assert_eq!(LongTurns::begin(long).unwrap(), None, "they are as long already");
            turns.end().unwrap();
            assert_eq!(slice(), before);
            let turns = LongTurns::begin(long).unwrap().unwrap();
            let other = Duration::from_millis(7);
            set(libc::sched_attr { sched_runtime: 7_000_000, ..attributes().unwrap() }).unwrap();
            turns.end().unwrap();
            assert_eq!(slice(), other);
            // SAFETY: - no pointers are kept; changes the calling thread.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 5) };
            let turns = LongTurns::begin(long).unwrap().unwrap();
            let nice = |expected| assert_eq!(attributes().unwrap().sched_nice, expected);
            nice(5);
            turns.end().unwrap();
            nice(5);
            set(libc::sched_attr {
                sched_policy: libc::SCHED_IDLE.cast_unsigned(),
                ..attributes().unwrap()
            })
            .unwrap();
            assert_eq!(LongTurns::begin(long).unwrap(), None, "the program chose that policy");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_s_processor_time_grows_while_it_runs_and_is_none_when_it_has_ended() {
        let (tid, other) = std::sync::mpsc::channel();
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            tid.send(current_tid()).unwrap();
            wait.recv().unwrap_err();
        });
        let tid = other.recv().unwrap();
        while processor_of_ready(tid).is_some() {
            std::thread::yield_now();
        }
        let before = processor_time(tid).unwrap();
        let begin = processor_time(current_tid()).unwrap();
        while processor_time(current_tid()).unwrap() < begin + Duration::from_millis(5) {}
        assert_eq!(processor_time(tid), Some(before), "it slept");
        drop(end);
        sleeper.join().unwrap();
        let gone = std::time::Instant::now();
        while processor_time(tid).is_some() {
            assert!(gone.elapsed() < Duration::from_secs(20), "it has ended");
        }
    }

    #[test]
    fn a_thread_that_shares_its_processor_waits_for_it() {
        let Some(begin) = run_delay(current_tid()) else {
            return crate::skip!("this kernel does not count run delays");
        };
        let here = affinity(None).unwrap().first().unwrap();
        let pin = || set_affinity(None, &CpuSet::single(here)).unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let waiting = scope.spawn(|| {
                pin();
                while run_delay(current_tid()).unwrap() < begin.max(Duration::from_millis(5)) {
                    std::hint::spin_loop();
                }
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            waiting.join().unwrap();
        });
    }

    #[test]
    fn names_of_threads_do_not_confuse() {
        let rest = "R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 \
                    29 30 31 32 33 34 35 7 0";
        assert_eq!(parse_ready(&format!("12 (a) S) b) {rest}")), Some(CpuId(7)));
        assert_eq!(parse_ready(&format!("12 (a) {}", rest.replacen('R', "S", 1))), None);
        let [ran, delayed] = [10, 2000].map(Duration::from_nanos);
        assert_eq!(parse_experience("10 2000 3\n"), Some(Experience { ran, delayed }));
        assert_eq!(parse_experience("10 2000"), None);
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t12\n";
        assert_eq!(parse_involuntary(status), Some(12));
        assert_eq!(parse_involuntary("Name:\tx\n"), None);
    }

    proptest! {
        #[test]
        fn nothing_that_a_file_may_hold_panics(text in ".*") {
            let _ = (parse_ready(&text), parse_experience(&text), parse_involuntary(&text));
        }
    }
}
