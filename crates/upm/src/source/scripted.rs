//! Sources that count nothing by themselves: one that a test writes down, and one that is none.

use std::collections::VecDeque;

use super::{Caps, CounterSource, Scope, SourceError};
use crate::area::Areas;
use crate::counters::Counters;
use crate::topology::{Node, Topology};

/// References that are given: for each recorded iteration, or for each snapshot of recorded phases,
/// a list of page, node, references.
#[derive(Clone, Debug, Default)]
pub struct ScriptedSource {
    script: VecDeque<Vec<(usize, Node, u64)>>,
    sum: Counters,
    scope: Option<Scope>,
    starts: usize,
}

impl ScriptedSource {
    /// The references in their order.
    pub fn new(script: impl IntoIterator<Item = Vec<(usize, Node, u64)>>) -> Self {
        Self { script: script.into_iter().collect(), ..Self::default() }
    }

    /// How many iterations were recorded.
    pub fn starts(&self) -> usize {
        self.starts
    }

    fn play(&mut self) {
        for (page, node, references) in self.script.pop_front().unwrap_or_default() {
            self.sum.add(page, node, references);
        }
    }
}

impl CounterSource for ScriptedSource {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn caps(&self) -> Caps {
        Caps { is_exact: true, sees_reads: true, makes_faults: false }
    }

    unsafe fn attach(&mut self, areas: &Areas, topology: &dyn Topology) -> Result<(), SourceError> {
        self.sum.clear(areas.pages(), topology.nodes());
        Ok(())
    }

    fn start(&mut self, scope: Scope) -> Result<(), SourceError> {
        self.starts += 1;
        self.scope = Some(scope);
        if scope == Scope::Iteration {
            self.play();
        }
        Ok(())
    }

    fn snapshot(&mut self, out: &mut Counters) {
        if self.scope == Some(Scope::Phases) {
            self.play();
        }
        out.clone_from(&self.sum);
    }

    fn stop(&mut self) {
        self.scope = None;
    }
}

/// No source: the engine stays off, and says why.
#[derive(Clone, Debug)]
pub struct NoSource(pub String);

impl CounterSource for NoSource {
    fn name(&self) -> &'static str {
        "none"
    }

    fn caps(&self) -> Caps {
        Caps { is_exact: false, sees_reads: false, makes_faults: false }
    }

    unsafe fn attach(&mut self, _: &Areas, _: &dyn Topology) -> Result<(), SourceError> {
        Err(SourceError::None(self.0.clone()))
    }

    fn start(&mut self, _: Scope) -> Result<(), SourceError> {
        Err(SourceError::None(self.0.clone()))
    }

    fn snapshot(&mut self, out: &mut Counters) {
        out.clear(0, 0);
    }

    fn stop(&mut self) {}
}
