//! The numbers of submissions, and how each ended: what others that start after them wait for.
//!
//! # Rules
//! - N1 A number is given once, from 1 on, and a process that comes back after its manager was
//!   killed has its number again.
//! - N2 How a submission ended is known where its parent says so ([`ToManager::Outcome`]): the
//!   kernel tells exit codes to parents alone. A parent that was announced and does not say so
//!   within [`REPORT`] of the end never will.
//! - N3 One that left the queue without having begun was cancelled.
//! - N4 How the last [`KEPT`] ended is kept. Of those before nothing is known but that they ended.
//! - N5 A process has one number. One that was admitted and submits itself anew keeps it: what
//!   starts after that number starts after the process's end. Of a process with another number
//!   how the earlier one ended is not known: else one that never ends would leave numbers without
//!   an end.
//! - N6 A user depends on its own submissions only, and learns nothing of others'.
//!
//! [`ToManager::Outcome`]: arena::message::ToManager::Outcome

use std::collections::BTreeMap;

use arena::message::{After, Condition};
use platform::process::Pid;
use serde::{Deserialize, Serialize};

/// How long the word of a parent is waited for.
const REPORT: u64 = 2_000_000_000;
/// Submissions that are over and still known.
const KEPT: usize = 1024;

/// How a submission ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ending {
    /// With this exit code.
    Code(i32),
    /// It began, and its parent does not say.
    Unknown,
    /// It did not begin.
    Cancelled,
}

/// Where a submission is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Stage {
    /// In the queue.
    Waits,
    /// Admitted; with its exit code, where its parent was faster than the kernel.
    Runs(Option<i32>),
    /// Over, and its parent has until then to say how.
    Awaited(u64),
    /// Over.
    Ended(Ending),
}

/// A submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Submission {
    pub(crate) uid: u32,
    pub(crate) pid: i32,
    pub(crate) reported: bool,
    pub(crate) stage: Stage,
}

/// All that are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Submissions {
    last: u64,
    known: BTreeMap<u64, Submission>,
}

/// What is to be said of a dependency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    NotYet,
    /// It cannot come to that any more.
    Never(String),
}

impl Submissions {
    /// A new one; `id`: it had this number before, under a manager that was killed or until it
    /// submitted itself anew (N5). A parent that it had then still says how it ends.
    pub(crate) fn enter(&mut self, id: Option<u64>, uid: u32, pid: Pid, reported: bool) -> u64 {
        let id = id.unwrap_or(self.last + 1);
        self.last = self.last.max(id);
        let reported = reported
            || self
                .known
                .get(&id)
                .is_some_and(|it| it.reported && (it.uid, it.pid) == (uid, pid.0));
        self.known.insert(id, Submission { uid, pid: pid.0, reported, stage: Stage::Waits });
        id
    }

    /// Whether there is, or was, one of this number that is this user's to know of (N6).
    pub(crate) fn is_known(&self, id: u64, uid: u32, sees_all: bool) -> bool {
        match self.known.get(&id) {
            Some(submission) => sees_all || submission.uid == uid,
            None => (1..=self.last).contains(&id),
        }
    }

    pub(crate) fn begins(&mut self, id: u64) {
        if let Some(submission) = self.known.get_mut(&id) {
            submission.stage = Stage::Runs(None);
        }
    }

    /// Its process has another number from now on (N5).
    pub(crate) fn is_superseded(&mut self, id: u64) {
        if let Some(submission) = self.known.get_mut(&id)
            && matches!(submission.stage, Stage::Runs(_))
        {
            submission.stage = Stage::Ended(Ending::Unknown);
        }
        self.forget();
    }

    /// The last number alone, for a place where all do not fit: of those before nothing is known
    /// but that they ended.
    pub(crate) fn last_alone(&self) -> Self {
        Self { last: self.last, known: BTreeMap::new() }
    }

    /// It left the queue without having begun (N3).
    pub(crate) fn is_cancelled(&mut self, id: u64) {
        if let Some(submission) = self.known.get_mut(&id)
            && submission.stage == Stage::Waits
        {
            submission.stage = Stage::Ended(Ending::Cancelled);
        }
        self.forget();
    }

    /// Its process has ended.
    pub(crate) fn ends(&mut self, id: u64, now: u64) {
        if let Some(submission) = self.known.get_mut(&id) {
            submission.stage = match submission.stage {
                Stage::Runs(Some(code)) => Stage::Ended(Ending::Code(code)),
                Stage::Runs(None) if submission.reported => Stage::Awaited(now + REPORT),
                Stage::Runs(None) => Stage::Ended(Ending::Unknown),
                Stage::Waits => Stage::Ended(Ending::Cancelled),
                over => over,
            };
        }
        self.forget();
    }

    /// A client of user `uid` says how process `pid` ended; false: no such process was submitted.
    pub(crate) fn hear(&mut self, uid: u32, pid: Pid, code: i32) -> bool {
        let is_it = |it: &&mut Submission| it.pid == pid.0 && it.uid == uid && it.reported;
        // The latest one: numbers of processes come again.
        let Some(submission) = self.known.values_mut().rev().find(is_it) else { return false };
        match submission.stage {
            Stage::Runs(_) => submission.stage = Stage::Runs(Some(code)),
            Stage::Awaited(_) => submission.stage = Stage::Ended(Ending::Code(code)),
            Stage::Waits | Stage::Ended(_) => return false,
        }
        true
    }

    /// Parents that did not speak in time never will (N2). Returns when the next one's time is
    /// over.
    pub(crate) fn give_up(&mut self, now: u64) -> Option<u64> {
        let mut next: Option<u64> = None;
        for submission in self.known.values_mut() {
            match submission.stage {
                Stage::Awaited(until) if until <= now => {
                    submission.stage = Stage::Ended(Ending::Unknown);
                }
                Stage::Awaited(until) => next = Some(next.map_or(until, |next| next.min(until))),
                _ => {}
            }
        }
        next
    }

    /// What came of all of these together.
    pub(crate) fn verdict(&self, all: &[After]) -> Verdict {
        let mut verdict = Verdict::Met;
        for after in all {
            match self.one(*after) {
                Verdict::Met => {}
                Verdict::NotYet => verdict = Verdict::NotYet,
                never @ Verdict::Never(_) => return never,
            }
        }
        verdict
    }

    fn one(&self, After { id, how }: After) -> Verdict {
        let ending = match self.known.get(&id).map(|it| it.stage) {
            Some(Stage::Ended(ending)) => Some(ending),
            Some(_) => return Verdict::NotYet,
            None => None,
        };
        let is_met = match (how, ending) {
            (Condition::Any, _)
            | (Condition::Ok, Some(Ending::Code(0)))
            | (Condition::Failed, Some(Ending::Cancelled)) => true,
            (Condition::Failed, Some(Ending::Code(code))) => code != 0,
            _ => false,
        };
        if is_met {
            return Verdict::Met;
        }
        let what = match ending {
            Some(Ending::Code(code)) if code > 128 => {
                format!("was ended by signal {}", code - 128)
            }
            Some(Ending::Code(code)) => format!("ended with code {code}"),
            Some(Ending::Cancelled) => "was cancelled".to_owned(),
            Some(Ending::Unknown) => {
                "ended, and its parent does not say how (submit it with --wait)".to_owned()
            }
            None => "ended too long ago for its end to be known".to_owned(),
        };
        Verdict::Never(format!(
            "it was to start after {}, but submission {id} {what}",
            After { id, how }
        ))
    }

    /// N4.
    fn forget(&mut self) {
        let over = |it: &Submission| matches!(it.stage, Stage::Ended(_));
        let beyond = self.known.values().filter(|it| over(it)).count().saturating_sub(KEPT);
        let old: Vec<u64> =
            self.known.iter().filter(|(_, it)| over(it)).map(|(id, _)| *id).take(beyond).collect();
        for id in &old {
            self.known.remove(id);
        }
    }

    /// The process that had a number, as far as it is still known to wait or run.
    pub(crate) fn of_process(&self, pid: Pid) -> Option<u64> {
        let lives = |it: &Submission| matches!(it.stage, Stage::Waits | Stage::Runs(_));
        let mut of = self.known.iter().rev().filter(|(_, it)| it.pid == pid.0 && lives(it));
        of.next().map(|(id, _)| *id)
    }

    /// Those that a killed manager left, of which no process is there any more: `lives` says which
    /// are.
    pub(crate) fn end_those_that_are_gone(&mut self, now: u64, lives: impl Fn(Pid) -> bool) {
        let gone = |it: &Submission| {
            matches!(it.stage, Stage::Waits | Stage::Runs(_)) && !lives(Pid(it.pid))
        };
        let gone: Vec<u64> =
            self.known.iter().filter(|(_, it)| gone(it)).map(|(id, _)| *id).collect();
        gone.into_iter().for_each(|id| self.ends(id, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str) -> Vec<After> {
        text.split(',').map(|it| it.parse().unwrap()).collect()
    }

    fn why(verdict: Verdict) -> String {
        match verdict {
            Verdict::Never(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_that_ended_well_lets_those_begin_that_wait_for_that_and_fails_the_others() {
        let mut all = Submissions::default();
        let id = all.enter(None, 7, Pid(100), true);
        assert_eq!((id, all.verdict(&after("1"))), (1, Verdict::NotYet));
        all.begins(1);
        all.ends(1, 0);
        assert_eq!(all.verdict(&after("ok:1")), Verdict::NotYet, "its parent has not spoken");
        assert!(!all.hear(8, Pid(100), 0), "another user");
        assert!(all.hear(7, Pid(100), 0) && !all.hear(7, Pid(100), 1));
        assert_eq!(all.verdict(&after("1,ok:1")), Verdict::Met);
        assert!(
            why(all.verdict(&after("ok:1,failed:1"))).contains("submission 1 ended with code 0")
        );
    }

    #[test]
    fn what_failed_was_cancelled_or_is_not_known_is_told_apart() {
        let mut all = Submissions::default();
        for (at, code) in [Some(3), Some(137), None].into_iter().enumerate() {
            let pid = Pid(100 + at as i32);
            let id = all.enter(None, 7, pid, code.is_some());
            all.begins(id);
            // The parent may speak before the kernel does.
            assert!(code.is_none_or(|code| all.hear(7, pid, code)));
            all.ends(id, 0);
        }
        let id = all.enter(None, 7, Pid(200), true);
        all.is_cancelled(id);
        for (id, what) in
            [(1, "ended with code 3"), (2, "signal 9"), (3, "--wait"), (4, "was cancelled")]
        {
            let said = why(all.verdict(&after(&format!("ok:{id}"))));
            assert!(said.contains(&format!("submission {id} ")) && said.contains(what), "{said}");
            assert_eq!(all.verdict(&after(&id.to_string())), Verdict::Met);
        }
        assert_eq!(all.verdict(&after("failed:1,failed:2,failed:4")), Verdict::Met);
        assert!(why(all.verdict(&after("failed:3"))).contains("--wait"));
    }

    #[test]
    fn a_parent_that_says_nothing_is_waited_for_as_long_as_it_has_time() {
        let mut all = Submissions::default();
        let id = all.enter(None, 7, Pid(100), true);
        all.begins(id);
        all.ends(id, 5);
        assert_eq!(all.give_up(5), Some(5 + REPORT));
        assert_eq!(all.verdict(&after("ok:1")), Verdict::NotYet);
        assert_eq!(all.give_up(5 + REPORT), None);
        assert!(why(all.verdict(&after("ok:1"))).contains("does not say"));
    }

    #[test]
    fn only_the_last_ones_are_known_and_of_others_that_they_ended() {
        let mut all = Submissions::default();
        for at in 0..KEPT as i32 + 10 {
            let id = all.enter(None, 7, Pid(at), false);
            all.begins(id);
            all.ends(id, 0);
        }
        assert_eq!(all.known.len(), KEPT);
        assert!(all.is_known(1, 7, false) && !all.is_known(0, 7, false));
        assert!(!all.is_known(KEPT as u64 + 11, 7, true), "never given");
        assert!(!all.is_known(KEPT as u64, 8, false), "another user's");
        assert_eq!(all.verdict(&after("1")), Verdict::Met);
        assert!(why(all.verdict(&after("ok:1"))).contains("too long ago"));
    }

    #[test]
    fn a_process_that_is_submitted_again_and_again_has_one_number() {
        let mut all = Submissions::default();
        let mut before = None;
        for _ in 0..3 * KEPT {
            let id = all.enter(None, 7, Pid(100), true);
            all.begins(id);
            if let Some(before) = before.replace(id) {
                all.is_superseded(before);
            }
        }
        assert_eq!(all.known.len(), KEPT + 1);
        let last = 3 * KEPT as u64;
        assert_eq!(all.verdict(&after(&(last - 1).to_string())), Verdict::Met);
        assert_eq!(all.verdict(&after(&last.to_string())), Verdict::NotYet);
        assert_eq!(all.last_alone().enter(None, 7, Pid(1), true), last + 1);
    }

    #[test]
    fn a_number_is_kept_by_its_process_when_the_manager_is_another_one() {
        let mut all = Submissions::default();
        let ids = [1, 2, 3].map(|pid| all.enter(None, 7, Pid(pid), true));
        all.begins(ids[0]);
        let text = serde_json::to_string(&all).unwrap();
        let mut next: Submissions = serde_json::from_str(&text).unwrap();
        assert_eq!(next, all);
        next.end_those_that_are_gone(0, |pid| pid == Pid(2));
        assert_eq!((next.of_process(Pid(2)), next.of_process(Pid(3))), (Some(2), None));
        assert_eq!(next.enter(Some(2), 7, Pid(2), true), 2);
        assert_eq!(next.enter(None, 7, Pid(4), true), 4);
        assert_eq!(next.verdict(&after("failed:3")), Verdict::Met);
        assert!(next.hear(7, Pid(1), 0), "its parent is still there");
    }
}
