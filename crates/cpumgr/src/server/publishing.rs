//! What programs are told: what they hold, and the numbers that all of them read; and what the
//! trace is told of that.

use arena::global::State;
use platform::clock::monotonic_ns;
use platform::process;
use policies::AppId;

use super::Server;
use crate::trace;

impl Server {
    /// Tells the programs that hold something else now: first all of them, so that those that wait
    /// run, then what follows from that.
    pub(super) fn publish(&mut self, changes: &[AppId], now: u64) {
        for app in changes {
            let program = self.connections.get_mut(&app.0).and_then(|it| it.program.as_mut());
            if let Some((program, holding)) = program.zip(self.ledger.holding(*app)) {
                program.publish(self.kernel.as_ref(), holding, self.ledger.turn(*app, now));
            }
            if let Some(owner) = self.owner_of(*app) {
                self.charge(owner, now);
            }
        }
        self.tell_turns(now);
        self.measuring.told(changes.len());
        for app in changes {
            self.stirred = true;
            if self.bind_attached(*app, now) {
                continue;
            }
            let Some(connection) = self.connections.get_mut(&app.0) else {
                continue;
            };
            let (pid, owner) = (connection.peer.pid.0, connection.peer.uid);
            let Some((program, holding)) =
                connection.program.as_mut().zip(self.ledger.holding(*app))
            else {
                continue;
            };
            program.follow(self.kernel.as_ref(), holding, now + self.grace);
            self.looks.charge(owner, self.kernel.work(), now);
            let Some(trace) = &mut self.trace else { continue };
            let is_known = |(cpus, shared): &(Vec<u32>, bool)| {
                (cpus, *shared) == (&holding.cpus, holding.shared)
            };
            if !program.traced.as_ref().is_some_and(is_known) {
                program.traced = Some((holding.cpus.clone(), holding.shared));
                trace.write(program.line(
                    trace::Event::Allocation,
                    pid,
                    now,
                    holding.cpus.clone(),
                    holding.shared,
                ));
            }
        }
    }

    /// Tells all programs when their turns come, where programs take turns, and once more when they
    /// do not any longer.
    fn tell_turns(&mut self, now: u64) {
        let takes_turns = self.ledger.takes_turns();
        if !std::mem::replace(&mut self.turns_told, takes_turns) && !takes_turns {
            return;
        }
        for (app, turn) in self.ledger.turns(now) {
            let connection = self.connections.get(&app.0);
            if let Some(program) = connection.and_then(|it| it.program.as_ref()) {
                program.tell_turn(turn);
            }
        }
    }

    /// The numbers that all programs read.
    pub(super) fn tell_state(&self) {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        self.page.set_state(State {
            processors: self.ledger.processors(),
            programs: number(self.programs()),
            waiting: number(self.ledger.waiting()),
            queued: number(self.queue.len()),
            reports: self.ledger.wants_reports(),
            domain: self.domain.is_some(),
        });
    }

    /// A line of the trace about the manager itself.
    pub(super) fn trace_self(&mut self, event: trace::Event) {
        if let Some(trace) = &mut self.trace {
            trace.write(trace::Line {
                t_ns: monotonic_ns(),
                event,
                pid: process::current_pid().0,
                name: "cpumgr".into(),
                cpus: self.cpus.iter().map(|cpu| cpu.0).collect(),
                shared: false,
                lost: 0,
                gone: 0,
            });
        }
    }
}
