//! Loops whose members wait for each other, with many more threads than processors: waiting members
//! sleep.
//!
//! Each test has a process to itself, because mask and team size belong to the process.

use engine::sizer::Fixed;
use nanothreads::{Schedule, doacross, par_for, pipeline, pipeline_2d};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

const MEMBERS: usize = 64;

/// This process has teams of 64.
fn oversubscribe() {
    assert!(nanothreads::builder().sizer(Fixed::new(MEMBERS)).install().is_ok());
}

fn n(value: usize) -> NonZeroUsize {
    NonZeroUsize::new(value).expect("not 0")
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().expect("no test panics with the lock")
}

fn into_inner<T>(value: Mutex<T>) -> T {
    value.into_inner().expect("no test panics with the lock")
}

fn loops_that_wait() {
    for schedule in
        [Schedule::StaticChunks(n(1)), Schedule::Dynamic(n(3)), Schedule::Affinity, Schedule::Auto]
    {
        let seen = Mutex::new(Vec::new());
        par_for(0..300).schedule(schedule).ordered(|i, order| {
            if i % 5 != 2 {
                order.wait_turn(|| lock(&seen).push(i));
            }
        });
        let in_order: Vec<_> = (0..300).filter(|i| i % 5 != 2).collect();
        assert_eq!(into_inner(seen), in_order, "{schedule:?}");
    }
    let sum = AtomicUsize::new(0);
    doacross(0..300).run(|i, cross| {
        cross.wait_back(1);
        sum.store(sum.load(Relaxed) * 3 % 1_000_003 + i, Relaxed);
    });
    assert_eq!(sum.into_inner(), (0..300).fold(0, |sum, i| sum * 3 % 1_000_003 + i));
    let (blocks, most) = (AtomicUsize::new(0), Mutex::new(0));
    pipeline(0..MEMBERS, 0..10).blocks(n(10)).run(|outer, inner| {
        blocks.fetch_add(outer.len() * inner.len(), Relaxed);
        let mut most = lock(&most);
        *most = outer.start.max(*most);
    });
    assert_eq!(blocks.into_inner(), MEMBERS * 10);
    assert_eq!(into_inner(most), MEMBERS - 1, "each member had a part");
    let points = AtomicUsize::new(0);
    pipeline_2d(0..8, 0..8, 0..10).blocks(n(5)).run(|outer, middle, inner| {
        points.fetch_add(outer.len() * middle.len() * inner.len(), Relaxed);
    });
    assert_eq!(points.into_inner(), 8 * 8 * 10);
}

#[test]
fn sixty_four_members_on_one_processor_hand_their_turns_on() {
    own_process!(1);
    oversubscribe();
    loops_that_wait();
}

#[test]
fn sixty_four_members_on_two_processors_hand_their_turns_on() {
    own_process!(2);
    oversubscribe();
    loops_that_wait();
}

/// Processor time of this process so far, all threads.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("procfs is mounted");
    // The name may hold anything, and ends with the last parenthesis.
    let fields: Vec<_> =
        stat[stat.rfind(')').expect("the name is in parentheses") + 2..].split(' ').collect();
    let ticks: u64 =
        [11, 12].iter().map(|&at| fields[at].parse::<u64>().expect("a number of ticks")).sum();
    // A tick of /proc is 10 ms on all Linux systems that this runs on (USER_HZ).
    Duration::from_millis(ticks * 10)
}

/// Processor time that 63 members may spend while the first holds them up.
const ALLOWED: Duration = Duration::from_millis(150);

/// What they spend, at least: what others do on the processor may make their way to sleep long once
/// or twice, and members that do not sleep spend as much each time.
fn cost_of_waiting(hold_up: impl Fn(&(dyn Fn() + Sync))) -> Duration {
    const HELD_UP: Duration = Duration::from_millis(400);
    let least = Mutex::new(Duration::MAX);
    for _ in 0..3 {
        hold_up(&|| {
            let (start, before) = (Instant::now(), processor_time());
            // The hold-up itself: what is measured is what the others do meanwhile.
            while start.elapsed() < HELD_UP {
                std::thread::sleep(Duration::from_millis(50));
            }
            let spent = processor_time() - before;
            let mut least = lock(&least);
            *least = spent.min(*least);
        });
        if *lock(&least) < ALLOWED {
            break;
        }
    }
    into_inner(least)
}

fn waiting_costs_no_processor_time() {
    // Creates the threads.
    par_for(0..MEMBERS).run(|_| {});
    let ordered = cost_of_waiting(|hold_up| {
        par_for(0..MEMBERS).ordered(|i, order| {
            order.wait_turn(|| {
                if i == 0 {
                    hold_up();
                }
            });
        });
    });
    let pipelined = cost_of_waiting(|hold_up| {
        pipeline(0..MEMBERS, 0..1).run(|outer, _| {
            if outer.start == 0 {
                hold_up();
            }
        });
    });
    let crossed = cost_of_waiting(|hold_up| {
        doacross(0..MEMBERS).run(|i, cross| match i {
            0 => hold_up(),
            _ => cross.wait_back(1),
        });
    });
    println!(
        "waiting for 400 ms cost {ordered:?} (ordered), {pipelined:?} (pipelined), {crossed:?} \
         (doacross)"
    );
    assert!(
        [ordered, pipelined, crossed].iter().all(|&cost| cost < ALLOWED),
        "{ordered:?} {pipelined:?} {crossed:?}"
    );
}

#[test]
fn members_that_wait_for_their_turn_sleep() {
    own_process!(1);
    oversubscribe();
    waiting_costs_no_processor_time();
}
