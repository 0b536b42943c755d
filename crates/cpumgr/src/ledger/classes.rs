//! Classes of programs, as a site configures them: they share first, then users inside each class,
//! then a user's programs by the policy.
//!
//! # Rule
//! With classes the policy in force is [`Classes`] around [`AmongUsers`] around the policy that was
//! asked for. What a class may have is said there. Inside a class users have processors by max-min
//! and weights, as without classes (`users`). A user's cap is divided evenly among its programs,
//! whatever their classes, beside their minima.
//!
//! # Decisions
//! - Another table of classes makes new policy objects: what the old ones had learned is lost.
//! - A policy that panics takes the classes with it, until a policy is set (`guarded`).
//! - Programs of the domain pass no processors to each other: that would cross classes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use policies::share::{Claim, divide};
use policies::{
    Admission, Allocation, AppId, AppView, Cause, Class, Classes, Decision, Equip, Nanos, Needs,
    Parameter, ParameterError, Policy, Snapshot, Value, Waiting,
};

use super::Ledger;
use super::users::{Maker, shares, whole};
use crate::guarded::Guarded;

/// The weights of users, which change while policies run.
pub(super) type UserWeights = Arc<Mutex<BTreeMap<u32, f64>>>;

impl Ledger {
    /// What classes may have, by name; none: users share first. True when that is new.
    pub fn set_classes(&mut self, classes: BTreeMap<String, Class>) -> bool {
        if self.classes == classes {
            return false;
        }
        let (name, parameters) = self.policy.asked_for();
        self.classes = classes;
        let Some(mut plain) = self.users.make(name) else { return true };
        for it in parameters {
            if let Err(error) = plain.configure(it.key, &it.value) {
                tracing::warn!(%error, key = it.key, "a parameter is not kept");
            }
        }
        self.set_policy(plain);
        true
    }

    /// The class of a program, by name; true when that is new.
    pub fn set_class(&mut self, app: AppId, class: Option<String>) -> bool {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == app) else {
            return false;
        };
        let changes = entry.class != class;
        entry.class = class;
        changes
    }

    /// The class of a program.
    pub fn class(&self, app: AppId) -> Option<&str> {
        self.entries.iter().find(|entry| entry.id == app)?.class.as_deref()
    }

    /// Classes share first.
    pub(super) fn has_classes(&self) -> bool {
        !self.classes.is_empty()
    }

    /// A policy for programs of classes, with the parameters of `plain`.
    pub(super) fn in_classes(&self, plain: Guarded) -> Guarded {
        if !self.has_classes() || plain.failure().is_some() {
            return plain;
        }
        let (name, parameters) = plain.asked_for();
        let (maker, weights) = (self.users.maker(), Arc::clone(&self.users.among));
        let make = move || -> Box<dyn Policy> {
            Box::new(AmongUsers::new(name, maker, Arc::clone(&weights)))
        };
        let classes = &self.classes;
        let made = Guarded::make(|| {
            let made: Box<dyn Policy> = Box::new(Classes::new(classes, make));
            Ok::<_, String>(made)
        });
        let configured = made.and_then(|mut policy| {
            for it in &parameters {
                policy.configure(it.key, &it.value).map_err(|error| error.to_string())?;
            }
            Ok(policy)
        });
        configured.unwrap_or_else(|why| {
            tracing::error!(why, "classes are not heeded under this policy");
            plain
        })
    }

    /// Users' caps, as maxima of their programs: each has an even part of the cap, at least one,
    /// and its minimum where the minima of all of them fit: a job counts with that.
    pub(super) fn cap_users(&self, views: &mut [AppView]) {
        if !self.has_classes() {
            return;
        }
        for (user, cap) in self.users.caps() {
            let mut own: Vec<&mut AppView> =
                views.iter_mut().filter(|view| view.user == *user).collect();
            own.sort_by_key(|view| view.wants());
            let cap = u64::from(*cap);
            let fit = own.iter().map(|view| u64::from(view.floor())).sum::<u64>() <= cap;
            let claim = |view: &&mut AppView| Claim {
                key: 1,
                floor: if fit { view.floor() } else { 1 },
                room: view.wants(),
            };
            let claims: Vec<Claim> = own.iter().map(claim).collect();
            for (view, part) in own.into_iter().zip(divide(cap, &claims)) {
                view.max = view.max.min(part);
            }
        }
    }

    /// How many processors more the class of `app` may have by the decision in force.
    pub(super) fn room_in_class(&self, app: AppId) -> u32 {
        let Some(class) = self.class(app).filter(|_| self.has_classes()) else { return u32::MAX };
        let max = self.classes.get(class).map_or(u32::MAX, |it| it.max);
        let of_class = |it: &&Allocation| self.class(it.app) == Some(class);
        let has: u32 = self
            .decision
            .allocations
            .iter()
            .filter(of_class)
            .filter(|it| !it.shared)
            .map(|it| it.processors)
            .sum();
        // And what its masters share.
        let mut shared = self.decision.allocations.iter().filter(of_class).filter(|it| it.shared);
        let circle = shared.next().map(|it| usize::from(it.circle));
        let shared = circle.and_then(|circle| self.decision.circles.get(circle));
        let shared = shared.copied().unwrap_or(0);
        max.saturating_sub(has).saturating_sub(shared)
    }
}

/// Divides what a class has among users, and asks a policy for the programs of each.
struct AmongUsers {
    name: &'static str,
    maker: Maker,
    weights: UserWeights,
    /// Asked for needs and parameters.
    pattern: Box<dyn Policy>,
    inside: BTreeMap<u32, Box<dyn Policy>>,
    settings: Vec<(String, Value)>,
    /// When each policy wants to be asked again.
    next: BTreeMap<u32, Nanos>,
    /// Of the last decision: what each user had, and what its policy said.
    last: Vec<(u32, u32, Decision)>,
}

impl AmongUsers {
    fn new(name: &'static str, maker: Maker, weights: UserWeights) -> Self {
        let pattern = make(maker, name);
        Self {
            name,
            maker,
            weights,
            pattern,
            inside: BTreeMap::new(),
            settings: Vec::new(),
            next: BTreeMap::new(),
            last: Vec::new(),
        }
    }

    /// The policy for the programs of a user.
    fn of(&mut self, user: u32) -> &mut dyn Policy {
        let (maker, name, settings) = (self.maker, self.name, &self.settings);
        let policy = self.inside.entry(user).or_insert_with(|| {
            let mut policy = make(maker, name);
            for (key, value) in settings {
                // The same policy took it before.
                let _taken = policy.configure(key, value);
            }
            policy
        });
        &mut **policy
    }

    fn answer(
        &mut self,
        snapshot: &Snapshot<'_>,
        shares: Vec<(u32, u32)>,
        mut ask: impl FnMut(&mut dyn Policy, &Snapshot<'_>, u32) -> Decision,
    ) -> Decision {
        let users: Vec<u32> = snapshot.apps.iter().map(|app| app.user).collect();
        self.inside.retain(|user, _| users.contains(user));
        self.next.retain(|user, _| users.contains(user));
        let (mut last, mut answers) = (Vec::new(), Vec::new());
        for (user, processors) in shares {
            let own = snapshot.apps.iter().filter(|app| app.user == user);
            let own: Vec<AppView> = own.copied().collect();
            let is_due = self.next.get(&user).is_some_and(|next| *next <= snapshot.now);
            let others = snapshot.cause == Cause::Timer && !is_due;
            let cause = if others { Cause::Request } else { snapshot.cause };
            let inner = Snapshot { apps: &own, processors, cause, ..*snapshot };
            let answer = ask(self.of(user), &inner, user);
            match answer.next {
                Some(next) => self.next.insert(user, next),
                None => self.next.remove(&user),
            };
            answers.push((user, answer.due_within(processors)));
            last.push((user, processors, answer));
        }
        self.last = last;
        whole(&users, answers)
    }
}

/// A policy by its name; equal shares where there is none.
fn make(maker: Maker, name: &str) -> Box<dyn Policy> {
    maker(name).unwrap_or_else(|| Box::new(Equip::new()))
}

impl Policy for AmongUsers {
    fn name(&self) -> &'static str {
        self.name
    }

    fn needs(&self) -> Needs {
        self.pattern.needs()
    }

    fn is_timeless(&self) -> bool {
        self.pattern.is_timeless()
    }

    fn parameters(&self) -> Vec<Parameter> {
        self.pattern.parameters()
    }

    fn configure(&mut self, key: &str, value: &Value) -> Result<(), ParameterError> {
        self.pattern.configure(key, value)?;
        self.settings.push((key.to_owned(), *value));
        self.inside.values_mut().try_for_each(|policy| policy.configure(key, value))
    }

    fn admission(&mut self, snapshot: &Snapshot<'_>, queue: &[Waiting]) -> Admission {
        self.pattern.admission(snapshot, queue)
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        if self.needs().unbound {
            return self.pattern.decide(snapshot);
        }
        let weights = self.weights.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let wishes = snapshot.apps.iter().map(|app| (app.user, app));
        let shares = shares(snapshot.processors, &weights, &BTreeMap::new(), wishes);
        if shares.len() > snapshot.processors as usize {
            self.last.clear();
            return all_share(snapshot, &weights);
        }
        self.answer(snapshot, shares, |policy, inner, _| policy.decide(inner))
    }

    fn release(&mut self, snapshot: &Snapshot<'_>, last: &Decision) -> Decision {
        let mut users: Vec<u32> = Vec::new();
        for app in snapshot.apps {
            if !users.contains(&app.user) {
                users.push(app.user);
            }
        }
        let before = std::mem::take(&mut self.last);
        let is_same = before.iter().map(|it| it.0).eq(users);
        if self.needs().unbound || before.is_empty() || !is_same {
            return last.after_release(snapshot);
        }
        let shares = before.iter().map(|(user, processors, _)| (*user, *processors)).collect();
        self.answer(snapshot, shares, |policy, inner, user| {
            match before.iter().find(|it| it.0 == user) {
                Some((_, _, said)) => policy.release(inner, said),
                None => policy.decide(inner),
            }
        })
    }
}

/// More users than processors: all masters share, by the weights of their users.
fn all_share(snapshot: &Snapshot<'_>, weights: &BTreeMap<u32, f64>) -> Decision {
    let of_user = |user: u32| snapshot.apps.iter().filter(|app| app.user == user).count().max(1);
    let part = |app: &AppView| {
        let weight = weights.get(&app.user).copied().unwrap_or(1.0);
        // Parts are relative until `due_within`. A weight is at most 1000: the cast is in range.
        let part = (weight * 1e6 / of_user(app.user) as f64) as u32;
        Allocation::shared_part(app.id, part)
    };
    let share = |app: &AppView| match snapshot.processors {
        0 => Allocation::own(app.id, 0),
        _ => part(app),
    };
    Decision::everybody_waits(snapshot, snapshot.apps.iter().map(share).collect())
}

#[cfg(test)]
mod tests;
