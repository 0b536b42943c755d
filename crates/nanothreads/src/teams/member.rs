//! What a member of a team does together with the others.

use super::departures::RegionDepartures;
use super::{Meeting, SINGLE_PANICKED};
use crate::loops::static_block;
use crate::loops::stop::abandon;
use engine::local::local;
use engine::panics::{Payload, discard};
use engine::spin_policy;
use engine::work::Member;
use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, panic_any, resume_unwind};
use std::sync::PoisonError;

/// What a member waits at in [`TeamMember::single_for_all`].
const SINGLE: &str = "a barrier of single_for_all";

/// One member of a region of a [`Team`](crate::Team).
pub struct TeamMember<'a> {
    member: Member,
    pub(super) meeting: &'a Meeting,
    region: RegionDepartures<'a>,
    /// Singles, barriers and turns that this member has come to.
    singles: Cell<u32>,
    barriers: Cell<u64>,
    turns: Cell<usize>,
    section: Cell<SectionState>,
}

/// Where a member stands with its last ordered section.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SectionState {
    /// In none.
    None,
    /// In one.
    Open,
    /// It panicked: the member has the turn still.
    Owed,
}

impl fmt::Debug for TeamMember<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TeamMember")
            .field("id", &self.id())
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

impl<'a> TeamMember<'a> {
    pub(super) fn new(member: Member, meeting: &'a Meeting, region: RegionDepartures<'a>) -> Self {
        Self {
            member,
            meeting,
            region,
            singles: Cell::new(0),
            barriers: Cell::new(0),
            turns: Cell::new(0),
            section: Cell::new(SectionState::None),
        }
    }

    /// 0 is the thread that runs the team.
    pub fn id(&self) -> usize {
        self.member.id as usize
    }

    /// Threads of the region.
    pub fn size(&self) -> usize {
        self.member.size as usize
    }

    /// The member's block of `range`, when each gets one of equal length: the division of
    /// [`Schedule::Static`].
    ///
    /// ```
    /// let blocks = nanothreads::Team::exact(3)?.map(|member| member.block(0..10));
    /// assert_eq!(blocks, [0..4, 4..7, 7..10]);
    /// # Ok::<(), nanothreads::TeamError>(())
    /// ```
    ///
    /// [`Schedule::Static`]: crate::Schedule::Static
    pub fn block(&self, range: Range<usize>) -> Range<usize> {
        let block = static_block(range.len(), self.id(), self.size());
        range.start + block.start..range.start + block.end
    }

    /// Waits until all members are here (example: [`Team`](crate::Team)); what they wrote before is
    /// seen by all. Every member has to come to each barrier. Cost: about 1.5 cache-line round
    /// trips.
    ///
    /// # Panics
    /// When another member has ended its body and so does not come; the text says which one.
    #[track_caller]
    pub fn barrier(&self) {
        if !self.meets("a barrier") {
            abandon();
        }
    }

    /// As [`TeamMember::barrier`]; false when a member that panicked does not come.
    #[inline]
    #[track_caller]
    fn meets(&self, event: &str) -> bool {
        self.hand_on_turn();
        let Meeting { barrier, stop, .. } = self.meeting;
        let number = self.barriers.get() + 1;
        self.barriers.set(number);
        let missing = || self.region.before_barrier(number);
        let meets = barrier.wait_unless(self.id(), || stop.is_raised() || missing().is_some());
        if !meets
            && !stop.is_raised()
            && let Some(missing) = missing()
        {
            self.meeting.report(self.id(), &missing, event, Location::caller());
        }
        meets
    }

    /// The member has ended its body: those that wait for it now, or will, are to know (D1).
    #[inline]
    pub(super) fn depart(&self) {
        if self.size() > 1 {
            let turns = self.turns.get() as u64;
            self.region.note(self.id(), self.barriers.get(), turns);
            self.meeting.wake_all();
        }
    }

    /// Runs `body` on the first member that comes here (example: [`Team`](crate::Team)), and
    /// returns its result there; the others go on at once with `None`. Every member has to come to
    /// each `single` (the i-th one of each member is the same). Cost: one compare-and-swap on one
    /// member, a load on others.
    pub fn single<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        let number = self.singles.get();
        self.singles.set(number.wrapping_add(1));
        self.meeting.singles.begin(number, self.size()).then(body)
    }

    /// As [`TeamMember::single`], and all members wait for it and get (clones of) its result. Cost:
    /// two barriers.
    ///
    /// ```
    /// let team = nanothreads::Team::available();
    /// let seeds = team.map(|member| member.single_for_all(|| String::from("chosen by one")));
    /// assert!(seeds.iter().all(|seed| seed == "chosen by one"));
    /// ```
    ///
    /// # Panics
    /// With the payload of `body` where it ran, or of the result's `clone`. When `body` panics, the
    /// other members panic as well, with a text that says so. As [`TeamMember::barrier`].
    #[track_caller]
    pub fn single_for_all<T: Clone + Send + 'static>(&self, body: impl FnOnce() -> T) -> T {
        let handed = || self.meeting.handed.lock().unwrap_or_else(PoisonError::into_inner);
        let hand_over = || {
            let value = Box::new(body());
            let before = handed().replace(value);
            drop(before);
        };
        // A panic goes on after the barriers: the members that wait there must not wait for ever.
        let panicked = self.single(|| catch_unwind(AssertUnwindSafe(hand_over)).err()).flatten();
        if panicked.is_some() {
            let partly = handed().take();
            discard(partly);
        }
        let mut is_whole = self.meets(SINGLE);
        let clone = || {
            let handed = handed();
            handed.as_ref().map(|value| {
                value
                    .downcast_ref()
                    .cloned()
                    .expect("every member comes to each `single_for_all`, with the same type")
            })
        };
        let value: Result<Option<T>, Payload> = catch_unwind(AssertUnwindSafe(clone));
        // No member may hand over the next value before all have this one.
        is_whole = is_whole && self.meets(SINGLE);
        if let Some(payload) = panicked {
            resume_unwind(payload);
        }
        if !is_whole {
            abandon();
        }
        match value {
            Ok(Some(value)) => value,
            Ok(None) => panic_any(SINGLE_PANICKED),
            Err(payload) => resume_unwind(payload),
        }
    }

    /// Runs `body` on member 0 only; no member waits.
    ///
    /// ```
    /// let results = nanothreads::Team::exact(2)?.map(|member| member.master(|| std::process::id()).is_some());
    /// assert_eq!(results, [true, false]);
    /// # Ok::<(), nanothreads::TeamError>(())
    /// ```
    pub fn master<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        (self.id() == 0).then(body)
    }

    /// Runs `body` on all members, one after the other, in the order of their numbers. Every member
    /// has to come to each `ordered`. Cost: one cache line from member to member.
    ///
    /// ```
    /// let line = std::sync::Mutex::new(String::new());
    /// nanothreads::Team::exact(3)?.run(|member| {
    ///     member.ordered(|| line.lock().unwrap().push_str(&member.id().to_string()));
    /// });
    /// assert_eq!(line.into_inner().unwrap(), "012");
    /// # Ok::<(), nanothreads::TeamError>(())
    /// ```
    ///
    /// A member that catches the panic of its section has its turn until its next `ordered` or
    /// `barrier`, or the end of its body.
    ///
    /// # Panics
    /// With the payload of `body`; when it is called inside a section of the same member; and when
    /// a member before this one has ended its body without coming to its section.
    #[track_caller]
    pub fn ordered<R>(&self, body: impl FnOnce() -> R) -> R {
        assert!(
            self.section.get() != SectionState::Open,
            "TeamMember::ordered: called inside a section of its own, after which the next one has \
             its turn; end the first one before"
        );
        self.hand_on_turn();
        let round = self.turns.replace(self.turns.get() + 1);
        let own = round * self.size() + self.id();
        let (turns, stop) = (self.meeting.turns(), &self.meeting.stop);
        let local = local();
        let missing = || self.region.before_section(own as u64);
        let look = || (turns.is_turn(own) || stop.is_raised() || missing().is_some()).into();
        spin_policy::wait(turns.point(own), local, local.membership().threads, || {}, look);
        if !turns.is_turn(own) {
            match missing() {
                Some(missing) if !stop.is_raised() => {
                    let event = "its turn of ordered";
                    self.meeting.report(self.id(), &missing, event, Location::caller());
                }
                _ => abandon(),
            }
        }
        self.section.set(SectionState::Open);
        let keep = KeepTurn(&self.section);
        let result = body();
        std::mem::forget(keep);
        self.section.set(SectionState::None);
        turns.pass(own + 1);
        result
    }

    /// Ends the turn of a section that panicked, if the member goes on all the same. (Where it does
    /// not, no member gets a turn.)
    #[inline]
    pub(super) fn hand_on_turn(&self) {
        if self.section.get() == SectionState::Owed {
            self.hand_on_kept_turn();
        }
    }

    #[cold]
    fn hand_on_kept_turn(&self) {
        self.section.set(SectionState::None);
        let round = self.turns.get() - 1;
        self.meeting.turns().pass(round * self.size() + self.id() + 1);
    }
}

/// Notes that a section ends by a panic, with the turn.
struct KeepTurn<'a>(&'a Cell<SectionState>);

impl Drop for KeepTurn<'_> {
    fn drop(&mut self) {
        self.0.set(SectionState::Owed);
    }
}
