//! A gang that is out sleeps: its members are suspended at their park words, and use no processor
//! until their turn comes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use platform::affinity::{CpuSet, affinity};
use support::{Manager, Program, Seen, eventually};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

/// What the other gangs have to compute while this one is out, for a look to count: more than the
/// lag of the kernel's clock of threads that run.
const WORK_NS: u64 = 8_000_000;
/// Looks at gangs that are out.
const WINDOWS: usize = 6;

/// A program whose members compute while it is in.
struct Gang {
    program: Program,
    members: Vec<u32>,
}

impl Gang {
    fn start(manager: &Manager, members: u32) -> Self {
        let mut program = manager.program(members, members);
        let tids = program.ask(&format!("gang {members}"));
        Self { program, members: tids.split(' ').map(|tid| tid.parse().unwrap()).collect() }
    }

    fn of_thread(&self, tid: u32, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/task/{tid}/{file}", self.program.pid())).unwrap()
    }

    /// What its members ran together.
    fn ran(&self) -> u64 {
        let ran = |tid: &u32| {
            self.of_thread(*tid, "schedstat").split(' ').next().unwrap().parse::<u64>().unwrap()
        };
        self.members.iter().map(ran).sum()
    }

    fn sleeps(&self) -> bool {
        self.members
            .iter()
            .all(|tid| self.of_thread(*tid, "stat").rsplit_once(") ").unwrap().1.starts_with('S'))
    }

    /// Its grant, while it is out and its members sleep.
    fn out(&mut self) -> Option<Seen> {
        let seen = self.program.seen();
        (seen.shared && self.sleeps()).then_some(seen)
    }

    /// What its members ran in a part of one turn in which it was out all the time, and those of
    /// the others meanwhile, which is [`WORK_NS`] at least.
    fn watched_beside(&mut self, others: &[Gang]) -> (u64, u64) {
        let others_ran = || others.iter().map(Gang::ran).sum::<u64>();
        eventually("a turn in which one is out and another one computes", || {
            let seen = self.out()?;
            let (before, others_before) = (self.ran(), others_ran());
            loop {
                let others = others_ran() - others_before;
                let own = self.ran() - before;
                if self.program.seen() != seen {
                    return None;
                }
                if others >= WORK_NS {
                    return Some((own, others));
                }
            }
        })
    }
}

#[test]
fn a_gang_that_is_out_uses_no_processor_time() {
    let cpus = affinity(None).unwrap();
    if cpus.len() < 2 {
        return platform::skip!("needs two processors, this process may use {cpus}");
    }
    let cpus: CpuSet = cpus.iter().take(8).collect();
    let members = cpus.len() as u32 - 1;
    let manager =
        Manager::start(&["--policy", "gang", "--cpus", &cpus.to_string(), "--quantum", "60ms"]);
    // Each is as large as all that is there besides the masters' processor: one at a time.
    let mut gangs = [(); 3].map(|()| Gang::start(&manager, members));
    let watched = [(); WINDOWS].map(|()| {
        gangs.rotate_left(1);
        let [gang, rest @ ..] = &mut gangs;
        gang.watched_beside(rest)
    });
    let out: u64 = watched.iter().map(|it| it.0).sum();
    let others: u64 = watched.iter().map(|it| it.1).sum();
    println!(
        "measured: {members} members of a gang ran {out} ns while it was out, and the others' \
         {others} ns"
    );
    // Each by itself: a member may be on its way to sleep at the beginning of one or two.
    let idle = watched.iter().filter(|(out, others)| out * 100 <= *others).count();
    assert!(3 * idle >= 2 * WINDOWS, "gangs that were out, and the others meanwhile: {watched:?}");
}
