//! Fair share over days: what users consume, and the order in which their programs wait
//! (`--fair-share`).
//!
//! # Rule
//! Those of the user that has consumed least come first, relative to the users' weights
//! ([`policies::fair_share`]). Programs are charged with what they are granted. A process that runs
//! and is in no books is charged with the processors of its job, or with one, from its start to its
//! end.
//!
//! # Decisions
//! - What was consumed under managers before this one is what the history has of it
//!   (`crate::history`): that has a bound of age and size of its own, outlives each end of a
//!   manager, and lacks the last seconds before a kill. Without a history consumption counts from
//!   this manager's beginning.
//! - Half-lives change while the manager runs, and nothing is forgotten by that.

use policies::AppId;

use super::Server;
use super::queue::Place;
use crate::shares::Shares;

impl Server {
    /// The queue is ordered by what users consume, or, without a half-life, first come first
    /// served.
    pub(super) fn set_fair_share(&mut self, half_life: Option<u64>, now: u64) {
        let Some(half_life) = half_life else {
            self.shares = None;
            return;
        };
        if let Some(shares) = &mut self.shares {
            shares.set_half_life(now, half_life);
            return;
        }
        let before = self.accounting.as_mut().and_then(|it| it.history.consumed(half_life));
        if before.is_none() {
            tracing::warn!(
                "no history is kept: for the fair share users have consumed nothing so far"
            );
        }
        // What programs were granted until now the history knows.
        let charged = self.ledger.received_by_all(now).map(|(app, _, granted)| (app, granted));
        self.shares = Some(Shares::begin(half_life, now, charged.collect(), before));
    }

    /// After which time consumption counts by half, where the queue is ordered so.
    pub(super) fn half_life(&self) -> Option<u64> {
        self.shares.as_ref().map(Shares::half_life)
    }

    /// What a user consumed, in ns, where the queue is ordered by that.
    pub(super) fn consumed(&self, user: u32, now: u64) -> Option<u64> {
        self.shares.as_ref().map(|it| it.consumed(user, now))
    }

    /// Charges all programs when it is time.
    pub(super) fn charge_in_time(&mut self, now: u64) {
        if self.shares.as_ref().is_some_and(|it| it.are_due(now)) {
            self.charge_all(now);
        }
    }

    /// Charges all programs with what they were granted since the last time.
    pub(super) fn charge_all(&mut self, now: u64) {
        if self.shares.is_none() {
            return;
        }
        let running = self.started();
        let Some(shares) = &mut self.shares else { return };
        shares.hear_of_before(now);
        for (app, user, granted) in self.ledger.received_by_all(now) {
            shares.charge(app, user, granted, now);
        }
        let passed = shares.pass(now);
        for view in running {
            let Some(connection) = self.connections.get(&view.id.0) else { continue };
            let processors = connection.job.map_or(1, |job| job.processors);
            let amount = passed as f64 * f64::from(processors);
            shares.charge_user(connection.peer.uid, amount, now);
        }
    }

    /// A program leaves the books: before its entry goes.
    pub(super) fn charge_last(&mut self, serial: u64, user: u32, now: u64) {
        let Some(shares) = &mut self.shares else { return };
        let app = AppId(serial);
        if let Some((granted, _)) = self.ledger.received(app, now) {
            shares.charge(app, user, granted, now);
        }
        shares.forget(app);
    }

    /// The queue, the next one first.
    pub(super) fn in_order(&self, now: u64) -> Vec<&Place> {
        let places: Vec<&Place> = self.queue.iter().collect();
        let Some(shares) = &self.shares else { return places };
        let user =
            |place: &&Place| self.connections.get(&place.serial).map_or(u32::MAX, |it| it.peer.uid);
        let users: Vec<u32> = places.iter().map(user).collect();
        let weights = self.rules.weights();
        let weight = |user: u32| weights.get(&user).copied().unwrap_or(1.0);
        shares.order(now, &users, weight).into_iter().map(|at| places[at]).collect()
    }
}

#[cfg(test)]
mod tests {
    use arena::message::{Submit, ToManager};
    use policies::backfill::Running;

    use super::super::places::tests::{says, server};
    use super::*;
    use crate::shares::PACE;

    const HOUR: u64 = 3_600_000_000_000;

    /// The processes that wait, the next one first.
    fn order(server: &Server) -> Vec<i32> {
        let process = |place: &&Place| server.connections[&place.serial].peer.pid.0;
        server.in_order(0).iter().map(process).collect()
    }

    #[test]
    fn programs_of_the_user_that_consumed_least_come_first_and_those_of_one_user_as_they_came() {
        let dir = tempfile::tempdir().unwrap();
        let (mut server, mut kept) = (server(dir.path(), Some(0)), Vec::new());
        server.set_fair_share(Some(HOUR), 0);
        for (pid, uid) in [(5_000_001, 1), (5_000_002, 2), (5_000_003, 1), (5_000_004, 3)] {
            let what = ToManager::Submit(Submit::plain(1, "", true));
            assert_eq!(says(&mut server, &mut kept, (pid, uid), what), None);
        }
        let charge = |server: &mut Server, user: u32, amount: f64| {
            server.shares.as_mut().unwrap().charge_user(user, amount, 0);
        };
        assert_eq!(order(&server), [5_000_001, 5_000_002, 5_000_003, 5_000_004]);
        charge(&mut server, 1, 5e9);
        assert_eq!(order(&server), [5_000_002, 5_000_004, 5_000_001, 5_000_003]);
        charge(&mut server, 2, 9e9);
        assert_eq!(order(&server), [5_000_004, 5_000_001, 5_000_003, 5_000_002]);
        let starts: Vec<u64> = server.next_starts(0).iter().map(|start| start.id).collect();
        assert_eq!(starts, [4, 1, 3, 2]);
        server.set_fair_share(None, 0);
        assert_eq!(order(&server), [5_000_001, 5_000_002, 5_000_003, 5_000_004]);
    }

    #[test]
    fn a_job_that_is_in_no_books_is_charged_with_the_processors_that_it_keeps() {
        let dir = tempfile::tempdir().unwrap();
        let (mut server, mut kept) = (server(dir.path(), Some(0)), Vec::new());
        server.set_fair_share(Some(1000 * HOUR), 0);
        let what = ToManager::Submit(Submit::plain(1, "", true));
        assert_eq!(says(&mut server, &mut kept, (5_000_001, 7), what), None);
        let place = server.queue.pop_front().unwrap();
        let connection = server.connections.get_mut(&place.serial).unwrap();
        connection.announced = true;
        connection.job = Some(Running { processors: 3, until: None, class: None });
        server.charge_in_time(PACE - 1);
        assert_eq!(server.consumed(7, PACE), Some(0), "not yet");
        server.charge_in_time(PACE);
        server.charge_all(2 * PACE);
        let consumed = server.consumed(7, 2 * PACE).unwrap() as f64;
        assert!((consumed / (6.0 * PACE as f64) - 1.0).abs() < 1e-3, "{consumed}");
        assert_eq!(server.consumed(8, 2 * PACE), Some(0));
        // It ends before the next time at which all are charged.
        server.doom(place.serial, "it has ended");
        server.bury(2 * PACE + PACE / 2);
        let consumed = server.consumed(7, 2 * PACE + PACE / 2).unwrap() as f64;
        assert!((consumed / (7.5 * PACE as f64) - 1.0).abs() < 1e-3, "{consumed}");
    }
}
