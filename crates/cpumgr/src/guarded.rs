//! The policy in force, and what decides in its place when it panics.
//!
//! # Protocol
//! 1. Each call into a policy goes through [`Guarded`], also when the policy is made, dropped, or
//!    asked for its parameters.
//! 2. A policy that panics is never asked again: what it knows may be half written. From that call
//!    on `equip` (equal shares) decides; it also answers that call. This lasts until a policy is
//!    set, the same one anew or another.
//! 3. The log and `status` say which policy panicked, in which call, and with which message
//!    ([`Guarded::failure`]).
//!
//! # Invariants
//! - G1 No panic of a policy leaves this file: a policy that panics leaves the books, the masks and
//!   what programs read as they are.
//!
//! # Not here
//! Policies that break the rules of decisions: `ledger`. Policies that never answer, and programs
//! that are built to abort at a panic: nothing helps against those.

use std::any::Any;
use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use policies::{
    Admission, Decision, Equip, Nanos, Needs, Parameter, ParameterError, Policy, Snapshot, Value,
    Waiting,
};

use crate::escape::escape;

/// The longest text of a panic that is kept, in bytes.
const MAX_SAID: usize = 200;
/// The shortest time after which a policy is asked about the queue again: one that names a time
/// that has passed would keep the manager busy.
const SOONEST: Nanos = 1_000_000;

/// A policy that may panic.
pub struct Guarded {
    /// `None` only while it is dropped.
    policy: Option<Box<dyn Policy>>,
    /// Its name, asked for once.
    name: &'static str,
    /// The call in which it panicked, and what it said.
    failure: OnceCell<String>,
    /// What decides then.
    instead: Equip,
    /// The failure was told to the caller that asks for news.
    told: bool,
    /// Its parameters when it was made, and as they were set since.
    parameters: Vec<Parameter>,
}

/// Why a parameter is not changed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigureError {
    /// The policy says no.
    #[error(transparent)]
    Refused(#[from] ParameterError),
    /// The text is no value of any kind.
    #[error("{key} cannot be {text:?}; it is {allowed}")]
    NoValue {
        /// Which parameter.
        key: String,
        /// The text.
        text: String,
        /// What the parameter may be.
        allowed: String,
    },
    /// It panicked.
    #[error("{0}")]
    Failed(String),
}

impl Guarded {
    /// This policy.
    pub fn new(policy: Box<dyn Policy>) -> Self {
        let mut guarded = Self {
            policy: Some(policy),
            name: "a policy without a name",
            failure: OnceCell::new(),
            instead: Equip::new(),
            told: false,
            parameters: Vec::new(),
        };
        if let Some(name) = guarded.ask("name", |policy| policy.name()) {
            guarded.name = name;
        }
        if let Some(parameters) = guarded.look("parameters", |policy| policy.parameters()) {
            guarded.parameters = parameters;
        }
        guarded
    }

    /// What `make` makes.
    ///
    /// # Errors
    /// Its error, or what it said when it panicked.
    pub fn make<E: ToString>(
        make: impl FnOnce() -> Result<Box<dyn Policy>, E>,
    ) -> Result<Self, String> {
        match catch_unwind(AssertUnwindSafe(make)) {
            Ok(made) => made.map(Self::new).map_err(|error| error.to_string()),
            Err(panic) => {
                Err(format!("the policy panicked when it was made: {}", said(panic.as_ref())))
            }
        }
    }

    /// Asks it. `None`: it panics, or did before.
    fn ask<T>(
        &mut self,
        call: &'static str,
        question: impl FnOnce(&mut dyn Policy) -> T,
    ) -> Option<T> {
        let Self { policy, name, failure, .. } = self;
        let policy = policy.as_deref_mut().filter(|_| failure.get().is_none())?;
        // UNWIND: whatever it leaves half done is its own, and it is not asked again.
        let answer = catch_unwind(AssertUnwindSafe(|| question(policy)));
        answer.map_err(|panic| note(failure, name, call, panic.as_ref())).ok()
    }

    /// The same for what changes nothing.
    fn look<T>(&self, call: &'static str, question: impl FnOnce(&dyn Policy) -> T) -> Option<T> {
        let policy = self.policy.as_deref().filter(|_| self.failure.get().is_none())?;
        // UNWIND: as in `ask`.
        let answer = catch_unwind(AssertUnwindSafe(|| question(policy)));
        answer.map_err(|panic| note(&self.failure, self.name, call, panic.as_ref())).ok()
    }

    /// Which policy does not decide any more, and why.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// The same, once.
    pub fn new_failure(&mut self) -> Option<&str> {
        if self.failure.get().is_none() || std::mem::replace(&mut self.told, true) {
            return None;
        }
        self.failure()
    }

    /// The name of what decides.
    pub fn name(&self) -> &'static str {
        if self.failure.get().is_none() { self.name } else { self.instead.name() }
    }

    /// [`Policy::decide`].
    pub fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        let decision = self.ask("decide", |policy| policy.decide(snapshot));
        decision.unwrap_or_else(|| self.instead.decide(snapshot))
    }

    /// [`Policy::release`].
    pub fn release(&mut self, snapshot: &Snapshot<'_>, last: &Decision) -> Decision {
        let decision = self.ask("release", |policy| policy.release(snapshot, last));
        decision.unwrap_or_else(|| self.instead.release(snapshot, last))
    }

    /// [`Policy::admission`].
    pub fn admission(&mut self, snapshot: &Snapshot<'_>, queue: &[Waiting]) -> Admission {
        let admission = self.ask("admission", |policy| policy.admission(snapshot, queue));
        let mut admission = admission.unwrap_or_else(|| self.instead.admission(snapshot, queue));
        admission.next = admission.next.map(|next| next.max(snapshot.now.saturating_add(SOONEST)));
        admission
    }

    /// [`Policy::needs`].
    pub fn needs(&self) -> Needs {
        self.look("needs", |policy| policy.needs()).unwrap_or_else(|| self.instead.needs())
    }

    /// [`Policy::is_timeless`].
    pub fn is_timeless(&self) -> bool {
        self.look("is_timeless", |policy| policy.is_timeless())
            .unwrap_or_else(|| self.instead.is_timeless())
    }

    /// [`Policy::parameters`].
    pub fn parameters(&self) -> Vec<Parameter> {
        self.look("parameters", |policy| policy.parameters())
            .unwrap_or_else(|| self.instead.parameters())
    }

    /// The name of what was set, and its parameters as far as they are known: a policy that
    /// panicked keeps those that it had.
    pub fn asked_for(&self) -> (&'static str, Vec<Parameter>) {
        (self.name, self.parameters.clone())
    }

    /// [`Policy::configure`].
    ///
    /// # Errors
    /// When it refuses, or panics.
    pub fn configure(&mut self, key: &str, value: &Value) -> Result<(), ConfigureError> {
        if self.failure.get().is_some() {
            return Ok(self.instead.configure(key, value)?);
        }
        match self.ask("configure", |policy| policy.configure(key, value)) {
            Some(outcome) => {
                outcome?;
                let known = self.parameters.iter_mut().find(|it| it.key == key);
                known.into_iter().for_each(|it| it.value = *value);
                Ok(())
            }
            None => Err(ConfigureError::Failed(self.failure().unwrap_or_default().to_owned())),
        }
    }

    /// [`Guarded::configure`] with a value as people write it, which is returned.
    ///
    /// # Errors
    /// As there, and where the text is no value: with what this parameter may be.
    pub fn configure_text(&mut self, key: &str, text: &str) -> Result<Value, ConfigureError> {
        let Ok(value) = text.parse::<Value>() else {
            let parameters = self.parameters();
            return Err(match parameters.iter().find(|it| it.key == key) {
                Some(it) => ConfigureError::NoValue {
                    key: key.to_owned(),
                    text: text.to_owned(),
                    allowed: it.allowed(),
                },
                None => ParameterError::unknown(key, &parameters).into(),
            });
        };
        self.configure(key, &value)?;
        Ok(value)
    }
}

impl From<Box<dyn Policy>> for Guarded {
    fn from(policy: Box<dyn Policy>) -> Self {
        Self::new(policy)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let policy = self.policy.take();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(policy))) {
            note(&self.failure, self.name, "drop", panic.as_ref());
        }
    }
}

/// Keeps the first failure, and has it in the log.
fn note(failure: &OnceCell<String>, name: &str, call: &str, panic: &(dyn Any + Send)) {
    let why = format!("{name} panicked in {call}: {}", said(panic));
    tracing::error!(why, "the policy is not asked again; equip decides until another one is set");
    let _first = failure.set(why);
}

/// What a panic says, escaped.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("no text").as_bytes();
    escape(&text[..text.len().min(MAX_SAID)])
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use policies::{AppId, AppView, Cause};

    use super::*;

    /// Calls into a policy.
    pub(crate) const CALLS: [&str; 9] = [
        "name",
        "decide",
        "release",
        "admission",
        "needs",
        "is_timeless",
        "parameters",
        "configure",
        "drop",
    ];

    thread_local! {
        /// A policy was called after it had panicked. (A panic of that call would be caught.)
        static ASKED_AGAIN: Cell<bool> = const { Cell::new(false) };
    }

    /// A policy that shares as `equip` does, and panics at the `nth` call of a kind.
    pub(crate) struct Panics {
        call: &'static str,
        left: Cell<u32>,
        has_panicked: Cell<bool>,
        as_it_should: Equip,
    }

    impl Panics {
        pub(crate) fn at(call: &'static str, nth: u32) -> Box<dyn Policy> {
            let (left, has_panicked) = (Cell::new(nth), Cell::new(false));
            Box::new(Self { call, left, has_panicked, as_it_should: Equip::new() })
        }

        fn called(&self, call: &str) {
            if self.has_panicked.get() && call != "drop" {
                ASKED_AGAIN.set(true);
            }
            if self.call != call || self.left.get() == 0 {
                return;
            }
            self.left.set(self.left.get() - 1);
            self.has_panicked.set(self.left.get() == 0);
            assert_ne!(self.left.get(), 0, "a defect\x1b[2J in {call}");
        }
    }

    impl Policy for Panics {
        fn name(&self) -> &'static str {
            self.called("name");
            "panics"
        }
        fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
            self.called("decide");
            self.as_it_should.decide(snapshot)
        }
        fn release(&mut self, snapshot: &Snapshot<'_>, last: &Decision) -> Decision {
            self.called("release");
            self.as_it_should.release(snapshot, last)
        }
        fn admission(&mut self, snapshot: &Snapshot<'_>, queue: &[Waiting]) -> Admission {
            self.called("admission");
            Admission { next: Some(0), ..self.as_it_should.admission(snapshot, queue) }
        }
        fn needs(&self) -> Needs {
            self.called("needs");
            Needs::NOTHING
        }
        fn is_timeless(&self) -> bool {
            self.called("is_timeless");
            false
        }
        fn parameters(&self) -> Vec<Parameter> {
            self.called("parameters");
            Vec::new()
        }
        fn configure(&mut self, key: &str, _: &Value) -> Result<(), ParameterError> {
            self.called("configure");
            if key == "known" { Ok(()) } else { Err(ParameterError::unknown(key, &[])) }
        }
    }

    impl Drop for Panics {
        fn drop(&mut self) {
            self.called("drop");
        }
    }

    /// Each call, once.
    fn call_all(policy: &mut Guarded) {
        let apps = [AppView::new(AppId(1), 2), AppView::new(AppId(2), 2)];
        let (now, quantum, cause) = (5, 100, Cause::Arrival);
        let snapshot =
            Snapshot { now, quantum, processors: 3, apps: &apps, cause, master_always: true };
        let decision = policy.decide(&snapshot);
        decision.check(&snapshot).unwrap();
        policy.release(&snapshot, &decision).check(&snapshot).unwrap();
        let waits = [Waiting { id: AppId(3), request: 1, since: 0 }];
        let admission = policy.admission(&snapshot, &waits);
        assert_eq!(admission.admit, 1);
        assert!(admission.next.is_none_or(|next| next > now), "the manager would be busy");
        assert_eq!(policy.needs(), Needs::NOTHING);
        policy.is_timeless();
        assert!(policy.parameters().is_empty());
        let known = policy.configure("known", &Value::Switch(true));
        assert_eq!(known.is_ok(), policy.failure().is_none());
        assert!(policy.configure("unknown", &Value::Switch(true)).is_err());
    }

    #[test]
    fn at_whichever_call_a_policy_panics_it_is_answered_for_and_never_asked_again() {
        for call in CALLS {
            for nth in 1..=3 {
                let mut policy = Guarded::new(Panics::at(call, nth));
                let is_at_once = nth == 1 && ["name", "parameters"].contains(&call);
                assert_eq!(policy.new_failure().is_some(), is_at_once);
                (0..3).for_each(|_| call_all(&mut policy));
                assert!(!ASKED_AGAIN.get(), "{call} {nth}: it panicked, and was asked again");
                // Its name is asked for once, and it is dropped once.
                let fails = match call {
                    "name" => nth == 1,
                    call => call != "drop",
                };
                let failure = policy.failure().unwrap_or_default().to_owned();
                assert_eq!(
                    failure.contains(&format!("panicked in {call}: ")),
                    fails,
                    "{call} {nth}: {failure}"
                );
                assert!(!failure.contains('\x1b'), "{failure}");
                assert_eq!(policy.name(), if fails { "equip" } else { "panics" });
                if call != "name" && !is_at_once {
                    assert_eq!(policy.new_failure().is_some(), fails);
                }
                assert_eq!(policy.new_failure(), None, "told once");
                // As the books drop it.
                drop(policy);
            }
        }
    }

    #[test]
    fn one_that_panics_when_it_is_made_is_refused() {
        let made = Guarded::make(|| -> Result<_, String> { panic!("no {}", "luck") });
        assert_eq!(made.err().unwrap(), "the policy panicked when it was made: no luck");
        assert_eq!(Guarded::make(|| Err("unknown")).err().unwrap(), "unknown");
        assert_eq!(
            Guarded::make(|| Ok::<_, String>(Panics::at("decide", 0))).ok().unwrap().name(),
            "panics"
        );
    }
}
