//! Tests of the ledger, and the books that they begin with.

use super::*;
use policies::{MachineCpu, Needs, Registry};

mod arrivals;
mod invariants;
mod releases;
mod speeds;
mod turns;

pub(super) const MS: Nanos = 1_000_000;

fn machine(cpus: u32) -> Machine {
    Machine::new((0..cpus).map(|id| MachineCpu { id, core: id, llc: 0, node: 0 }).collect())
}

/// A policy as the daemon has it, whose ledger keeps what programs report.
fn policy(name: &str) -> Option<Box<dyn policies::Policy>> {
    Registry::with_builtin_for(Needs::EVERYTHING).create(name).ok()
}

pub(super) fn plain(name: &str) -> Box<dyn policies::Policy> {
    policy(name).unwrap()
}

pub(super) fn ledger(cpus: u32, name: &str) -> Ledger {
    let mut ledger = Ledger::new(machine(cpus), 100 * MS, policy(name).unwrap());
    ledger.set_maker(policy);
    ledger
}

pub(super) fn cpus(ledger: &Ledger, app: u64) -> Vec<u32> {
    let mut cpus = ledger.holding(AppId(app)).unwrap().cpus.clone();
    cpus.sort_unstable();
    cpus
}
