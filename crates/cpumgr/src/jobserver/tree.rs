//! The processes of a program that jobs are started by: bound to the processors of the grant, and
//! how many tokens they can hold.
//!
//! # Invariants
//! - P1 A thread is bound only when its mask is the one that it had from this process: what a job
//!   chose for itself stays.
//! - P2 A client holds at most a token for each process that it started but one, whose token is the
//!   client's own, and at most one for each thread but one. (A compiler with threads takes tokens
//!   for those.) A token on its way from a client to its job is missing at one look, and not at
//!   several in turn.

use std::collections::BTreeSet;

use platform::affinity::{self, CpuSet, Tid};
use procfs::ProcError;
use procfs::process::{Process, Task};

/// The most processes that are looked at.
const MOST: usize = 4096;

/// The processes.
#[derive(Debug)]
pub(super) struct Tree {
    root: i32,
    /// Masks that threads have from this process.
    given: Vec<CpuSet>,
    /// What they shall have.
    aim: CpuSet,
}

impl Tree {
    /// The processes below `root`, and those that lost their parents. They have `mask`.
    pub(super) fn new(root: i32, mask: CpuSet) -> Self {
        Self { root, given: vec![mask.clone()], aim: mask }
    }

    /// The processors of the grant; an empty set binds nothing.
    pub(super) fn aim_at(&mut self, cpus: CpuSet) {
        // What programs may use here bounds what they are bound to.
        let within = cpus.intersection(&self.given[0]);
        self.aim = if within.is_empty() { self.given[0].clone() } else { within };
    }

    /// Binds all, and says how many tokens they can hold; `None`: this kernel does not say which
    /// processes there are (CONFIG_PROC_CHILDREN).
    pub(super) fn look(&mut self) -> Option<u32> {
        if !self.given.contains(&self.aim) {
            self.given.push(self.aim.clone());
        }
        let mut held = 0_usize;
        let mut waiting = vec![self.root];
        // Jobs whose parent was killed are this process's own children.
        let own = children(std::process::id().cast_signed())?;
        waiting.extend(own.into_iter().filter(|pid| *pid != self.root));
        let mut seen = BTreeSet::new();
        while let Some(pid) = waiting.pop() {
            if seen.len() >= MOST {
                return None;
            }
            if !seen.insert(pid) {
                continue;
            }
            let threads = threads(pid);
            let below = children(pid).unwrap_or_default();
            held += below.len().saturating_sub(1) + threads.len().saturating_sub(1);
            threads.into_iter().for_each(|tid| self.bind(tid));
            waiting.extend(below);
        }
        // One that ended without a parent that waits for it.
        for pid in seen.into_iter().filter(|pid| *pid != self.root) {
            let flags = nix::sys::wait::WaitPidFlag::WNOHANG;
            let _reaped = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), Some(flags));
        }
        Some(u32::try_from(held).unwrap_or(u32::MAX))
    }

    fn bind(&self, tid: i32) {
        let tid = Tid(tid);
        // A thread that has ended, or became another user's, stays as it is.
        let Ok(mask) = affinity::affinity(Some(tid)) else { return };
        if mask != self.aim && self.given.contains(&mask) {
            let _bound = affinity::set_affinity(Some(tid), &self.aim);
        }
    }
}

/// The processes that the threads of `pid` started and that live; `None`: the kernel does not say.
fn children(pid: i32) -> Option<Vec<i32>> {
    let mut all = Vec::new();
    for task in tasks(pid) {
        match task.children() {
            Ok(children) => all.extend(children.into_iter().map(u32::cast_signed)),
            // The thread ended, or no thread has such a file.
            Err(ProcError::NotFound(_)) if pid == std::process::id().cast_signed() => return None,
            Err(_) => {}
        }
    }
    Some(all)
}

fn threads(pid: i32) -> Vec<i32> {
    tasks(pid).map(|task| task.tid).collect()
}

/// None where the process ended.
fn tasks(pid: i32) -> impl Iterator<Item = Task> {
    let tasks = Process::new(pid).and_then(|process| process.tasks());
    tasks.into_iter().flatten().flatten()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Set where the process has no children of other tests.
    const ALONE: &str = "CPUMGR_TEST_ALONE";

    #[test]
    fn a_process_holds_a_token_for_each_child_but_one() {
        // A look takes in all children of this process, and waits for those that have ended: in a
        // process of its own, which has no other test's.
        if std::env::var_os(ALONE).is_none() {
            let name = "jobserver::tree::tests::a_process_holds_a_token_for_each_child_but_one";
            let mut alone = Command::new(std::env::current_exe().unwrap());
            let output = alone.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output();
            let output = output.unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            let failed = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.contains("1 passed"), "{said}{failed}");
            return;
        }
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 1000 & sleep 1000 & sleep 1000 & echo ready; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0; 6];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut line).unwrap();
        let pid = shell.id().cast_signed();
        assert_eq!(children(pid).unwrap().len(), 3);
        let below = children(pid).unwrap();
        let mask = affinity::affinity(None).unwrap();
        let mut tree = Tree::new(pid, mask.clone());
        assert_eq!(tree.look().unwrap(), 2);
        let first: CpuSet = mask.iter().take(1).collect();
        tree.aim_at(first.clone());
        tree.look();
        for pid in below.iter().chain([&pid]) {
            assert_eq!(affinity::affinity(Some(Tid(*pid))).unwrap(), first);
        }
        // All again, also for one that was bound meanwhile.
        tree.aim_at(CpuSet::new());
        tree.look();
        assert_eq!(affinity::affinity(Some(Tid(pid))).unwrap(), mask);
        below.iter().for_each(|pid| {
            let pid = nix::unistd::Pid::from_raw(*pid);
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
        });
        shell.kill().unwrap();
        shell.wait().unwrap();
    }
}
