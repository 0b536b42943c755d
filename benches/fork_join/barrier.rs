//! Barriers inside one region of two threads: the time of one.

use crate::harness::native::entry;
use crate::harness::sample::{Subject, back_to_back};
use crate::harness::{Bar, Case, Engine, Runtime, regions};
use nanothreads::engine::{self, Barrier, Member};
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
            check(|member| barrier.wait(member.id as usize))?;
            Ok(subject(move || rounds(|member| barrier.wait(member.id as usize))))
        }),
        openmp("libgomp", Runtime::Libgomp),
        openmp("libomp", Runtime::Libomp),
        Engine::new("std::sync::Barrier", Runtime::Ours, |row| {
            regions::configure(row);
            let barrier = std::sync::Barrier::new(2);
            let wait = move |_: Member| {
                barrier.wait();
            };
            check(&wait)?;
            Ok(subject(move || rounds(&wait)))
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

fn subject<R>(run: impl FnMut() -> R + 'static) -> Subject {
    Subject::new(run, |_| Ok(())).of(ROUNDS)
}

fn openmp(name: &str, runtime: Runtime) -> Engine {
    Engine::new(name, runtime, move |_| {
        let barriers = entry(runtime, "barriers")?;
        match barriers.call(ROUNDS as usize, 1, 0) {
            0 => Ok(subject(move || barriers.call(ROUNDS as usize, 0, 0))),
            wrong => Err(format!("WRONG: a barrier was left too early, {wrong} times")),
        }
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
    // SAFETY: - `call::<W>` takes a `W`, which any threads may call at once; barriers do not unwind.
    unsafe { engine::reserve(2).run(call::<W>, ptr::from_ref(&wait).cast()) }
}

/// Fails when a member leaves before the other one has come.
fn check(wait: impl Fn(Member) + Sync) -> Result<(), String> {
    let (arrived, early) = ([const { AtomicU64::new(0) }; 2], AtomicU64::new(0));
    rounds(|member| {
        let me = member.id as usize;
        // ORDERING: Relaxed - what is checked is that the barrier orders them.
        let round = arrived[me].load(Relaxed) + 1;
        arrived[me].store(round, Relaxed);
        wait(member);
        if arrived[1 - me].load(Relaxed) != round {
            early.fetch_add(1, Relaxed);
        }
        wait(member);
    });
    match early.into_inner() {
        0 => Ok(()),
        early => Err(format!("WRONG: a barrier was left too early, {early} times")),
    }
}
