//! A policy of one's own in the shipped manager:
//! `cargo run -p cpumgr --example custom_policy -- daemon --policy halves`.

use std::process::ExitCode;

use policies::{Allocation, Decision, Policy, Snapshot};

/// The first program has half of the processors, the next one half of the rest, and so on.
struct Halves;

impl Policy for Halves {
    fn name(&self) -> &'static str {
        "halves"
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        if snapshot.is_crowded() && snapshot.master_always {
            let all = snapshot.apps.iter().map(|app| Allocation::shared_master(app.id));
            return Decision::everybody_waits(snapshot, all.collect());
        }
        // Every program's master runs; the halves are of what the masters leave.
        let mut left = snapshot.processors.saturating_sub(snapshot.apps.len() as u32);
        let mut masters = snapshot.processors.min(snapshot.apps.len() as u32);
        let allocations = snapshot.apps.iter().map(|app| {
            let master = masters.min(1);
            masters -= master;
            let more = left.div_ceil(2).min(app.wants() - 1) * master;
            left -= more;
            Allocation::own(app.id, master + more)
        });
        let allocations = allocations.collect();
        Decision::everybody_waits(snapshot, allocations)
    }
}

fn main() -> ExitCode {
    let mut policies = cpumgr::limits::builtin();
    match policies.register("halves", "half for the first, half of the rest for the next", || {
        Box::new(Halves)
    }) {
        Ok(()) => cpumgr::run(policies),
        Err(error) => panic!("{error}"),
    }
}
