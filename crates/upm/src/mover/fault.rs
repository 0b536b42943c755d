//! A mover that fails where a test wants it to.

use std::collections::VecDeque;

use super::{Home, Mover, Outcome, Refusal, Step};

/// What happens to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It moves as it should.
    None,
    /// It stays, for this reason.
    Refuse(Refusal),
    /// It goes to its second choice: the node with the number after the right one.
    Divert,
    /// Its home cannot be read, in queries; in migrations it is refused with the number.
    Hide(i32),
}

/// Another mover whose pages meet faults, one after the other; `None` when they are used up.
#[derive(Clone, Debug)]
pub struct FaultyMover<M> {
    inner: M,
    migrations: VecDeque<Fault>,
    queries: VecDeque<Fault>,
    nodes: u8,
}

impl<M> FaultyMover<M> {
    /// Faults for the next pages that are moved, and for the next ones whose home is read, on a
    /// machine of `nodes` nodes.
    pub fn new(
        inner: M,
        nodes: u8,
        migrations: impl IntoIterator<Item = Fault>,
        queries: impl IntoIterator<Item = Fault>,
    ) -> Self {
        let (migrations, queries) =
            (migrations.into_iter().collect(), queries.into_iter().collect());
        Self { inner, migrations, queries, nodes }
    }

    /// The mover inside.
    pub fn inner(&self) -> &M {
        &self.inner
    }

    /// The mover inside, to change what it has.
    pub fn inner_mut(&mut self) -> &mut M {
        &mut self.inner
    }
}

impl<M: Mover> Mover for FaultyMover<M> {
    fn is_real(&self) -> bool {
        self.inner.is_real()
    }

    fn homes(&mut self, pages: &[usize]) -> Vec<Home> {
        let mut homes = self.inner.homes(pages);
        for home in &mut homes {
            if let Some(Fault::Hide(errno)) = self.queries.pop_front() {
                *home = Home::Unknown(errno);
            }
        }
        homes
    }

    fn migrate(&mut self, steps: &[Step]) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for step in steps {
            outcomes.push(match self.migrations.pop_front().unwrap_or(Fault::None) {
                Fault::None => self.inner.migrate(&[*step])[0],
                Fault::Refuse(refusal) => Outcome::Refused(refusal),
                Fault::Hide(errno) => Outcome::Refused(Refusal::Other(errno)),
                Fault::Divert => {
                    let mut other = *step;
                    other.to.0 = (step.to.0 + 1) % self.nodes;
                    match self.inner.migrate(&[other])[0] {
                        Outcome::Moved => Outcome::Elsewhere(other.to),
                        outcome => outcome,
                    }
                }
            });
        }
        outcomes
    }
}
