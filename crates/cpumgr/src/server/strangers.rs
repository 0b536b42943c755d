//! Looking for strangers on processors of programs (`foreign`), and leaving those to them.
//!
//! A program may hold processors long before it has threads for them: it registers when something
//! asks it how many processors there are. So it is looked at closely when it arrives, and again
//! when threads begin, for which it rings.
//!
//! After a manager's end the programs that did not come back yet run anywhere, and are no strangers
//! of those that did: until all are back, or their time is over (`inheriting`, S2), there is no
//! look.

use std::collections::BTreeMap;

use platform::affinity::{CpuId, CpuSet, Tid};
use platform::clock::monotonic_ns;
use platform::load;
use policies::{AppId, Cause};

use super::Server;
use crate::foreign::{Foreign, Held, Sample};
use crate::surprises::Surprise;

impl Server {
    /// Looks when it is time to. What is left to others changes with the decision of this pass.
    pub(super) fn look_for_strangers(&mut self, now: u64) {
        let Some(mut foreign) = self.foreign.take() else { return self.rang.clear() };
        let waits = self.legacy.is_returning(now);
        if self.have_threads_begun() | self.legacy.is_return_over(now) {
            tracing::debug!("programs or threads begin: a close look for strangers");
            foreign.look_closely(now);
        }
        if waits || !self.any_programs() {
            foreign.forget();
        } else if foreign.next_look().is_some_and(|time| time <= now) {
            let sample = self.sample(monotonic_ns(), &foreign);
            foreign.look(sample);
        }
        let left = foreign.left();
        self.foreign = Some(foreign);
        let cpus: CpuSet = left.iter().copied().map(CpuId).collect();
        if self.ledger.leave_to_others(left) {
            tracing::debug!(%cpus, "processors with strangers on them");
            self.cause = self.cause.or(Some(Cause::Administration));
        }
    }

    /// How many processors a program holds alone.
    fn own_processors(&self, serial: u64) -> usize {
        let holding =
            self.ledger.holding(AppId(serial)).filter(|it| !it.shared && it.unbound.is_none());
        holding.map_or(0, |holding| holding.cpus.len())
    }

    /// True when one of those that rang has a thread on more of its own processors than it ever
    /// had.
    fn have_threads_begun(&mut self) -> bool {
        let mut begun = false;
        for serial in std::mem::take(&mut self.rang) {
            let own = self.own_processors(serial);
            let Some(program) =
                self.connections.get_mut(&serial).and_then(|it| it.program.as_mut())
            else {
                continue;
            };
            // By index, all of them begin before the first that is beyond.
            let seated = program.areas.vps().take_while(|vp| vp.index < own).count();
            begun |= seated > program.seated;
            program.seated = program.seated.max(seated);
        }
        begun
    }

    /// What the kernel says now. A program that ends meanwhile is not in it.
    fn sample(&mut self, now: u64, foreign: &Foreign) -> Sample {
        let (close, to_leave) = (foreign.is_close(), foreign.left());
        let left = self.ledger.left_to_others().filter(|cpu| to_leave.contains(cpu)).count();
        let mut sample = Sample { at: now, left, ..Sample::default() };
        // Where all share there is nothing to be found out.
        let some = close || self.ledger.anybody_has_own();
        for connection in self.connections.values().filter(|_| some) {
            let Some(program) = &connection.program else { continue };
            let ran = if close { load::ran(connection.peer.pid).ok() } else { None };
            sample.ran = sample.ran.saturating_add(ran.unwrap_or(0));
            let holding = self.ledger.holding(AppId(connection.serial));
            let Some(holding) = holding.filter(|it| !it.shared && it.unbound.is_none()) else {
                continue;
            };
            let Some(first) = holding.cpus.first().copied() else { continue };
            let pid = Tid(connection.peer.pid.0);
            let seated = program.areas.vps().take_while(|vp| vp.index < holding.cpus.len());
            let seated = seated.map(|vp| (holding.cpus[vp.index], vp.tid));
            // The initial thread, unless another thread says that it is virtual processor 0.
            let threads: BTreeMap<_, _> = std::iter::once((first, pid)).chain(seated).collect();
            let threads = threads.into_iter();
            let threads = threads
                .filter_map(|(cpu, tid)| Some((cpu, (tid, program.reclaim.threads().times(tid)?))));
            let (threads, crowd) = (threads.collect(), program.areas.crowd());
            let processors = holding.cpus.len();
            sample.held.insert(connection.serial, Held { threads, processors, first, ran, crowd });
        }
        sample.spare = self.ledger.has_spare();
        if close {
            let attached = self.attached.values().filter_map(|it| load::ran(it.pid).ok());
            sample.ran = attached.fold(sample.ran, u64::saturating_add);
            match load::busy() {
                Ok(busy) => {
                    self.surprises.is_over(Surprise::Busy, 0);
                    sample.busy = busy
                        .into_iter()
                        .filter(|(cpu, _)| self.cpus.contains(*cpu))
                        .map(|(cpu, ns)| (cpu.0, ns))
                        .collect()
                }
                // Nothing is known to be busy: what was left comes back.
                Err(error) if self.surprises.comes(Surprise::Busy, 0) => {
                    tracing::warn!(%error, "how busy processors are is not known")
                }
                Err(_) => {}
            }
        }
        sample.cost = monotonic_ns().saturating_sub(now);
        sample
    }
}
