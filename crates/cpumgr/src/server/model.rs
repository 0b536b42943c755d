//! The scheduler under random schedules (shuttle): the shipped `Server` with its books, its epoll,
//! its doorbells and the areas of its programs, all of them real, beside threads that play
//! programs, a tool and a process in the queue. Other threads run where they can in a manager:
//! between two reads of shared memory, around each grant, around each call that binds a thread
//! (`seam`). Time is the model's own: it goes on when nothing happens.
//!
//! # What is played
//! - The API thread's part: what clients say is put into the queue of calls, which is short, and
//!   the bell rings.
//! - Processes: each client's pidfd is an event counter that is rung when its process dies.
//!   Numbers, names and threads belong to real processes, which do nothing; masks are the model's
//!   own.
//!
//! # What holds
//! After each pass: what programs read is what the books say (L1, L2 of `ledger`); no program waits
//! beside an idle processor; no virtual processor that has a processor sleeps; no grace is overdue;
//! a process that is known to be dead is forgotten. At the end: every request was heard, every
//! process that waited for a place has had one, every question has had its answer, and all threads
//! have the masks that they had. A ring or a wake that is lost keeps a player waiting for ever,
//! which shuttle reports.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::sync::PoisonError;

use arena::layout::{Down, Up};
use arena::message::{FromManager, ToManager};
use platform::affinity::{CpuId, CpuSet, Tid};
use platform::event::Doorbell;
use platform::process::{Peer, Pid};
use platform::shm::{Mapping, SharedMemory};
use policies::{Machine, MachineCpu};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard};
use shuttle::thread;
use tokio::sync::mpsc::{self, error::TryRecvError, error::TrySendError};

use super::*;
use crate::api::{Answer, Areas, Call, Mailbox};
use crate::config::Rules;
use crate::kernel::Kernel;

mod players;
mod process;

use players::{program, submitter, tool};
pub(super) use process::{Masks, Process};

const PROCESSORS: u32 = 3;
const PROGRAMS: usize = 3;
/// The players: programs, a tool, one in the queue.
const PLAYERS: usize = PROGRAMS + 2;
/// Calls that the queue holds.
const ROOM: usize = 2;
/// Passes at the end in which nothing happens but that time goes on: all holds, graces and mutes
/// are over.
const REST: u32 = 40;
/// Schedules; a planted fault has more time to be met.
const SCHEDULES: usize = if cfg!(debug_assertions) { 150 } else { 2_000 };
const SCHEDULES_OF_A_FAULT: usize = 20 * SCHEDULES;

thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

pub(super) fn has(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

pub(super) fn others_run() {
    (0..thread_rng().gen_range(1..4)).for_each(|_| thread::yield_now());
}

/// A program's side of its areas.
pub(super) struct View {
    down: Mapping,
    up: Mapping,
    doorbell: Doorbell,
    /// Its second virtual processor sleeps: it looked, and found no processor.
    sleeps: Mutex<bool>,
}

impl View {
    pub(super) fn new(areas: Areas) -> Self {
        let [down, up] = areas
            .areas
            .in_order()
            .map(|fd| SharedMemory::from_fd(fd.try_clone_to_owned().unwrap()).unwrap());
        let (down, up) = (down.map_read_only().unwrap(), up.map_read_write().unwrap());
        Self { down, up, doorbell: Doorbell::from_fd(areas.doorbell), sleeps: Mutex::new(false) }
    }

    pub(super) fn down(&self) -> &Down {
        // SAFETY: - the mapping is as long as the manager made it for a `Down`, aligned to a page,
        //           and lives as long as self; the type is made of atomics, for which any bits are
        //           valid.
        unsafe { &*self.down.as_ptr().cast() }
    }

    pub(super) fn up(&self) -> &Up {
        // SAFETY: - as above, for an `Up`.
        unsafe { &*self.up.as_ptr().cast() }
    }
}

/// Also after a player has found a fault: what it said is the verdict.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something that one waits for.
#[derive(Default)]
struct Count {
    number: Mutex<u64>,
    grew: Condvar,
}

impl Count {
    fn now(&self) -> u64 {
        *lock(&self.number)
    }

    fn add(&self) {
        *lock(&self.number) += 1;
        self.grew.notify_all();
    }

    /// Waits until it is another one.
    fn wait(&self, seen: u64) {
        let mut number = lock(&self.number);
        while *number == seen {
            number = self.grew.wait(number).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

struct World {
    processes: std::sync::Arc<Vec<(Pid, Tid)>>,
    serials: Serials,
    calls: mpsc::Sender<(u64, Call)>,
    bell: Doorbell,
    /// Things that wake the scheduler.
    happened: Count,
    /// Its passes.
    passes: Count,
    /// Players that do nothing any more, or sleep.
    at_rest: Mutex<usize>,
    /// Players that sleep still shall give up.
    over: Mutex<bool>,
    views: Mutex<BTreeMap<u64, std::sync::Arc<View>>>,
    dead: Mutex<BTreeSet<u64>>,
}

/// One connection.
struct Line<'a> {
    world: &'a World,
    serial: u64,
    /// Stands for its process: rung when that dies.
    end: Doorbell,
    mailbox: mpsc::Receiver<Answer>,
}

impl World {
    fn open(&self, player: usize) -> Line<'_> {
        let (mailbox, receiver) = Mailbox::with_receiver();
        let end = Doorbell::new().unwrap();
        let serial = self.serials.next();
        let (pid, uid) = (self.processes[player.min(PROGRAMS)].0, nix::unistd::geteuid().as_raw());
        let pidfd = end.as_fd().try_clone_to_owned().unwrap();
        let line = Line { world: self, serial, end, mailbox: receiver };
        let peer = Peer { pid, uid, gid: 0 };
        line.call(Call::Opened { peer, pidfd, mailbox, of_admins: None });
        line
    }

    fn rests(&self, does: bool) {
        let mut at_rest = lock(&self.at_rest);
        *at_rest = if does { *at_rest + 1 } else { *at_rest - 1 };
        drop(at_rest);
        self.happened.add();
    }

    fn is_over(&self) -> bool {
        *lock(&self.over)
    }
}

impl Line<'_> {
    fn call(&self, mut call: Call) {
        loop {
            match self.world.calls.try_send((self.serial, call)) {
                Ok(()) => break,
                Err(TrySendError::Full((_, back))) => {
                    call = back;
                    thread::yield_now();
                }
                Err(TrySendError::Closed(_)) => return,
            }
        }
        others_run();
        self.world.bell.ring().unwrap();
        self.world.happened.add();
    }

    /// `None`: it was let go.
    fn answer(&mut self) -> Option<Answer> {
        loop {
            let seen = self.world.passes.now();
            match self.mailbox.try_recv() {
                Ok(answer) => return Some(answer),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => self.world.passes.wait(seen),
            }
        }
    }

    fn ask(&mut self, question: ToManager) -> Vec<FromManager> {
        self.call(Call::Said(question));
        match self.answer() {
            Some(Answer::Messages(messages)) => messages,
            other => panic!("no answer: {other:?}"),
        }
    }

    fn die(&self) {
        self.end.ring().unwrap();
        self.world.happened.add();
    }
}

/// What holds after each pass.
fn check(server: &Server, world: &World, now: u64) {
    let mut owners: BTreeMap<u32, u64> = BTreeMap::new();
    let mut unbound = false;
    for (serial, connection) in &server.connections {
        let Some(program) = &connection.program else { continue };
        let holding = server.ledger.holding(AppId(*serial)).unwrap();
        assert!(!holding.cpus.is_empty(), "program {serial} holds nothing");
        unbound |= holding.unbound.is_some();
        for cpu in holding.cpus.iter().filter(|_| !holding.shared && holding.unbound.is_none()) {
            assert_eq!(owners.insert(*cpu, *serial), None, "processor {cpu} has two owners");
        }
        // A grace of nothing that began in this pass ends in the next one.
        assert!(
            program.reclaim.deadline().is_none_or(|end| end >= now),
            "a grace is over, and no thread was squeezed"
        );
        let Some(view) = lock(&world.views).get(serial).cloned() else { continue };
        let (grant, cpus) = view.down().grant.read_with_cpus();
        let told: CpuSet =
            holding.cpus.iter().copied().filter(|_| holding.unbound.is_none()).map(CpuId).collect();
        assert_eq!(
            (grant.processors, grant.shared, cpus),
            (holding.number(), holding.shared, told)
        );
        let has_one =
            grant.processors > 1 && *lock(&view.sleeps) && view.up().vps[1].park.is_parked();
        assert!(
            !has_one,
            "a virtual processor of program {serial} sleeps and has a processor: a lost wake"
        );
    }
    // Other policies leave what does not go into equal parts, or into a turn. While a processor is
    // too young to be taken (M4), the program that is to have it may share it, and the program that
    // is to leave it does not use its other one yet.
    if server.ledger.waiting() > 0
        && !unbound
        && server.ledger.policy() == "dss-ts"
        && server.ledger.is_settled()
    {
        let held: BTreeSet<u32> = server
            .connections
            .keys()
            .filter_map(|serial| server.ledger.holding(AppId(*serial)))
            .flat_map(|it| it.cpus.iter().copied())
            .collect();
        let books = || {
            let ids = server.connections.keys().map(|serial| AppId(*serial));
            ids.map(|app| {
                format!(
                    "{app}: asks for {:?}, has {:?}",
                    server.ledger.request(app),
                    server.ledger.holding(app)
                )
            })
            .collect::<Vec<_>>()
        };
        assert_eq!(
            held.len(),
            PROCESSORS as usize,
            "a program waits beside an idle processor under {}: {:#?}",
            server.ledger.policy(),
            books()
        );
    }
}

/// A player that rests, asleep, has been woken and has not run since: it will go on.
fn somebody_was_woken(world: &World) -> bool {
    lock(&world.views)
        .values()
        .any(|view| *lock(&view.sleeps) && !view.up().vps[1].park.is_parked())
}

/// The scheduler's thread.
fn scheduler(world: &World, mut server: Server, masks: &Masks) {
    let mut now = server.started;
    let mut rest = 0;
    while rest < REST {
        let seen = world.happened.now();
        // First which players rest, then what they did before that.
        let all_rest = *lock(&world.at_rest) == PLAYERS && !somebody_was_woken(world);
        let events = server.reactor.poll().unwrap();
        if events.is_empty() {
            match server.next_deadline() {
                Some(time) if all_rest || thread_rng().gen_range(0..8) == 0 => now = now.max(time),
                Some(_) => {
                    thread::yield_now();
                    continue;
                }
                None if all_rest => break,
                None => {
                    world.happened.wait(seen);
                    continue;
                }
            }
        }
        rest = if all_rest && events.is_empty() { rest + 1 } else { 0 };
        now += 1_000;
        assert_eq!(server.pass(&events, now).unwrap(), None, "it ends by itself");
        check(&server, world, now);
        world.passes.add();
        // The last pass, too, may have woken a player, which goes on to ask for something.
        if somebody_was_woken(world) || world.happened.now() != seen {
            rest = 0;
        }
    }
    for serial in lock(&world.dead).iter() {
        assert!(
            !server.connections.contains_key(serial),
            "client {serial} is gone and not forgotten"
        );
    }
    for (serial, view) in lock(&world.views).iter() {
        let said = view.up().request.read().requested;
        assert_eq!(
            server.ledger.request(AppId(*serial)),
            Some(said),
            "a request of program {serial} was never heard"
        );
    }
    assert!(server.queue.is_empty(), "a program waits for a place for ever");
    *lock(&world.over) = true;
    server.end(&Ended::Signal);
    world.passes.add();
    assert!(
        masks.now().values().all(|mask| *mask == Masks::all()),
        "a mask was not put back: {masks:?}"
    );
}

/// Books of the model's processors.
pub(super) fn ledger(policy: Box<dyn policies::Policy>) -> Ledger {
    let cpus = (0..PROCESSORS).map(|id| MachineCpu { id, core: id, llc: 0, node: 0 });
    Ledger::new(Machine::new(cpus.collect()), 20_000_000, policy)
}

pub(super) fn setup(dir: &std::path::Path, kernel: Box<dyn Kernel>) -> Setup {
    let policy = crate::limits::policy("dss-ts").unwrap();
    let mut instance = Instance::claim(&dir.join("m/app.sock")).unwrap();
    Setup {
        listener: instance.listen().unwrap(),
        instance,
        reactor: Reactor::new().unwrap(),
        ledger: ledger(policy),
        cpus: Masks::all(),
        trace: None,
        history: None,
        idle_exit: None,
        grace: Duration::from_millis(2),
        kernel,
        level: None,
        level_from: LevelFrom::Configuration,
        fair_share: None,
        public: false,
        domain: false,
        fences: None,
        heeds_strangers: false,
        narrow: None,
        kept: Vec::new(),
        rules: Rules::default(),
        reload: None,
        service: None,
    }
}

fn model(dir: &std::path::Path, processes: &std::sync::Arc<Vec<(Pid, Tid)>>) {
    let masks = Masks(std::sync::Arc::default());
    let mut sender = None;
    let mut numbers = None;
    let server = Server::with_api(setup(dir, Box::new(masks.clone())), |_, _, serials| {
        let (api, calls) = Api::without_thread(ROOM)?;
        numbers = Some(serials);
        sender = Some((calls, Doorbell::from_fd(api.bell().as_fd().try_clone_to_owned().unwrap())));
        Ok(api)
    });
    let (calls, bell) = sender.unwrap();
    let world = Arc::new(World {
        processes: std::sync::Arc::clone(processes),
        serials: numbers.unwrap(),
        calls,
        bell,
        happened: Count::default(),
        passes: Count::default(),
        at_rest: Mutex::new(0),
        over: Mutex::new(false),
        views: Mutex::default(),
        dead: Mutex::default(),
    });
    let players: Vec<_> = (0..PLAYERS)
        .map(|player| {
            let world = Arc::clone(&world);
            thread::spawn(move || match player {
                PROGRAMS => tool(&world),
                player if player > PROGRAMS => submitter(&world),
                player => program(&world, player),
            })
        })
        .collect();
    scheduler(&world, server.unwrap(), &masks);
    players.into_iter().for_each(|player| player.join().unwrap());
}

/// Random schedules, with or without a fault.
fn explore(fault: Option<Fault>) {
    let dir = tempfile::tempdir().unwrap();
    // One more for the players that register nothing.
    let processes: Vec<Process> = (0..=PROGRAMS).map(|_| Process::start()).collect();
    let known =
        std::sync::Arc::new(processes.iter().map(|it| (it.pid(), it.second)).collect::<Vec<_>>());
    let path = dir.path().to_owned();
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    PLANTED.set(fault);
    let schedules = if fault.is_some() { SCHEDULES_OF_A_FAULT } else { SCHEDULES };
    let scheduler = shuttle::scheduler::RandomScheduler::new(schedules);
    shuttle::Runner::new(scheduler, config).run(move || model(&path, &known));
    PLANTED.set(None);
}

/// What the model says of a scheduler with this fault.
fn verdict(fault: Fault) -> String {
    let outcome = std::panic::catch_unwind(|| explore(Some(fault)));
    PLANTED.set(None);
    let panic = outcome.expect_err("a fault was not found");
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|it| (*it).to_owned())).unwrap_or_default()
}

#[test]
fn whatever_clients_do_and_whenever_the_scheduler_does_what_it_should() {
    explore(None);
}

#[test]
fn a_bell_that_is_cleared_after_the_look_is_found() {
    let said = verdict(Fault::Clear);
    assert!(said.contains("never heard"), "{said}");
}

#[test]
fn processors_of_a_dead_program_that_are_not_given_out_are_found() {
    let said = verdict(Fault::LateDecision);
    assert!(said.contains("idle processor"), "{said}");
}

#[test]
fn areas_without_a_grant_in_them_are_found() {
    let said = verdict(Fault::EarlyWelcome);
    assert!(said.contains("no grant in them"), "{said}");
}

#[test]
fn a_wake_before_its_grant_is_found() {
    let said = verdict(Fault::EarlyWake);
    assert!(said.contains("lost wake"), "{said}");
}

#[test]
fn a_program_that_is_never_listened_to_again_is_found() {
    let said = verdict(Fault::Deaf);
    assert!(said.contains("never heard"), "{said}");
}
