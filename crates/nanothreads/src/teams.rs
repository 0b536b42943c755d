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
//!    ([`departures`]); what follows is as in 5.
//! 7. A child that the body forked leaves the meeting alone: other threads of its parent had
//!    arrived at some of its rounds, or were at work on it.
//!
//! # Papers
//! The constructs are those of P0 section 2 (`barrier`, `single`, `master`), on the engine's own
//! barrier.

mod blocks;
mod departures;
mod spares;

pub use blocks::Buffers;

use crate::groups::within;
use crate::loops::static_block;
use crate::loops::stop::{Stop, abandon, unless_abandoned};
use crate::loops::turns::Turns;
use crate::per_member::Carried;
use crate::region;
use departures::{Departures, Missing, Region};
use engine::barrier::Barrier;
use engine::config::Supply;
use engine::forked::UntilJoin;
use engine::local::local;
use engine::panics::{Payload, discard};
use engine::patience;
use engine::singles::Singles;
use engine::team::{self, Concurrency};
use engine::work::Member;
use platform::lock::{Mutex, Once};
use platform::sync::CachePadded;
use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, panic_any, resume_unwind};
use std::sync::PoisonError;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Relaxed},
};

/// Why a team could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TeamError {
    /// A team has at least its master.
    Empty,
    /// More threads than any team may have.
    TooLarge {
        /// What was asked for.
        asked: usize,
        /// [`largest_team`](engine::largest_team).
        largest: usize,
    },
    /// More than one thread where regions have one: in a method of a
    /// [`TeamSizer`](crate::TeamSizer), or in work that was offered to a worker
    /// ([`workers::on_each`](crate::workers::on_each)).
    Alone {
        /// What was asked for.
        asked: usize,
    },
    /// The system refused threads: too many of them, or no room for their stacks. What it said
    /// stands on stderr, once.
    Refused {
        /// What was asked for.
        asked: usize,
        /// What there is.
        got: usize,
    },
}

impl fmt::Display for TeamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a team of 0 threads: ask for at least 1, the caller"),
            Self::TooLarge { asked, largest } => {
                write!(f, "a team of {asked} threads: the largest one has {largest}")
            }
            Self::Alone { asked } => write!(
                f,
                "a team of {asked} threads in a method of a TeamSizer, or in work that was offered to a worker: regions \
         there have one thread"
            ),
            Self::Refused { asked, got } => write!(
                f,
                "a team of {asked} threads: the system refuses more than {got}; smaller stacks (builder().stack_size, OMP_STACKSIZE) \
         or larger limits (ulimit -v, ulimit -u, the cgroup's pids.max) avoid that"
            ),
        }
    }
}

impl std::error::Error for TeamError {}

impl TeamError {
    /// Why there are `got` threads where `asked` were asked for.
    fn missing(asked: usize, got: usize) -> Self {
        if local().forks_alone() { Self::Alone { asked } } else { Self::Refused { asked, got } }
    }
}

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
pub struct Team {
    /// `None`: as many as the program has.
    size: Option<NonZeroUsize>,
    is_exact: bool,
    supply: Supply,
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
    /// When `size` is 0 or above [`largest_team`](engine::largest_team), or the system refuses
    /// threads.
    pub fn exact(size: usize) -> Result<Self, TeamError> {
        let asked = NonZeroUsize::new(size).ok_or(TeamError::Empty)?;
        let largest = engine::largest_team();
        if size > largest {
            return Err(TeamError::TooLarge { asked: size, largest });
        }
        let got = team::Team::reserve(size).size();
        if got < size {
            return Err(TeamError::missing(size, got));
        }
        Ok(Self { size: Some(asked), is_exact: true, supply: Supply::Auto })
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
        Ok(Self { size: Some(size), is_exact: false, supply: Supply::Auto })
    }

    /// A team of all processors that the program has when a region begins.
    pub fn available() -> Self {
        Self { size: None, is_exact: false, supply: Supply::Auto }
    }

    /// The same team, whose work reaches the members this way.
    #[cfg(feature = "papers")]
    pub(crate) fn with_supply(self, supply: Supply) -> Self {
        Self { supply, ..self }
    }

    /// How many threads a region would have now.
    ///
    /// # Panics
    /// When the team is exact and cannot be had here: as [`Team::run`].
    pub fn size(&self) -> usize {
        let size = self.reserve().size();
        // No region follows: other masters may have what was counted for it.
        local().settle();
        size
    }

    /// Makes room for the next region.
    pub(crate) fn reserve(&self) -> team::Team {
        let wish = self.size.map_or_else(|| local().wish(), NonZeroUsize::get);
        if !self.is_exact {
            return region::reserve(wish).supplied(self.supply);
        }
        // States what the program could use; the size does not depend on the answer.
        engine::grant_for(wish);
        let team = team::Team::reserve(wish);
        assert!(team.size() == wish, "{}", TeamError::missing(wish, team.size()));
        team.supplied(self.supply)
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
        if let Some(mut meeting) = held.after_join() {
            meeting.reset();
            spares::give_back(meeting);
        }
    }

    /// As [`Team::run`], and returns what the members return, in their order. A child process that
    /// member 0 forks in `body`, and that goes on after it, gets only what member 0 returns: the
    /// other members are its parent's.
    ///
    /// # Panics
    /// As [`Team::run`].
    pub fn map<R: Send, F: Fn(&TeamMember<'_>) -> R + Sync>(&self, body: F) -> Vec<R> {
        let team = self.reserve();
        let results = UntilJoin::new(Carried::apart(team.size()));
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

/// What a member waits at in [`TeamMember::single_for_all`].
const SINGLE: &str = "a barrier of single_for_all";

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
        let own = TeamMember {
            member,
            meeting: self,
            region: self.departures.of_region(region),
            singles: Cell::new(0),
            barriers: Cell::new(0),
            turns: Cell::new(0),
            section: Cell::new(Section::None),
        };
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

    /// For the next region, after a join. Writes only what was used: the members have these lines
    /// in their caches.
    ///
    /// # Panics
    /// When a member ended because a single had panicked on another one, which caught that.
    fn reset(&mut self) {
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
            "member {own} of a team of {size} waits at {event}, at {place}, for {missing}, which has ended its body after \
             {came_to} of them: each member has to come to each one"
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

/// One member of a region of a [`Team`].
pub struct TeamMember<'a> {
    member: Member,
    meeting: &'a Meeting,
    region: Region<'a>,
    /// Singles, barriers and turns that this member has come to.
    singles: Cell<u32>,
    barriers: Cell<u64>,
    turns: Cell<usize>,
    section: Cell<Section>,
}

/// Where a member stands with its last ordered section.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
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

impl TeamMember<'_> {
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

    /// Waits until all members are here (example: [`Team`]); what they wrote before is seen by all.
    /// Every member has to come to each barrier. Cost: about 1.5 cache-line round trips.
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
    fn depart(&self) {
        if self.size() > 1 {
            let turns = self.turns.get() as u64;
            self.region.note(self.id(), self.barriers.get(), turns);
            self.meeting.wake_all();
        }
    }

    /// Runs `body` on the first member that comes here (example: [`Team`]), and returns its result
    /// there; the others go on at once with `None`. Every member has to come to each `single` (the
    /// i-th one of each member is the same). Cost: one compare-and-swap on one member, a load on
    /// others.
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
            self.section.get() != Section::Open,
            "TeamMember::ordered: called inside a section of its own, after which the next one has its turn; end the \
             first one before"
        );
        self.hand_on_turn();
        let round = self.turns.replace(self.turns.get() + 1);
        let own = round * self.size() + self.id();
        let (turns, stop) = (self.meeting.turns(), &self.meeting.stop);
        let local = local();
        let missing = || self.region.before_section(own as u64);
        let look = || (turns.is_turn(own) || stop.is_raised() || missing().is_some()).into();
        patience::wait(turns.point(own), local, local.membership().crowd, || {}, look);
        if !turns.is_turn(own) {
            match missing() {
                Some(missing) if !stop.is_raised() => {
                    let event = "its turn of ordered";
                    self.meeting.report(self.id(), &missing, event, Location::caller());
                }
                _ => abandon(),
            }
        }
        self.section.set(Section::Open);
        let keep = KeepTurn(&self.section);
        let result = body();
        std::mem::forget(keep);
        self.section.set(Section::None);
        turns.pass(own + 1);
        result
    }

    /// Ends the turn of a section that panicked, if the member goes on all the same. (Where it does
    /// not, no member gets a turn.)
    #[inline]
    fn hand_on_turn(&self) {
        if self.section.get() == Section::Owed {
            self.hand_on_kept_turn();
        }
    }

    #[cold]
    fn hand_on_kept_turn(&self) {
        self.section.set(Section::None);
        let round = self.turns.get() - 1;
        self.meeting.turns().pass(round * self.size() + self.id() + 1);
    }
}

/// Notes that a section ends by a panic, with the turn.
struct KeepTurn<'a>(&'a Cell<Section>);

impl Drop for KeepTurn<'_> {
    fn drop(&mut self) {
        self.0.set(Section::Owed);
    }
}
