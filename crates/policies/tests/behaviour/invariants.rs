//! The rules that hold for every policy, over random machines and sequences of events.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{all, create, decide, numbers, requests, snapshot};
use policies::{AppId, AppView, Cause, Decision, Policy, Snapshot, Speedup};
use proptest::prelude::*;

/// What happens to the machine and its applications.
#[derive(Debug, Clone)]
enum Event {
    Arrive(AppView),
    Exit(prop::sample::Index),
    Request(prop::sample::Index, u32),
    Bounds(prop::sample::Index, u32, u32, f64),
    Processors(u32),
    Masters(bool),
    /// A report: on how many processors relative to what it has, and the efficiency.
    Speedup(prop::sample::Index, u32, f64),
    /// A parameter of the policy goes to its lowest, default or highest value.
    Configure(prop::sample::Index, u8),
    /// Another policy takes over (rule 8).
    Switch(prop::sample::Index),
    Quantum,
    /// A decision is asked for although nothing changed.
    Ask(Cause),
}

/// Mostly sensible, now and then out of range.
fn weight() -> impl Strategy<Value = f64> {
    prop_oneof![6 => 0.001..1000.0, 6 => 0.5..4.0, 1 => Just(f64::NAN), 1 => Just(-1.0), 1 => Just(f64::INFINITY)]
}

fn count() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..20_u32, 4 => 0..200_u32, 1 => Just(u32::MAX)]
}

fn app() -> impl Strategy<Value = AppView> {
    (count(), count(), count(), weight()).prop_map(|(request, min, max, weight)| AppView {
        min,
        max,
        weight,
        ..AppView::new(AppId(0), request)
    })
}

fn event() -> impl Strategy<Value = Event> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        6 => app().prop_map(Event::Arrive),
        3 => index().prop_map(Event::Exit),
        3 => (index(), count()).prop_map(|(i, r)| Event::Request(i, r)),
        1 => (index(), count(), count(), weight()).prop_map(|(i, min, max, w)| Event::Bounds(i, min, max, w)),
        2 => (0..40_u32).prop_map(Event::Processors),
        1 => any::<bool>().prop_map(Event::Masters),
        1 => index().prop_map(Event::Switch),
        4 => (index(), 0..3_u32, prop_oneof![8 => 0.0..1.2, 1 => Just(f64::NAN), 1 => Just(-1.0)])
            .prop_map(|(i, off, efficiency)| Event::Speedup(i, off, efficiency)),
        1 => (index(), 0..3_u8).prop_map(|(i, which)| Event::Configure(i, which)),
        8 => Just(Event::Quantum),
        2 => prop::sample::select(vec![Cause::Request, Cause::Release, Cause::Speedup, Cause::Timer])
            .prop_map(Event::Ask),
    ]
}

/// A manager reduced to its list.
struct World {
    apps: Vec<AppView>,
    processors: u32,
    masters: bool,
    arrivals: u64,
    now: u64,
}

impl World {
    /// Applies an event; says why a decision follows and whether anything changed for a policy.
    fn apply(&mut self, event: &Event) -> (Cause, bool) {
        let passed = if matches!(event, Event::Quantum) { 100_000_000 } else { 1_000_000 };
        self.now += passed;
        for app in &mut self.apps {
            app.cpu_time += u64::from(app.allocated) * passed;
        }
        let some = !self.apps.is_empty();
        match event {
            Event::Arrive(app) => {
                self.arrivals += 1;
                self.apps.push(AppView { id: AppId(self.arrivals), ..*app });
                (Cause::Arrival, true)
            }
            Event::Exit(i) if some => {
                self.apps.remove(i.index(self.apps.len()));
                (Cause::Exit, true)
            }
            Event::Request(i, request) if some => {
                i.get_mut(&mut self.apps).request = *request;
                (Cause::Request, true)
            }
            Event::Bounds(i, min, max, weight) if some => {
                let app = i.get_mut(&mut self.apps);
                (app.min, app.max, app.weight) = (*min, *max, *weight);
                (Cause::Administration, true)
            }
            Event::Speedup(i, off, efficiency) if some => {
                let at = self.now;
                let app = i.get_mut(&mut self.apps);
                let processors = app.allocated.saturating_add(1).saturating_sub(*off);
                app.speedup =
                    Some(Speedup { processors, speedup: efficiency * f64::from(processors), at });
                (Cause::Speedup, true)
            }
            Event::Configure(..) => (Cause::Administration, true),
            Event::Exit(_) | Event::Request(..) | Event::Bounds(..) | Event::Speedup(..) => {
                (Cause::Request, false)
            }
            Event::Processors(processors) => {
                self.processors = *processors;
                (Cause::Administration, true)
            }
            Event::Masters(masters) => {
                self.masters = *masters;
                (Cause::Administration, true)
            }
            Event::Switch(_) => (Cause::Administration, true),
            Event::Quantum => (Cause::Quantum, false),
            Event::Ask(cause) => (*cause, false),
        }
    }

    fn snapshot(&self, cause: Cause) -> Snapshot<'_> {
        Snapshot { now: self.now, ..snapshot(&self.apps, self.processors, cause, self.masters) }
    }

    /// What the manager writes down after a decision.
    fn follow(&mut self, decision: &Decision) {
        for (app, allocation) in self.apps.iter_mut().zip(&decision.allocations) {
            app.allocated = allocation.processors;
        }
    }
}

/// Rules 1, 2, 4 and 5, written without the code under test.
fn obeys(name: &str, snapshot: &Snapshot<'_>, decision: &Decision) -> Result<(), TestCaseError> {
    prop_assert_eq!(decision.allocations.len(), snapshot.apps.len());
    prop_assert_eq!(decision.unbound, name == "none");
    let (mut own, mut sharing, mut unsatisfied) = (0_u64, 0_u64, BTreeSet::new());
    for (allocation, app) in decision.allocations.iter().zip(snapshot.apps) {
        prop_assert_eq!(allocation.app, app.id);
        let wants = u32::max(1, app.request.min(app.max));
        prop_assert!(allocation.processors <= wants, "{allocation:?} of {app:?}");
        if allocation.shared {
            prop_assert!(snapshot.master_always && allocation.processors == 1);
            sharing += 1;
        } else {
            own += u64::from(allocation.processors);
        }
        if snapshot.master_always && snapshot.processors > 0 {
            prop_assert!(allocation.processors > 0, "the master of {} stands still", app.id);
        }
        if allocation.shared || allocation.processors < wants {
            unsatisfied.insert(app.id);
        }
    }
    prop_assert!(decision.unbound || own + sharing.min(1) <= u64::from(snapshot.processors));
    let by_weight = matches!(name, "dss" | "dss-ts" | "fair");
    let alike = snapshot.apps.iter().all(|app| app.weight == snapshot.apps[0].weight);
    if !snapshot.is_crowded() && !takes_turns(name) && name != "batch" && (alike || !by_weight) {
        prop_assert_eq!(sharing, 0, "none shares when there is a processor for each");
    }
    // Rule 4: which applications may take what is released.
    let listed: BTreeSet<AppId> = decision.work_list.iter().copied().collect();
    prop_assert_eq!(listed.len(), decision.work_list.len());
    match name {
        "rr" | "none" => prop_assert!(listed.is_empty()),
        "vtq-dss" | "pdpa" => prop_assert!(listed.is_subset(&unsatisfied)),
        _ => prop_assert_eq!(listed, unsatisfied),
    }
    let without = |app: &AppId| decision.of(*app).is_some_and(|a| a.processors == 0);
    if !matches!(name, "batch" | "turnaround") {
        prop_assert!(
            decision.work_list.is_sorted_by_key(|app| !without(app)),
            "those without a processor come first"
        );
    }
    prop_assert_eq!(decision.check(snapshot), Ok(()));
    Ok(())
}

/// Policies in which an application may be outside its turn although there is a processor for each
/// application.
fn takes_turns(name: &str) -> bool {
    matches!(name, "sw-dss" | "ssw-dss" | "vtq-dss" | "gang" | "rr" | "turnaround")
}

/// Whether the policy has a timer of its own that ended between its last decision and this one.
fn turn_ended(name: &str, snapshot: &Snapshot<'_>, before: &Decision) -> bool {
    let waits = before.allocations.iter().any(|a| a.processors == 0 || a.shared);
    let turns = match name {
        "dss-ts" => waits && !snapshot.master_always,
        "vtq-dss" | "turnaround" => return before.next.is_some_and(|next| next <= snapshot.now),
        _ => waits && takes_turns(name),
    };
    turns && snapshot.cause == Cause::Quantum
}

/// What processors released in mid-quantum lead to: no rule is broken, no processor idles while an
/// application waits for one.
fn release_obeys(
    policy: &mut dyn Policy,
    world: &World,
    decision: &Decision,
) -> Result<(), TestCaseError> {
    // Every other application halves its request, and the first one leaves.
    let mut apps = world.apps.clone();
    for app in apps.iter_mut().step_by(2) {
        app.request = app.request.min(app.max) / 2;
    }
    let apps = apps.get(1..).unwrap_or(&[]);
    let snapshot = Snapshot { apps, ..world.snapshot(Cause::Release) };
    let after = policy.release(&snapshot, decision);
    prop_assert_eq!(after.check(&snapshot), Ok(()));
    for (allocation, app) in after.allocations.iter().zip(apps) {
        let before = decision.of(app.id).map_or(0, |a| a.processors);
        let waited = decision.work_list.contains(&app.id);
        prop_assert!(waited || allocation.processors <= before);
        prop_assert!(
            allocation.processors >= before.min(app.wants()),
            "a release takes from no program"
        );
        let had_none = decision.of(app.id).is_none_or(|a| a.processors == 0 || a.shared);
        if policy.name() == "batch" && had_none && allocation.processors > 0 && !allocation.shared {
            // All, but for what is kept for masters.
            let masters =
                if world.masters { world.processors.saturating_sub(1) } else { world.processors };
            let most = if decision.allocations.iter().any(|a| a.shared) { 1 } else { masters };
            prop_assert!(allocation.processors >= app.wants().min(most));
        }
    }
    let all_used = after.unallocated(world.processors) == 0 || after.work_list.is_empty();
    prop_assert!(
        all_used || matches!(policy.name(), "batch" | "pdpa"),
        "{}: {after:?}",
        policy.name()
    );
    Ok(())
}

/// Sets a parameter of both objects to its lowest, default or highest value.
fn configure(
    policies: [&mut Box<dyn Policy>; 2],
    which: &prop::sample::Index,
    to: u8,
) -> Result<(), TestCaseError> {
    for policy in policies {
        let parameters = policy.parameters();
        if parameters.is_empty() {
            continue;
        }
        let parameter = &parameters[which.index(parameters.len())];
        let value = [&parameter.lowest, &parameter.default, &parameter.highest][usize::from(to)];
        prop_assert_eq!(policy.configure(parameter.key, value), Ok(()));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Rules 1 to 5, 7 and 8 for every policy of the registry.
    #[test]
    fn every_policy_obeys_the_rules_through_any_events(
        processors in 0..40_u32,
        masters in any::<bool>(),
        events in prop::collection::vec(event(), 1..80),
    ) {
        let registry = all();
        let names = registry.names();
        for name in &names {
            let mut world = World { apps: Vec::new(), processors, masters, arrivals: 0, now: 0 };
            let (mut policy, mut twin) = (create(name), create(name));
            let mut before: Option<Decision> = None;
            for event in &events {
                if let Event::Switch(to) = event {
                    let to = names[to.index(names.len())];
                    (policy, twin) = (create(to), create(to));
                }
                if let Event::Configure(which, to) = event {
                    configure([&mut policy, &mut twin], which, *to)?;
                }
                let (cause, changed) = world.apply(event);
                let snapshot = world.snapshot(cause);
                let decision = policy.decide(&snapshot);
                obeys(policy.name(), &snapshot, &decision)?;
                // Rule 3.
                prop_assert_eq!(&decision, &twin.decide(&snapshot));
                // Rule 7.
                let unchanged = |before: &Decision| !changed && !turn_ended(policy.name(), &snapshot, before);
                if let Some(before) = before.filter(unchanged) {
                    prop_assert_eq!(&before.allocations, &decision.allocations);
                    let mut expected = before.work_list;
                    if policy.name() == "vtq-dss" {
                        // A master outside its turn uses up its quantum, too, and then leaves the
                        // repository.
                        expected.retain(|app| decision.work_list.contains(app));
                    }
                    prop_assert_eq!(&expected, &decision.work_list, "{}", policy.name());
                }
                let sharing = decision.allocations.iter().any(|a| a.shared);
                prop_assert_eq!(decision.rotate, sharing && cause == Cause::Quantum);
                release_obeys(&mut *policy, &world, &decision)?;
                world.follow(&decision);
                before = Some(decision);
            }
        }
    }

    #[test]
    fn equip_never_passes_the_equal_share(
        requests_ in prop::collection::vec(0..64_u32, 1..32),
        processors in 32..256_u32,
    ) {
        let apps = requests(&requests_);
        let share = processors / apps.len() as u32;
        let expected: Vec<u32> = requests_.iter().map(|&r| r.max(1).min(share)).collect();
        prop_assert_eq!(numbers(&decide("equip", &apps, processors, true)), expected);
    }

    /// The sum is exact; each application has one; minima are met in order; a larger claim never
    /// gets less.
    #[test]
    fn dss_uses_all_that_can_be_used_and_respects_minima_and_claims(
        mut apps in prop::collection::vec(app(), 1..32),
        extra in 0..200_u32,
    ) {
        for (id, app) in (1..).zip(&mut apps) {
            app.id = AppId(id);
        }
        let processors = apps.len() as u32 + extra;
        let decision = decide("dss", &apps, processors, true);
        let satisfied = decision.work_list.is_empty();
        prop_assert!(satisfied || decision.unallocated(processors) == 0, "{decision:?}");
        // Where weights differ, light ones may share.
        let weights: Vec<f64> = apps.iter().map(|app| app.weight).collect();
        apps.iter_mut().for_each(|app| app.weight = 1.0);
        let got = numbers(&decide("dss", &apps, processors, true));
        let wanted: u64 = apps.iter().map(|app| u64::from(app.wants())).sum();
        let sum: u64 = got.iter().map(|&a| u64::from(a)).sum();
        prop_assert_eq!(sum, wanted.min(u64::from(processors)));
        prop_assert!(got.iter().all(|&a| a >= 1));
        // An application below its minimum: each one after it has no more than one, and none has
        // more than its own minimum.
        if let Some(first) = apps.iter().zip(&got).position(|(app, &a)| a < app.floor()) {
            prop_assert!(got[first + 1..].iter().all(|&a| a == 1));
            prop_assert!(apps.iter().zip(&got).all(|(app, &a)| a <= app.floor()));
        }
        // Without minima: an application that claims at least as much as another, and can use as
        // much, has as much; but for rounding.
        let level: Vec<AppView> =
            apps.iter().zip(weights).map(|(app, weight)| AppView { min: 1, weight, ..*app }).collect();
        let got = numbers(&decide("dss", &level, processors, true));
        for (a, got_a) in level.iter().zip(&got).filter(|(a, _)| a.check().is_ok()) {
            for (b, got_b) in level.iter().zip(&got).filter(|(b, _)| b.check().is_ok()) {
                let more_claim = a.weight * f64::from(a.request) >= b.weight * f64::from(b.request) * 1.001;
                if more_claim && a.wants() >= b.wants() {
                    prop_assert!(got_a >= got_b, "{got_a} for {a:?}, {got_b} for {b:?}");
                }
            }
        }
    }

    /// T1: K applications on P < K processors have P turns each in K quanta, whatever went before.
    #[test]
    fn dss_ts_gives_equal_turns_over_as_many_quanta_as_applications(
        history in prop::collection::vec(event(), 0..30),
        processors in 1..12_u32,
        more in 1..12_u32,
    ) {
        let mut world = World { apps: Vec::new(), processors: 4, masters: false, arrivals: 0, now: 0 };
        let mut policy = create("dss-ts");
        for event in &history {
            let (cause, _) = world.apply(event);
            policy.decide(&world.snapshot(cause));
        }
        (world.processors, world.masters) = (processors, false);
        while world.apps.len() as u32 != processors + more {
            if world.apps.len() as u32 > processors + more {
                world.apps.remove(0);
            } else {
                world.apply(&Event::Arrive(AppView::new(AppId(0), 3)));
            }
        }
        policy.decide(&world.snapshot(Cause::Administration));
        let mut turns: BTreeMap<AppId, u32> = world.apps.iter().map(|app| (app.id, 0)).collect();
        for _ in 0..world.apps.len() {
            let decision = policy.decide(&world.snapshot(Cause::Quantum));
            for allocation in &decision.allocations {
                *turns.get_mut(&allocation.app).expect("it is in the list") += allocation.processors;
            }
            // Between quanta any request may change without moving a turn.
            let again = policy.decide(&world.snapshot(Cause::Request));
            prop_assert_eq!(again.allocations, decision.allocations);
        }
        prop_assert!(turns.values().all(|&n| n == processors), "{turns:?}");
    }

    /// T2: newcomers at every quantum make no application wait longer.
    #[test]
    fn dss_ts_lets_no_program_starve_beside_newcomers(processors in 1..6_u32, more in 1..20_u32) {
        let mut world = World { apps: Vec::new(), processors, masters: false, arrivals: 0, now: 0 };
        let mut policy = create("dss-ts");
        let newcomer = Event::Arrive(AppView::new(AppId(0), 2));
        for _ in 0..processors + more {
            world.apply(&newcomer);
        }
        let first_ones: BTreeSet<AppId> = world.apps.iter().map(|app| app.id).collect();
        let mut served = BTreeSet::new();
        let mut cause = Cause::Arrival;
        for _ in 0..(processors + more).div_ceil(processors) {
            let decision = policy.decide(&world.snapshot(cause));
            served.extend(decision.allocations.iter().filter(|a| a.processors > 0).map(|a| a.app));
            world.apply(&newcomer);
            cause = Cause::Quantum;
        }
        prop_assert!(first_ones.is_subset(&served));
    }
}
