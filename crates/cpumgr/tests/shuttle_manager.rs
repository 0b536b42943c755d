//! The manager's state machine under random schedules: the shipped books (`Ledger`), driven by passes in the order of
//! `Server::run`, beside programs that arrive over a bounded queue, ask, give back, and die at any moment. Two planted
//! faults of the pass are found.
#![allow(clippy::unwrap_used, reason = "a model that cannot go on fails")]

use std::collections::{BTreeMap, VecDeque};

use cpumgr::ledger::{Change, Ledger};
use policies::{AppId, Cause, Machine, MachineCpu, Registry};
use shuttle::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::{rand::Rng, thread};

const PROCESSORS: u32 = 3;
const PROGRAMS: usize = 3;
/// Calls that the queue holds.
const CALLS: usize = 2;
const SCHEDULES: usize = 400;

/// What the pass does wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// The bell is cleared after the request was read, and not before.
    LateClear,
    /// A death is noted, and the processors are given out at the next event, and not in this pass.
    LateDecision,
}

/// One program's areas, as far as the books are concerned.
#[derive(Default)]
struct Area {
    requested: AtomicU32,
    released: AtomicBool,
    rung: AtomicBool,
    dead: AtomicBool,
    granted: AtomicU32,
}

/// What wakes the scheduler: the epoll of the model.
#[derive(Default)]
struct Events {
    pending: Mutex<bool>,
    changed: Condvar,
}

impl Events {
    fn signal(&self) {
        *self.pending.lock().unwrap() = true;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut pending = self.pending.lock().unwrap();
        while !*pending {
            pending = self.changed.wait(pending).unwrap();
        }
        *pending = false;
    }
}

struct World {
    areas: Vec<Area>,
    events: Events,
    /// Arrivals that wait for the scheduler; bounded, so that the API thread waits when it is full.
    calls: Mutex<VecDeque<usize>>,
    room: Condvar,
}

impl World {
    fn arrive(&self, index: usize) {
        let mut calls = self.calls.lock().unwrap();
        while calls.len() >= CALLS {
            calls = self.room.wait(calls).unwrap();
        }
        calls.push_back(index);
        drop(calls);
        self.events.signal();
    }

    fn ring(&self, index: usize) {
        if !self.areas[index].rung.swap(true, SeqCst) {
            self.events.signal();
        }
    }
}

/// A program's whole life.
fn program(world: &World, index: usize) {
    let area = &world.areas[index];
    area.requested.store(1, SeqCst);
    world.arrive(index);
    for _ in 0..2 {
        let wanted = shuttle::rand::thread_rng().gen_range(1..=PROCESSORS);
        if area.requested.swap(wanted, SeqCst) != wanted {
            world.ring(index);
        }
        if area.granted.load(SeqCst) > 1 {
            area.released.store(true, SeqCst);
            world.ring(index);
            area.released.store(false, SeqCst);
            world.ring(index);
        }
    }
    if index == 0 {
        area.dead.store(true, SeqCst);
        world.events.signal();
    }
}

/// The scheduler: passes until every program has done all, and the books say so.
fn scheduler(world: &World, fault: Fault, done: &AtomicU32) {
    let cpus = (0..PROCESSORS).map(|id| MachineCpu { id, core: id, llc: 0, node: 0 });
    let policy = Registry::with_builtin().create("dss-ts").unwrap();
    let mut ledger = Ledger::new(Machine::new(cpus.collect()), 100, policy);
    let mut known: BTreeMap<usize, bool> = BTreeMap::new();
    let mut now = 0;
    let publish = |changes: Vec<Change>| {
        for change in changes {
            let granted = u32::try_from(change.holding.cpus.len()).unwrap();
            world.areas[(change.app.0 - 1) as usize].granted.store(granted, SeqCst);
        }
    };
    loop {
        // Read before the wait: what happens later signals again.
        let last = done.load(SeqCst) == PROGRAMS as u32;
        if !last {
            world.events.wait();
        }
        // Each pass is a time of its own, past every hold.
        now += 1_000;
        let mut cause = None;
        let arrived: Vec<usize> = world.calls.lock().unwrap().drain(..).collect();
        world.room.notify_all();
        for index in arrived {
            ledger.arrive(AppId(index as u64 + 1), 1, PROCESSORS);
            known.insert(index, true);
            cause = Some(Cause::Arrival);
        }
        for index in known.keys().copied().collect::<Vec<_>>() {
            let (area, app) = (&world.areas[index], AppId(index as u64 + 1));
            if area.dead.load(SeqCst) {
                ledger.leave(app);
                known.remove(&index);
                cause = if fault == Fault::LateDecision { cause } else { Some(Cause::Exit) };
                continue;
            }
            let read = |ledger: &mut Ledger| {
                let asked = ledger.ask(app, area.requested.load(SeqCst));
                let released = area.released.load(SeqCst);
                let resumed = !released && ledger.resume(app);
                (asked || resumed, released)
            };
            let rung = if fault == Fault::LateClear { area.rung.load(SeqCst) } else { area.rung.swap(false, SeqCst) };
            if rung {
                let (asked, released) = read(&mut ledger);
                if fault == Fault::LateClear {
                    area.rung.store(false, SeqCst);
                }
                cause = cause.or(asked.then_some(Cause::Request));
                let own = ledger.holding(app).map(|it| it.cpus.clone()).unwrap_or_default();
                if released && own.len() > 1 {
                    publish(ledger.release(app, &own[1..], now));
                }
            }
        }
        if let Some(cause) = cause {
            publish(ledger.decide(now, cause));
        }
        check(&ledger, &known);
        if last {
            break;
        }
    }
    // Nobody does anything any more: the books are what the programs said last.
    let mut wanted = 0;
    for index in known.keys() {
        let app = AppId(*index as u64 + 1);
        let said = world.areas[*index].requested.load(SeqCst);
        assert_eq!(ledger.request(app), Some(said), "a request of program {index} was never heard");
        assert_eq!(world.areas[*index].granted.load(SeqCst) as usize, ledger.holding(app).unwrap().cpus.len());
        wanted += said;
    }
    let held: usize = known.keys().map(|index| ledger.holding(AppId(*index as u64 + 1)).unwrap().cpus.len()).sum();
    assert!(held as u32 >= wanted.min(PROCESSORS), "{held} of {wanted} are held: a processor is left idle");
}

/// What holds after each pass: L1, L2.
fn check(ledger: &Ledger, known: &BTreeMap<usize, bool>) {
    let mut owners: BTreeMap<u32, usize> = BTreeMap::new();
    for index in known.keys() {
        let holding = ledger.holding(AppId(*index as u64 + 1)).unwrap();
        assert!(!holding.cpus.is_empty(), "program {index} holds nothing");
        for cpu in holding.cpus.iter().filter(|_| !holding.shared) {
            let before = owners.insert(*cpu, *index);
            assert_eq!(before, None, "processor {cpu} has two owners");
        }
    }
}

fn model(fault: Fault) {
    let world = Arc::new(World {
        areas: (0..PROGRAMS).map(|_| Area::default()).collect(),
        events: Events::default(),
        calls: Mutex::new(VecDeque::new()),
        room: Condvar::new(),
    });
    let done = Arc::new(AtomicU32::new(0));
    let programs: Vec<_> = (0..PROGRAMS)
        .map(|index| {
            let (world, done) = (Arc::clone(&world), Arc::clone(&done));
            thread::spawn(move || {
                program(&world, index);
                done.fetch_add(1, SeqCst);
                world.events.signal();
            })
        })
        .collect();
    scheduler(&world, fault, &done);
    for program in programs {
        program.join().unwrap();
    }
}

#[test]
fn whatever_programs_do_the_books_are_right_after_each_pass() {
    shuttle::check_random(|| model(Fault::None), SCHEDULES);
}

/// A model that must fail says so on standard error, which is as it should be.
fn is_found(fault: Fault) -> bool {
    std::panic::catch_unwind(move || shuttle::check_random(move || model(fault), SCHEDULES)).is_err()
}

#[test]
fn a_bell_that_is_cleared_after_the_look_is_found() {
    assert!(is_found(Fault::LateClear));
}

#[test]
fn processors_of_a_dead_program_that_nobody_gives_out_are_found() {
    assert!(is_found(Fault::LateDecision));
}
