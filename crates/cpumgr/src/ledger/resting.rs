//! Quanta in which nothing changes: most of those of a busy machine.
//!
//! When the policy says again what it said, no program's wishes are others, no processor is too
//! young to be taken, and a turn of the masters that share moves no program, then placing and
//! settling would find everything where it is (P3 of `placement`). They are most of what a quantum
//! costs.

use policies::{AppId, Cause, Decision};

use super::Ledger;

/// The program, how many processors it wants, whether it is in a serial phase.
type Wish = (AppId, u32, bool);

/// What a settlement follows from besides the decision.
#[derive(Debug, Default)]
pub(super) struct Settled {
    wishes: Vec<Wish>,
    /// The processors that are there for programs.
    cpus: Vec<u32>,
}

impl Ledger {
    pub(super) fn note_settled(&mut self) {
        // Their space is used again.
        let Settled { mut wishes, mut cpus } = std::mem::take(&mut self.settled);
        wishes.clear();
        wishes.extend(self.wishes());
        cpus.clear();
        cpus.extend(self.there());
        self.settled = Settled { wishes, cpus };
    }

    /// Programs can have the processors that they could have when it was settled last.
    pub(super) fn has_same_processors(&self) -> bool {
        self.there().eq(self.settled.cpus.iter().copied())
    }

    fn there(&self) -> impl Iterator<Item = u32> + '_ {
        self.available.cpus.iter().map(|cpu| cpu.id)
    }

    fn wishes(&self) -> impl Iterator<Item = Wish> + '_ {
        self.entries.iter().map(|entry| (entry.id, entry.wants(), entry.serial))
    }

    /// This decision would be placed and settled as the last one was.
    pub(super) fn rests(&self, cause: Cause, decision: &Decision) -> bool {
        let says_the_same = || {
            let (now, before) = (decision, &self.decided);
            // But for turns, and the time of the next one.
            let Decision { allocations, work_list, unbound, cluster, reserved, circles, .. } = now;
            (allocations, work_list, unbound, cluster, reserved, circles)
                == (
                    &before.allocations,
                    &before.work_list,
                    &before.unbound,
                    &before.cluster,
                    &before.reserved,
                    &before.circles,
                )
        };
        matches!(cause, Cause::Quantum | Cause::Timer)
            && self.hold_ends.is_none()
            && !self.is_moved_by_turns()
            && says_the_same()
            && self.has_same_processors()
            && self.wishes().eq(self.settled.wishes.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use policies::{AppId, Cause, Decision, Needs, Policy, Registry, Snapshot};
    use proptest::prelude::*;

    use super::super::Ledger;
    use super::super::tests::{MS, ledger};

    /// The end of a quantum, placed and settled whatever `rests` says.
    fn tick_all(ledger: &mut Ledger, now: u64) -> Vec<AppId> {
        let settled = std::mem::take(&mut ledger.settled);
        let changes = ledger.tick(now);
        if ledger.settled.cpus.is_empty() {
            // It was not the end of anything.
            ledger.settled = settled;
        }
        changes
    }

    #[test]
    fn masters_that_share_evenly_rest_and_others_take_turns() {
        for (programs, rests) in [(4, true), (3, false), (2, true)] {
            let mut ledger = ledger(2, "dss-ts");
            (0..programs).for_each(|app| ledger.arrive(AppId(app), 2, 2));
            ledger.decide(0, Cause::Arrival);
            let mut now = 0;
            for _ in 0..5 {
                now += 100 * MS;
                assert_eq!(
                    ledger.decide(now, Cause::Quantum).is_empty(),
                    rests,
                    "{programs} programs"
                );
            }
            assert_eq!(
                ledger.rests(Cause::Quantum, &ledger.decided.clone()),
                rests,
                "{programs} programs"
            );
            assert!(!ledger.leave_to_others(Vec::new()));
            ledger.ask(AppId(0), 1);
            assert!(
                !ledger.rests(Cause::Quantum, &ledger.decided.clone()),
                "a wish is another one at {now}"
            );
        }
    }

    /// A policy whose quanta run, whatever it says of them.
    struct Asked(Box<dyn Policy>);

    impl Policy for Asked {
        fn name(&self) -> &'static str {
            self.0.name()
        }

        fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
            self.0.decide(snapshot)
        }

        fn release(&mut self, snapshot: &Snapshot<'_>, last: &Decision) -> Decision {
            self.0.release(snapshot, last)
        }
    }

    proptest! {
        #[test]
        fn a_program_not_asked_at_the_end_of_a_quantum_has_nothing_else_to_say(
            policy in prop::sample::select(vec!["dss-ts", "dss", "equip", "none"]),
            processors in 1_u32..5,
            events in prop::collection::vec((0_u8..5, 0_u64..5, 1_u32..6, 0_u64..40), 1..60),
        ) {
            let registry = Registry::with_builtin_for(Needs::EVERYTHING);
            let books = |policy: Box<dyn Policy>| Ledger { policy: policy.into(), ..ledger(processors, "dss") };
            let mut quick = books(registry.create(policy).unwrap());
            let mut slow = books(Box::new(Asked(registry.create(policy).unwrap())));
            let mut now = 0;
            let mut known: Vec<u64> = Vec::new();
            for (what, app, number, pause) in events {
                now += pause * 5 * MS;
                // Both do what is due, each at its time.
                for ledger in [&mut quick, &mut slow] {
                    while let Some(due) = ledger.next_deadline().filter(|due| *due <= now) {
                        ledger.tick(due);
                    }
                }
                let id = AppId(app);
                let is_known = known.contains(&app);
                for ledger in [&mut quick, &mut slow] {
                    let cause = match what {
                        0 if !is_known => {
                            ledger.arrive(id, number, processors);
                            Some(Cause::Arrival)
                        }
                        1 => ledger.leave(id).then_some(Cause::Exit),
                        2 => ledger.ask(id, number).then_some(Cause::Request),
                        3 => ledger.leave_to_others((0..number % processors).collect()).then_some(Cause::Administration),
                        _ => None,
                    };
                    if let Some(cause) = cause {
                        ledger.decide(now, cause);
                    }
                }
                match what {
                    0 if !is_known => known.push(app),
                    1 => known.retain(|it| *it != app),
                    _ => {}
                }
                if quick.placement.is_moved_by_turns() {
                    // The first turn is as long as the others, and not what is left of a quantum
                    // that ran for nothing.
                    return Ok(());
                }
                for app in &known {
                    prop_assert_eq!(quick.holding(AppId(*app)), slow.holding(AppId(*app)));
                }
            }
        }

        #[test]
        fn a_program_that_rests_has_what_it_would_have_anyway(
            policy in prop::sample::select(vec!["dss-ts", "dss", "fair", "equip", "sw-dss", "ssw-dss", "vtq-dss", "gang", "rr", "batch", "turnaround"]),
            processors in 1_u32..5,
            events in prop::collection::vec((0_u8..6, 0_u64..5, 1_u32..6, 0_u64..40), 1..60),
        ) {
            let (mut quick, mut slow) = (ledger(processors, policy), ledger(processors, policy));
            let mut now = 0;
            let mut known = Vec::new();
            for (what, app, number, pause) in events {
                now += pause * 5 * MS;
                let id = AppId(app);
                let is_known = known.contains(&app);
                let both: [&mut Ledger; 2] = [&mut quick, &mut slow];
                let changes: Vec<Vec<AppId>> = both
                    .into_iter()
                    .enumerate()
                    .map(|(which, ledger)| {
                        let mut changes = match what {
                            0 if !is_known => {
                                ledger.arrive(id, number, processors);
                                ledger.decide(now, Cause::Arrival)
                            }
                            1 if is_known => {
                                ledger.leave(id);
                                ledger.decide(now, Cause::Exit)
                            }
                            // The decision may follow after the end of a quantum.
                            2 if is_known => {
                                ledger.ask(id, number);
                                ledger.set_serial(id, number == 1);
                                Vec::new()
                            }
                            3 if is_known => {
                                let held = ledger.holding(id).map(|it| it.cpus.clone()).unwrap_or_default();
                                ledger.release(id, &held[..held.len().min(1)], now)
                            }
                            4 => {
                                ledger.leave_to_others((0..number % processors).collect());
                                Vec::new()
                            }
                            _ => Vec::new(),
                        };
                        changes.extend(if which == 0 { ledger.tick(now) } else { tick_all(ledger, now) });
                        changes
                    })
                    .collect();
                match what {
                    0 if !is_known => known.push(app),
                    1 => known.retain(|it| *it != app),
                    _ => {}
                }
                prop_assert_eq!(&changes[0], &changes[1]);
                prop_assert_eq!(quick.next_deadline(), slow.next_deadline());
                for app in &known {
                    prop_assert_eq!(quick.holding(AppId(*app)), slow.holding(AppId(*app)));
                }
            }
        }
    }
}
