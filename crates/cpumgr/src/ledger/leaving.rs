//! Leaving: processors that are no program's for a while, since others run there (D9, `foreign`).
//!
//! # Rule
//! What is to be left is left as long as every program can still have a processor of its own: there
//! are as many processors as programs that do not sleep, and one in the set of each program that
//! stays on some. What was to be left last is kept first.
//!
//! What was drained goes in any case, though programs share what is left, down to the last
//! processor and to the last one in the set of each program that stays on some.

use policies::Machine;

use super::Ledger;

impl Ledger {
    /// These processors are to be left to others, most willingly the first; true when that is new.
    /// Takes effect with the next [`Ledger::decide`].
    pub fn leave_to_others(&mut self, cpus: Vec<u32>) -> bool {
        let changed = self.left != cpus;
        self.left = cpus;
        changed
    }

    /// Programs shall leave these, and no others besides; true when that is new. Takes effect with
    /// the next [`Ledger::decide`].
    pub fn drain(&mut self, cpus: Vec<u32>) -> bool {
        let changed = self.drained != cpus;
        self.drained = cpus;
        changed
    }

    /// What programs shall leave.
    pub fn drained(&self) -> &[u32] {
        &self.drained
    }

    /// The processors that are in fact left to others, and those that were drained in fact.
    pub fn left_to_others(&self) -> impl Iterator<Item = u32> + '_ {
        let all = self.machine.cpus.iter().map(|cpu| cpu.id);
        all.filter(|id| self.available.cpus.iter().all(|cpu| cpu.id != *id))
    }

    /// Processors that programs can have now.
    pub(super) fn available(&self) -> u32 {
        u32::try_from(self.available.cpus.len()).expect("processors have 32-bit numbers")
    }

    /// What programs can have from the next decision on.
    pub(super) fn make_available(&mut self) {
        let nothing_goes = self.left.is_empty() && self.drained.is_empty();
        if nothing_goes && self.available.cpus.len() == self.machine.cpus.len() {
            return;
        }
        let mut cpus = self.machine.cpus.clone();
        let least = self.awake().count().max(1);
        let drained = self.drained.iter().map(|id| (id, 1));
        for (left, least) in drained.chain(self.left.iter().map(|id| (id, least))) {
            let Some(at) =
                cpus.iter().position(|cpu| cpu.id == *left).filter(|_| cpus.len() > least)
            else {
                continue;
            };
            let cpu = cpus.remove(at);
            let has_room = |app| cpus.iter().any(|cpu| self.placement.may_use(app, cpu.id));
            if !self.entries.iter().all(|entry| has_room(entry.id)) {
                cpus.insert(at, cpu);
            }
        }
        self.available = Machine { cpus, ..self.machine.clone() };
        let there = self.available();
        self.entries.iter_mut().for_each(|entry| entry.there = there);
    }
}

#[cfg(test)]
mod tests {
    use policies::{AppId, Cause};

    use super::super::MAX_HOLD;
    use super::super::tests::{MS, cpus, ledger};

    #[test]
    fn what_is_left_to_others_is_nobodys_until_it_comes_back() {
        let mut ledger = ledger(4, "equip");
        ledger.arrive(AppId(1), 4, 4);
        ledger.decide(0, Cause::Arrival);
        assert!(ledger.leave_to_others(vec![2]));
        assert!(!ledger.leave_to_others(vec![2]));
        ledger.decide(MAX_HOLD, Cause::Administration);
        assert_eq!(cpus(&ledger, 1), [0, 1, 3]);
        // It has all that there is, and no program waits: nothing happens by itself.
        assert!(ledger.holding(AppId(1)).unwrap().dedicated);
        assert_eq!((ledger.waiting(), ledger.next_deadline()), (0, None));
        assert_eq!(ledger.left_to_others().collect::<Vec<_>>(), [2]);
        assert_eq!((ledger.processors(), ledger.request(AppId(1))), (4, Some(4)));
        assert!(ledger.leave_to_others(vec![]));
        ledger.decide(2 * MAX_HOLD, Cause::Administration);
        assert_eq!(cpus(&ledger, 1).len(), 4);
        assert_eq!(ledger.left_to_others().count(), 0);
    }

    #[test]
    fn programs_do_not_share_processors_for_the_sake_of_others() {
        let mut ledger = ledger(2, "equip");
        ledger.arrive(AppId(1), 2, 2);
        ledger.leave_to_others(vec![1, 0]);
        ledger.decide(0, Cause::Arrival);
        assert_eq!(cpus(&ledger, 1), [0], "what was to be left last is kept");
        ledger.arrive(AppId(2), 2, 2);
        ledger.decide(MAX_HOLD, Cause::Arrival);
        assert_eq!((cpus(&ledger, 1), cpus(&ledger, 2)), (vec![0], vec![1]));
        assert!(!ledger.holding(AppId(2)).unwrap().shared);
        ledger.leave(AppId(2));
        ledger.decide(2 * MAX_HOLD, Cause::Exit);
        assert_eq!(cpus(&ledger, 1), [0]);
    }

    #[test]
    fn drained_processors_go_whatever_that_costs_but_the_last_one() {
        let mut ledger = ledger(3, "dss-ts");
        (1..=2).for_each(|app| ledger.arrive(AppId(app), 3, 3));
        ledger.decide(0, Cause::Arrival);
        assert!(ledger.drain(vec![0, 2]) && !ledger.drain(vec![0, 2]));
        ledger.decide(MAX_HOLD + MS, Cause::Administration);
        assert_eq!((cpus(&ledger, 1), cpus(&ledger, 2)), (vec![1], vec![1]), "they share it");
        ledger.leave_to_others(vec![1]);
        ledger.drain(vec![0, 1, 2]);
        ledger.decide(3 * MAX_HOLD, Cause::Administration);
        assert_eq!(ledger.left_to_others().count(), 2, "one stays");
        ledger.leave_to_others(vec![]);
        assert!(ledger.drain(vec![]));
        ledger.decide(5 * MAX_HOLD, Cause::Administration);
        assert_eq!(ledger.left_to_others().count(), 0);
        let [one, two] = [1, 2].map(|app| cpus(&ledger, app));
        assert!(one.iter().all(|cpu| !two.contains(cpu)), "{one:?} {two:?}");
    }

    #[test]
    fn a_program_that_can_run_nowhere_else_stays_on_what_is_drained() {
        let mut ledger = ledger(4, "equip");
        ledger.arrive(AppId(1), 4, 4);
        ledger.confine(AppId(1), &[1, 2].into_iter().collect());
        ledger.drain(vec![1, 2]);
        ledger.decide(0, Cause::Arrival);
        assert_eq!(cpus(&ledger, 1), [2]);
    }

    #[test]
    fn a_program_that_stays_on_some_processors_keeps_one_of_them() {
        let mut ledger = ledger(4, "equip");
        ledger.arrive(AppId(1), 4, 4);
        ledger.confine(AppId(1), &[1, 2].into_iter().collect());
        ledger.leave_to_others(vec![1, 2, 3]);
        ledger.decide(0, Cause::Arrival);
        assert_eq!(cpus(&ledger, 1), [2]);
        assert_eq!(ledger.left_to_others().collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn what_a_program_holds_in_a_serial_phase_is_left_too() {
        let mut ledger = ledger(2, "equip");
        ledger.arrive(AppId(1), 2, 2);
        ledger.decide(0, Cause::Arrival);
        ledger.set_serial(AppId(1), true);
        ledger.ask(AppId(1), 1);
        ledger.leave_to_others(vec![1]);
        ledger.decide(MAX_HOLD + MS, Cause::Administration);
        assert_eq!(cpus(&ledger, 1), [0]);
    }
}
