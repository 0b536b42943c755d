//! Processors that were taken from a program: asked for, and after the grace squeezed out of it.
//!
//! # Protocol
//! 1. *Ask*: the grant names fewer processors, `asked` says how many shall be left, and the virtual
//!    processors that have none any more read `Asked`. The processors belong to other programs at
//!    once: until the grace is over both may run there.
//! 2. A virtual processor that reaches a safe point stops there, or binds itself to what its
//!    program keeps.
//! 3. *Squeeze*, when the grace is over. This concerns each thread that the program published as a
//!    virtual processor, that does not sleep according to the program, and that may still run on a
//!    processor that was taken. It is bound to the processors that the program keeps, and runs on
//!    in turn with the others there until its next safe point (D1): no thread is stopped, no signal
//!    is sent.
//! 4. When the program's processors change again, a squeezed thread that still has none is bound to
//!    all that the program keeps. One that has a processor of its own again gets back the mask that
//!    it had, and is forgotten, if all of that mask is the program's now. Otherwise it is bound to
//!    that processor, and asked first, as any other thread, if it loses that. A thread that its
//!    program bound meanwhile is left alone.
//! 5. *Second look*, a grace after a squeeze and then once a quantum: a squeezed thread that may
//!    run on a processor that its program lost shows that the program does not obey (`fence`).
//!
//! # Invariants
//! - Q1 Only threads of the program are touched (`threads`), and of these only published ones:
//!   never virtual processor 0 or the initial thread (their masks are what children inherit, D2),
//!   nor threads that the engine did not make.
//! - Q2 The mask that a thread had before it was squeezed is kept, and put back at the latest when
//!   the program leaves or the manager ends, unless another process or thread changed it meanwhile.
//! - Q3 One pass binds at most [`BUDGET`] threads of a program: the rest follows in the next one.

use std::collections::BTreeMap;

use arena::layout::{Verdict, VpState};
use arena::manager::{ProgramAreas, StatedVp};
use nix::errno::Errno;
use platform::affinity::{CpuId, CpuSet, Tid};
use platform::process::Pid;

use crate::kernel::Kernel;
use crate::surprises::{Surprise, Surprises};
use crate::threads::Threads;

/// Threads of one program that one pass looks at.
pub const BUDGET: usize = 64;

/// A thread that was bound.
#[derive(Debug)]
struct Squeezed {
    index: usize,
    /// Its mask before (Q2).
    before: CpuSet,
    /// Its mask since.
    bound: CpuSet,
    /// It has no processor of its own.
    pressed: bool,
}

/// What is being reclaimed of one program.
#[derive(Debug)]
pub struct Reclaim {
    initial: Tid,
    threads: Threads,
    /// Processors that were taken, and when the grace of each is over.
    taken: BTreeMap<u32, u64>,
    /// Where the next pass goes on (Q3).
    next_index: usize,
    squeezed: BTreeMap<i32, Squeezed>,
    squeezes: u64,
    /// Step 5: when to look, and on which processors.
    second_look: Option<(u64, CpuSet)>,
    surprises: Surprises,
}

impl Reclaim {
    /// Nothing is reclaimed of process `pid` yet.
    pub fn new(pid: Pid, threads: Threads) -> Self {
        let initial = Tid(pid.0);
        Self {
            initial,
            threads,
            taken: BTreeMap::new(),
            next_index: 0,
            squeezed: BTreeMap::new(),
            squeezes: 0,
            second_look: None,
            surprises: Surprises::default(),
        }
    }

    /// Threads of the program are bound to less than they were before.
    pub fn holds_anybody(&self) -> bool {
        !self.squeezed.is_empty()
    }

    /// The program held `before` and holds `now`: step 1, and step 4 for threads that were
    /// squeezed.
    pub fn published(
        &mut self,
        kernel: &dyn Kernel,
        areas: &mut ProgramAreas,
        before: &[u32],
        now: &[u32],
        grace_ends: u64,
    ) {
        for cpu in now {
            self.taken.remove(cpu);
        }
        let lost = before.iter().filter(|cpu| !now.contains(cpu));
        // With no thread to squeeze there is nothing to do when the grace is over: a thread that
        // wakes looks at the grant first.
        let anybody = || areas.vps().any(|vp| self.is_mine(&vp));
        if lost.clone().next().is_some() && anybody() {
            for cpu in lost {
                self.taken.entry(*cpu).or_insert(grace_ends);
            }
        }
        self.next_index = 0;
        if before != now {
            // Looked at after its next squeeze.
            self.second_look = None;
        }
        for index in now.len()..before.len() {
            areas.judge(index, Verdict::Asked);
        }
        self.rebind(kernel, areas, now);
        self.tell(areas);
    }

    /// A processor that the program took without having been granted it: as if it had been taken
    /// away.
    pub fn take_back(&mut self, areas: &ProgramAreas, cpu: u32, grace_ends: u64) {
        self.taken.entry(cpu).or_insert(grace_ends);
        self.tell(areas);
    }

    /// Nothing is due before `until`.
    pub fn put_off(&mut self, until: u64) {
        let again = self.second_look.iter_mut().map(|(at, _)| at);
        for end in self.taken.values_mut().chain(again) {
            *end = (*end).max(until);
        }
    }

    /// When the next grace is over, or a squeezed program is to be looked at again.
    pub fn deadline(&self) -> Option<u64> {
        let again = self.second_look.as_ref().map(|(at, _)| *at);
        self.taken.values().copied().chain(again).min()
    }

    /// Step 5: looks again at `at` whether the threads that are squeezed now keep off the
    /// processors that they lost; never, when none is.
    pub fn look_again(&mut self, at: u64, kept: &[u32], managed: &CpuSet) {
        if self.preempted() > 0 {
            let kept: CpuSet = kept.iter().copied().map(CpuId).collect();
            self.second_look = Some((at, managed.difference(&kept)));
        }
    }

    /// Step 5: true when it is time to look, and a thread that was squeezed may run again where it
    /// was squeezed from.
    pub fn is_defied(&mut self, kernel: &dyn Kernel, now: u64) -> bool {
        let Some((_, lost)) = self.second_look.take_if(|(at, _)| *at <= now) else { return false };
        let is_back = |tid: i32| {
            self.threads
                .mask(kernel, Tid(tid))
                .is_ok_and(|it| it.is_some_and(|it| !it.is_disjoint(&lost)))
        };
        self.squeezed.iter().any(|(tid, one)| one.pressed && is_back(*tid))
    }

    /// The program's threads.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Step 3, for the processors whose grace is over. `kept` is what the program holds.
    pub fn squeeze(
        &mut self,
        kernel: &dyn Kernel,
        areas: &mut ProgramAreas,
        kept: &[u32],
        now: u64,
    ) {
        let overdue: CpuSet =
            self.taken.iter().filter(|(_, end)| **end <= now).map(|(cpu, _)| CpuId(*cpu)).collect();
        if overdue.is_empty() {
            return;
        }
        let kept: CpuSet = kept.iter().copied().map(CpuId).collect();
        let first = self.next_index;
        let may_run = areas.vps().filter(|vp| vp.index >= first && self.is_mine(vp));
        let stated: Vec<_> = may_run.take(BUDGET).collect();
        for vp in &stated {
            self.squeeze_one(kernel, areas, vp.index, vp.tid, &overdue, &kept);
        }
        if let Some(last) = stated.last().filter(|_| stated.len() == BUDGET) {
            self.next_index = last.index + 1;
        } else {
            self.taken.retain(|_, end| *end > now);
            self.next_index = 0;
        }
        self.tell(areas);
    }

    /// A thread that may be squeezed (Q1) and may be running. A thread that sleeps delays no other.
    /// A program that says so of one that runs gains no more than by binding it back.
    fn is_mine(&self, vp: &StatedVp) -> bool {
        vp.index != 0 && vp.tid != self.initial && vp.state != VpState::Parked
    }

    fn squeeze_one(
        &mut self,
        kernel: &dyn Kernel,
        areas: &mut ProgramAreas,
        index: usize,
        tid: Tid,
        overdue: &CpuSet,
        kept: &CpuSet,
    ) {
        let subject = u64::from(tid.0.unsigned_abs());
        let mask = match self.threads.mask(kernel, tid) {
            Ok(Some(mask)) => mask,
            // A thread that ended, or never was one.
            Ok(None) => return self.surprises.forget(subject),
            Err(error) => {
                if self.surprises.comes(Surprise::Mask, subject) {
                    tracing::warn!(
                        tid = tid.0,
                        %error,
                        "a virtual processor's mask cannot be read"
                    );
                }
                return;
            }
        };
        self.surprises.is_over(Surprise::Mask, subject);
        if mask.is_disjoint(overdue) {
            return;
        }
        let room = mask.intersection(kept);
        let bound = if room.is_empty() { kept.clone() } else { room };
        match self.threads.bind(kernel, tid, &bound) {
            Ok(Some(before)) => {
                self.squeezes += 1;
                self.surprises.is_over(Surprise::Squeeze, subject);
                areas.judge(index, Verdict::Squeezed);
                let entry = self.squeezed.entry(tid.0).or_insert_with(|| Squeezed {
                    index,
                    before,
                    bound: bound.clone(),
                    pressed: true,
                });
                (entry.bound, entry.index, entry.pressed) = (bound, index, true);
            }
            Ok(None) => {}
            // EINVAL: its cpuset has none of these; EPERM: it runs as another user. It stays where
            // it is.
            Err(error) if self.surprises.comes(Surprise::Squeeze, subject) => {
                tracing::warn!(tid = tid.0, %error, "a virtual processor cannot be squeezed")
            }
            Err(_) => {}
        }
    }

    /// Step 4.
    fn rebind(&mut self, kernel: &dyn Kernel, areas: &mut ProgramAreas, now: &[u32]) {
        if self.squeezed.is_empty() {
            return;
        }
        let all: CpuSet = now.iter().copied().map(CpuId).collect();
        let Self { threads, squeezed, .. } = self;
        squeezed.retain(|tid, one| {
            let own = now.get(one.index).map(|cpu| CpuSet::single(CpuId(*cpu)));
            let is_free = own
                .as_ref()
                .is_some_and(|own| own.is_subset(&one.before) && one.before.is_subset(&all));
            match &own {
                // Bound there already; if its program bound it elsewhere, the next call that is
                // needed finds that out.
                Some(own) if !is_free && one.bound == *own => {
                    one.pressed = false;
                    areas.judge(one.index, Verdict::Run);
                    return true;
                }
                // It follows: like any other thread it is asked first, and squeezed when the grace
                // is over.
                None if !one.pressed => return true,
                _ => {}
            }
            // Its program bound it, or it ended: nothing of ours is left to put back.
            let ours =
                threads.mask(kernel, Tid(*tid)).is_ok_and(|mask| mask.as_ref() == Some(&one.bound));
            if !ours {
                return false;
            }
            one.pressed = own.is_none();
            let verdict = if one.pressed { Verdict::Squeezed } else { Verdict::Run };
            let cpus =
                if is_free { one.before.clone() } else { own.unwrap_or_else(|| all.clone()) };
            if cpus != one.bound
                && threads.rebind(kernel, Tid(*tid), &one.bound, &cpus).is_ok_and(|bound| bound)
            {
                one.bound = cpus;
            }
            areas.judge(one.index, verdict);
            !(is_free && one.bound == one.before)
        });
    }

    /// Q2: the program leaves, or the manager ends. Returns how many threads got their mask back.
    pub fn restore(&mut self, kernel: &dyn Kernel) -> usize {
        let squeezed = std::mem::take(&mut self.squeezed);
        let restored = squeezed.into_iter().filter(|(tid, one)| {
            let tid = Tid(*tid);
            let ours =
                self.threads.mask(kernel, tid).is_ok_and(|mask| mask.as_ref() == Some(&one.bound));
            ours && match self.threads.bind(kernel, tid, &one.before) {
                Ok(bound) => bound.is_some(),
                // EINVAL: the processors went offline meanwhile. The kernel would choose the
                // cpuset's.
                Err(error) if error.is(Errno::EINVAL as i32) => false,
                Err(error) => {
                    tracing::warn!(tid = tid.0, %error, "a thread's mask cannot be put back");
                    false
                }
            }
        });
        restored.count()
    }

    fn tell(&self, areas: &ProgramAreas) {
        areas.ask_for(self.asked());
        areas.set_preempted(self.preempted());
    }

    /// Processors that were taken and may still be in use.
    pub fn asked(&self) -> u32 {
        u32::try_from(self.taken.len()).unwrap_or(u32::MAX)
    }

    /// Virtual processors that are squeezed and have no processor of their own.
    pub fn preempted(&self) -> u32 {
        u32::try_from(self.squeezed.values().filter(|one| one.pressed).count()).unwrap_or(u32::MAX)
    }

    /// How often a virtual processor was squeezed.
    pub fn squeezes(&self) -> u64 {
        self.squeezes
    }
}

#[cfg(test)]
mod tests;
