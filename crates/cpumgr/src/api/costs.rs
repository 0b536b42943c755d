//! What clients cost, and whose turn it is: a flood of connections or messages delays its own
//! user's.
//!
//! # Protocol
//! 1. Each connection and each message is charged to its user, in points of some 20 us of the
//!    manager's time, both threads together ([`CONNECTION`], [`of_message`], a point for each
//!    packet of an answer).
//! 2. A user that owes is not let in from the door, and what its clients say stays in their
//!    sockets. One of them after the other, in the order in which they have something to say, has
//!    its user's turn, and is heard when nothing is owed, unless it hung up meanwhile.
//!
//! # Invariants
//! - C1 A client that waits for a turn waits for clients of its own user only, and no client keeps
//!   a turn longer than its user owes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use arena::message::{Control, ToManager};
use platform::clock::monotonic_ns;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::sleep;

use crate::allowance::{Allowances, Rate};

/// A connection: taken, looked at, known to the scheduler, and forgotten.
pub(super) const CONNECTION: u64 = 4;
/// What is no message.
pub(super) const NONSENSE: u64 = 2;
/// A point in 2.2 ms: measured with its accept, wakes and system calls a point is twice its 20 us
/// or more, and a flood costs some four hundredths of a processor. Three hundred programs that
/// `cpumgr run` starts at once are within the burst.
pub(super) const OTHERS: Rate = Rate { burst: 20_000, unit_ns: 2_200_000 };
/// A fifth of one.
pub(super) const OWN: Rate = Rate { burst: 40_000, unit_ns: 100_000 };
/// Users whose turns are kept in mind before turns without a waiter are forgotten.
const MANY: usize = 32;

/// What a message costs, without the packets of its answer.
pub(super) fn of_message(message: &ToManager) -> u64 {
    match message {
        // Areas, a decision, their end.
        ToManager::Register(_) => 26,
        ToManager::Control(Control::Attach { .. } | Control::Detach { .. }) => 10,
        ToManager::Control(_)
        | ToManager::Announce { .. }
        | ToManager::Submit(_)
        | ToManager::Outcome { .. } => 5,
        // A look at a whole file, by a thread of its own.
        ToManager::History(_) => 200,
        ToManager::Status | ToManager::Queue | ToManager::Measures | ToManager::Join => 2,
    }
}

/// The costs of all users.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    allowances: Rc<RefCell<Allowances>>,
    turns: Rc<RefCell<BTreeMap<u32, Rc<Mutex<()>>>>>,
    clock: fn() -> u64,
}

impl Costs {
    pub(super) fn new(owner: u32, clock: fn() -> u64) -> Self {
        let allowances = Rc::new(RefCell::new(Allowances::new(owner, OWN, OTHERS)));
        Self { allowances, turns: Rc::default(), clock }
    }

    pub(super) fn charge(&self, uid: u32, points: u64) {
        self.allowances.borrow_mut().charge(uid, points, (self.clock)());
    }

    /// User `uid` owes nothing.
    pub(super) fn is_free(&self, uid: u32) -> bool {
        self.allowances.borrow().is_free(uid, (self.clock)())
    }

    /// How long user `uid` owes.
    pub(super) fn free_in(&self, uid: u32) -> Duration {
        let now = (self.clock)();
        Duration::from_nanos(self.allowances.borrow().free_at(uid, now) - now)
    }

    /// The account of user `uid`.
    pub(super) fn of(&self, uid: u32) -> Account {
        let mut turns = self.turns.borrow_mut();
        if turns.len() >= MANY {
            turns.retain(|_, turn| Rc::strong_count(turn) > 1);
        }
        let turn = Rc::clone(turns.entry(uid).or_default());
        Account { uid, costs: self.clone(), turn }
    }
}

/// What one user's clients cost.
#[derive(Debug)]
pub(super) struct Account {
    uid: u32,
    costs: Costs,
    turn: Rc<Mutex<()>>,
}

impl Account {
    pub(super) fn charge(&self, points: u64) {
        self.costs.charge(self.uid, points);
    }

    /// The user owes nothing.
    pub(super) fn is_free(&self) -> bool {
        self.costs.is_free(self.uid)
    }

    /// Waits for the user's turn, and until it owes nothing.
    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        let turn = self.turn.lock().await;
        loop {
            let owed = self.costs.free_in(self.uid);
            if owed.is_zero() {
                return turn;
            }
            sleep(owed).await;
        }
    }
}

/// The clock of a manager.
pub(super) fn clock() -> u64 {
    monotonic_ns()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use arena::message::Submit;

    use super::*;

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(1 << 40) };
    }

    const MS: u64 = 1_000_000;

    /// Messages like this, each on a connection of its own, that one user gets through the door in
    /// this many seconds.
    fn heard(costs: &Costs, uid: u32, what: &ToManager, seconds: u64) -> u64 {
        let mut count = 0;
        for _ in 0..seconds * 1_000 {
            while costs.is_free(uid) {
                costs.charge(uid, CONNECTION + of_message(what));
                count += 1;
            }
            NOW.set(NOW.get() + MS);
        }
        count
    }

    #[test]
    fn floods_cost_their_rate_and_delay_no_other_user() {
        let messages = [
            (ToManager::Status, 76),
            (ToManager::Announce { attach: true }, 51),
            (ToManager::Submit(Submit::plain(1, "", true)), 51),
            (ToManager::Control(Control::Attach { pid: 1 }), 33),
        ];
        for (what, most) in messages {
            let costs = Costs::new(7, || NOW.get());
            // The burst, and then the same number each second.
            heard(&costs, 9, &what, 1);
            let each = heard(&costs, 9, &what, 10) / 10;
            assert!(each <= most && each >= most / 2, "{what:?}: {each} a second");
            assert!(!costs.is_free(9) && costs.is_free(8) && costs.is_free(0) && costs.is_free(7));
            let own = heard(&costs, 7, &what, 10) / 10;
            assert!(own > 4 * each, "{what:?}: {own} of the manager's user beside {each}");
        }
    }

    #[test]
    fn three_hundred_programs_that_start_at_once_are_within_the_burst() {
        let costs = Costs::new(7, || NOW.get());
        let register = 26;
        for _ in 0..300 {
            assert!(costs.is_free(9));
            costs.charge(
                9,
                2 * CONNECTION + of_message(&ToManager::Announce { attach: true }) + register,
            );
        }
        assert!(costs.is_free(9));
    }

    #[test]
    fn clients_of_a_user_have_its_turn_one_after_the_other() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let costs = Costs::new(7, clock);
            let (one, two, other) = (costs.of(9), costs.of(9), costs.of(8));
            let held = one.turn().await;
            let wait = |account: Account| async move { drop(account.turn().await) };
            let mut waits = std::pin::pin!(wait(two));
            assert!(tokio::time::timeout(Duration::from_millis(1), &mut waits).await.is_err());
            wait(other).await;
            drop(held);
            waits.await;
        });
    }
}
