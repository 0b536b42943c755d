//! Tests of the ledger, and the books that they begin with.

use super::*;
use policies::{MachineCpu, Registry};

mod arrivals;
mod invariants;
mod releases;
mod speeds;
mod turns;

pub(super) const MS: Nanos = 1_000_000;

fn machine(cpus: u32) -> Machine {
    Machine::new((0..cpus).map(|id| MachineCpu { id, core: id, llc: 0, node: 0 }).collect())
}

pub(super) fn ledger(cpus: u32, policy: &str) -> Ledger {
    let mut ledger =
        Ledger::new(machine(cpus), 100 * MS, Registry::with_builtin().create(policy).unwrap());
    ledger.set_maker(|name| Registry::with_builtin().create(name).ok());
    ledger
}

pub(super) fn cpus(ledger: &Ledger, app: u64) -> Vec<u32> {
    let mut cpus = ledger.holding(AppId(app)).unwrap().cpus.clone();
    cpus.sort_unstable();
    cpus
}
