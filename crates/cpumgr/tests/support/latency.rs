//! How long it takes until a virtual processor runs: from a release by another program, and by a
//! bare chain.
//!
//! # Releases
//! Each living program holds a processor (L1 of the ledger), so that on two processors no program
//! can release one for the *second* virtual processor of another program. With four or more two
//! programs have two each, one of them releases one, and the third virtual processor of the other
//! one runs there. With two or three there is one case in which a program has no processor to
//! itself that it was decided to have: when it comes while those of the other one are too young to
//! be taken (M4, 10 ms). Its master is a guest of the other's second processor until then, and has
//! that to itself as soon as it is released. The way is the same: a ring, the work-list, two
//! grants, the wake of a sleeping thread of another process. Both programs register anew for each
//! time. What did not run before the 10 ms were over ran for that: it is *late*, left out and
//! counted, so that more than some 4 ms are not measured.
//!
//! The thread that releases is bound to what it releases, and sleeps from then on.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use platform::affinity::{CpuId, CpuSet, current_tid, set_affinity};
use platform::clock::monotonic_ns;
use platform::event::Doorbell;
use platform::futex::SharedFutex;
use platform::process;
use platform::scheduling::Haste;

use super::{Before, Manager, Program, eventually};

/// For how long processors are too young to be taken, less the possible lag of the manager's clock
/// of a pass.
const YOUNG_NS: u64 = 9_000_000;

/// Some times in order, in ns.
pub(crate) struct Times(Vec<u64>);

impl Times {
    pub(crate) fn new(mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// The one below which `part` in 100 are.
    pub(crate) fn at(&self, part: usize) -> Duration {
        Duration::from_nanos(self.0[(self.0.len() * part / 100).min(self.0.len() - 1)])
    }

    pub(crate) fn line(&self, what: &str) -> String {
        let (half, most, all) = (self.at(50), self.at(99), self.at(100));
        format!(
            "{what:44} p50 {half:>10.1?}  p99 {most:>10.1?}  max {all:>10.1?}  n {}",
            self.0.len()
        )
    }
}

/// Where the last thread of a bare chain runs, as that of the way which it is compared to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// On the processor of the thread that rang, which sleeps: after a release.
    There,
    /// On another one: after a request.
    Elsewhere,
}

/// A thread that waits for an eventfd and wakes another one by a futex: what no manager that sleeps
/// can beat. The thread that rings first did what `before` says. The first and the last one are
/// bound: left alone, the kernel runs them all on the first one's processor in half of the rounds
/// if that one slept, and no other processor is woken. All on `cpus`, as the programs.
pub(crate) fn chain(cpus: &CpuSet, count: usize, before: Before, end: End) -> Vec<u64> {
    let bell = Arc::new(Doorbell::new().unwrap());
    let word = Arc::new(SharedFutex::new(0));
    let woken = Arc::new(AtomicU64::new(0));
    let here = cpus.first().unwrap();
    let there = match end {
        End::There => here,
        End::Elsewhere => cpus.last().unwrap(),
    };
    let middle = {
        let (bell, word) = (Arc::clone(&bell), Arc::clone(&word));
        let cpus = cpus.clone();
        std::thread::spawn(move || {
            set_affinity(None, &cpus).unwrap();
            for _ in 0..count {
                process::wait_readable(&[bell.as_fd()], None).unwrap();
                bell.clear().unwrap();
                word.word().store(1, Ordering::SeqCst);
                word.wake(1);
            }
        })
    };
    let last = {
        let (word, woken) = (Arc::clone(&word), Arc::clone(&woken));
        std::thread::spawn(move || {
            set_affinity(None, &CpuSet::single(there)).unwrap();
            for _ in 0..count {
                while word.word().load(Ordering::SeqCst) == 0 {
                    let _how = word.wait(0, None);
                }
                word.word().store(0, Ordering::SeqCst);
                woken.store(monotonic_ns(), Ordering::SeqCst);
            }
        })
    };
    let first = std::thread::spawn(move || {
        set_affinity(None, &CpuSet::single(here)).unwrap();
        let mut times = Vec::new();
        for _ in 0..count {
            before.pass(Duration::from_millis(6));
            woken.store(0, Ordering::SeqCst);
            let begin = monotonic_ns();
            bell.ring().unwrap();
            let at = loop {
                match woken.load(Ordering::SeqCst) {
                    0 => std::thread::sleep(Duration::from_micros(100)),
                    at => break at,
                }
            };
            times.push(at.saturating_sub(begin));
        }
        times
    });
    middle.join().unwrap();
    last.join().unwrap();
    first.join().unwrap()
}

/// Two programs of which one releases processors and the other one gets them; see the module head.
pub(crate) struct Releases {
    giver: Program,
    taker: Program,
    /// After the programs: it looks whether anything of theirs is left.
    manager: Manager,
    /// They have two processors each.
    wide: bool,
    /// Releases that say nothing.
    pub(crate) late: usize,
}

impl Releases {
    /// On the first four of these, or on two.
    pub(crate) fn begin(cpus: &CpuSet) -> Self {
        let wide = cpus.len() >= 4;
        let list = cpus.iter().take(if wide { 4 } else { 2 }).collect::<CpuSet>().to_string();
        // Nothing happens at the end of a quantum.
        let manager = Manager::start(&["--cpus", &list, "--policy", "equip", "--quantum", "10s"]);
        let mut programs = [(); 2].map(|()| Program::unregistered(&manager.socket()));
        if wide {
            register(&mut programs);
        }
        let [giver, taker] = programs;
        Self { manager, giver, taker, wide, late: 0 }
    }

    /// What the programs are, for people.
    pub(crate) fn what(&self) -> &'static str {
        if self.wide {
            "release to another's third processor running"
        } else {
            "release to another's master running"
        }
    }

    /// The time of a release after a pause, in which the other one falls asleep and the one that
    /// releases did what `before` says; `None`: it was late.
    pub(crate) fn time(&mut self, pause: Duration, before: Before) -> Option<u64> {
        let registers = monotonic_ns();
        let waits = if self.wide {
            self.giver.until("it has two", |seen| seen.processors == 2);
            self.taker.until("the other one, too", |seen| seen.processors == 2);
            "time-wake 3"
        } else {
            register([&mut self.giver, &mut self.taker]);
            "time-own"
        };
        let (giver, taker) = (&mut self.giver, &mut self.taker);
        let (begin, end) = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| taker.ask(waits));
            let begin = giver.ask(&format!("time-release {} {before}", pause.as_millis()));
            (begin, waiter.join().unwrap())
        });
        let end: u64 = end.parse().unwrap();
        let in_time = self.wide || end < registers + YOUNG_NS;
        let time =
            begin.parse::<u64>().ok().filter(|_| in_time).map(|begin| end.saturating_sub(begin));
        self.late += usize::from(time.is_none());
        if time.is_some() {
            let (giver, taker) = (self.giver.seen(), self.taker.seen());
            let before = if self.wide { 2 } else { 0 };
            let moved =
                (giver.processors, taker.processors, taker.shared) == (1, before + 1, false);
            assert!(moved && giver.cpus.is_disjoint(&taker.cpus), "{giver:?} {taker:?}");
        }
        if self.wide {
            self.giver.ask("resume");
        } else {
            self.giver.ask("leave");
            self.taker.ask("leave");
            eventually("both have left", || {
                self.manager.status().programs.is_empty().then_some(())
            });
        }
        time
    }
}

fn register<'a>(programs: impl IntoIterator<Item = &'a mut Program>) {
    for program in programs {
        assert_eq!(program.ask("register 4 4"), "registered");
    }
}

/// What a squeeze is without a manager: a thread in a hurry waits for the grace to end and binds a
/// spinning thread elsewhere. From the beginning to the last moment at which that thread ran where
/// it was. The machine's own interruptions are in it.
pub(crate) fn bare_squeeze([from, to]: [CpuId; 2], grace: Duration) -> u64 {
    let (said, hear) = channel();
    let spinner = std::thread::spawn(move || {
        set_affinity(None, &CpuSet::single(from)).unwrap();
        let begin = monotonic_ns();
        said.send((current_tid(), begin)).unwrap();
        let mut last = begin;
        loop {
            let now = monotonic_ns();
            if nix::sched::sched_getcpu().unwrap() != from.index() {
                break last - begin;
            }
            last = now;
        }
    });
    let mut haste = Haste::begin(Duration::from_micros(100)).unwrap();
    haste.hurry(true).unwrap();
    let (tid, begin) = hear.recv().unwrap();
    let end = begin + u64::try_from(grace.as_nanos()).unwrap();
    std::thread::sleep(Duration::from_nanos(end.saturating_sub(monotonic_ns())));
    set_affinity(Some(tid), &CpuSet::single(to)).unwrap();
    haste.hurry(false).unwrap();
    spinner.join().unwrap()
}
