//! Processors that programs leave because an administrator says so (`cpumgr drain`).
//!
//! # Not here
//! How they leave them: as they leave any that is taken (`ledger`, leaving). Which users may say
//! so: `control`. That the next manager knows of it after a kill: `inheriting`.

use platform::affinity::{CpuId, CpuSet};
use policies::Cause;

use super::Server;

impl Server {
    /// Drains these processors besides those that are, or gives them back to programs.
    pub(super) fn change_drained(&mut self, list: &str, drains: bool) -> Result<(), String> {
        let named = CpuSet::parse_list(list).map_err(|error| error.to_string())?;
        if named.is_empty() {
            return Err("no processor is named; write a list as 0-3,8".into());
        }
        let foreign: CpuSet = named.iter().filter(|cpu| !self.cpus.contains(*cpu)).collect();
        if !foreign.is_empty() {
            return Err(format!(
                "processors {foreign} are not managed here; those that are: {}",
                self.cpus
            ));
        }
        let before = self.drained();
        let after: CpuSet = match drains {
            true => before.iter().chain(named.iter()).collect(),
            false => before.iter().filter(|cpu| !named.contains(*cpu)).collect(),
        };
        if after.len() >= self.cpus.len() {
            return Err(format!(
                "no processor would be left for programs; leave one of {} out, or end the manager \
                 (cpumgr stop)",
                self.cpus
            ));
        }
        self.set_drained(&after);
        tracing::info!(drained = %after, "other processors are drained");
        Ok(())
    }

    /// What a killed manager drained, as far as it is managed here and leaves a processor.
    pub(super) fn drain_again(&mut self, list: &str) {
        let left = CpuSet::parse_list(list).unwrap_or_default().intersection(&self.cpus);
        if left.len() < self.cpus.len() {
            self.set_drained(&left);
        } else {
            tracing::warn!(drained = list, "no processor would be left: none is drained");
        }
    }

    fn set_drained(&mut self, cpus: &CpuSet) {
        if self.ledger.drain(cpus.iter().map(|cpu| cpu.0).collect()) {
            self.cause = self.cause.or(Some(Cause::Administration));
        }
    }

    /// What programs shall leave.
    pub(super) fn drained(&self) -> CpuSet {
        self.ledger.drained().iter().copied().map(CpuId).collect()
    }

    /// What is left to others because those run there.
    pub(super) fn left_to_others(&self) -> CpuSet {
        let drained = self.drained();
        let left = self.ledger.left_to_others().map(CpuId);
        left.filter(|cpu| !drained.contains(*cpu)).collect()
    }
}
