//! A configuration that was read anew (`reload`) comes into force.

use arena::message::{FromManager, RefusedCode};
use policies::{Cause, DEFAULT_POLICY};

use super::setup::none_known;
use super::{Server, nanos};
use crate::cli::{FairShare, IdleExit, Level, Strangers, Threads};
use crate::config::{Config, Rules};
use crate::daemon::{GRACE, QUANTUM};
use crate::reload::Asker;
use crate::settings::LevelFrom;

/// An answer has one packet: so many notes fit, whatever the names are.
const MOST_NOTES: usize = 16;

/// What askers hear: keys that hold from the next start on, and what cannot be as it is said.
type Answer = (Vec<String>, Vec<String>);

impl Server {
    /// A client (or a signal) asks for the configuration to be read anew.
    pub(super) fn reload(&mut self, asker: Asker) {
        let bell = self.api.bell_of_others();
        let begun = match &mut self.reload {
            Some(reload) => reload.ask(asker, bell),
            None => Err("this manager has no configuration".to_owned()),
        };
        match begun {
            Ok(()) => self.say_reloading(),
            Err(what) => self.answer_reload(vec![asker], Err(what)),
        }
    }

    /// Takes what was read, if it was.
    pub(super) fn heed_reload(&mut self, now: u64) {
        let api = &self.api;
        let taken = self.reload.as_mut().and_then(|it| it.take(|| api.bell_of_others()));
        let Some((said, askers)) = taken else { return };
        let outcome = said.and_then(|(said, rules)| {
            let later = self.bring_into_force(&said, now)?;
            Ok((later, self.set_rules(rules)))
        });
        self.answer_reload(askers, outcome);
    }

    fn answer_reload(&mut self, askers: Vec<Asker>, outcome: Result<Answer, String>) {
        self.say_reloaded(outcome.as_ref().err().map(String::as_str));
        match &outcome {
            Ok((later, _)) => tracing::info!(?later, "the configuration is in force"),
            Err(what) => tracing::error!(what, "the configuration stays what it was"),
        }
        for serial in askers.into_iter().flatten() {
            match outcome.clone() {
                Ok((later, notes)) => {
                    self.say(serial, vec![FromManager::Reloaded { later, notes }]);
                }
                Err(what) => self.refuse(serial, RefusedCode::NotPossible, what),
            }
        }
    }

    /// All of it, or nothing: what can be refused comes first. Returns what holds from the next
    /// start on.
    fn bring_into_force(&mut self, said: &Config, now: u64) -> Result<Vec<String>, String> {
        self.reconfigure_policy(said)?;
        let quantum = nanos(said.quantum.unwrap_or(QUANTUM));
        if quantum != self.ledger.quantum() {
            self.change_quantum(quantum, now)?;
        }
        let grace = nanos(said.grace.unwrap_or(GRACE));
        if grace != self.grace {
            self.change_grace(grace)?;
        }
        let level = said.mpl.and_then(Level::number);
        if level != self.level {
            self.change_level(level);
        }
        self.level_from = LevelFrom::Configuration;
        self.set_fair_share(said.fair_share.and_then(FairShare::half_life).map(nanos), now);
        self.ledger.set_smt(said.smt.unwrap_or(Threads::Spread).smt());
        self.heed_strangers(said.strangers.unwrap_or(Strangers::Leave) == Strangers::Leave);
        self.idle_exit = match said.idle_exit {
            Some(IdleExit::After(time)) => Some(nanos(time)),
            Some(IdleExit::Never) | None => None,
        };
        self.idle_since = now;
        self.cause = self.cause.or(Some(Cause::Administration));
        self.legacy.unwritten = true;
        Ok(self.reload.as_ref().map(|it| it.for_later(said)).unwrap_or_default())
    }

    /// The policy with exactly these parameters. The one in force keeps what it knows.
    fn reconfigure_policy(&mut self, said: &Config) -> Result<(), String> {
        let policy = said.make_policy()?;
        if let Some(failure) = policy.failure() {
            return Err(failure.to_owned());
        }
        let name = said.policy.as_deref().unwrap_or(DEFAULT_POLICY);
        if name != self.ledger.policy() || self.ledger.policy_failure().is_some() {
            self.ledger.set_policy(policy);
            self.page.set_policy(name);
            return Ok(());
        }
        let in_force = self.ledger.parameters();
        for wanted in policy.parameters() {
            let is_so = |it: &policies::Parameter| it.key == wanted.key && it.value == wanted.value;
            if !in_force.iter().any(is_so) {
                let set = self.ledger.configure(wanted.key, &wanted.value);
                set.map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Classes, users' weights and caps, and which group administers hold at once, what is said of
    /// programs for those that arrive from now on. Returns what cannot be as it is said, in words,
    /// which is in the log, too.
    pub(super) fn set_rules(&mut self, rules: Rules) -> Vec<String> {
        let processors = self.cpus.len();
        let mut notes = unmet_minima(&rules, processors);
        notes.iter().for_each(|note| tracing::warn!("{note}"));
        if let Some(more) = notes.len().checked_sub(MOST_NOTES).filter(|more| *more > 0) {
            notes.truncate(MOST_NOTES);
            notes.push(format!("and {more} more of this kind, which are in the manager's log"));
        }
        self.ledger.set_user_weights(rules.weights());
        self.ledger.set_user_caps(rules.caps());
        self.ledger.set_classes(rules.class_table().classes.clone());
        self.doorman.admins.set(rules.admins());
        self.rules = rules;
        self.classify_all();
        self.tell_of_jobs_that_never_begin();
        notes
    }

    fn heed_strangers(&mut self, heeds: bool) {
        // With one processor there is nothing to leave.
        let heeds = heeds && self.cpus.len() > 1;
        if heeds && self.foreign.is_none() {
            self.foreign = Some(none_known());
        } else if !heeds && self.foreign.take().is_some() {
            self.ledger.leave_to_others(Vec::new());
        }
    }
}

/// What of the minima of classes a manager of so many processors cannot give, in words. No mistake:
/// several machines may have the same file.
fn unmet_minima(rules: &Rules, processors: usize) -> Vec<String> {
    let classes = &rules.class_table().classes;
    let alone = classes.iter().filter(|(_, class)| class.min as usize > processors);
    let mut notes: Vec<String> = alone
        .map(|(name, class)| {
            format!(
                "class {name} is to have {} processors at least, and this manager has {processors}",
                class.min
            )
        })
        .collect();
    let together: u64 = classes.values().map(|class| u64::from(class.min)).sum();
    if notes.is_empty() && together > processors as u64 {
        notes.push(format!(
            "classes are to have {together} processors at least together, and this manager has \
             {processors}: while all have programs, those of lower priority have fewer"
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minima_that_do_not_fit_together_are_told_as_those_that_do_not_fit_alone() {
        let notes = |text: &str, processors| {
            unmet_minima(&Rules::of(&Config::parse(text).unwrap()), processors)
        };
        let three = "[classes.a]\nmin = 2\n[classes.b]\nmin = 2\n[classes.c]\nmin = 2\n";
        assert!(notes(three, 6).is_empty());
        let [together] = &notes(three, 5)[..] else { panic!("one note") };
        assert!(together.contains("6 processors at least together"), "{together}");
        assert_eq!(notes(three, 1).len(), 3);
    }
}
