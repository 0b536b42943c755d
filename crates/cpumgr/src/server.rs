//! The scheduler: one thread that owns all state of the manager.
//!
//! # Protocol
//! Each pass: wait; take note of everything that happened (deaths, arrivals, rings, messages);
//! decide once; publish what changed; answer the programs that arrived. A program that arrives
//! therefore finds its first grant when it gets its answer, and a dead program's processors are
//! with others at the end of the pass in which its death was seen.
//!
//! # Invariants
//! - V1 The scheduler never waits but in `Reactor::wait`: sockets belong to the API thread (`api`),
//!   files to others.
//! - V2 Everything that clients can make more of is bounded: programs, announced and queued
//!   processes here, rings per second (`bucket`); connections and messages in `api`.
//! - V3 What a client may see and change follows from the user that the kernel names for it. The
//!   manager's user, the superuser and members of the administrators' group may see and change
//!   everything. Other users (which only a
//!   system's manager lets in) may see and change what is their own.
//! - V4 Without programs no timer runs but the one that ends an idle manager, and the service
//!   manager's watchdog. (A listener for browsers asks every two seconds, `web`.)

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use arena::global::State;
use arena::manager::GlobalPage;
use arena::message::Narrow;
use platform::affinity::CpuSet;
use platform::clock::monotonic_ns;
use platform::{SysError, SysResult};
use policies::{AppId, Cause};

use crate::allowance::Allowances;
use crate::api::{Admins, Api, CALLS, Doorman, Serials};
use crate::config::Rules;
use crate::fence::Fences;
use crate::foreign::Foreign;
use crate::history::Accounting;
use crate::instance::Instance;
use crate::keeper::Keeper;
use crate::kernel::Counted;
use crate::ledger::Ledger;
use crate::masks;
use crate::reactor::{Event, Reactor, Role};
use crate::reload::Reload;
use crate::service::told::Told;
use crate::settings::LevelFrom;
use crate::shares::Shares;
use crate::submissions::Submissions;
use crate::surprises::Surprises;
use crate::trace::{self, Trace};
use crate::unused::Unused;

mod accounting;
mod attached;
mod attaching;
mod bounds;
mod calls;
mod classing;
mod connection;
mod control;
mod deadlines;
mod domain;
mod doorbell;
mod draining;
mod due;
#[cfg(test)]
mod failing;
mod fencing;
mod inheriting;
mod jobs;
mod looks;
mod measuring;
#[cfg(test)]
mod model;
mod narrowing;
mod places;
mod program;
mod publishing;
mod queue;
mod recording;
mod reloading;
mod report;
mod rights;
mod seam;
mod service;
mod setup;
mod shares;
mod spinning;
mod strangers;
mod usage;
mod watch;

pub use bounds::{MAX_PLACES, MAX_PROGRAMS};
use connection::Connection;
use due::{Due, Pace};
use seam::Fault;
pub use setup::{Ended, Settings, Setup};

/// The scheduler's state.
pub struct Server {
    api: Api,
    reactor: Reactor,
    ledger: Ledger,
    cpus: CpuSet,
    /// What all programs read.
    page: GlobalPage,
    /// Its descriptor for programs.
    shared_page: Arc<OwnedFd>,
    trace: Option<Trace>,
    /// What is kept of programs beyond their end.
    accounting: Option<Accounting>,
    idle_exit: Option<u64>,
    grace: u64,
    kernel: Counted,
    /// What users owe for looks at their threads.
    looks: Allowances,
    level: Option<u32>,
    level_from: LevelFrom,
    /// Programs that do not speak the protocol, by their number in the books.
    attached: BTreeMap<u64, attached::Attached>,
    /// Announced processes with several threads, as they were when they were looked at last.
    watches: BTreeMap<u64, watch::Watch>,
    /// Those of them that are left alone.
    alone: BTreeSet<u64>,
    /// Writes their masks down; from the first one on.
    keeper: Option<Keeper<Vec<masks::Attached>>>,
    /// A process was let go since.
    unwritten: bool,
    /// Before that time the masks are not written down again.
    masks_rest: u64,
    /// What a killed manager left, and what this one would leave.
    legacy: inheriting::Legacy,
    /// Processes that wait to be started, first come first.
    queue: VecDeque<queue::Place>,
    /// Their numbers, and how those before them ended.
    submissions: Submissions,
    /// What users consumed, where the queue is ordered by that.
    shares: Option<Shares>,
    /// The policy was last asked while a process waited.
    queue_told: bool,
    /// Programs were told when their turns come.
    turns_told: bool,
    /// When the policy wants to be asked about them again.
    admit_again: Option<u64>,
    connections: BTreeMap<u64, Connection>,
    serials: Serials,
    /// What programs that pass processors to each other share.
    domain: Option<domain::Domain>,
    fences: Option<Fences>,
    /// What else runs on the managed processors.
    foreign: Option<Foreign>,
    /// Which programs use less than they have.
    unused: Unused,
    /// Connections that get their answer after the next decision.
    arrived: Vec<u64>,
    /// Programs that rang since the last look for strangers.
    rang: Vec<u64>,
    /// Connections to be taken down at the end of the pass.
    doomed: BTreeSet<u64>,
    cause: Option<Cause>,
    /// Something happened in this pass but that time went on: what is due, which clients are there
    /// and what programs are told of that may have changed. A look at all clients is a look at cold
    /// memory, and most passes of a manager are signs of life.
    stirred: bool,
    due: Due,
    /// When the last client was there.
    idle_since: u64,
    next_beat: u64,
    /// When masks are looked at next.
    next_narrowing: u64,
    started: u64,
    doorman: Doorman,
    narrow: Option<Narrow>,
    kept: Vec<String>,
    rules: Rules,
    reload: Option<Reload>,
    service: Option<Told>,
    /// What goes wrong again and again.
    surprises: Surprises,
    /// What it counts and times of itself.
    measuring: measuring::Measuring,
    /// It was told to end, after this pass.
    over: Option<Ended>,
    /// Held to the end: removes the socket file.
    instance: Instance,
}

impl Server {
    /// A scheduler that has not begun, and the API thread, which has.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn new(setup: Setup) -> SysResult<Self> {
        Self::with_api(setup, Api::start)
    }

    /// The same with an API that `start` makes: in a model one without a thread.
    fn with_api(
        setup: Setup,
        start: impl FnOnce(OwnedFd, Doorman, Serials) -> SysResult<Api>,
    ) -> SysResult<Self> {
        let now = monotonic_ns();
        let page =
            GlobalPage::create(now, &setup.cpus, setup.ledger.quantum(), setup.ledger.policy())?;
        let copied = page.as_fd().try_clone_to_owned();
        let shared_page = copied.map_err(|error| {
            SysError::new("fcntl(F_DUPFD_CLOEXEC)", error.raw_os_error().unwrap_or(0))
        })?;
        let domain = setup.domain.then(|| domain::Domain::create(now)).transpose()?;
        // Known before the first program asks.
        page.set_state(State { domain: domain.is_some(), ..State::default() });
        let serials = Serials::new();
        let owner = nix::unistd::geteuid().as_raw();
        let admins = Admins::new(setup.rules.admins());
        let doorman = Doorman { owner, public: setup.public, admins };
        // With one processor there is nothing to leave.
        let heeds = setup.heeds_strangers && setup.cpus.len() > 1;
        let foreign = heeds.then(setup::none_known);
        // The last thing that can fail: from now on the API thread answers connections.
        let api = start(setup.listener, doorman.clone(), serials.clone())?;
        setup.reactor.add_calls(api.bell())?;
        let mut server = Self {
            page,
            shared_page: Arc::new(shared_page),
            api,
            serials,
            domain,
            fences: setup.fences,
            doorman,
            reactor: setup.reactor,
            ledger: setup.ledger,
            cpus: setup.cpus,
            trace: setup.trace,
            accounting: setup.history.map(Accounting::new),
            idle_exit: setup.idle_exit.map(nanos),
            grace: nanos(setup.grace),
            kernel: Counted::new(setup.kernel),
            looks: bounds::allowances(owner),
            level: setup.level,
            level_from: setup.level_from,
            attached: BTreeMap::new(),
            watches: BTreeMap::new(),
            alone: BTreeSet::new(),
            keeper: None,
            unwritten: false,
            masks_rest: 0,
            legacy: inheriting::Legacy::default(),
            foreign,
            unused: Unused::default(),
            queue: VecDeque::new(),
            submissions: Submissions::default(),
            shares: None,
            queue_told: false,
            turns_told: false,
            admit_again: None,
            connections: BTreeMap::new(),
            arrived: Vec::new(),
            rang: Vec::new(),
            doomed: BTreeSet::new(),
            cause: None,
            stirred: false,
            due: Due::default(),
            idle_since: now,
            next_beat: now,
            next_narrowing: now,
            started: now,
            narrow: setup.narrow,
            kept: setup.kept,
            rules: Rules::default(),
            reload: setup.reload,
            service: setup.service.map(Told::new),
            surprises: Surprises::default(),
            measuring: measuring::Measuring::default(),
            over: None,
            instance: setup.instance,
        };
        server.set_rules(setup.rules);
        server.set_fair_share(setup.fair_share.map(nanos), now);
        Ok(server)
    }

    /// Runs to the end: a signal, idleness, or a socket file that is gone.
    ///
    /// # Errors
    /// When the scheduler cannot wait any more (the kernel refuses epoll): a defect.
    pub fn run(mut self) -> SysResult<Ended> {
        self.trace_self(trace::Event::Start);
        // The API thread is there already: it has turns as all other threads have.
        let mut pace = Pace::begin();
        let mut events = Vec::new();
        let ended = loop {
            let deadline = self.next_deadline();
            pace.keep(&self.due);
            self.reactor.wait(deadline, &mut events)?;
            if let Some(ended) = self.pass(&events, monotonic_ns())? {
                break ended;
            }
            events.clear();
        };
        self.end(&ended);
        Ok(ended)
    }

    /// One pass: `events` happened, and it is `now`.
    fn pass(&mut self, events: &[Event], now: u64) -> SysResult<Option<Ended>> {
        if events.contains(&Event::Signal) {
            return Ok(Some(Ended::Signal));
        }
        if events.contains(&Event::Relief) {
            return Ok(Some(Ended::Relieved));
        }
        let tells_of_files = |event: &Event| *event == Event::Files;
        if (events.iter().any(tells_of_files) || self.next_beat <= now) && !self.instance.is_found()
        {
            return Ok(Some(Ended::Displaced));
        }
        self.measuring.pass_begins(now);
        self.stirred = events.iter().any(|event| *event != Event::Timer && *event != Event::Files);
        // Before the books change: what was passed was passed under those that are in force.
        self.settle_domain(now);
        for event in events {
            self.take(*event, now)?;
        }
        self.unmute(now);
        self.finish_pass(now);
        // A client may have come while this pass ended.
        if self.over.is_none() && self.is_idle(now) {
            if !self.hear_calls(now) {
                return Ok(Some(Ended::Idle));
            }
            self.finish_pass(now);
        }
        if self.stirred {
            self.note_due();
        }
        self.measuring.pass_ends();
        Ok(self.over.take())
    }

    fn take(&mut self, event: Event, now: u64) -> SysResult<()> {
        match event {
            Event::Calls => {
                // Before the calls are taken: a ring that comes later is heard.
                self.api.clear_bell()?;
                self.heed_reload(now);
                self.hear_calls(now);
                Ok(())
            }
            Event::Hangup => {
                self.reload(None);
                Ok(())
            }
            Event::Client { serial, role } if !self.doomed.contains(&serial) => {
                match role {
                    Role::Process => self.process_ended(serial),
                    Role::Doorbell => self.rung(serial, now),
                }
                Ok(())
            }
            // A client that was taken down earlier in this batch; the timer only ends the wait.
            Event::Client { .. } | Event::Timer | Event::Files => Ok(()),
            // They ended the pass before anything was taken.
            Event::Signal | Event::Relief => Ok(()),
        }
    }

    /// Takes what clients said, as much as one pass has time for; true when there was something.
    fn hear_calls(&mut self, now: u64) -> bool {
        for heard in 0..CALLS {
            // What comes after the word that ends it is for the next manager, or for none: an
            // answer of this one would be taken for that of one that has begun anew.
            let call = if self.over.is_none() { self.api.take() } else { None };
            let Some((serial, call)) = call else { return heard > 0 };
            self.stirred = true;
            self.called(serial, call, now);
        }
        // There may be more; the next pass looks.
        if let Err(error) = self.api.ring() {
            tracing::error!(%error, "the scheduler cannot ring for itself");
        }
        true
    }

    fn process_ended(&mut self, serial: u64) {
        if !self.let_go(serial) {
            self.doom(serial, "its process ended");
        }
    }

    /// Decides, publishes, answers, until nothing new happened meanwhile.
    fn finish_pass(&mut self, now: u64) {
        self.bury(now);
        self.ledger.set_returning(self.legacy.is_returning(now));
        let due = self.ledger.next_deadline().is_some_and(|time| time <= now);
        if due {
            self.stirred = true;
            let changes = self.ledger.tick(now);
            self.publish(&changes, now);
        }
        // A program that waits for a grant comes before what is only due: the looks are system
        // calls for each thread or processor.
        self.decide(now);
        self.squeeze(now);
        self.look_at_announced(now);
        self.look_at_attached(now);
        self.look_for_strangers(now);
        self.look_for_unused(now);
        self.look_for_narrowing(now);
        self.decide(now);
        self.admit_waiting(now);
        self.heed_policy_failure(now);
        // Older connections of processes that were admitted: none is a program.
        self.bury(now);
        self.note_masks(now);
        self.note_settings();
        self.account_all(now);
        self.charge_in_time(now);
        // A pass that happens anyway spares the next wakeup for a sign of life alone.
        if self.next_beat <= now + self.beat_interval() / 2 {
            self.page.beat(now);
            self.next_beat = now + self.beat_interval();
        }
        if self.is_needed() {
            self.idle_since = now;
        }
        self.offer_domain();
        if self.stirred {
            self.tell_state();
        }
        self.tell_service(now);
    }

    /// Decides as long as there is a cause, publishes, answers the programs that arrived.
    fn decide(&mut self, now: u64) {
        while let Some(cause) = self.cause.take() {
            self.stirred = true;
            if seam::has(Fault::EarlyWelcome) {
                std::mem::take(&mut self.arrived)
                    .into_iter()
                    .for_each(|serial| self.welcome(serial));
                seam::others_run();
            }
            let changes = self.ledger.decide(now, cause);
            self.publish(&changes, now);
            for serial in std::mem::take(&mut self.arrived) {
                self.welcome(serial);
                if let Some(back) = self.connections.get(&serial) {
                    self.legacy.is_back(back.peer.pid);
                }
                if let Some(foreign) = &mut self.foreign {
                    foreign.look_closely(now);
                }
            }
            // A program that died before its answer leaves again.
            self.bury(now);
        }
    }

    /// Takes doomed connections down.
    fn bury(&mut self, now: u64) {
        if self.doomed.is_empty() {
            return;
        }
        self.stirred = true;
        // One that is in no books is not charged when it has gone.
        let is_silent = |serial| {
            self.connections.get(serial).is_some_and(|it| it.announced && it.program.is_none())
        };
        if self.doomed.iter().any(is_silent) {
            self.charge_all(now);
        }
        for serial in std::mem::take(&mut self.doomed) {
            self.remove(serial, now);
        }
    }

    fn remove(&mut self, serial: u64, now: u64) {
        let Some(mut connection) = self.connections.remove(&serial) else {
            return;
        };
        self.forget_watches(serial);
        self.surprises.forget(serial);
        if let Some(id) = connection.submission {
            self.submissions.ends(id, now);
        }
        // The notes for the next manager name this process.
        self.legacy.unwritten |= connection.start.is_some();
        if let Some(mut program) = connection.program.take() {
            program.stop_listening(&self.reactor);
            program.set_free(self.kernel.as_ref());
            let (pid, uid) = (connection.peer.pid, connection.peer.uid);
            self.account_exit(serial, (pid, uid, program.name.clone()), now);
            self.charge(connection.peer.uid, now);
            if let Some(domain) = &mut self.domain {
                domain.leave(serial);
            }
            if self.ledger.leave(AppId(serial)) && !seam::has(Fault::LateDecision) {
                self.cause = Some(Cause::Exit);
            }
            self.measuring.so_far.exits += 1;
            tracing::info!(pid = connection.peer.pid.0, name = %program.name, "a program left");
            if let Some(trace) = &mut self.trace {
                trace.write(program.line(
                    trace::Event::Exit,
                    connection.peer.pid.0,
                    now,
                    Vec::new(),
                    false,
                ));
            }
        }
        if connection.watched {
            // The number is free again with the descriptor; an error means that it was not in the
            // set.
            let _removed: SysResult<()> = self.reactor.remove(&connection.pidfd);
        }
        self.idle_since = now;
    }

    /// Takes a connection down at the end of the pass.
    fn doom(&mut self, serial: u64, why: &'static str) {
        if self.connections.contains_key(&serial) && self.doomed.insert(serial) {
            tracing::debug!(serial, why, "a connection ends");
        }
    }

    fn check(&mut self, serial: u64, outcome: SysResult<()>) {
        if let Err(error) = outcome {
            tracing::warn!(serial, %error, "a connection cannot be served");
            self.doom(serial, "the kernel refused something");
        }
    }

    fn is_idle(&self, now: u64) -> bool {
        !self.is_needed()
            && self.idle_exit.is_some_and(|time| self.idle_since.saturating_add(time) <= now)
    }

    /// Says goodbye and ends.
    fn end(mut self, ended: &Ended) {
        self.say_over(matches!(ended, Ended::Restarts(_)));
        self.close_accounts(monotonic_ns());
        self.leave_settings(ended);
        // What is attached stays bound as it is: the one that begins anew finds it (`masks`).
        if !ended.is_succeeded() {
            self.let_all_go();
        }
        if *ended == Ended::Displaced {
            // The file at the path may be another's by now.
            if let Some(keeper) = self.keeper.take() {
                keeper.abandon();
            }
        } else {
            self.note_masks(u64::MAX);
            // As long as the socket is ours so is the file beside it.
            drop(self.keeper.take());
        }
        for connection in self.connections.values_mut() {
            if let Some(program) = &mut connection.program {
                program.set_free(self.kernel.as_ref());
            }
            connection.say_goodbye();
        }
        // With their mailboxes clients are let go.
        self.connections.clear();
        self.trace_self(trace::Event::Stop);
        let socket = self.instance.socket().to_owned();
        if ended.is_succeeded() {
            self.instance.hand_on();
        }
        // First the file goes, then the listener: a process that finds the file finds a manager.
        drop(self.instance);
        self.api.finish();
        if let Some(Err(error)) = self.trace.take().map(Trace::finish) {
            tracing::error!(%error, "the trace is not complete");
        }
        tracing::info!(socket = %socket.display(), "the manager ends");
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
