//! Reclaiming from the threads of this process, with a kernel that can be told to fail.

use super::*;
use crate::surprises::tests::logged;
use arena::manager::CheckedRequest;
use platform::affinity::{affinity, current_tid};
use platform::{SysError, SysResult, process};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Threads' masks as this test wants them, and calls that fail when it wants that.
#[derive(Debug, Default)]
struct Fake {
    masks: RefCell<BTreeMap<i32, CpuSet>>,
    /// This call fails from now on.
    fails: Cell<Option<(&'static str, i32)>>,
    sets: Cell<usize>,
}

impl Fake {
    fn outcome(&self, call: &'static str) -> SysResult<()> {
        match self.fails.get() {
            Some((name, errno)) if name == call => Err(SysError::new(call, errno)),
            _ => Ok(()),
        }
    }

    fn mask(&self, tid: Tid) -> String {
        self.masks.borrow()[&tid.0].to_string()
    }
}

impl Kernel for Rc<Fake> {
    fn affinity(&self, tid: Tid) -> SysResult<CpuSet> {
        self.outcome("sched_getaffinity")?;
        self.masks
            .borrow()
            .get(&tid.0)
            .cloned()
            .ok_or(SysError::new("sched_getaffinity", Errno::ESRCH as i32))
    }

    fn set_affinity(&self, tid: Tid, cpus: &CpuSet) -> SysResult<()> {
        self.outcome("sched_setaffinity")?;
        self.sets.set(self.sets.get() + 1);
        self.masks.borrow_mut().insert(tid.0, cpus.clone());
        Ok(())
    }
}

/// A thread of this process that lives until the test lets go of it.
struct Sleeper {
    tid: Tid,
    _end: Sender<()>,
}

fn sleeper() -> Sleeper {
    let (end, wait): (Sender<()>, Receiver<()>) = channel();
    let (say, hear) = channel();
    std::thread::spawn(move || {
        say.send(current_tid()).unwrap();
        // Ends with the sender.
        let _ended = wait.recv();
    });
    Sleeper { tid: hear.recv().unwrap(), _end: end }
}

fn set(list: &str) -> CpuSet {
    CpuSet::parse_list(list).unwrap()
}

struct Bench {
    fake: Rc<Fake>,
    areas: ProgramAreas,
    program: arena::manager::ProgramDescriptors,
    reclaim: Reclaim,
    sleepers: Vec<Sleeper>,
}

impl Bench {
    /// A program with `vps` virtual processors besides its initial thread, number i on processor i
    /// of 0-7.
    fn new(vps: usize) -> Self {
        let stated = CheckedRequest {
            requested: 8,
            max: 8,
            fixed_team: false,
            serial: false,
            lowest: 1,
            released_ns: 0,
        };
        let (areas, program) = ProgramAreas::create(1, stated, 2, 0).unwrap();
        let own = process::current_pid();
        let threads = Threads::of(own, process::pidfd_open(own).unwrap()).unwrap();
        let mut bench = Self {
            fake: Rc::default(),
            areas,
            program,
            reclaim: Reclaim::new(own, threads),
            sleepers: Vec::new(),
        };
        for index in 1..=vps {
            let sleeper = sleeper();
            bench.publish(index, sleeper.tid);
            bench.fake.masks.borrow_mut().insert(sleeper.tid.0, set(&index.to_string()));
            bench.sleepers.push(sleeper);
        }
        bench
    }

    /// What the program's side does, at the documented place.
    fn publish(&self, index: usize, tid: Tid) {
        use std::os::unix::fs::FileExt;
        let up = self.program.in_order()[1].try_clone_to_owned().unwrap();
        std::fs::File::from(up)
            .write_all_at(&tid.0.to_ne_bytes(), 512 + 64 * index as u64)
            .unwrap();
    }

    /// The program says that this one sleeps.
    fn park(&self, index: usize) {
        self.state(index, 2);
    }

    /// The program says that this one runs.
    fn run(&self, index: usize) {
        self.state(index, 1);
    }

    fn state(&self, index: usize, state: u32) {
        use std::os::unix::fs::FileExt;
        let up = self.program.in_order()[1].try_clone_to_owned().unwrap();
        std::fs::File::from(up)
            .write_all_at(&state.to_ne_bytes(), 512 + 64 * index as u64 + 4)
            .unwrap();
    }

    fn give(&mut self, before: &[u32], now: &[u32], grace_ends: u64) {
        let cpus: Vec<CpuId> = now.iter().copied().map(CpuId).collect();
        self.areas.publish(cpus.iter().copied(), false, false);
        let kernel: &dyn Kernel = &self.fake;
        self.reclaim.published(kernel, &mut self.areas, before, now, grace_ends);
    }

    fn squeeze(&mut self, kept: &[u32], now: u64) {
        let kernel: &dyn Kernel = &self.fake;
        self.reclaim.squeeze(kernel, &mut self.areas, kept, now);
    }

    /// A program's first grant and a smaller one, whose grace is over at once, at 10.
    fn shrink(&mut self, first: &[u32], kept: &[u32]) {
        self.give(&[], first, 0);
        self.give(first, kept, 10);
        self.squeeze(kept, 10);
    }

    fn mask(&self, index: usize) -> String {
        self.fake.mask(self.sleepers[index - 1].tid)
    }
}

#[test]
fn none_is_squeezed_before_the_grace_is_over_and_then_only_those_in_the_way() {
    let mut bench = Bench::new(3);
    bench.give(&[], &[0, 1, 2, 3], 0);
    bench.give(&[0, 1, 2, 3], &[0, 1], 10);
    assert_eq!((bench.reclaim.asked(), bench.reclaim.deadline()), (2, Some(10)));
    bench.squeeze(&[0, 1], 9);
    assert_eq!(bench.fake.sets.get(), 0);
    bench.squeeze(&[0, 1], 10);
    assert_eq!(
        (bench.mask(1), bench.mask(2), bench.mask(3)),
        ("1".into(), "0-1".into(), "0-1".into())
    );
    assert_eq!(
        (bench.reclaim.asked(), bench.reclaim.preempted(), bench.reclaim.squeezes()),
        (0, 2, 2)
    );
    assert_eq!(bench.reclaim.deadline(), None);
}

#[test]
fn a_processor_that_comes_back_in_time_is_not_reclaimed() {
    let mut bench = Bench::new(1);
    bench.give(&[], &[0, 1], 0);
    bench.give(&[0, 1], &[0], 10);
    bench.give(&[0], &[0, 1], 20);
    assert_eq!((bench.reclaim.asked(), bench.reclaim.deadline()), (0, None));
    bench.squeeze(&[0, 1], 30);
    assert_eq!(bench.fake.sets.get(), 0);
}

#[test]
fn squeezed_threads_follow_the_grant_and_get_their_masks_back() {
    let mut bench = Bench::new(2);
    bench.shrink(&[0, 1, 2], &[0]);
    assert_eq!((bench.mask(1), bench.mask(2)), ("0".into(), "0".into()));
    bench.give(&[0], &[0, 5], 20);
    assert_eq!((bench.mask(1), bench.mask(2)), ("5".into(), "0,5".into()));
    assert_eq!(bench.reclaim.preempted(), 1);
    let kernel: &dyn Kernel = &bench.fake;
    assert_eq!(bench.reclaim.restore(kernel), 2);
    assert_eq!((bench.mask(1), bench.mask(2)), ("1".into(), "2".into()));
}

#[test]
fn a_thread_whose_mask_is_all_the_programs_again_gets_it_back_at_once() {
    let mut bench = Bench::new(1);
    let tid = bench.sleepers[0].tid.0;
    bench.fake.masks.borrow_mut().insert(tid, set("0-2"));
    bench.shrink(&[0, 1, 2], &[0]);
    assert_eq!((bench.mask(1), bench.reclaim.preempted()), ("0".into(), 1));
    bench.give(&[0], &[0, 1], 20);
    assert_eq!(
        (bench.mask(1), bench.reclaim.preempted()),
        ("1".into(), 0),
        "processor 2 is another's"
    );
    bench.give(&[0, 1], &[0, 1, 2], 30);
    assert_eq!(bench.mask(1), "0-2");
    let (sets, kernel): (_, &dyn Kernel) = (bench.fake.sets.get(), &bench.fake);
    assert_eq!(
        (bench.reclaim.restore(kernel), sets),
        (0, bench.fake.sets.get()),
        "nothing is left to put back"
    );
}

/// What it costs to be granted a processor, and to lose it, does not depend on whether one was
/// squeezed before.
#[test]
fn a_program_that_follows_after_a_squeeze_is_asked_first_and_is_not_bound_again() {
    let mut bench = Bench::new(1);
    bench.shrink(&[0, 1], &[0]);
    bench.give(&[0], &[0, 5], 20);
    assert_eq!((bench.mask(1), bench.fake.sets.get()), ("5".into(), 2));
    for round in 3..6 {
        bench.give(&[0, 5], &[0], 10 * round);
        assert_eq!((bench.areas.grant().processors, bench.reclaim.asked()), (1, 1));
        bench.park(1);
        bench.squeeze(&[0], 10 * round);
        // No call of the kernel is made at all.
        bench.fake.fails.set(Some(("sched_getaffinity", Errno::EPERM as i32)));
        bench.give(&[0], &[0, 5], 10 * round);
        bench.fake.fails.set(None);
        bench.run(1);
    }
    assert_eq!(
        (bench.mask(1), bench.fake.sets.get(), bench.reclaim.squeezes()),
        ("5".into(), 2, 1)
    );
    // A thread that does not follow is squeezed as the first time.
    bench.give(&[0, 5], &[0], 60);
    bench.squeeze(&[0], 59);
    assert_eq!(bench.mask(1), "5");
    bench.squeeze(&[0], 60);
    assert_eq!(
        (bench.mask(1), bench.reclaim.preempted(), bench.reclaim.squeezes()),
        ("0".into(), 1, 2)
    );
    let kernel: &dyn Kernel = &bench.fake;
    assert_eq!((bench.reclaim.restore(kernel), bench.mask(1)), (1, "1".into()));
}

/// The grace is for threads that follow: each time, also for one that once did not.
#[test]
fn a_program_that_was_squeezed_once_is_asked_each_time_as_one_that_never_was() {
    enum Answer {
        Sleeps,
        Moves,
        None,
    }
    for answer in [Answer::Sleeps, Answer::Moves, Answer::None] {
        let told = [true, false].map(|was_squeezed| {
            let mut bench = Bench::new(1);
            let tid = bench.sleepers[0].tid.0;
            if was_squeezed {
                bench.shrink(&[0, 1], &[0]);
                bench.give(&[0], &[0, 5], 20);
            } else {
                bench.fake.masks.borrow_mut().insert(tid, set("5"));
                bench.give(&[], &[0, 5], 20);
            }
            let (calls, squeezes) = (bench.fake.sets.get(), bench.reclaim.squeezes());
            let mut told = Vec::new();
            for round in 3..5 {
                let over = 10 * round;
                let tell = |bench: &Bench| {
                    let reclaim = &bench.reclaim;
                    let made = (bench.fake.sets.get() - calls, reclaim.squeezes() - squeezes);
                    (reclaim.asked(), reclaim.preempted(), reclaim.deadline(), bench.mask(1), made)
                };
                bench.give(&[0, 5], &[0], over);
                told.push(tell(&bench));
                match answer {
                    Answer::Sleeps => bench.park(1),
                    Answer::Moves => drop(bench.fake.masks.borrow_mut().insert(tid, set("0"))),
                    Answer::None => {}
                }
                bench.squeeze(&[0], over - 1);
                told.push(tell(&bench));
                bench.squeeze(&[0], over);
                told.push(tell(&bench));
                bench.give(&[0], &[0, 5], over);
                bench.run(1);
                told.push(tell(&bench));
                // It follows.
                bench.fake.masks.borrow_mut().insert(tid, set("5"));
            }
            told
        });
        assert_eq!(told[0], told[1]);
    }
}

/// M9: a processor that a program gets goes to the virtual processor that used it last, else to one
/// that was squeezed, else to any other.
#[test]
fn a_processor_goes_to_its_last_user_then_to_a_squeezed_thread_then_to_a_sleeping_one() {
    use crate::ledger::Ledger;
    use policies::{AppId, Cause, Machine, MachineCpu, Registry};
    const MS: u64 = 1_000_000;
    let machine =
        Machine::new((0..4).map(|id| MachineCpu { id, core: id, llc: 0, node: 0 }).collect());
    let mut ledger =
        Ledger::new(machine, 100 * MS, Registry::with_builtin().create("dss").unwrap());
    let mut bench = Bench::new(3);
    let mut held: Vec<u32> = Vec::new();
    let mut follow = |bench: &mut Bench, ledger: &Ledger, now: u64| {
        let holds = ledger.holding(AppId(1)).unwrap().cpus.clone();
        if holds != held {
            bench.give(&held, &holds, now);
            held = holds;
            bench.squeeze(&held, now);
        }
        held.clone()
    };
    ledger.arrive(AppId(1), 4, 4);
    ledger.decide(0, Cause::Arrival);
    assert_eq!(follow(&mut bench, &ledger, 0), [0, 1, 2, 3]);
    // Number 3 sleeps, 1 and 2 run when another program comes: 2 is squeezed.
    bench.park(3);
    ledger.arrive(AppId(2), 4, 4);
    ledger.decide(50 * MS, Cause::Arrival);
    assert_eq!(follow(&mut bench, &ledger, 50 * MS), [0, 1]);
    assert_eq!(
        (bench.mask(1), bench.mask(2), bench.mask(3)),
        ("1".into(), "0-1".into(), "3".into())
    );
    // The other one gives processor 3 back, which the other one used last: the squeezed one has it,
    // not the sleeping one.
    ledger.release(AppId(2), &[3], 100 * MS);
    assert_eq!(follow(&mut bench, &ledger, 100 * MS), [0, 1, 3]);
    assert_eq!((bench.mask(2), bench.reclaim.preempted()), ("3".into(), 0));
    // Only now there is one for number 3.
    ledger.leave(AppId(2));
    ledger.decide(150 * MS, Cause::Exit);
    assert_eq!(follow(&mut bench, &ledger, 150 * MS), [0, 1, 3, 2]);
    // Both lose theirs for a while, and each gets the one that it used last.
    ledger.ask(AppId(1), 2);
    ledger.decide(200 * MS, Cause::Request);
    assert_eq!(follow(&mut bench, &ledger, 200 * MS), [0, 1]);
    assert_eq!(bench.mask(2), "0-1");
    ledger.ask(AppId(1), 4);
    ledger.decide(250 * MS, Cause::Request);
    assert_eq!(follow(&mut bench, &ledger, 250 * MS), [0, 1, 3, 2]);
    assert_eq!((bench.mask(2), bench.reclaim.preempted()), ("3".into(), 0));
}

#[test]
fn a_program_that_is_bound_back_after_the_squeeze_defies_it() {
    let mut bench = Bench::new(2);
    let managed = set("0-7");
    bench.shrink(&[0, 1, 2], &[0, 1]);
    let fake = Rc::clone(&bench.fake);
    let kernel: &dyn Kernel = &fake;
    for (mask, defied) in [("0-1", false), ("1", false), ("2", true), ("1-2", true)] {
        bench.reclaim.look_again(20, &[0, 1], &managed);
        assert_eq!(bench.reclaim.deadline(), Some(20));
        fake.masks.borrow_mut().insert(bench.sleepers[1].tid.0, set(mask));
        assert!(!bench.reclaim.is_defied(kernel, 19), "it has time until then");
        assert_eq!(bench.reclaim.is_defied(kernel, 20), defied, "{mask}");
        assert_eq!(bench.reclaim.deadline(), None, "one look");
    }
    // Other processors: the next squeeze is another one.
    bench.reclaim.look_again(30, &[0, 1], &managed);
    bench.give(&[0, 1], &[0, 1, 2], 25);
    assert_eq!(bench.reclaim.deadline(), None);
}

#[test]
fn a_mask_that_the_program_set_itself_is_its_own_affair() {
    let mut bench = Bench::new(1);
    bench.shrink(&[0, 1], &[0]);
    bench.fake.masks.borrow_mut().insert(bench.sleepers[0].tid.0, set("6"));
    let kernel: &dyn Kernel = &bench.fake;
    assert_eq!(bench.reclaim.restore(kernel), 0);
    assert_eq!(bench.mask(1), "6");
}

#[test]
fn virtual_processor_0_and_the_initial_thread_are_never_touched() {
    let mut bench = Bench::new(0);
    let master = sleeper();
    let initial = Tid(process::current_pid().0);
    for (index, tid) in [(0, master.tid), (1, initial)] {
        bench.publish(index, tid);
        bench.fake.masks.borrow_mut().insert(tid.0, set("0-7"));
    }
    bench.shrink(&[0, 1], &[0]);
    assert_eq!(bench.fake.sets.get(), 0);
}

#[test]
fn a_thread_of_another_process_is_never_touched() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let mut bench = Bench::new(0);
    let stranger = Tid(child.id().cast_signed());
    bench.publish(1, stranger);
    bench.fake.masks.borrow_mut().insert(stranger.0, set("0-7"));
    bench.shrink(&[0, 1], &[0]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(bench.fake.sets.get(), 0);
    assert!(affinity(Some(current_tid())).is_ok());
}

#[test]
fn a_program_that_sleeps_is_not_looked_at() {
    let mut bench = Bench::new(1);
    bench.park(1);
    bench.shrink(&[0, 1], &[0]);
    assert_eq!((bench.fake.sets.get(), bench.reclaim.asked()), (0, 0));
}

#[test]
fn a_crowd_is_squeezed_in_parts_and_wholly() {
    let crowd = BUDGET + 9;
    let mut bench = Bench::new(0);
    for index in 1..=crowd {
        let sleeper = sleeper();
        bench.publish(index, sleeper.tid);
        bench.fake.masks.borrow_mut().insert(sleeper.tid.0, set("1"));
        bench.sleepers.push(sleeper);
    }
    bench.shrink(&[0, 1], &[0]);
    assert_eq!(bench.fake.sets.get(), BUDGET);
    assert_eq!(bench.reclaim.deadline(), Some(10), "it is still due");
    bench.squeeze(&[0], 10);
    assert_eq!((bench.fake.sets.get(), bench.reclaim.deadline()), (crowd, None));
}

#[test]
fn a_call_that_fails_leaves_the_thread_and_the_books_as_they_were() {
    for call in ["sched_getaffinity", "sched_setaffinity"] {
        for errno in [Errno::EPERM, Errno::EINVAL, Errno::ESRCH, Errno::ENOMEM, Errno::EINTR] {
            let mut bench = Bench::new(2);
            bench.give(&[], &[0, 1, 2], 0);
            bench.give(&[0, 1, 2], &[0], 10);
            bench.fake.fails.set(Some((call, errno as i32)));
            bench.squeeze(&[0], 10);
            bench.fake.fails.set(None);
            assert_eq!((bench.mask(1), bench.mask(2)), ("1".into(), "2".into()), "{call} {errno}");
            assert_eq!(
                (bench.reclaim.preempted(), bench.reclaim.squeezes()),
                (0, 0),
                "{call} {errno}"
            );
            assert_eq!(bench.reclaim.deadline(), None, "it is not tried for ever: {call} {errno}");
        }
    }
}

#[test]
fn a_thread_that_cannot_be_squeezed_is_named_once_until_it_could_be() {
    for (call, says) in
        [("sched_getaffinity", "cannot be read"), ("sched_setaffinity", "cannot be squeezed")]
    {
        let mut bench = Bench::new(1);
        bench.give(&[], &[0, 1], 0);
        let fails = |bench: &mut Bench, times: u64| {
            bench.fake.fails.set(Some((call, Errno::EPERM as i32)));
            for round in 0..times {
                bench.give(&[0, 1], &[0], 100 + round);
                bench.squeeze(&[0], 100 + round);
                bench.give(&[0], &[0, 1], 100 + round);
            }
            bench.fake.fails.set(None);
        };
        let lines = logged(|| fails(&mut bench, 5));
        assert_eq!(lines.len(), 1, "{call}: {lines:?}");
        assert!(lines[0].contains(says), "{call}: {lines:?}");
        bench.shrink(&[0, 1], &[0]);
        assert_eq!(bench.reclaim.squeezes(), 1);
        bench.give(&[0], &[0, 1], 50);
        let lines = logged(|| fails(&mut bench, 5));
        assert_eq!(lines.len(), 1, "{call}, after it was well: {lines:?}");
    }
}
