//! Which runs a question means, and what is answered.

use std::collections::BTreeMap;

use arena::message::{ACCOUNTS_PER_PACKET, Account, FromManager, HistoryHead, HistoryQuestion};

/// Rows in one answer.
const MOST_ROWS: usize = 1000;

/// What a client may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// All.
    Administrator,
    /// What is this user's.
    User(u32),
}

impl Asker {
    fn may_read(self, user: u32) -> bool {
        match self {
            Self::Administrator => true,
            Self::User(own) => own == user,
        }
    }
}

/// An answer as it grows: runs are taken in one by one, in any order.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    question: &'a HistoryQuestion,
    asker: Asker,
    each: Vec<Account>,
    totals: BTreeMap<(u32, String), Account>,
    left_out: u64,
}

impl<'a> Answer<'a> {
    pub(crate) fn to(question: &'a HistoryQuestion, asker: Asker) -> Self {
        let (each, totals) = (Vec::new(), BTreeMap::new());
        Self { question, asker, each, totals, left_out: 0 }
    }

    /// Takes a run in, if it is meant.
    pub(crate) fn take(&mut self, run: Account) {
        let HistoryQuestion { since_ns, user, program, each } = self.question;
        let is_meant = self.asker.may_read(run.user)
            && run.until_ns >= *since_ns
            && user.is_none_or(|user| user == run.user)
            && program.as_ref().is_none_or(|program| *program == run.program);
        if !is_meant {
            return;
        }
        if *each {
            self.each.push(run);
            // Sorted now and then: an answer of a thousand rows is not made of a million.
            if self.each.len() >= 2 * MOST_ROWS {
                self.cut();
            }
            return;
        }
        match self.totals.get_mut(&(run.user, run.program.clone())) {
            Some(total) => add(total, &run),
            None => {
                let key = (run.user, run.program.clone());
                self.totals.insert(key, Account { pid: None, state: None, ..run });
            }
        }
    }

    fn cut(&mut self) {
        self.each.sort_by_key(|it| std::cmp::Reverse((it.until_ns, it.began_ns)));
        self.left_out += self.each.len().saturating_sub(MOST_ROWS) as u64;
        self.each.truncate(MOST_ROWS);
    }

    /// The rows, the latest first, and how many are left out.
    pub(crate) fn rows(mut self) -> (Vec<Account>, u64) {
        self.each.extend(std::mem::take(&mut self.totals).into_values());
        self.cut();
        (self.each, self.left_out)
    }

    /// As messages.
    pub(crate) fn messages(self, file: String, fault: Option<String>) -> Vec<FromManager> {
        let (rows, left_out) = self.rows();
        let row_count = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        let head = HistoryHead { file, row_count, left_out, fault };
        let parts = rows.chunks(ACCOUNTS_PER_PACKET);
        let parts = parts.map(|rows| FromManager::Accounts { rows: rows.to_vec() });
        std::iter::once(FromManager::History(head)).chain(parts).collect()
    }
}

fn add(total: &mut Account, run: &Account) {
    total.runs += run.runs;
    total.began_ns = total.began_ns.min(run.began_ns);
    total.until_ns = total.until_ns.max(run.until_ns);
    for (sum, part) in [
        (&mut total.granted_ns, run.granted_ns),
        (&mut total.used_ns, run.used_ns),
        (&mut total.waited_ns, run.waited_ns),
        (&mut total.queued_ns, run.queued_ns),
    ] {
        *sum = sum.saturating_add(part);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    #[test]
    fn a_user_reads_its_own_runs_and_an_administrator_all() {
        let question = HistoryQuestion::default();
        for (asker, expected) in
            [(Asker::Administrator, 2), (Asker::User(7), 1), (Asker::User(9), 0)]
        {
            let mut answer = Answer::to(&question, asker);
            answer.take(run(7, "lu", 10));
            answer.take(run(8, "lu", 20));
            assert_eq!(answer.rows().0.len(), expected, "{asker:?}");
        }
    }

    #[test]
    fn runs_of_a_program_are_added_up_and_those_before_the_time_left_out() {
        let question = HistoryQuestion { since_ns: 15, ..HistoryQuestion::default() };
        let mut answer = Answer::to(&question, Asker::Administrator);
        [10, 20, 30].into_iter().for_each(|until| answer.take(run(7, "lu", until)));
        answer.take(run(7, "bt", 20));
        let (rows, left_out) = answer.rows();
        assert_eq!((rows.len(), left_out), (2, 0));
        assert_eq!((rows[0].program.as_str(), rows[0].runs, rows[0].until_ns), ("lu", 2, 30));
        assert_eq!((rows[0].granted_ns, rows[0].pid), (2 * run(7, "lu", 20).granted_ns, None));
        let question = HistoryQuestion { program: Some("bt".into()), each: true, ..question };
        let mut answer = Answer::to(&question, Asker::Administrator);
        [run(7, "lu", 20), run(7, "bt", 20)].into_iter().for_each(|it| answer.take(it));
        let (rows, _) = answer.rows();
        assert_eq!((rows.len(), rows[0].pid), (1, Some(7)));
    }

    #[test]
    fn of_more_rows_than_an_answer_has_room_for_the_latest_are_named() {
        let question = HistoryQuestion { each: true, ..HistoryQuestion::default() };
        let mut answer = Answer::to(&question, Asker::Administrator);
        (0..5000).for_each(|until| answer.take(run(7, "lu", until)));
        let (rows, left_out) = answer.rows();
        assert_eq!((rows.len(), left_out, rows[0].until_ns), (MOST_ROWS, 4000, 4999));
        assert_eq!(rows.last().map(|it| it.until_ns), Some(4000));
    }
}
