//! Teams that the program keeps: a number of threads, and what their members do together.
//!
//! # Protocol
//! A region of a kept team is a region like any other; its members also share a [`Meeting`], which
//! the thread that runs it keeps from region to region ([`spares`]):
//! 1. `barrier`: [`Barrier`], whose rounds go on from one region to the next.
//! 2. `single`: the first member that exchanges the number of singles begun for the next one runs
//!    it.
//! 3. `ordered`: a token ([`Turns`]) that goes round from member to member; made anew for each
//!    region that uses it. A member whose section panicked, and that catches that, hands the token
//!    on when it next waits here or ends its body.
//! 4. `single_for_all`: a `single` between two barriers. When its body panics nothing is handed
//!    over, and the member that runs it comes to both barriers before it unwinds: the others find
//!    nothing, and panic as well.
//! 5. A member that panics raises the flag and wakes all members that wait at 1 and 3; those leave
//!    their bodies by unwinding. The meeting is then thrown away: its rounds are not those of all
//!    members.
//! 6. A member that waits at 1 or 3 for one that has ended its body panics with a report
//!    ([`departures`]); what follows is as in 5. Where all members catch that and end their bodies,
//!    the region does, too; the meeting is thrown away all the same.
//! 7. A child that the body forked leaves the meeting alone: other threads of its parent had
//!    arrived at some of its rounds, or were at work on it.
//!
//! # Papers
//! The constructs are those of P0 section 2 (`barrier`, `single`, `master`), on the engine's own
//! barrier.

mod blocks;
mod departures;
mod error;
mod member;
mod spares;

pub use blocks::Buffers;
pub use error::TeamError;
pub use member::TeamMember;

use crate::groups::within;
use crate::loops::stop::{Stop, abandon, unless_abandoned};
use crate::loops::turns::Turns;
use crate::per_member::Contributions;
use crate::region;
use departures::{Departures, Missing};
use engine::Dispatch;
use engine::barrier::Barrier;
use engine::forked::UntilJoin;
use engine::local::local;
use engine::singles::Singles;
use engine::team::{self, Concurrency};
use engine::work::Member;
use platform::lock::{Mutex, Once};
use platform::sync::CachePadded;
use std::any::Any;
use std::fmt;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, panic_any, resume_unwind};
use std::sync::PoisonError;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Relaxed},
};

/// A team that the program keeps, to run many regions on it.
///
/// Its workers belong to the thread that runs the regions, and thread i of a thread's teams is
/// always the same, until another thread lacks workers while this one runs no region: then that one
/// takes them, and the next region here has others. A team may be in a `static`, or shared: threads
/// that run it at the same time have a region each, with workers of their own.
///
/// ```
/// use nanothreads::{Team, par_for};
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
///
/// let team = Team::exact(4)?;
/// let cells: Vec<_> = (0..4).map(|_| AtomicUsize::new(0)).collect();
/// team.run(|member| {
///     cells[member.id()].store(member.id() + 1, Relaxed);
///     member.barrier();
///     // All have written.
///     assert_eq!(cells.iter().map(|cell| cell.load(Relaxed)).sum::<usize>(), 10);
///     member.single(|| println!("printed once"));
/// });
///
/// // Whatever is forked in here has these four threads.
/// let sum = team.install(|| par_for(0..1_000).reduce(0, |i| i, |a, b| a + b));
/// assert_eq!(sum, 499_500);
/// # Ok::<(), nanothreads::TeamError>(())
/// ```
#[doc(alias = "ThreadPool")]
pub struct Team {
    /// `None`: as many as the program has.
    size: Option<NonZeroUsize>,
    is_exact: bool,
    /// `None`: as configured.
    dispatch: Option<Dispatch>,
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Team")
            .field("size", &self.size)
            .field("is_exact", &self.is_exact)
            .finish_non_exhaustive()
    }
}

impl Team {
    /// A team of exactly `size` threads, the caller included, however many processors there are.
    /// With more threads than processors those that wait hand over instead of spinning. Cost: the
    /// threads that the caller does not have yet.
    ///
    /// # Errors
    /// When `size` is 0 or above [`Team::largest`], or the system refuses threads.
    pub fn exact(size: usize) -> Result<Self, TeamError> {
        let asked = NonZeroUsize::new(size).ok_or(TeamError::Empty)?;
        let largest = Self::largest();
        if size > largest {
            return Err(TeamError::TooLarge { asked: size, largest });
        }
        let got = team::Team::reserve(size).size();
        if got < size {
            return Err(TeamError::missing(size, got));
        }
        Ok(Self { size: Some(asked), is_exact: true, dispatch: None })
    }

    /// A team of at most `size` threads: fewer when the program has fewer processors as a region
    /// begins.
    ///
    /// ```
    /// let pair = nanothreads::Team::at_most(2)?;
    /// let sizes = pair.map(|member| member.size());
    /// assert!(sizes.len() <= 2 && sizes.iter().all(|&size| size == sizes.len()));
    /// # Ok::<(), nanothreads::TeamError>(())
    /// ```
    ///
    /// # Errors
    /// When `size` is 0.
    pub fn at_most(size: usize) -> Result<Self, TeamError> {
        let size = NonZeroUsize::new(size).ok_or(TeamError::Empty)?;
        Ok(Self { size: Some(size), is_exact: false, dispatch: None })
    }

    /// The most threads that a team may have: 1024, or 8 for each processor if that is more; never
    /// above 32767.
    pub fn largest() -> usize {
        engine::largest_team()
    }

    /// A team of all processors that the program has when a region begins.
    pub fn available() -> Self {
        Self { size: None, is_exact: false, dispatch: None }
    }

    /// The same team, whose work reaches the members this way.
    #[cfg(feature = "papers")]
    pub(crate) fn with_dispatch(self, dispatch: Dispatch) -> Self {
        Self { dispatch: Some(dispatch), ..self }
    }

    /// How many threads a region would have now.
    ///
    /// # Panics
    /// When the team is exact and cannot be had here: as [`Team::run`].
    #[track_caller]
    pub fn size(&self) -> usize {
        let size = self.reserve().size();
        // Other masters may have what was counted for the region.
        local().decline();
        size
    }

    /// Makes room for the next region.
    #[track_caller]
    pub(crate) fn reserve(&self) -> team::Team {
        let wish = self.size.map_or_else(|| local().wish(), NonZeroUsize::get);
        if !self.is_exact {
            return self.dispatch(region::reserve(wish));
        }
        // States what the program could use; the size does not depend on the answer.
        engine::grant_for(wish);
        let team = team::Team::reserve(wish);
        assert!(team.size() == wish, "{}", TeamError::missing(wish, team.size()));
        self.dispatch(team)
    }

    #[inline]
    fn dispatch(&self, team: team::Team) -> team::Team {
        match self.dispatch {
            None => team,
            Some(dispatch) => team.dispatched(dispatch),
        }
    }

    /// Runs `body` once on each member, and returns when all are done. Cost: between one cache-line
    /// round trip (far processors) and two (near ones, where the instructions count).
    ///
    /// # Panics
    /// With the payload of the first member that panics, when all are done. Members that wait for a
    /// panicking one at a [`barrier`](TeamMember::barrier) or for their turn leave their bodies by
    /// unwinding. A member that waits there for one that has ended its body panics, and says which
    /// one and where. Also when the team is exact, the calling thread has not run it before, or
    /// lost its workers while it ran no region, and the system refuses threads.
    #[track_caller]
    pub fn run<F: Fn(&TeamMember<'_>) + Sync>(&self, body: F) {
        Self::run_as(&self.reserve(), body);
    }

    fn run_as<F: Fn(&TeamMember<'_>) + Sync>(team: &team::Team, body: F) {
        let held = UntilJoin::new(spares::take(team.size()));
        let (shared, number): (&Meeting, u64) = (&held, *held.region);
        // The body moves along: what the workers need is in one place.
        region::run_team_in(Concurrency::Promised, team, move |member| {
            let wake = || shared.wake_all();
            let guard = shared.stop.raise_on_unwind(wake);
            unless_abandoned(|| shared.attend(member, number, &body));
            guard.disarm();
        });
        if let Some(mut meeting) = held.after_join()
            && meeting.reset()
        {
            spares::give_back(meeting);
        }
    }

    /// As [`Team::run`], and returns what the members return, in their order. A child process that
    /// member 0 forks in `body`, and that goes on after it, gets only what member 0 returns: the
    /// other members are its parent's.
    ///
    /// # Panics
    /// As [`Team::run`].
    #[track_caller]
    pub fn map<R: Send, F: Fn(&TeamMember<'_>) -> R + Sync>(&self, body: F) -> Vec<R> {
        let team = self.reserve();
        let results = UntilJoin::new(Contributions::apart(team.size()));
        Self::run_as(&team, |member| {
            let result = body(member);
            // SAFETY: - called once for each member of this one region, with its own number.
            unsafe { results.put(member.id(), Some(result)) };
        });
        crate::per_member::values(results)
    }

    /// Runs `body` on the caller; all that it forks (loops, joins, scopes, groups) has this team's
    /// threads at most.
    ///
    /// The tasks of a scope *around* this call have the processors of that scope: also those that
    /// `body` spawns there, and those that run on this thread because `body` waits for them or
    /// yields.
    ///
    /// ```
    /// use nanothreads::{Team, join, par_for};
    /// let few = Team::at_most(2)?;
    /// let (sum, largest) = few.install(|| {
    ///     join(|| par_for(0..100).reduce(0, |i| i, |a, b| a + b), || (0..100).max())
    /// });
    /// assert_eq!((sum, largest), (4_950, Some(99)));
    /// # Ok::<(), nanothreads::TeamError>(())
    /// ```
    ///
    /// # Panics
    /// As `body`; and when the team is exact and cannot be had here, as [`Team::run`].
    #[track_caller]
    pub fn install<R>(&self, body: impl FnOnce() -> R) -> R {
        within(&self.reserve(), !self.is_exact, body)
    }
}

/// What the members of a region share; see the module head.
#[derive(Debug)]
struct Meeting {
    barrier: Barrier,
    stop: Stop,
    singles: Singles,
    /// What a single hands to all; nothing when it panicked.
    handed: Mutex<Option<Box<dyn Any + Send>>>,
    /// A member ended its body because such a single had panicked.
    is_single_missed: AtomicBool,
    turns: Once<Turns>,
    departures: Departures,
    /// The number of the next region, from 1. The master's alone, on a line of its own: the others
    /// have those above in their caches.
    region: CachePadded<u64>,
    /// A member is on its way out with a report of one that departed.
    is_reported: AtomicBool,
}

/// The panic of a member that waits for a single that panicked elsewhere.
const SINGLE_PANICKED: &str =
    "TeamMember::single_for_all: the member that ran the body panicked, so there is no result";

impl Meeting {
    fn new(size: usize) -> Self {
        Self {
            barrier: Barrier::new(size),
            stop: Stop::default(),
            singles: Singles::default(),
            handed: Mutex::new(None),
            is_single_missed: AtomicBool::new(false),
            turns: Once::new(),
            departures: Departures::new(size),
            region: CachePadded::new(1),
            is_reported: AtomicBool::new(false),
        }
    }

    /// Runs `body` as `member`. The panic of a single that was run elsewhere ends here: it is for a
    /// body that catches it, and the caller gets the one of the single itself.
    fn attend(&self, member: Member, region: u64, body: &impl Fn(&TeamMember<'_>)) {
        let own = TeamMember::new(member, self, self.departures.of_region(region));
        match catch_unwind(AssertUnwindSafe(|| body(&own))) {
            Ok(()) => {
                own.hand_on_turn();
                own.depart();
            }
            Err(payload) if payload.downcast_ref::<&str>() == Some(&SINGLE_PANICKED) => {
                // ORDERING: Relaxed - read after the join.
                self.is_single_missed.store(true, Relaxed);
                self.stop.raise();
                self.wake_all();
            }
            Err(payload) => resume_unwind(payload),
        }
    }

    /// For the next region, after a join; false where there can be none, since members that waited
    /// for one that had departed went on (6). Writes only what was used: the members have these
    /// lines in their caches.
    ///
    /// # Panics
    /// When a member ended because a single had panicked on another one, which caught that.
    fn reset(&mut self) -> bool {
        *self.region += 1;
        if *self.is_single_missed.get_mut() {
            panic_any(SINGLE_PANICKED);
        }
        self.singles.reset();
        if self.turns.get().is_some() {
            self.turns.take();
        }
        // The program's: its destructor may panic, hence last.
        let handed = self.handed.get_mut().unwrap_or_else(PoisonError::into_inner);
        if handed.is_some() {
            handed.take();
        }
        !*self.is_reported.get_mut()
    }

    /// D3: ends the caller, which waits for a member that has ended its body: `event`, at `place`,
    /// does not come about.
    #[cold]
    fn report(&self, own: usize, missing: &Missing, event: &str, place: &Location<'_>) -> ! {
        // ORDERING: AcqRel - one of those that find it reports it.
        if self.is_reported.swap(true, AcqRel) {
            abandon();
        }
        let (size, came_to) = (self.barrier.size(), missing.came_to);
        panic!(
            "member {own} of a team of {size} waits at {event}, at {place}, for {missing}, which \
             has ended its body after {came_to} of them: each member has to come to each one"
        );
    }

    fn wake_all(&self) {
        self.barrier.stir();
        if let Some(turns) = self.turns.get() {
            turns.wake_all();
        }
    }

    fn turns(&self) -> &Turns {
        self.turns.get_or_init(|| Turns::new(0, NonZeroUsize::MIN, self.barrier.size()))
    }
}
