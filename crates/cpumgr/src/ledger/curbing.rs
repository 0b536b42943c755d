//! Curbing: what a program asked for and does not use is not held for it while others could use it
//! (`unused`).
//!
//! # Rule
//! A program that is curbed counts as asking for that number of processors and no more. A program
//! that is curbed to nothing *sleeps*: the policy does not know of it. It holds what no other
//! program gets, or else it shares a processor with the program that has that processor (L1, L9).
//! What a program holds beyond its curb, and no other program gets, stays with it, as in a serial
//! phase (L5). A program has its whole request again when it asks for more than before or takes
//! back what it had released, unless the curb is firm, and when the curb is taken away.

use policies::{Allocation, AppId, AppView};

use super::Ledger;
use super::entry::{Curb, Entry};

/// What a program has of what it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allotted {
    /// Which program.
    pub app: AppId,
    /// Processors of its own that are not idle in its serial phase.
    pub held: u32,
    /// Its one processor is used by others, too.
    pub shared: bool,
    /// Processors that it wants and could use, without its curb.
    pub wants: u32,
    /// Its curb.
    pub curb: Option<Curb>,
}

impl Ledger {
    /// What each program has, in order of arrival.
    pub fn allotted(&self) -> impl Iterator<Item = Allotted> + '_ {
        self.entries.iter().map(|entry| Allotted {
            app: entry.id,
            held: u32::try_from(entry.used().len()).expect("processors have 32-bit numbers"),
            shared: entry.holding.shared,
            wants: entry.wants_in_all(),
            curb: entry.curb,
        })
    }

    /// Programs want more together than there is, and what one does not use another one could have.
    pub fn is_contended(&self) -> bool {
        let wanted =
            self.entries.iter().fold(0_u32, |sum, entry| sum.saturating_add(entry.wants_in_all()));
        self.entries.len() > 1 && wanted > self.available() && !self.policy.needs().unbound
    }

    /// Processors that one more program could have without having others go without: what they do
    /// not want, or an equal part.
    pub fn part_of_newcomer(&self) -> u32 {
        let wanted =
            self.entries.iter().fold(0_u32, |sum, entry| sum.saturating_add(entry.wants()));
        let programs = u32::try_from(self.awake().count()).unwrap_or(u32::MAX);
        let equal = self.available() / programs.saturating_add(1);
        self.available().saturating_sub(wanted).max(equal)
    }

    /// There are processors that no program uses as its own.
    pub fn has_spare(&self) -> bool {
        let held: usize = self.entries.iter().map(|entry| entry.used().len()).sum();
        held < self.available.cpus.len()
    }

    /// Curbs a program, or no longer; true when that is new. Takes effect with the next
    /// [`Ledger::decide`].
    pub fn curb(&mut self, app: AppId, curb: Option<Curb>) -> bool {
        let curb = curb.filter(|_| !self.policy.needs().unbound);
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == app) else {
            return false;
        };
        std::mem::replace(&mut entry.curb, curb) != curb
    }

    /// A program counts as asking for less than it does.
    pub fn is_curbed(&self, app: AppId) -> bool {
        self.entries.iter().any(|entry| entry.id == app && entry.curb.is_some())
    }

    /// Under a policy that binds nothing no program is curbed.
    pub(super) fn forget_curbs(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.curb = None);
    }

    /// The entries of which the policy knows, for its snapshot.
    pub(super) fn awake(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| !entry.sleeps())
    }

    /// Names the programs that sleep in the decision, too: with nothing (L8).
    pub(super) fn name_sleepers(&mut self) {
        for (at, entry) in self.entries.iter().enumerate().filter(|(_, entry)| entry.sleeps()) {
            self.decision.allocations.insert(at, Allocation::own(entry.id, 0));
        }
    }

    /// The decision in force is about all of these: no program came, or woke, since.
    pub(super) fn decided_on_all(&self, views: &[AppView]) -> bool {
        let mut decided = self.decided.allocations.iter();
        views.iter().all(|view| decided.any(|allocation| allocation.app == view.id))
    }
}

#[cfg(test)]
mod tests {
    use policies::{AppId, Cause};

    use super::super::tests::{MS, cpus, ledger};
    use super::super::{Curb, Ledger, MAX_HOLD};

    /// Programs that want all of `processors` processors, decided on.
    fn books(processors: u32, policy: &str, programs: u64) -> Ledger {
        let mut ledger = ledger(processors, policy);
        (1..=programs).for_each(|app| ledger.arrive(AppId(app), processors, processors));
        ledger.decide(0, Cause::Arrival);
        ledger
    }

    fn to(processors: u32) -> Option<Curb> {
        Some(Curb { processors, firm: false })
    }

    #[test]
    fn what_a_program_does_not_use_is_others() {
        for policy in [
            "dss-ts",
            "dss",
            "equip",
            "cluster",
            "batch",
            "sw-dss",
            "vtq-dss",
            "gang",
            "rr",
            "turnaround",
        ] {
            let mut ledger = books(8, policy, 2);
            assert!(ledger.is_contended());
            assert!(ledger.curb(AppId(1), to(2)) && !ledger.curb(AppId(1), to(2)));
            ledger.decide(200 * MS, Cause::Request);
            // Equal shares do not become larger for that, and what no other program gets stays.
            assert!(ledger.allotted().next().is_some_and(|it| it.held <= 2), "{policy}");
            assert!(ledger.holding(AppId(1)).is_some_and(|it| !it.cpus.is_empty()), "{policy}");
        }
        let mut ledger = books(8, "dss-ts", 2);
        ledger.curb(AppId(1), to(2));
        ledger.decide(200 * MS, Cause::Request);
        assert_eq!((cpus(&ledger, 1).len(), cpus(&ledger, 2).len()), (2, 6));
        assert_eq!(ledger.request(AppId(1)), Some(8), "what it asked for is known");
    }

    #[test]
    fn a_sleeper_shares_a_processor_of_a_program_that_does_not_notice() {
        for policy in [
            "dss-ts",
            "dss",
            "equip",
            "cluster",
            "batch",
            "sw-dss",
            "vtq-dss",
            "gang",
            "rr",
            "turnaround",
        ] {
            let mut ledger = books(2, policy, 2);
            ledger.curb(AppId(1), to(0));
            let mut now = 200 * MS;
            ledger.decide(now, Cause::Request);
            while let Some(next) = ledger.next_deadline().filter(|next| *next < 1_000 * MS) {
                now = next;
                ledger.tick(now);
            }
            assert_eq!(cpus(&ledger, 2).len(), 2, "{policy}");
            let [first, second] = [1, 2].map(|app| ledger.holding(AppId(app)).unwrap().clone());
            assert!(
                first.shared && first.cpus.len() == 1 && !second.shared && second.dedicated,
                "{policy}"
            );
            ledger.curb(AppId(1), None);
            ledger.decide(now + MAX_HOLD, Cause::Request);
            assert!(cpus(&ledger, 1).len() == 1, "{policy}");
        }
    }

    #[test]
    fn any_number_of_sleepers_costs_the_others_nothing() {
        let mut ledger = books(4, "dss-ts", 400);
        (3..=400).for_each(|app| assert!(ledger.curb(AppId(app), to(0))));
        ledger.decide(200 * MS, Cause::Request);
        for app in [1, 2] {
            let holding = ledger.holding(AppId(app)).unwrap();
            assert_eq!((holding.cpus.len(), holding.shared), (2, false));
        }
        // They are spread: a program that wakes first finds some room.
        let on = |cpu: u32| (3..=400).filter(|app| cpus(&ledger, *app) == [cpu]).count();
        assert!((0..4).all(|cpu| (90..=110).contains(&on(cpu))), "{:?}", [0, 1, 2, 3].map(on));
        // No program moves by itself.
        assert_eq!(ledger.next_deadline(), None);
        // What is received goes to the programs that use it.
        ledger.account(300 * MS);
        assert!(ledger.entries[2..].iter().all(|entry| entry.cpu_time <= 2 * MS * 200));
    }

    #[test]
    fn a_program_that_asks_for_more_has_its_request_again_unless_the_curb_is_firm() {
        let mut ledger = books(2, "dss-ts", 2);
        for firm in [false, true] {
            ledger.ask(AppId(1), 1);
            ledger.curb(AppId(1), Some(Curb { processors: 0, firm }));
            ledger.decide(200 * MS, Cause::Request);
            assert!(ledger.holding(AppId(1)).unwrap().shared);
            assert!(ledger.ask(AppId(1), 2));
            ledger.decide(400 * MS, Cause::Request);
            assert_eq!(ledger.holding(AppId(1)).unwrap().shared, firm);
            assert_eq!(cpus(&ledger, 2).len(), if firm { 2 } else { 1 });
        }
        // Less than before is no wish for more.
        assert!(ledger.curb(AppId(1), to(0)));
        ledger.ask(AppId(1), 1);
        assert!(ledger.entries[0].sleeps());
    }

    #[test]
    fn a_program_that_takes_back_what_it_released_has_its_request_again() {
        let mut ledger = books(4, "dss-ts", 2);
        let held = cpus(&ledger, 1);
        ledger.release(AppId(1), &held[1..], 20 * MS);
        ledger.curb(AppId(1), to(0));
        ledger.decide(40 * MS, Cause::Request);
        assert_eq!(cpus(&ledger, 2).len(), 4);
        assert!(ledger.resume(AppId(1)));
        ledger.decide(60 * MS, Cause::Request);
        assert_eq!((cpus(&ledger, 1).len(), cpus(&ledger, 2).len()), (2, 2));
    }

    #[test]
    fn what_no_program_gets_stays_with_the_curbed_one() {
        let mut ledger = books(4, "dss-ts", 1);
        ledger.arrive(AppId(2), 1, 4);
        ledger.decide(20 * MS, Cause::Arrival);
        let before = cpus(&ledger, 1);
        assert!(ledger.is_contended());
        ledger.curb(AppId(1), to(0));
        ledger.decide(40 * MS, Cause::Request);
        assert_eq!(cpus(&ledger, 1), before);
        assert!(!ledger.holding(AppId(1)).unwrap().shared);
        assert_eq!(ledger.allotted().next().unwrap().held, 0, "it uses none of them");
        // Now another program wants them.
        ledger.ask(AppId(2), 4);
        ledger.decide(60 * MS, Cause::Request);
        assert_eq!(cpus(&ledger, 2).len(), 4);
    }

    #[test]
    fn a_newcomer_could_have_what_others_do_not_want_or_an_equal_part() {
        let mut ledger = books(8, "dss-ts", 1);
        assert_eq!((ledger.part_of_newcomer(), ledger.has_spare()), (4, false));
        ledger.ask(AppId(1), 2);
        ledger.decide(20 * MS, Cause::Request);
        assert_eq!((ledger.part_of_newcomer(), ledger.has_spare()), (6, true));
        ledger.ask(AppId(1), 8);
        ledger.curb(AppId(1), to(0));
        assert_eq!(ledger.part_of_newcomer(), 8);
        assert_eq!(super::super::tests::ledger(2, "dss").part_of_newcomer(), 2);
    }

    #[test]
    fn a_program_that_wakes_returns_to_where_it_was() {
        let mut ledger = books(4, "dss-ts", 2);
        let before = cpus(&ledger, 1);
        ledger.curb(AppId(1), to(0));
        ledger.decide(40 * MS, Cause::Request);
        assert_eq!(cpus(&ledger, 2).len(), 4);
        ledger.curb(AppId(1), None);
        ledger.decide(80 * MS, Cause::Request);
        let over = ledger.next_deadline().unwrap_or(80 * MS);
        ledger.tick(over.max(80 * MS));
        assert_eq!(cpus(&ledger, 1), before);
    }

    #[test]
    fn a_program_that_sleeps_stays_on_processors_that_it_may_use() {
        let mut ledger = ledger(4, "dss");
        ledger.arrive(AppId(1), 1, 1);
        ledger.confine(AppId(1), &[3].into_iter().collect());
        ledger.arrive(AppId(2), 4, 4);
        ledger.decide(0, Cause::Arrival);
        ledger.curb(AppId(1), to(0));
        ledger.decide(40 * MS, Cause::Request);
        assert_eq!((cpus(&ledger, 1), cpus(&ledger, 2).len()), (vec![3], 4));
        // And it keeps no processor from being left to others.
        ledger.leave_to_others(vec![0, 1]);
        ledger.decide(80 * MS, Cause::Administration);
        assert_eq!(ledger.left_to_others().collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn under_a_policy_that_binds_nothing_no_program_is_curbed() {
        use policies::{Needs, Registry};
        let mut ledger = books(2, "dss-ts", 2);
        ledger.curb(AppId(1), to(0));
        ledger.set_policy(Registry::with_builtin_for(Needs::EVERYTHING).create("none").unwrap());
        ledger.decide(40 * MS, Cause::Administration);
        assert!(!ledger.is_contended() && !ledger.curb(AppId(1), to(0)));
        assert_eq!(ledger.holding(AppId(1)).unwrap().unbound, Some(2));
    }
}
