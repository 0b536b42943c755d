//! When turns come, as programs are told: so a master outside its turn can wait for it at a fork.
//!
//! # Rule
//! The policy says after how many ends of quanta a turn comes (`Allocation::turn`). The first of
//! these is the end of the quantum in force. A program that has its turn and waits for processors
//! which are still too young to be taken (M4) is outside it until then. Policies with turns of
//! their own lengths (`vtq-dss`) count about a quantum for each.

use arena::grant::Turn;
use policies::{AppId, Nanos};

use super::Ledger;
use super::entry::Entry;

impl Ledger {
    /// Another decision is in force.
    pub(super) fn note_turns(&mut self) {
        self.takes_turns = self.decision.allocations.iter().any(|it| it.turn > 0);
    }

    /// Whether programs take turns.
    pub fn takes_turns(&self) -> bool {
        self.takes_turns
    }

    /// When the turn of each program comes, in order of arrival.
    pub fn turns(&self, now: Nanos) -> impl Iterator<Item = (AppId, Turn)> + '_ {
        (0..self.entries.len()).map(move |at| (self.entries[at].id, self.turn_at(at, now)))
    }

    /// When a program's turn comes.
    pub fn turn(&self, app: AppId, now: Nanos) -> Turn {
        let at = self.entries.iter().position(|entry| self.takes_turns && entry.id == app);
        at.map_or(Turn::None, |at| self.turn_at(at, now))
    }

    fn turn_at(&self, at: usize, now: Nanos) -> Turn {
        let Entry { holding, .. } = &self.entries[at];
        // L8.
        let Some(allocation) = self.decision.allocations.get(at).filter(|_| self.takes_turns)
        else {
            return Turn::None;
        };
        if !holding.shared {
            return Turn::Now;
        }
        Turn::At(match allocation.turn.checked_sub(1) {
            None => self.hold_ends.unwrap_or(now),
            Some(more) => {
                let ends = self.turn_ends.unwrap_or(now.saturating_add(self.quantum));
                ends.saturating_add(self.quantum.saturating_mul(more.into()))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use arena::grant::Turn;
    use policies::{AppId, Cause};

    use super::super::tests::{MS, ledger};

    #[test]
    fn a_program_outside_its_turn_is_told_at_which_end_of_a_quantum_it_comes() {
        let mut ledger = ledger(4, "rr");
        for app in 1..=3 {
            ledger.arrive(AppId(app), 4, 4);
        }
        ledger.decide(0, Cause::Arrival);
        let quantum = ledger.quantum();
        let turns = |ledger: &super::Ledger, now| -> Vec<Turn> {
            ledger.turns(now).map(|(_, turn)| turn).collect()
        };
        let at = |quanta: u64| Turn::At(quanta * quantum);
        assert_eq!(turns(&ledger, 0), [Turn::Now, at(1), at(2)]);
        // The end of the quantum: the processors of the first are old enough to be taken.
        ledger.tick(quantum);
        assert_eq!(turns(&ledger, quantum), [at(3), Turn::Now, at(2)]);
        assert_eq!(ledger.turn(AppId(1), quantum), at(3));
        // Alone: no program takes turns.
        ledger.leave(AppId(1));
        ledger.leave(AppId(3));
        ledger.decide(quantum + MS, Cause::Exit);
        assert!(!ledger.takes_turns());
        assert_eq!(turns(&ledger, quantum + MS), [Turn::None]);
    }

    #[test]
    fn a_program_whose_turn_has_come_is_outside_it_while_its_processors_are_too_young() {
        let mut ledger = ledger(4, "rr");
        for app in 1..=2 {
            ledger.arrive(AppId(app), 4, 4);
        }
        ledger.decide(0, Cause::Arrival);
        // The first of the ring wants less, and the second has the turn before its hold is over.
        ledger.leave(AppId(1));
        ledger.arrive(AppId(3), 4, 4);
        ledger.decide(MS, Cause::Arrival);
        let turns: Vec<Turn> = ledger.turns(MS).map(|(_, turn)| turn).collect();
        assert!(turns.iter().all(|turn| *turn != Turn::None), "two programs take turns: {turns:?}");
    }
}
