//! What is in transit: processors that programs of a domain passed to each other and that no grant
//! names yet (M6).
//!
//! # Protocol (with [`arena::domain`], where a manager has a domain)
//! 1. *Give.* A worker that would give its processor back ([`wishes`](crate::protocols::wishes),
//!    W1) passes it to the first other program that wants one, and says so to the manager. Where
//!    none of the domain does, it gives it back.
//! 2. *Count.* Until the manager has booked that, the giver counts the processor out of its grant,
//!    the receiver into its own: their next teams are smaller and larger
//!    ([`ManagerClient::processors`]).
//! 3. *Sit.* The seats after those of the grant have the processors that came, in the order of
//!    their numbers; a seat whose processor was passed is everywhere in what is left
//!    ([`ManagerClient::cpu_of_seat`]).
//! 4. *Move.* What is in transit is a part of the epoch: a thread that follows another epoch goes
//!    where the new one puts it, at its next safe point or at its master's fork, as with a new
//!    grant.
//!
//! No thread is woken: a sleeping thread has nothing to run, and the fork that has something for it
//! wakes it.
//!
//! # Invariants
//! - A-I1 What is in transit is looked at before the grant. A processor that is booked is in one of
//!   them at least (D5 there); a look that finds it in both counts it once.
//! - A-I2 An epoch does not come back: it is the sum of two numbers that only grow.
//! - A-I3 With another manager, or none, nothing is in transit, and nothing is passed: the area of
//!   the old manager does not count. The watcher's thread joins the next manager's domain, if it
//!   has one ([`ManagerClient::comes_back`]); from then on what is in its area counts. A manager
//!   that does not answer in time is asked again later, some times
//!   ([`Client::return_again`]).
//!
//! # Races
//! *Two changes, one look.* A processor comes and lands between two looks, whichever threads look:
//! the epoch of the grant has changed if it is ours, and nothing has if it is not.
//! *Two looks, in another order.* A looks and finds 3, B looks and finds it landed and notes that,
//! A notes 3: an epoch too many, and the next look notes the truth under another one.
//!
//! # Orderings
//! `changes`, `is_busy`: Relaxed. Written under the lock of `seen`; a thread that misses one finds
//! it at its next look. `registration`: written (Release) after the joining, read (Acquire) before
//! the area is looked at.
//!
//! # Papers
//! P2 section 3.3 (M6). There the processor itself begins to run the other program's work; here it
//! is a number, and the threads that run there are the other program's own (D3).

use crate::program::program;
use crate::protocols::wishes::{ANSWER, Asks};
use arena::client::{Client, ConnectError};
use arena::domain::Domain;
use platform::affinity::{CpuId, CpuSet};
use platform::clock::Ticks;
use platform::lock::{Mutex, Once};
use platform::message::say;
use std::sync::PoisonError;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::Duration;

/// How long a manager may take to let the program into its domain.
const JOINING: Duration = Duration::from_millis(500);

/// What it means for a program to be in no domain.
const BY_MANAGER: &str = "processors are passed on by the manager only";

/// The program's end of its manager, and of the domain where there is one.
#[derive(Debug)]
pub(super) struct ManagerClient {
    pub(super) client: Client,
    in_transit: Once<InTransit>,
}

#[derive(Debug)]
struct InTransit {
    domain: Domain,
    /// The registration under which it was joined (A-I3).
    registration: AtomicU32,
    /// What was seen last.
    seen: Mutex<Transfers>,
    /// Whether that was not empty.
    is_busy: AtomicBool,
    /// How often what was seen had changed.
    changes: AtomicU32,
}

/// Processors in transit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Transfers {
    coming: Vec<CpuId>,
    passed: Vec<CpuId>,
}

/// The grant with what is in transit.
#[derive(Debug)]
struct EffectiveGrant {
    /// Processors that are granted.
    granted: usize,
    /// Those that may be used.
    cpus: CpuSet,
    /// Of these, those that came; the seats after those of the grant have them.
    came: CpuSet,
    passed: CpuSet,
}

impl InTransit {
    /// What is in transit, and notes whether that is something new. Cost while nothing is: some
    /// loads.
    fn look(&self, client: &Client) -> Option<Transfers> {
        let now = if self.is_current(client) {
            Transfers { coming: self.domain.coming(), passed: self.domain.passed() }
        } else {
            Transfers::default()
        };
        let is_busy = now != Transfers::default();
        // ORDERING: Relaxed - see the module head.
        if !is_busy && !self.is_busy.load(Relaxed) {
            return None;
        }
        // What it protects is whole at every point where a panic could leave it.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen != now {
            seen.clone_from(&now);
            // ORDERING: Relaxed, both - see the module head.
            self.is_busy.store(is_busy, Relaxed);
            self.changes.fetch_add(1, Relaxed);
        }
        is_busy.then_some(now)
    }

    fn is_current(&self, client: &Client) -> bool {
        // ORDERING: Acquire - see the module head.
        client.is_alive() && client.registrations() == self.registration.load(Acquire)
    }
}

impl EffectiveGrant {
    /// `None`: a processor in turn with others, or a grant that binds nothing; the manager has to
    /// say what follows from a pass.
    fn of(client: &Client, transfers: &Transfers) -> Option<Self> {
        let (grant, cpus) = client.grant_with_cpus();
        if grant.shared || cpus.is_empty() {
            return None;
        }
        // A program that was started inside a narrower mask stays inside it.
        let mask = program().mask();
        let is_new = |cpu: &CpuId| !cpus.contains(*cpu) && mask.contains(*cpu);
        let came: CpuSet = transfers.coming.iter().copied().filter(is_new).collect();
        let passed: CpuSet = transfers.passed.iter().copied().collect();
        let left = cpus.difference(&passed);
        Some(Self { granted: grant.processors as usize, cpus: left.union(&came), came, passed })
    }
}

impl ManagerClient {
    pub(super) fn new(client: Client) -> Self {
        Self { client, in_transit: Once::new() }
    }

    /// The client has joined `domain` under its registration with that number. The first one
    /// counts.
    pub(super) fn join(&self, domain: Domain, registration: u32) {
        self.in_transit.get_or_init(|| InTransit {
            domain,
            registration: AtomicU32::new(registration),
            seen: Mutex::default(),
            is_busy: AtomicBool::new(false),
            changes: AtomicU32::new(0),
        });
    }

    /// Another manager took the program in, or it is time to ask again: joins the domain, if there
    /// is one. On the watcher's thread; waits for the manager.
    pub(super) fn comes_back(&self) {
        let client = &self.client;
        if !client.has_domain() {
            return;
        }
        // Before it joins: should this manager be gone by then, too, the watcher comes again.
        let registration = client.registrations();
        let joined = match self.in_transit.get() {
            None => client.join_domain(JOINING).map(|domain| self.join(domain, registration)),
            // It is in: nothing is to be joined again.
            Some(in_transit) if in_transit.is_current(client) => Ok(()),
            // ORDERING: Release - see the module head.
            Some(in_transit) => client
                .join_domain_again(&in_transit.domain, JOINING)
                .map(|()| in_transit.registration.store(registration, Release)),
        };
        match joined {
            Ok(()) => {}
            // It was busy, or was stopped for a while.
            Err(ConnectError::Silent { .. }) => client.return_again(),
            Err(error) => say(format_args!("nanos: {error}; {BY_MANAGER}")),
        }
    }

    /// The manager did not let the program into its domain when that began.
    pub(super) fn is_left_out(&self, error: &ConnectError) {
        say(format_args!("nanos: {error}; {BY_MANAGER}"));
        if matches!(error, ConnectError::Silent { .. }) {
            self.client.return_again();
        }
    }

    fn held(&self) -> Option<EffectiveGrant> {
        let transfers = self.in_transit.get()?.look(&self.client)?;
        EffectiveGrant::of(&self.client, &transfers)
    }

    /// How many processors a region may use now. Cost without a domain: a load, and a look at what
    /// was loaded with it.
    #[inline]
    pub(super) fn processors(&self) -> usize {
        if self.in_transit.get().is_some()
            && let Some(held) = self.held()
        {
            return held.cpus.len().max(1);
        }
        self.client.grant().processors as usize
    }

    /// Which these are; none of a grant that binds nothing.
    pub(super) fn cpus(&self) -> CpuSet {
        self.held()
            .map(|held| held.cpus)
            .filter(|cpus| !cpus.is_empty())
            .unwrap_or_else(|| self.client.cpus())
    }

    /// The processor of seat `seat`, if it has one of its own.
    pub(super) fn cpu_of_seat(&self, seat: usize) -> Option<CpuId> {
        let held = self.held();
        let granted = self.client.vp(seat).0;
        let Some(held) = held else { return granted };
        match granted {
            Some(cpu) => Some(cpu).filter(|cpu| !held.passed.contains(*cpu)),
            None => held.came.iter().nth(seat.checked_sub(held.granted)?),
        }
    }

    /// Changes whenever what the program has may have changed. Cost without a domain: as
    /// [`ManagerClient::processors`].
    #[inline]
    pub(super) fn epoch(&self) -> u32 {
        let changes = match self.in_transit.get() {
            None => 0,
            Some(in_transit) => {
                in_transit.look(&self.client);
                // ORDERING: Relaxed - see the module head.
                in_transit.changes.load(Relaxed)
            }
        };
        self.client.grant().epoch.wrapping_add(changes)
    }

    /// Step 1; false where no program of the domain wants a processor. A program does not give its
    /// last one, nor one that is not its own.
    fn pass(&self, cpu: CpuId) -> bool {
        let Some(in_transit) =
            self.in_transit.get().filter(|in_transit| in_transit.is_current(&self.client))
        else {
            return false;
        };
        let (grant, cpus) = self.client.grant_with_cpus();
        let is_own = cpus.contains(cpu) && cpus.len() > 1 && !grant.shared;
        is_own && self.client.pass(&in_transit.domain, cpu)
    }
}

impl Asks for ManagerClient {
    fn request(&self, processors: u32) {
        self.client.request(processors);
    }

    fn request_for_now(&self, processors: u32) {
        self.client.request_for_now(processors);
    }

    fn release(&self, cpu: CpuId) {
        if !self.pass(cpu) {
            self.client.release(cpu);
        }
    }

    fn resume(&self) {
        self.client.resume();
    }

    fn cpu_of(&self, seat: usize) -> Option<CpuId> {
        self.cpu_of_seat(seat)
    }

    fn granted(&self) -> u32 {
        self.client.grant().processors
    }

    fn await_grant(&self, processors: u32) {
        let begin = Ticks::now();
        let client = &self.client;
        let has_less = || client.grant().processors < processors && client.is_alive();
        while has_less() && begin.elapsed_ticks() < Ticks::about_us(ANSWER) {
            platform::sync::pause();
        }
    }
}
