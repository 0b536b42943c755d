//! Barriers inside one region of two threads: the time of one.

use crate::harness::native::entry;
use crate::harness::sample::{Subject, back_to_back};
use crate::harness::{Bar, Case, Engine, Runtime, regions};
use engine::{self, Barrier, Member};
use nanothreads::Team;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Barriers in a region: its fork and join count for little.
const ROUNDS: u32 = 1000;

pub(super) fn case() -> Case {
    const NONE: &str = "it has no barrier";
    let engines = vec![
        Engine::new("nanothreads", Runtime::Ours, |row| {
            regions::configure(row);
            let barrier = Barrier::new(2);
            Ok(ours(move |member| barrier.wait(member.id as usize)))
        }),
        Engine::new("nanothreads Team", Runtime::Ours, |row| {
            regions::configure(row);
            let team = Team::exact(2).map_err(|error| error.to_string())?;
            let check = Check::default();
            team.run(|member| {
                (0..ROUNDS).for_each(|_| check.round(member.id(), || member.barrier()))
            });
            let run = move || team.run(|member| (0..ROUNDS).for_each(|_| member.barrier()));
            Ok(subject(run, check.early.into_inner()))
        }),
        openmp("libgomp", Runtime::Libgomp),
        openmp("libomp", Runtime::Libomp),
        Engine::new("std::sync::Barrier", Runtime::Ours, |row| {
            regions::configure(row);
            let barrier = std::sync::Barrier::new(2);
            Ok(ours(move |_| {
                barrier.wait();
            }))
        }),
        Engine::absent("rayon", NONE),
        Engine::absent("fork_union", NONE),
        Engine::absent("chili", NONE),
        Engine::absent("orx-parallel", NONE),
        Engine::absent("oneTBB", NONE),
    ];
    let bar = Some(Bar::RoundTrips { near: 1.6, far: 1.6 });
    Case { name: "barrier".into(), measure: back_to_back(), extras: &[], engines, bar }
}

/// `early`: how often a barrier was left too early, in rounds that were not measured.
fn subject<R>(run: impl FnMut() -> R + 'static, early: u64) -> Subject {
    let check = move |_| match early {
        0 => Ok(()),
        early => Err(format!("a barrier was left too early, {early} times")),
    };
    Subject::new(run, check).of(ROUNDS)
}

fn ours(wait: impl Fn(Member) + Sync + 'static) -> Subject {
    let check = Check::default();
    rounds(|member| check.round(member.id as usize, || wait(member)));
    subject(move || rounds(&wait), check.early.into_inner())
}

fn openmp(name: &str, runtime: Runtime) -> Engine {
    Engine::new(name, runtime, move |_| {
        let barriers = entry(runtime, "barriers")?;
        let early = barriers.call(ROUNDS as usize, 1, 0);
        Ok(subject(move || barriers.call(ROUNDS as usize, 0, 0), early as u64))
    })
}

/// One region of two members that `wait` for each other again and again.
fn rounds<W: Fn(Member) + Sync>(wait: W) {
    /// # Safety
    /// - `data` points to a `W`.
    unsafe fn call<W: Fn(Member) + Sync>(data: *const (), member: Member) {
        // SAFETY: - caller's contract.
        let wait = unsafe { &*data.cast::<W>() };
        for _ in 0..ROUNDS {
            wait(member);
        }
    }
    // SAFETY: - `call::<W>` takes a `W`, which any threads may call at once; barriers do not
    // unwind.
    unsafe { engine::reserve(2).run(call::<W>, ptr::from_ref(&wait).cast()) }
}

/// Finds members that leave a barrier before the other one has come.
#[derive(Default)]
struct Check {
    arrived: [AtomicU64; 2],
    early: AtomicU64,
}

impl Check {
    /// Two barriers of member `me`.
    fn round(&self, me: usize, wait: impl Fn()) {
        // ORDERING: Relaxed - what is checked is that the barrier orders them.
        let round = self.arrived[me].load(Relaxed) + 1;
        self.arrived[me].store(round, Relaxed);
        wait();
        if self.arrived[1 - me].load(Relaxed) != round {
            self.early.fetch_add(1, Relaxed);
        }
        wait();
    }
}
