//! Looking for what programs hold and do not use (`unused`), and curbing them.

use platform::clock::monotonic_ns;
use policies::{AppId, Cause};

use super::Server;
use crate::threads::Threads;
use crate::unused::{Program, Sample};

/// Threads of a program whose waiting is looked at.
const MAX_THREADS: usize = 128;
/// Programs whose threads' waiting one look asks for: more are doubtful only where they were made
/// so on purpose.
const MAX_DOUBTFUL: usize = 64;

impl Server {
    /// Looks when it is time to. A program is curbed, or no longer curbed, with the decision of
    /// this pass.
    pub(super) fn look_for_unused(&mut self, now: u64) {
        if self.stirred && self.ledger.is_contended() {
            self.unused.begin(now);
        }
        if self.unused.next_look().is_none_or(|time| time > now) {
            return;
        }
        if !self.any_programs() {
            return self.unused.forget();
        }
        let sample = self.usage(now);
        for (serial, curb) in self.unused.look(sample) {
            if self.ledger.curb(AppId(serial), curb) {
                tracing::debug!(
                    program = serial,
                    ?curb,
                    "what a program does not use is others', or its own again"
                );
                self.cause = self.cause.or(Some(Cause::Request));
            }
        }
    }

    /// What the kernel says now. A program that ends meanwhile is not in it.
    fn usage(&self, now: u64) -> Sample {
        let begin = monotonic_ns();
        let mut sample =
            Sample { at: now, contended: self.ledger.is_contended(), ..Sample::default() };
        let mut doubtful = 0;
        for allotted in self.ledger.allotted() {
            let serial = allotted.app.0;
            let speaks = self
                .connections
                .get(&serial)
                .and_then(|it| Some((it.peer.pid, it.program.as_ref()?)));
            // What it starts uses its processors.
            if speaks.is_some_and(|(_, program)| program.broker) {
                continue;
            }
            let process = speaks.map(|(pid, program)| (pid, program.reclaim.threads()));
            let process =
                process.or_else(|| self.attached.get(&serial).map(|it| (it.pid, it.threads())));
            let Some((pid, threads)) = process else { continue };
            let Ok(ran) = self.kernel.as_ref().ran(pid) else { continue };
            let asks = self.unused.asks(serial) && doubtful < MAX_DOUBTFUL;
            doubtful += usize::from(asks);
            let waited = if asks { waited(threads) } else { None };
            let (held, shared, curb) = (allotted.held, allotted.shared, allotted.curb);
            sample.programs.insert(serial, Program { held, shared, curb, ran, waited });
        }
        sample.cost = monotonic_ns().saturating_sub(begin);
        sample
    }
}

/// How long the first threads of a process waited for a processor. A kernel that does not count
/// that says that no thread waited.
fn waited(threads: &Threads) -> Option<u64> {
    let tids = threads.list(MAX_THREADS).ok()?;
    let waited = tids.into_iter().map(|tid| threads.times(tid).map_or(0, |times| times.waited));
    Some(waited.fold(0, u64::saturating_add))
}
