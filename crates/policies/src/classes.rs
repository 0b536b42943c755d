//! Classes of programs: each has its part of the processors, and a policy of its own inside.
//!
//! # Rule
//! Processors go to classes in this order:
//! 1. A class has its minimum as far as its programs want it, in order of priority and then of
//!    weight. With `reserve` it has the minimum also while they want less: no other program runs
//!    there, not even a master that shares.
//! 2. A class of a higher priority has all that its programs want, up to its maximum, before one of
//!    a lower priority has more than its minimum. Where masters always run each class that has
//!    programs keeps one processor for them.
//! 3. Classes of one priority divide what is left to them in proportion to their weights, within
//!    minimum and maximum; what one does not want goes to the others.
//!
//! Inside a class its policy decides as if the class were the machine. Masters that share do so
//! among those of their class, on what their class has beside processors of their own
//! ([`Decision::circles`]).
//!
//! # Decisions
//! - Programs of no class are a class without bounds, of weight 1 and priority 0.
//! - More classes with programs than processors, where masters always run: all masters share, by
//!   the weights of their classes, and no reserve is kept.
//! - What is released stays in the class until the next decision.
//!
//! # Not here
//! Which class a program is in: [`rules`](self::Rules), by what the manager knows of it; a policy
//! sees the class's number only ([`AppView::class`](crate::AppView::class)).

mod minima;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::admission::{Admission, Waiting};
use crate::crowd;
use crate::decision::{Allocation, Decision};
use crate::parameter::{Parameter, ParameterError, Value};
use crate::policy::{Needs, Policy};
use crate::share::{self, Claim};
use crate::snapshot::{AppId, AppView, MAX_WEIGHT, MIN_WEIGHT, Snapshot};
pub use minima::{Demand, minima};
pub use rules::{Rule, RuleFault, Rules, Subject};

/// What a class may have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Class {
    /// Processors that its programs have before others get more than theirs.
    pub min: u32,
    /// The most processors of its programs together.
    pub max: u32,
    /// Its share relative to other classes of its priority.
    pub weight: f64,
    /// Classes of a higher priority come first.
    pub priority: i32,
    /// The minimum is kept free while its programs do not want it.
    pub reserve: bool,
}

impl Default for Class {
    fn default() -> Self {
        Self { min: 0, max: u32::MAX, weight: 1.0, priority: 0, reserve: false }
    }
}

impl Class {
    /// Says whether each value is in its range; a fault is told as what there is and what is
    /// allowed.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self) -> Result<(), String> {
        if self.max == 0 || self.min > self.max {
            return Err(format!(
                "minimum {} and maximum {}; the maximum is at least 1 and at least the minimum",
                self.min, self.max
            ));
        }
        if !(MIN_WEIGHT..=MAX_WEIGHT).contains(&self.weight) {
            return Err(format!("weight {}; it is from {MIN_WEIGHT} to {MAX_WEIGHT}", self.weight));
        }
        Ok(())
    }
}

/// What makes a policy for a class.
type Maker = Box<dyn Fn() -> Box<dyn Policy> + Send>;

/// Divides the machine among classes. O(n log n) beside what the policies inside cost.
pub struct Classes {
    /// By the number of the class's name.
    classes: BTreeMap<u64, Class>,
    make: Maker,
    /// Asked for name, needs and parameters; programs of no class are its.
    others: Box<dyn Policy>,
    inside: BTreeMap<u64, Box<dyn Policy>>,
    /// Of the last decision: processors of each class, and what its policy said.
    parts: BTreeMap<Option<u64>, (u32, Decision)>,
    /// Parameters that were set, for policies that are made later.
    settings: Vec<(String, Value)>,
}

/// The programs of a class in a snapshot.
struct Members<'a> {
    number: Option<u64>,
    class: &'a Class,
    apps: Vec<AppView>,
}

impl Members<'_> {
    /// What they can use together.
    fn wants(&self) -> u32 {
        let sum: u64 = self.apps.iter().map(|app| u64::from(app.wants())).sum();
        u32::try_from(sum).unwrap_or(u32::MAX).min(self.class.max)
    }

    fn demand(&self) -> Demand<'_> {
        Demand {
            number: self.number,
            class: self.class,
            inhabited: !self.apps.is_empty(),
            wants: self.wants(),
        }
    }
}

impl Classes {
    /// Classes by name, and what makes the policy inside each of them: always a new object of the
    /// same policy.
    #[must_use]
    pub fn new(
        classes: &BTreeMap<String, Class>,
        make: impl Fn() -> Box<dyn Policy> + Send + 'static,
    ) -> Self {
        let by_number =
            classes.iter().map(|(name, class)| (AppView::number_of(name), class.clone())).collect();
        Self {
            classes: by_number,
            others: make(),
            make: Box::new(make),
            inside: BTreeMap::new(),
            parts: BTreeMap::new(),
            settings: Vec::new(),
        }
    }

    /// The classes that have programs or keep something free, the first to be served first.
    fn members<'a>(&'a self, no_class: &'a Class, apps: &[AppView]) -> Vec<Members<'a>> {
        let known = |app: &AppView| app.class.filter(|class| self.classes.contains_key(class));
        let mut by_class: BTreeMap<Option<u64>, Vec<AppView>> = BTreeMap::new();
        for (number, _) in self.classes.iter().filter(|(_, class)| class.reserve) {
            by_class.insert(Some(*number), Vec::new());
        }
        for app in apps {
            by_class.entry(known(app)).or_default().push(*app);
        }
        let class = |number: Option<u64>| {
            number.and_then(|number| self.classes.get(&number)).unwrap_or(no_class)
        };
        let mut members: Vec<Members<'_>> = by_class
            .into_iter()
            .map(|(number, apps)| Members { number, class: class(number), apps })
            .collect();
        members.sort_by_cached_key(|it| it.demand().order());
        members
    }

    /// One decision of those of the classes, which come in the order in which they are served, each
    /// with what its class has.
    fn whole(
        &self,
        snapshot: &Snapshot<'_>,
        answers: Vec<(Option<u64>, u32, Decision)>,
    ) -> Decision {
        let mut by_app: BTreeMap<AppId, Allocation> = BTreeMap::new();
        let (mut work_list, mut next, mut cluster) = (Vec::new(), None::<u64>, 0);
        let shares = answers.iter().any(|it| it.2.allocations.iter().any(|it| it.shared));
        let mut circles = vec![0; if shares { self.classes.len() + 1 } else { 0 }];
        let numbers = self.classes.keys().copied().filter(|_| shares);
        let places = circle_places(numbers);
        for (number, processors, answer) in answers {
            let circle = number.and_then(|number| places.get(&number)).copied().unwrap_or(0);
            let (mut own, mut masters) = (0_u32, 0_u32);
            for mut it in answer.allocations {
                if it.shared {
                    it.circle = circle;
                    masters += 1;
                } else {
                    own = own.saturating_add(it.processors);
                }
                by_app.insert(it.app, it);
            }
            if masters > 0 {
                circles[usize::from(circle)] = processors.saturating_sub(own).clamp(1, masters);
            }
            work_list.extend(answer.work_list);
            next = [next, answer.next].into_iter().flatten().min();
            cluster = cluster.max(answer.cluster);
        }
        let allocations = snapshot
            .apps
            .iter()
            .map(|app| by_app.get(&app.id).copied().unwrap_or(Allocation::own(app.id, 0)))
            .collect();
        let mut decision = Decision::new(snapshot, allocations, work_list);
        (decision.next, decision.cluster, decision.circles) = (next, cluster, circles);
        decision
    }

    fn policy(&mut self, number: Option<u64>) -> &mut dyn Policy {
        let Some(number) = number else { return &mut *self.others };
        let (make, settings) = (&self.make, &self.settings);
        let policy = self.inside.entry(number).or_insert_with(|| {
            let mut policy = make();
            for (key, value) in settings {
                // The same policy took it before.
                let _taken = policy.configure(key, value);
            }
            policy
        });
        &mut **policy
    }
}

/// By the number of a class the place of its circle in [`Decision::circles`]; that of programs of
/// no class is 0. A place follows from the numbers of all classes: one that shares keeps its
/// circle.
#[must_use]
pub fn circle_places(numbers: impl IntoIterator<Item = u64>) -> BTreeMap<u64, u16> {
    let sorted: BTreeSet<u64> = numbers.into_iter().collect();
    sorted.into_iter().zip(1..).collect()
}

/// Processors of each class; see the rule. `None`: there are more classes with programs than
/// processors, and masters always run.
fn divide(snapshot: &Snapshot<'_>, members: &[Members<'_>]) -> Option<Vec<u32>> {
    let demands: Vec<Demand<'_>> = members.iter().map(Members::demand).collect();
    let floors = minima(snapshot.processors, snapshot.master_always, &demands)?;
    let mut parts = vec![0; members.len()];
    let mut at = 0;
    let mut rest = snapshot.processors;
    for level in members.chunk_by(|one, other| one.class.priority == other.class.priority) {
        let own = &floors[at..at + level.len()];
        let below: u32 = floors[at + level.len()..].iter().sum();
        let claim = |(it, floor): (&Members<'_>, &u32)| Claim {
            key: share::key(it.class.weight, 1),
            floor: *floor,
            room: it.wants().max(*floor),
        };
        let claims: Vec<Claim> = level.iter().zip(own).map(claim).collect();
        for part in share::divide((rest - below).into(), &claims) {
            parts[at] = part;
            rest -= part;
            at += 1;
        }
    }
    Some(parts)
}

impl Policy for Classes {
    fn name(&self) -> &'static str {
        self.others.name()
    }

    fn needs(&self) -> Needs {
        self.others.needs()
    }

    fn is_timeless(&self) -> bool {
        self.others.is_timeless() && self.inside.values().all(|policy| policy.is_timeless())
    }

    fn parameters(&self) -> Vec<Parameter> {
        self.others.parameters()
    }

    fn configure(&mut self, key: &str, value: &Value) -> Result<(), ParameterError> {
        self.others.configure(key, value)?;
        self.settings.push((key.to_owned(), *value));
        self.inside.values_mut().try_for_each(|policy| policy.configure(key, value))
    }

    /// The queue is the whole machine's: one policy object answers.
    fn admission(&mut self, snapshot: &Snapshot<'_>, queue: &[Waiting]) -> Admission {
        self.others.admission(snapshot, queue)
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        if self.needs().unbound {
            return self.others.decide(snapshot);
        }
        let no_class = Class::default();
        let members = self.members(&no_class, snapshot.apps);
        let Some(parts) = divide(snapshot, &members) else {
            let allocations = by_class_weight(snapshot, &members);
            self.parts.clear();
            return Decision::everybody_waits(snapshot, allocations);
        };
        let reserved = kept_free(&members, &parts);
        let shares: Vec<(Option<u64>, u32, Vec<AppView>)> =
            members.into_iter().zip(parts).map(|(it, part)| (it.number, part, it.apps)).collect();
        self.parts.clear();
        let mut answers = Vec::with_capacity(shares.len());
        for (number, processors, apps) in shares {
            let inner = Snapshot { apps: &apps, processors, ..*snapshot };
            let answer = self.policy(number).decide(&inner);
            answers.push((number, processors, answer.due_within(processors)));
            self.parts.insert(number, (processors, answer));
        }
        let mut decision = self.whole(snapshot, answers);
        decision.reserved = reserved;
        decision
    }

    fn release(&mut self, snapshot: &Snapshot<'_>, last: &Decision) -> Decision {
        if self.needs().unbound || self.parts.is_empty() {
            return last.after_release(snapshot);
        }
        let no_class = Class::default();
        let shares: Vec<(Option<u64>, Vec<AppView>)> = self
            .members(&no_class, snapshot.apps)
            .into_iter()
            .map(|it| (it.number, it.apps))
            .collect();
        let mut answers = Vec::with_capacity(shares.len());
        for (number, apps) in shares {
            let Some((processors, before)) = self.parts.remove(&number) else { continue };
            let inner = Snapshot { apps: &apps, processors, ..*snapshot };
            let answer = self.policy(number).release(&inner, &before);
            answers.push((number, processors, answer.due_within(processors)));
            self.parts.insert(number, (processors, answer));
        }
        let mut after = self.whole(snapshot, answers);
        (after.rotate, after.reserved) = (false, last.reserved);
        after
    }
}

/// Processors that classes keep free beyond what their programs can use.
fn kept_free(members: &[Members<'_>], parts: &[u32]) -> u32 {
    let free = |(it, part): (&Members<'_>, &u32)| {
        if it.class.reserve { part.saturating_sub(it.wants()) } else { 0 }
    };
    members.iter().zip(parts).map(free).sum()
}

/// All masters share, by the weights of their classes.
fn by_class_weight(snapshot: &Snapshot<'_>, members: &[Members<'_>]) -> Vec<Allocation> {
    let mut parts: BTreeMap<AppId, u32> = BTreeMap::new();
    for it in members {
        let weight = share::fixed(it.class.weight) / it.apps.len().max(1) as u128;
        let part = u32::try_from(weight >> 4).unwrap_or(u32::MAX).max(1);
        parts.extend(it.apps.iter().map(|app| (app.id, part)));
    }
    if snapshot.processors == 0 {
        return crowd::one_each(snapshot, 0..snapshot.apps.len());
    }
    snapshot.apps.iter().map(|app| Allocation::shared_part(app.id, parts[&app.id])).collect()
}
