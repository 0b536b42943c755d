//! Fitting: a decision as far as it could be placed, when programs stay on some of the processors
//! (D14).
//!
//! # Rule
//! The policy knows numbers only. Several programs may be bound to have more together than their
//! processors are. Then each counts as having what it has got, and a guest counts as a master that
//! shares. Processors that stay free because of that go to the work-list, in its order, as far as
//! the programs in it can use them.

use std::collections::{BTreeMap, BTreeSet};

use policies::classes::circle_places;
use policies::{Allocation, AppId, AppView};

use super::Ledger;

impl Ledger {
    /// A program that [arrived](Ledger::arrive) stays on these processors whatever it is given
    /// (L6). When none of them is managed, or all that are, that bounds nothing.
    pub fn confine(&mut self, app: AppId, cpus: &BTreeSet<u32>) {
        let inside: Vec<u32> =
            self.machine.cpus.iter().map(|cpu| cpu.id).filter(|id| cpus.contains(id)).collect();
        let number = u32::try_from(inside.len()).expect("processors have 32-bit numbers");
        let bounds = (1..self.processors()).contains(&number);
        if let Some(entry) = self.entries.iter_mut().find(|entry| bounds && entry.id == app) {
            entry.max = entry.max.min(number);
            self.placement.confine(app, &inside);
        }
    }

    /// The threads of a program may run on these processors now, where it can use `max` at most:
    /// [`Ledger::confine`] for a program that is there, which may also have more room than before.
    /// Where none of them is managed it stays where it is, and nothing bounds its place here.
    pub fn confine_anew(&mut self, app: AppId, cpus: &BTreeSet<u32>, max: u32) {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == app) else { return };
        entry.max = max.max(1);
        let all = || self.machine.cpus.iter().map(|cpu| cpu.id);
        let inside: Vec<u32> = all().filter(|id| cpus.contains(id)).collect();
        let bounds = if inside.is_empty() { all().collect() } else { inside };
        self.placement.confine(app, &bounds);
    }

    /// Makes the decision what was placed, and places what is left over.
    pub(super) fn fit(&mut self, views: &[AppView]) {
        let is_confined = |view: &AppView| self.placement.is_confined(view.id);
        if self.decision.unbound || !views.iter().any(is_confined) {
            return;
        }
        let mut short = self.count();
        if short.is_empty() {
            return;
        }
        if self.deal(views, &short) {
            self.decision.rotate = false;
            self.place_for_users();
            short.extend(self.count());
        }
        let mut waiting = std::mem::take(&mut self.decision.work_list);
        short.retain(|app| !waiting.contains(app));
        waiting.extend(short);
        waiting.retain(|app| {
            let view = views.iter().find(|view| view.id == *app);
            self.decision
                .of(*app)
                .zip(view)
                .is_some_and(|(allocation, view)| allocation.wants_more(view))
        });
        self.decision.work_list = waiting;
    }

    /// Puts what was placed into the decision; returns the programs that have less than it said.
    fn count(&mut self) -> BTreeSet<AppId> {
        let mut short = BTreeSet::new();
        let numbers = self.classes.keys().map(|name| AppView::number_of(name));
        let circles = circle_places(numbers.filter(|_| !self.decision.circles.is_empty()));
        for (allocation, entry) in self.decision.allocations.iter_mut().zip(&self.entries) {
            let placed = u32::try_from(entry.target.len()).expect("processors have 32-bit numbers");
            if self.placement.guests().contains(&allocation.app) {
                // It counts with its class, whatever that shares. Its circle has no processor more
                // for that: the guest is on another program's.
                let number = entry.class.as_deref().map(AppView::number_of);
                let circle = number.and_then(|number| circles.get(&number)).copied().unwrap_or(0);
                *allocation = Allocation { circle, ..Allocation::shared_master(allocation.app) };
            } else if placed < allocation.processors {
                allocation.processors = placed;
            } else {
                continue;
            }
            short.insert(allocation.app);
        }
        short
    }

    /// Adds processors on which no program is to the decision; true if there were some, and a
    /// program could use them.
    fn deal(&mut self, views: &[AppView], short: &BTreeSet<AppId>) -> bool {
        let used: BTreeSet<u32> =
            self.entries.iter().flat_map(|entry| &entry.target).copied().collect();
        let all = self.available.cpus.iter().map(|cpu| cpu.id);
        let mut free: Vec<u32> = all.filter(|id| !used.contains(id)).collect();
        // What a class keeps free stays so.
        free.truncate(free.len().saturating_sub(self.decision.reserved as usize));
        let before = free.len();
        let mut users: BTreeMap<u32, usize> = BTreeMap::new();
        let targets = self.entries.iter().flat_map(|entry| &entry.target);
        targets.for_each(|cpu| *users.entry(*cpu).or_default() += 1);
        for app in self.decision.work_list.clone().iter().filter(|app| !short.contains(app)) {
            let mut room = self.room_in_class(*app);
            let allocation = self.decision.allocations.iter_mut().find(|it| it.app == *app);
            let Some((allocation, view)) =
                allocation.zip(views.iter().find(|view| view.id == *app))
            else {
                continue;
            };
            if free.is_empty()
                || room == 0
                || (allocation.shared && self.placement.is_confined(*app))
            {
                continue;
            }
            if allocation.shared {
                // A master that is alone on its processor does not share in fact. Another one
                // leaves its processor for a free one; those that stay there may be alone then.
                let entry = self.entries.iter().find(|entry| entry.id == *app);
                let place = entry.and_then(|entry| entry.target.first()).copied();
                let is_alone = place.and_then(|cpu| users.get(&cpu)) == Some(&1);
                if let Some(circle) = self.decision.circles.get_mut(usize::from(allocation.circle))
                    && is_alone
                {
                    // Its processor is no longer one of its circle.
                    *circle = circle.saturating_sub(1);
                }
                if !is_alone {
                    let Some(at) = free.iter().position(|cpu| self.placement.may_use(*app, *cpu))
                    else {
                        continue;
                    };
                    free.remove(at);
                    if let Some(left) = place.and_then(|cpu| users.get_mut(&cpu)) {
                        *left -= 1;
                    }
                }
                allocation.own_alone();
                room -= 1;
            }
            free.retain(|cpu| {
                let gets = room > 0
                    && allocation.processors < view.wants()
                    && self.placement.may_use(*app, *cpu);
                allocation.processors += u32::from(gets);
                room -= u32::from(gets);
                !gets
            });
        }
        // A master that left a crowd leaves its circle's processors to the others of it, as long as
        // there are some.
        self.decision.cap_circles();
        free.len() < before
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use policies::classes::circle_places;
    use policies::{AppId, AppView, Cause, Class};

    use super::super::tests::{MS, cpus, ledger};
    use super::super::{Ledger, MAX_HOLD};

    fn set(cpus: &[u32]) -> BTreeSet<u32> {
        cpus.iter().copied().collect()
    }

    #[test]
    fn a_program_that_stays_on_some_processors_gets_those_and_no_more() {
        let mut ledger = ledger(4, "dss");
        ledger.arrive(AppId(1), 4, 4);
        ledger.decide(0, Cause::Arrival);
        ledger.arrive(AppId(2), 4, 4);
        ledger.confine(AppId(2), &set(&[0, 9]));
        ledger.decide(MAX_HOLD, Cause::Arrival);
        assert_eq!((cpus(&ledger, 1), cpus(&ledger, 2)), (vec![1, 2, 3], vec![0]));
        assert!(!ledger.holding(AppId(2)).unwrap().shared);
        // Sets that bound nothing: all that are managed, and none of them.
        ledger.leave(AppId(2));
        ledger.arrive(AppId(3), 4, 4);
        ledger.confine(AppId(3), &set(&[0, 1, 2, 3, 4]));
        ledger.arrive(AppId(4), 1, 1);
        ledger.confine(AppId(4), &set(&[7]));
        assert!(![3, 4].iter().any(|app| ledger.placement.is_confined(AppId(*app))));
    }

    #[test]
    fn programs_on_the_same_processor_share_it_and_others_get_the_rest() {
        let mut ledger = ledger(4, "equip");
        for app in 1..=3 {
            ledger.arrive(AppId(app), 4, 4);
        }
        ledger.confine(AppId(1), &set(&[0]));
        ledger.confine(AppId(2), &set(&[0]));
        ledger.decide(0, Cause::Arrival);
        // The policy gives the third two, and the fourth processor would be idle.
        assert_eq!([1, 2, 3].map(|app| cpus(&ledger, app)), [vec![0], vec![0], vec![1, 2, 3]]);
        let holding = |app| ledger.holding(AppId(app)).unwrap();
        assert!(!holding(1).shared && holding(2).shared);
        assert!(![1, 2].iter().any(|app| holding(*app).dedicated));
        // Nothing moves by itself.
        let mut now = 0;
        for _ in 0..5 {
            now = ledger.next_deadline().unwrap_or(now + MS);
            assert!(ledger.tick(now).is_empty());
        }
        ledger.leave(AppId(1));
        ledger.decide(now, Cause::Exit);
        assert!(!ledger.holding(AppId(2)).unwrap().shared);
    }

    #[test]
    fn a_processor_is_not_passed_to_a_program_that_cannot_use_it() {
        let mut ledger = ledger(4, "dss");
        ledger.arrive(AppId(1), 3, 3);
        ledger.decide(0, Cause::Arrival);
        ledger.arrive(AppId(2), 4, 4);
        ledger.confine(AppId(2), &set(&[0, 1, 2]));
        ledger.decide(MAX_HOLD, Cause::Arrival);
        assert_eq!((cpus(&ledger, 1).len(), cpus(&ledger, 2).len()), (2, 2));
        assert_eq!(ledger.waiting(), 2);
        let first = ledger.first_waiting().map(|(app, _)| app).collect::<Vec<_>>();
        assert_eq!(first, [AppId(1)], "the one that takes any");
        assert_eq!(ledger.pass(AppId(2), 3, 2 * MAX_HOLD), None);
    }

    /// Programs arrive in their order: number, class ("" is none), request.
    fn arrive(ledger: &mut Ledger, programs: &[(u64, &str, u32)]) {
        for (id, class, request) in programs {
            ledger.arrive(AppId(*id), *request, *request);
            ledger.set_class(AppId(*id), Some((*class).to_owned()).filter(|it| !it.is_empty()));
        }
    }

    #[test]
    fn a_guest_counts_with_its_class_and_costs_it_nothing_that_others_share() {
        let mut ledger = ledger(6, "equip");
        let small = Class { max: 3, priority: 1, ..Class::default() };
        ledger.set_classes([("small".to_owned(), small)].into());
        // Three for the class, two of which can be on processor 0 only; five share the others.
        arrive(&mut ledger, &[(1, "small", 1), (2, "small", 1), (3, "small", 4)]);
        arrive(&mut ledger, &[(4, "", 1), (5, "", 1), (6, "", 1), (7, "", 1), (8, "", 1)]);
        [1, 2].iter().for_each(|app| ledger.confine(AppId(*app), &set(&[0])));
        ledger.decide(0, Cause::Arrival);
        assert!(ledger.holding(AppId(2)).unwrap().shared, "it is a guest");
        assert_eq!(ledger.decision.circles, [3, 0]);
        assert_eq!(ledger.decision.of(AppId(2)).unwrap().circle, 1);
        assert_eq!(cpus(&ledger, 3).len(), 2, "what its class has and the guest cannot use");
    }

    #[test]
    fn a_class_whose_masters_share_its_only_processor_gets_none_that_a_guest_leaves() {
        let mut ledger = ledger(3, "equip");
        let small = Class { max: 1, ..Class::default() };
        ledger.set_classes([("small".to_owned(), small)].into());
        arrive(&mut ledger, &[(1, "small", 1), (2, "small", 1), (3, "", 1), (4, "", 1)]);
        [3, 4].iter().for_each(|app| ledger.confine(AppId(*app), &set(&[0])));
        ledger.decide(0, Cause::Arrival);
        assert!(ledger.holding(AppId(4)).unwrap().shared, "it is a guest");
        let used: BTreeSet<u32> = [1, 2].iter().flat_map(|app| cpus(&ledger, *app)).collect();
        assert_eq!(used.len(), 1, "{used:?}");
    }

    #[test]
    fn a_circle_of_which_all_masters_have_their_own_has_no_processor() {
        let below = Class { priority: -1, ..Class::default() };
        let table = || ["zeta", "alpha"].map(|name| (name.to_owned(), below.clone()));
        let places = circle_places(table().map(|(name, _)| AppView::number_of(&name)));
        let zeta = usize::from(places[&AppView::number_of("zeta")]);
        assert_eq!(zeta, 1, "it is served first");
        let mut ledger = ledger(5, "equip");
        ledger.set_classes(table().into());
        // Three of which only one can be on processor 0; two circles of a processor each, and on
        // that of the first one a master of the second.
        arrive(&mut ledger, &[(1, "", 1), (2, "", 1), (3, "", 1)]);
        arrive(&mut ledger, &[(4, "zeta", 1), (5, "zeta", 1), (6, "alpha", 1), (7, "alpha", 1)]);
        (1..=3).for_each(|app| ledger.confine(AppId(app), &set(&[0])));
        ledger.confine(AppId(7), &set(&[1]));
        ledger.decide(0, Cause::Arrival);
        let shared = |app| ledger.holding(AppId(app)).unwrap().shared;
        assert!(![4, 5].map(shared).contains(&true), "what guests cannot use is theirs");
        assert_eq!(ledger.decision.circles, [0, 0, 1]);
    }
}
