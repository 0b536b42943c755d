//! The source of team sizes that follows a processor manager.

use super::Sitter;
use super::analyzer::{Analysis, Analyzer};
use super::domain::ManagerClient;
use super::help::Help;
use super::seats;
use super::standing::Standing;
use crate::placement::affinity_state;
use crate::program::mask_and_quota::MaskAndQuota;
use crate::program::program;
use crate::protocols::wishes::{AGAIN, Wishes};
use crate::sizer::{Lease, Seal, TeamSizer};
use crate::workers::worker::Worker;
use arena::client::{Client, ConnectError};
use arena::domain::Domain;
use arena::grant::Turn;
use arena::layout::VpState;
use platform::affinity::{CpuSet, Tid};
use platform::clock::{Ticks, monotonic_ns};
use platform::lock::Mutex;
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// Regions between two looks whether the policy wants to know what processors bring.
const UNASKED: u32 = 64;

/// The seat of a program's only master, at whose park word it waits for its turn.
const MASTER: usize = 0;

/// What the processor manager grants; mask and quota when the manager is gone (D5: the program runs
/// on).
#[derive(Debug)]
pub struct Managed {
    pub(super) manager: ManagerClient,
    alone: MaskAndQuota,
    wishes: Wishes,
    help: Help,
    /// Regions for which the analyzer still rests. Writer: the only master.
    rest: AtomicU32,
    /// A master waits for the program's turn. Writer: that master; read by workers that idle.
    in_recess: AtomicBool,
    /// Outermost regions forked. Writers: the masters, at each fork; several may lose a count.
    forks: AtomicU32,
    analyzer: Mutex<Analyzer>,
}

impl Managed {
    /// A sizer that follows `client`.
    pub fn new(client: Client) -> Self {
        client.on_loss(seats::stand_up);
        Self {
            manager: ManagerClient::new(client),
            alone: MaskAndQuota::of_program(),
            wishes: Wishes::default(),
            help: Help::default(),
            rest: AtomicU32::new(0),
            in_recess: AtomicBool::new(false),
            forks: AtomicU32::new(0),
            analyzer: Mutex::new(Analyzer::new()),
        }
    }

    /// The same in the domain of that manager, in which programs pass processors to each other: a
    /// processor that the program has no work for goes to another program directly, and one that
    /// comes is used before the next grant names it.
    #[must_use]
    pub fn in_domain(self, domain: Domain) -> Self {
        self.manager.join(domain, self.client().registrations());
        self
    }

    /// That manager has a domain, and did not let the program in because of `error`. A manager that
    /// did not answer in time is asked again.
    pub(crate) fn outside_domain(self, error: &ConnectError) -> Self {
        self.manager.is_left_out(error);
        self
    }

    /// Has `call` called when another manager took the program in.
    pub(crate) fn on_return(&self, call: fn()) {
        self.client().on_return(call);
    }

    /// Another manager took the program in: joins its domain, if it has one.
    pub(crate) fn comes_back(&self) {
        self.manager.comes_back();
    }

    #[inline]
    pub(super) fn client(&self) -> &Client {
        &self.manager.client
    }

    /// True where the manager lets several programs take turns on the program's processor.
    pub(crate) fn takes_turns(&self) -> bool {
        self.client().is_alive() && self.client().grant().shared
    }

    /// Threads of a team of `threads`, for which there are not enough processors, waited so often.
    pub(crate) fn note_turns(&self, turns: u32, threads: u32) {
        self.client().note_turns(turns, threads);
    }

    /// True where it lets the program take turns with others on one processor.
    #[inline]
    pub(crate) fn has_one_in_turn(&self) -> bool {
        let grant = self.client().grant();
        grant.shared && grant.processors == 1 && self.client().is_alive()
    }

    /// A master forks the outermost region `region`, which could use `wanted` processors. Returns
    /// how many it may have at most, whatever is granted. Cost in most cases: two loads and a
    /// store.
    #[inline]
    pub(crate) fn at_fork(&self, wanted: usize, region: usize) -> usize {
        if self.wishes.are_down() {
            self.wishes.rise(&self.manager, wanted);
        }
        // ORDERING: Relaxed, all of `forks` and `rest` - hints: whether it forks, and for how long
        // not to look. With several masters a count is lost.
        self.forks.store(self.forks.load(Relaxed).wrapping_add(1), Relaxed);
        let rest = self.rest.load(Relaxed);
        if rest > 0 {
            self.rest.store(rest - 1, Relaxed);
            return usize::MAX;
        }
        self.analyze(|analyzer| analyzer.forks(region, monotonic_ns))
    }

    /// Where the program stands while programs take turns; `None` while they do not. Cost then: a
    /// load of the grant's line.
    #[inline]
    pub(crate) fn standing(&self) -> Option<Standing> {
        // The grant before the turn, as the arena's protocol has it.
        let grant = self.client().grant();
        match self.client().turn() {
            Turn::None => None,
            _ if !self.client().is_alive() => None,
            Turn::At(comes_ns) if grant.shared => Some(Standing::Outside { comes_ns }),
            Turn::Now | Turn::At(_) => Some(Standing::InTurn { processors: grant.processors }),
        }
    }

    /// The manager's quantum, in ns.
    pub(crate) fn quantum_ns(&self) -> u64 {
        u64::try_from(self.client().quantum().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The calling thread, the only master, sleeps until the program is not outside its turn any
    /// more; false: `until_ns` of the monotonic clock came first, or the manager has gone. What the
    /// program wants stays what it is meanwhile.
    pub(crate) fn await_turn(&self, until_ns: u64) -> bool {
        // ORDERING: Relaxed, both - a hint for workers that idle: one that misses it lowers the
        // wish, as in any serial phase, and the next fork raises it.
        self.in_recess.store(true, Relaxed);
        let has_turn = || !matches!(self.standing(), Some(Standing::Outside { .. }));
        let came = self.client().park_until(MASTER, until_ns, has_turn);
        self.in_recess.store(false, Relaxed);
        came
    }

    /// All that the masters want is asked for again, if it is not.
    pub(crate) fn asks_again(&self) {
        if self.client().is_alive() && self.wishes.are_down() {
            self.wishes.rise(&self.manager, 0);
        }
    }

    /// The outermost region has `size` threads, more than one.
    #[inline]
    pub(crate) fn forked(&self, size: u32) {
        // ORDERING: Relaxed - as in `at_fork`.
        if self.rest.load(Relaxed) == 0
            && let Ok(mut analyzer) = self.analyzer.try_lock()
        {
            analyzer.forked(size);
        }
    }

    /// An iteration of the program's outer loop begins: the calling thread, outside regions, says
    /// so.
    pub(crate) fn iteration_begins(&self) {
        // ORDERING: Relaxed - as in `at_fork`.
        if self.rest.load(Relaxed) == 0 {
            self.analyze(|analyzer| analyzer.is_told(monotonic_ns()));
        }
    }

    /// Asks the analyzer, where there is something to analyze: one master, which has processors of
    /// its own, under a policy that decides by what is reported.
    fn analyze(&self, ask: impl FnOnce(&mut Analyzer) -> Analysis) -> usize {
        if !self.client().wants_reports() {
            // ORDERING: Relaxed - as in `at_fork`.
            self.rest.store(UNASKED, Relaxed);
            return usize::MAX;
        }
        let grant = self.client().grant();
        if !self.client().is_alive()
            || grant.processors <= super::analyzer::BASE
            || !program().masters().are_one()
        {
            return usize::MAX;
        }
        // Held by another master, which came this moment: nothing is measured then.
        let Ok(mut analyzer) = self.analyzer.try_lock() else { return usize::MAX };
        let analysis = ask(&mut analyzer);
        drop(analyzer);
        // ORDERING: Relaxed - as in `at_fork`.
        self.rest.store(analysis.rest, Relaxed);
        if let Some(measured) = analysis.report {
            measured.send(self.client());
        }
        analysis.most.map_or(usize::MAX, |most| most as usize)
    }

    /// Where a thread waits: it follows a new grant, and helps a worker that has no processor.
    /// `worker`: the calling thread, unless it is the program's. Cost when nothing is new: a few
    /// loads.
    #[inline]
    pub(crate) fn at_safe_point(&self, worker: Option<&'static Worker>) {
        if let Some(worker) = worker
            && !worker.station().follows(self.epoch())
        {
            self.follow(worker);
        }
        if self.client().preempted() > 0 {
            self.help.somebody(self, worker);
        }
    }

    /// The calling thread is between two pieces of its work ([`crate::regions::safe_point`]).
    #[inline]
    pub(crate) fn between_pieces(&self, sitter: &Sitter) {
        let epoch = self.manager.epoch();
        if sitter.worked_under().replace(epoch) != epoch {
            self.goes_on(sitter);
        }
    }

    /// An idle worker looked before it sleeps and found nothing.
    #[cold]
    pub(crate) fn falls_asleep(&self, worker: &Worker) {
        self.client().set_vp_state(worker.seat(), VpState::Parked);
    }

    /// It has found nothing for `idle` ticks. Returns after which time it should say so again,
    /// while it sleeps.
    #[cold]
    pub(crate) fn idles(&self, worker: &Worker, idle: u64) -> Option<Duration> {
        if !self.client().is_alive() {
            return None;
        }
        // ORDERING: Relaxed - see `await_turn`.
        if self.in_recess.load(Relaxed) {
            return Some(Duration::from_micros(AGAIN));
        }
        let idle_us = idle / Ticks::about_us(1).max(1);
        // ORDERING: Relaxed - as in `at_fork`.
        let (forks, lease) = (self.forks.load(Relaxed), self.lease());
        let again = if program().masters().are_one() {
            self.wishes.lower(&self.manager, worker.seat(), lease, idle_us, forks)
        } else {
            let shares = program().masters().shares();
            shares.look_around(None);
            self.wishes.lower_beside_others(&self.manager, lease, idle_us, forks, shares.busy())
        };
        again.map(Duration::from_micros)
    }

    /// It found something.
    #[cold]
    pub(crate) fn is_awake(&self, worker: &Worker) {
        self.client().set_vp_state(worker.seat(), VpState::Running);
        if self.wishes.are_down() {
            self.wishes.rise(&self.manager, 0);
        }
    }
}

impl TeamSizer for Managed {
    #[inline]
    fn limit(&self) -> usize {
        if !self.client().is_alive() {
            return self.alone.limit();
        }
        let granted = self.manager.processors();
        // Of that class a team has as many threads as the program has processors in all (D4), which
        // share those that it was granted (`room`).
        if self.client().grant().fixed_team { granted.max(program().processors()) } else { granted }
    }

    fn room(&self) -> usize {
        if self.client().is_alive() { self.manager.processors() } else { self.alone.limit() }
    }

    fn request(&self, wanted: usize) {
        if self.client().is_alive() {
            self.wishes.ask(&self.manager, wanted);
        }
    }

    fn lease(&self) -> Lease {
        if !self.client().is_alive() {
            Lease::Unmanaged
        } else if self.client().grant().dedicated {
            Lease::Dedicated
        } else {
            Lease::Wanted
        }
    }

    /// These are changes, too: the death of the manager, what is in transit, and that the program
    /// has now one master or several (the seats).
    #[inline]
    fn epoch(&self) -> u32 {
        if self.client().is_alive() {
            self.manager.epoch() << 2 | u32::from(program().masters().are_one()) << 1 | 1
        } else {
            affinity_state::NO_GRANT
        }
    }

    fn processors(&self) -> Option<CpuSet> {
        self.client().is_alive().then(|| self.manager.cpus())
    }

    fn enlist(&self, index: usize, tid: Tid) {
        self.client().enlist_vp(index, tid);
    }

    fn refresh(&self) {
        self.alone.refresh();
    }

    /// The child does not have the manager's areas.
    fn survives_fork(&self) -> bool {
        false
    }

    fn forks_nothing(&self, _: Seal) -> bool {
        true
    }

    fn managed(&self, _: Seal) -> Option<&dyn Any> {
        Some(self)
    }
}
