//! Ordered loops: parallel iterations with a section that runs in the order of the iterations.

use super::dealer::{Dealer, TeamLoop};
use super::schedule::Schedule;
use super::stop::{abandon, unless_abandoned};
use super::turns::Turns;
use super::{ONE, ParFor};
use std::cell::Cell;
use std::fmt;
use std::ops::{ControlFlow, Range};

impl ParFor {
    /// Runs `body` once for each number of the range; what it passes to [`Order::wait_turn`] runs
    /// one at a time, in the order of the iterations, while the rest of the bodies overlap. Without
    /// a schedule of its own the loop is dealt one iteration at a time, round robin; with chunks
    /// the section of a chunk's first iteration waits for all chunks before. (Under
    /// [`Schedule::Static`] the sections of the second member wait for the whole block of the
    /// first.)
    ///
    /// ```
    /// use nanothreads::par_for;
    /// use std::sync::Mutex;
    ///
    /// let log = Mutex::new(Vec::new());
    /// par_for(0..20).ordered(|i, order| {
    ///     let square = i * i; // at the same time as others
    ///     order.wait_turn(|| log.lock().expect("no section panics").push(square)); // in order
    /// });
    /// let squares: Vec<_> = (0..20).map(|i| i * i).collect();
    /// assert_eq!(log.into_inner().expect("no section panics"), squares);
    /// ```
    ///
    /// An iteration has one turn, and it ends with the iteration:
    /// ```compile_fail,E0382
    /// nanothreads::par_for(0..20).ordered(|i, order| {
    ///     order.wait_turn(|| {});
    ///     order.wait_turn(|| {});
    /// });
    /// ```
    /// It belongs to the thread that runs the iteration:
    /// ```compile_fail,E0277
    /// nanothreads::par_for(0..20).ordered(|i, order| {
    ///     nanothreads::join(|| order.wait_turn(|| {}), || {});
    /// });
    /// ```
    ///
    /// Cost of a hand-over: one cache line. A member that waits long sleeps. The loop itself
    /// allocates once.
    ///
    /// # Panics
    /// With the payload of the first iteration that panics. Chunks that do not have their turn by
    /// then do not get it: bodies that wait for it are unwound.
    pub fn ordered<F: Fn(usize, Order<'_>) + Sync>(self, body: F) {
        let (range, schedule) = self.plan(Schedule::StaticChunks(ONE));
        let (first, length) = (range.start, range.len());
        let Some(team) = TeamLoop::reserve_threads(range, schedule) else { return };
        let turns = Turns::new(first, schedule.stride(length, team.size()), team.size());
        let member = |id, dealer: &Dealer| {
            unless_abandoned(|| dealer.deal(id, |chunk| run_chunk(chunk, dealer, &turns, &body)));
        };
        team.run(member, || turns.wake_all());
    }
}

/// Runs the iterations of `chunk`, and passes the token on at the end.
fn run_chunk<F: Fn(usize, Order<'_>)>(
    chunk: Range<usize>,
    dealer: &Dealer,
    turns: &Turns,
    body: &F,
) -> ControlFlow<()> {
    let turn = TurnClaim {
        dealer,
        turns,
        begin: chunk.start,
        end: chunk.end,
        state: Cell::new(State::Waiting),
    };
    for i in chunk {
        body(i, Order { turn: &turn, is_last: i + 1 == turn.end });
    }
    // The last iteration had no section of its own.
    if turn.state.get() == State::Passed || turn.pass() {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    }
}

/// A chunk's claim to the token.
struct TurnClaim<'a> {
    dealer: &'a Dealer,
    turns: &'a Turns,
    begin: usize,
    end: usize,
    state: Cell<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    /// This chunk has the token.
    Held,
    Passed,
}

impl TurnClaim<'_> {
    /// Waits for the token; false when the loop was stopped.
    fn claim(&self) -> bool {
        if self.state.get() == State::Waiting {
            let stop = self.dealer.stop();
            let is_turn = || self.turns.is_turn(self.begin);
            engine::wait(self.turns.point(self.begin), || is_turn() || stop.is_raised());
            if stop.is_raised() {
                return false;
            }
            self.state.set(State::Held);
        }
        true
    }

    /// Hands the token to the next chunk, when this one gets it; false when the loop was stopped.
    fn pass(&self) -> bool {
        let has_token = self.claim();
        if has_token {
            self.state.set(State::Passed);
            self.turns.pass(self.end);
        }
        has_token
    }
}

/// An iteration's turn in an ordered loop; see [`ParFor::ordered`].
pub struct Order<'a> {
    turn: &'a TurnClaim<'a>,
    is_last: bool,
}

impl fmt::Debug for Order<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order")
            .field("chunk", &(self.turn.begin..self.turn.end))
            .finish_non_exhaustive()
    }
}

impl Order<'_> {
    /// Runs `section` when all iterations before this one have run theirs, or ended without one.
    pub fn wait_turn<R>(self, section: impl FnOnce() -> R) -> R {
        if !self.turn.claim() {
            abandon();
        }
        let result = section();
        if self.is_last {
            self.turn.pass();
        }
        result
    }
}
