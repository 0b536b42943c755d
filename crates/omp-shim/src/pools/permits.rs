//! Permits: how many workers each arena of the program may have, as plain state.
//!
//! # Rules
//! - What an arena needs to go on at all (its least) it has, whatever is granted: oneTBB asks for
//!   one worker where a task was enqueued for which no thread waits.
//! - What is left goes to active permits by priority, and within one by max-min, up to the most
//!   that each asked for. What cannot be divided goes to the younger: an outer arena waits for the
//!   one inside.
//! - A rigid permit keeps what it had when it became active. Idle ones keep what no active one
//!   takes; inactive ones have nothing.

use std::cmp::Reverse;

/// What a permit is, as its owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    Inactive = 1,
    Idle = 3,
    Active = 4,
}

/// A range of workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkerRange {
    pub(crate) least: u32,
    pub(crate) most: u32,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) workers: WorkerRange,
    /// Where the workers are to be of several kinds; the sum is within `workers`.
    pub(crate) parts: Vec<WorkerRange>,
    pub(crate) priority: i32,
    pub(crate) is_rigid: bool,
}

/// One arena's.
#[derive(Clone, Debug)]
pub(crate) struct Permit {
    pub(crate) id: usize,
    pub(crate) client: u64,
    /// The owner's word for it.
    pub(crate) argument: usize,
    wish: Wish,
    pub(crate) state: State,
    /// Workers that it may have.
    pub(crate) workers: u32,
    /// It is rigid and has what it keeps.
    is_settled: bool,
    /// What its owner knows.
    told: (u32, State),
}

impl Permit {
    /// How many of each part.
    pub(crate) fn parts(&self) -> Vec<u32> {
        if self.wish.parts.is_empty() {
            return vec![self.workers];
        }
        let mut left = self.workers;
        let mut take = |most: u32| {
            let taken = most.min(left);
            left -= taken;
            taken
        };
        let mut parts: Vec<u32> = self.wish.parts.iter().map(|part| take(part.least)).collect();
        for (got, part) in parts.iter_mut().zip(&self.wish.parts) {
            *got += take(part.most.saturating_sub(*got));
        }
        parts
    }

    /// The least and the most that count: with parts, what these allow together.
    fn range(&self) -> WorkerRange {
        let WorkerRange { least, most } = self.wish.workers;
        if self.wish.parts.is_empty() {
            return WorkerRange { least: least.min(most), most };
        }
        let sum = |of: fn(&WorkerRange) -> u32| {
            self.wish.parts.iter().map(of).fold(0, u32::saturating_add)
        };
        let most = most.min(sum(|part| part.most));
        WorkerRange { least: least.max(sum(|part| part.least)).min(most), most }
    }
}

/// All of a process.
#[derive(Debug, Default)]
pub(crate) struct Permits {
    all: Vec<Permit>,
    last: usize,
    /// Workers for all together.
    budget: u32,
}

impl Permits {
    pub(crate) const fn new() -> Self {
        Self { all: Vec::new(), last: 0, budget: 0 }
    }

    pub(crate) fn get(&self, id: usize) -> Option<&Permit> {
        self.all.iter().find(|permit| permit.id == id)
    }

    fn get_mut(&mut self, id: usize) -> Option<&mut Permit> {
        self.all.iter_mut().find(|permit| permit.id == id)
    }

    /// A new permit, not active yet; returns its number.
    pub(crate) fn add(&mut self, client: u64, argument: usize, wish: Wish) -> usize {
        self.last += 1;
        let state = State::Inactive;
        let told = (0, state);
        let (workers, is_settled) = (0, false);
        let id = self.last;
        self.all.push(Permit { id, client, argument, wish, state, workers, is_settled, told });
        id
    }

    /// Another wish. False: there is no such permit.
    pub(crate) fn wish(&mut self, id: usize, argument: usize, wish: Wish) -> bool {
        self.get_mut(id).is_some_and(|permit| {
            (permit.wish, permit.argument, permit.is_settled) = (wish, argument, false);
            true
        })
    }

    /// False: there is no such permit.
    pub(crate) fn set_state(&mut self, id: usize, state: State) -> bool {
        self.get_mut(id).is_some_and(|permit| {
            permit.is_settled &= state == State::Active;
            permit.state = state;
            true
        })
    }

    /// False: there is no such permit.
    pub(crate) fn remove(&mut self, id: usize) -> bool {
        let before = self.all.len();
        self.all.retain(|permit| permit.id != id);
        self.all.len() < before
    }

    /// Those of a client that went.
    pub(crate) fn remove_client(&mut self, client: u64) {
        self.all.retain(|permit| permit.client != client);
    }

    /// Whether one is active.
    pub(crate) fn are_active(&self) -> bool {
        self.all.iter().any(|permit| permit.state == State::Active)
    }

    /// Whether an active one has less than it asked for.
    pub(crate) fn want_more(&self) -> bool {
        let wants = |it: &Permit| it.state == State::Active && it.workers < it.range().most;
        self.all.iter().any(wants)
    }

    /// Workers that all may have together from now on, beside what they need.
    pub(crate) fn set_budget(&mut self, budget: u32) {
        self.budget = budget;
    }

    /// Shares the workers out anew.
    pub(crate) fn share(&mut self) {
        let mut left = self.budget;
        let mut open = Vec::new();
        for (index, permit) in self.all.iter_mut().enumerate() {
            let range = permit.range();
            match permit.state {
                State::Active if permit.is_settled => {}
                State::Active => {
                    permit.workers = range.least;
                    open.push((Reverse(permit.wish.priority), range.most - range.least, index));
                }
                State::Idle => continue,
                State::Inactive => permit.workers = 0,
            }
            left = left.saturating_sub(permit.workers);
        }
        // The most important first; within a priority those that want least, so that each finds at
        // least its part of what is left; then the older.
        open.sort();
        for class in open.chunk_by(|one, other| one.0 == other.0) {
            for (place, (_, want, index)) in class.iter().enumerate() {
                let part = left / u32::try_from(class.len() - place).unwrap_or(u32::MAX);
                let more = part.min(*want);
                self.all[*index].workers += more;
                left -= more;
            }
        }
        for permit in &mut self.all {
            if permit.state == State::Idle {
                permit.workers = permit.workers.min(left);
                left -= permit.workers;
            }
            permit.is_settled = permit.wish.is_rigid && permit.state == State::Active;
        }
    }

    /// The owner of this one knows what it has: it asked itself.
    pub(crate) fn told(&mut self, id: usize) {
        if let Some(permit) = self.get_mut(id) {
            permit.told = (permit.workers, permit.state);
        }
    }

    /// One whose owner has to hear of a change, and whether that is one of the number and of the
    /// state; it counts as told.
    pub(crate) fn next_to_tell(&mut self) -> Option<(&Permit, bool, bool)> {
        let changed = |it: &&mut Permit| it.told != (it.workers, it.state);
        let permit = self.all.iter_mut().find(changed)?;
        let (workers, state) = std::mem::replace(&mut permit.told, (permit.workers, permit.state));
        let (is_number, is_state) = (workers != permit.workers, state != permit.state);
        Some((permit, is_number, is_state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wish(least: u32, most: u32) -> Wish {
        let workers = WorkerRange { least, most };
        Wish { workers, parts: Vec::new(), priority: 0, is_rigid: false }
    }

    fn active(permits: &mut Permits, wish: Wish) -> usize {
        let id = permits.add(1, 0, wish);
        assert!(permits.set_state(id, State::Active));
        id
    }

    fn of(permits: &Permits, id: usize) -> u32 {
        permits.get(id).unwrap().workers
    }

    #[test]
    fn two_arenas_share_and_the_younger_has_what_cannot_be_divided() {
        let mut permits = Permits::new();
        permits.set_budget(3);
        let (one, other) = (active(&mut permits, wish(0, 8)), active(&mut permits, wish(0, 8)));
        permits.share();
        assert_eq!((of(&permits, one), of(&permits, other)), (1, 2));
        permits.set_state(other, State::Inactive);
        permits.share();
        assert_eq!((of(&permits, one), of(&permits, other)), (3, 0));
    }

    #[test]
    fn what_an_arena_needs_it_has_and_no_more_than_it_asked_for() {
        let mut permits = Permits::new();
        let needs = active(&mut permits, wish(1, 3));
        permits.share();
        assert_eq!(of(&permits, needs), 1);
        permits.set_budget(9);
        let small = active(&mut permits, wish(0, 1));
        permits.share();
        assert_eq!((of(&permits, needs), of(&permits, small)), (3, 1));
    }

    #[test]
    fn a_higher_priority_comes_first_and_a_rigid_one_keeps_what_it_had() {
        let mut permits = Permits::new();
        permits.set_budget(4);
        let rigid = active(&mut permits, Wish { is_rigid: true, ..wish(0, 3) });
        permits.share();
        let first = active(&mut permits, Wish { priority: 2, ..wish(0, 4) });
        permits.share();
        assert_eq!((of(&permits, rigid), of(&permits, first)), (3, 1));
        permits.set_budget(0);
        permits.share();
        assert_eq!((of(&permits, rigid), of(&permits, first)), (3, 0));
        assert!(permits.wish(rigid, 0, wish(0, 3)));
        permits.share();
        assert_eq!(of(&permits, rigid), 0);
    }

    #[test]
    fn parts_have_their_least_first() {
        let mut permits = Permits::new();
        permits.set_budget(3);
        let parts = vec![WorkerRange { least: 0, most: 4 }, WorkerRange { least: 1, most: 4 }];
        let id = active(&mut permits, Wish { parts, ..wish(0, 8) });
        permits.share();
        assert_eq!(permits.get(id).unwrap().parts(), [2, 1]);
    }

    #[test]
    fn an_owner_is_told_once_of_each_change_and_not_of_what_it_asked() {
        let mut permits = Permits::new();
        permits.set_budget(2);
        let (one, other) = (active(&mut permits, wish(0, 8)), active(&mut permits, wish(0, 8)));
        permits.share();
        permits.told(other);
        let (permit, is_number, is_state) = permits.next_to_tell().unwrap();
        assert_eq!((permit.id, is_number, is_state), (one, true, true));
        assert!(permits.next_to_tell().is_none());
        permits.set_budget(4);
        permits.share();
        assert!(permits.next_to_tell().is_some_and(|(_, number, state)| number && !state));
        assert!(permits.next_to_tell().is_some() && permits.next_to_tell().is_none());
        permits.remove_client(1);
        assert!(!permits.are_active() && !permits.want_more() && !permits.remove(one));
    }

    proptest! {
        #[test]
        fn shares_are_within_wishes_and_budget(
            budget in 0_u32..20,
            all in proptest::collection::vec((0_u32..3, 0_u32..20, 0_i32..3, 0_usize..3), 0..8),
        ) {
            let mut permits = Permits::new();
            permits.set_budget(budget);
            let mut needs = 0;
            for (least, most, priority, state) in &all {
                let id = permits.add(1, 0, Wish { priority: *priority, ..wish(*least, *most) });
                let state = [State::Active, State::Idle, State::Inactive][*state];
                permits.set_state(id, state);
                needs += if state == State::Active { *least.min(most) } else { 0 };
            }
            permits.share();
            let sum: u32 = permits.all.iter().map(|it| it.workers).sum();
            prop_assert!(sum <= budget.max(needs));
            let wants = permits.want_more();
            prop_assert!(!wants || sum >= budget, "{sum} of {budget} while one wants more");
            for permit in &permits.all {
                let range = permit.range();
                prop_assert!(permit.workers <= range.most);
                prop_assert!(permit.state != State::Active || permit.workers >= range.least);
            }
        }
    }
}
