//! Regions from anywhere: threads that the engine did not create, thread-local destructors, the
//! exit of the program; and panics in every construct, after which all processors still come.

use crate::process::{again, is_again, name_of, output_of};
use crate::team_of_four::{four, four_alone, four_answer, panic_of, schedules};
use nanothreads::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{LazyLock, mpsc};
use std::thread;

/// The sum of 0..1000, by a region.
fn sum() -> usize {
    par_for(0..1000).reduce(0, |i| i, |a, b| a + b)
}

const SUM: usize = 499_500;

/// Longer than a program takes to end.
#[cfg(feature = "tasks")]
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(600);

#[test]
fn threads_of_the_program_fork_regions_of_their_own() {
    own_process!();
    let _four = four();
    let sums: Vec<_> = thread::scope(|threads| {
        let running: Vec<_> =
            (0..6).map(|_| threads.spawn(|| (0..50).map(|_| sum()).max())).collect();
        running.into_iter().map(|thread| thread.join().expect("no region panics")).collect()
    });
    assert!(sums.iter().all(|&sum| sum == Some(SUM)));
}

#[test]
fn a_thread_local_destructor_forks_regions() {
    own_process!();
    let _four = four();
    struct Last(mpsc::Sender<(usize, usize)>);
    impl Drop for Last {
        fn drop(&mut self) {
            let team = Team::exact(3).expect("the system gives threads");
            let met = team.map(|member| (member.barrier(), member.id()).1).len();
            self.0.send((sum(), met)).expect("the test waits");
        }
    }
    thread_local!(static LAST: std::cell::RefCell<Vec<Last>> = const { std::cell::RefCell::new(Vec::new()) });
    let (sender, receiver) = mpsc::channel();
    for uses_the_engine_before in [true, false] {
        let sender = sender.clone();
        let ended = thread::spawn(move || {
            // Destructors run in some order: once the engine's state is made after this one, once
            // before.
            if uses_the_engine_before {
                assert_eq!(sum(), SUM);
            }
            LAST.with(|last| last.borrow_mut().push(Last(sender)));
            if !uses_the_engine_before {
                assert_eq!(sum(), SUM);
            }
        });
        ended.join().expect("no region panics");
        assert_eq!(receiver.recv().expect("the destructor ran"), (SUM, 3));
    }
}

#[cfg(feature = "tasks")]
#[test]
fn a_thread_local_destructor_has_tasks_and_sorts() {
    own_process!();
    let _four = four();
    struct Last(mpsc::Sender<(i32, bool, bool)>);
    impl Drop for Last {
        fn drop(&mut self) {
            let mut late = 0;
            thread::scope(|threads| {
                scope(|s| {
                    let (spawner, late) = (s.spawner(), &mut late);
                    s.spawn(move |s| {
                        s.suspend(|event| {
                            threads.spawn(move || {
                                spawner.spawn(|s| s.yield_now());
                                event.complete();
                            });
                        });
                        *late = spawn(|| join(|| 2, || 3).1).wait();
                    });
                });
            });
            let mut numbers: Vec<u32> = (0..30_000).rev().collect();
            par_sort(&mut numbers);
            let refused = catch_unwind(|| par_for(0..10).run(|i| assert!(i != 5, "planted")));
            let found = (late, numbers.is_sorted(), refused.is_err());
            self.0.send(found).expect("the test waits");
        }
    }
    use std::cell::RefCell;
    thread_local!(static LAST: RefCell<Option<Last>> = const { RefCell::new(None) });
    let (sender, receiver) = mpsc::channel();
    // The thread's destructors run in some order, also when it has ended by a panic.
    for (uses_before, panics) in [(true, false), (false, true), (false, false), (true, true)] {
        let sender = sender.clone();
        let ended = thread::spawn(move || {
            let uses = |now: bool| now.then(|| scope(|s| s.spawn(|_| drop(spawn(|| ())))));
            uses(uses_before);
            LAST.set(Some(Last(sender)));
            uses(!uses_before);
            assert!(!panics, "planted");
        });
        assert_eq!(ended.join().is_err(), panics);
        assert_eq!(receiver.recv().expect("the destructor ran"), (3, true, true));
    }
}

#[test]
fn a_thread_local_destructor_uses_storage() {
    own_process!();
    static VALUES: LazyLock<PerThread<u32>> = LazyLock::new(PerThread::default);
    struct Last(mpsc::Sender<u32>);
    impl Drop for Last {
        fn drop(&mut self) {
            let value = VALUES.with(|own| {
                *own += 1;
                *own
            });
            self.0.send(value).expect("the test waits");
        }
    }
    use std::cell::RefCell;
    thread_local!(static LAST: RefCell<Option<Last>> = const { RefCell::new(None) });
    let (sender, receiver) = mpsc::channel();
    for (uses_it_before, uses_it_after) in [(true, false), (false, true), (false, false)] {
        let sender = sender.clone();
        let ended = thread::spawn(move || {
            let set = |uses_it: bool| {
                if uses_it {
                    VALUES.with(|own| *own = 10)
                }
            };
            // Destructors run in some order: once the storage is used first before this one is
            // made, once after, once never.
            set(uses_it_before);
            LAST.set(Some(Last(sender)));
            set(uses_it_after);
        });
        ended.join().expect("the destructor does not panic");
        let value = receiver.recv().expect("the destructor ran");
        if uses_it_before || uses_it_after {
            assert_eq!(value, 11, "the thread's own value");
        }
    }
}

#[test]
fn the_exit_of_the_program_forks_regions_and_ends() {
    let test = name_of(&|| ());
    extern "C" fn at_exit() {
        println!(
            "at exit: {} {}",
            sum(),
            Team::exact(3).expect("the system gives threads").map(|_| ()).len()
        );
        #[cfg(feature = "tasks")]
        {
            let number = scope(|s| {
                s.spawn(|s| s.yield_now());
                s.group(|_| spawn(|| 5).wait())
            });
            println!("tasks at exit: {number}");
        }
    }
    if is_again(test) {
        assert_eq!(sum(), SUM);
        // SAFETY: - a function without arguments that does not unwind.
        assert_eq!(unsafe { libc::atexit(at_exit) }, 0);
        // While a region is open on other threads.
        thread::spawn(|| broadcast(|_| thread::park()));
        // And detached tasks run, and wait.
        #[cfg(feature = "tasks")]
        (0..20).for_each(|i| drop(spawn(move || thread::park_timeout(PATIENCE * (i % 2)))));
        std::process::exit(7);
    }
    let output = output_of(again(test));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains(&format!("at exit: {SUM} 3")),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    #[cfg(feature = "tasks")]
    assert!(text.contains("tasks at exit: 5"), "{text}");
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn a_panic_in_any_construct_loses_no_virtual_processor() {
    own_process!();
    let _four = four_alone();
    let mut data = vec![0; 100];
    let team = Team::exact(4).expect("the system gives threads");
    let values: PerThread<u32> = PerThread::default();
    let planted = |i: usize| assert!(i != 57, "planted");
    type Construct<'a> = (&'a str, Box<dyn FnMut() + 'a>);
    let mut constructs: Vec<Construct> = vec![
        (
            "broadcast",
            Box::new(|| broadcast(|member| assert!(member.id != member.size - 1, "planted"))),
        ),
        ("join", Box::new(|| join(|| (), || planted(57)).1)),
        (
            "nested join",
            Box::new(|| join(|| join(|| planted(57), || ()), || join(|| (), || ())).0.0),
        ),
        ("scope", Box::new(|| scope(|s| s.spawn(|s| s.spawn(|_| planted(57)))))),
        ("scope's body", Box::new(|| scope(|s| (s.spawn(|_| ()), planted(57)).1))),
        ("reduce", Box::new(|| par_for(0..100).reduce((), planted, |(), ()| ()))),
        ("par_for_2d", Box::new(|| par_for_2d(0..10, 0..10).run(|i, j| planted(10 * i + j)))),
        ("ordered", Box::new(|| par_for(0..100).ordered(|i, _| planted(i)))),
        ("sections", Box::new(|| sections().add(|| ()).add(|| planted(57)).run())),
        (
            "groups",
            Box::new(|| {
                groups().equal(2).run(|group| par_for(0..100).run(|i| planted(i + group.index())))
            }),
        ),
        ("installed", Box::new(|| team.install(|| par_for(0..100).run(planted)))),
        ("team", Box::new(|| team.run(|member| (planted(54 + member.id()), member.barrier()).1))),
        ("storage", Box::new(|| par_for(0..100).run(|i| values.with(|_| planted(i))))),
    ];
    for schedule in schedules() {
        constructs
            .push(("par_for", Box::new(move || par_for(0..100).schedule(schedule).run(planted))));
    }
    for (name, mut construct) in constructs {
        for _ in 0..3 {
            assert_eq!(panic_of(&mut construct), "planted", "{name}");
            for _ in 0..100 {
                four_answer();
            }
        }
    }
    let chunks = || {
        par_chunks_mut(&mut data, 10).run(|number, chunk| {
            planted(if number == 3 { 57 } else { 0 });
            chunk.fill(1);
        });
    };
    assert_eq!(panic_of(chunks), "planted");
    (0..100).for_each(|_| four_answer());
}

#[test]
fn a_panic_on_one_of_several_masters_stays_with_it() {
    own_process!();
    let _four = four();
    let good = AtomicUsize::new(0);
    thread::scope(|threads| {
        for id in 0..4 {
            let good = &good;
            threads.spawn(move || {
                for _ in 0..50 {
                    let run = || par_for(0..100).run(|i| assert!(id != 0 || i != 50, "planted"));
                    match catch_unwind(AssertUnwindSafe(run)) {
                        Ok(()) => good.fetch_add(1, Relaxed),
                        Err(_) => continue,
                    };
                }
            });
        }
    });
    assert_eq!(good.into_inner(), 150);
}

#[cfg(feature = "tasks")]
#[test]
fn the_program_ends_inside_a_task_while_other_threads_fork() {
    let test = name_of(&|| ());
    if is_again(test) {
        let (forked, forks) = mpsc::channel();
        for _ in 0..3 {
            let forked = forked.clone();
            thread::spawn(move || {
                loop {
                    assert_eq!(sum(), SUM);
                    assert_eq!(join(|| 1, || 2), (1, 2));
                    scope(|s| (0..10).for_each(|_| s.spawn(|s| s.yield_now())));
                    // The main thread waits for the first one of each.
                    let _ = forked.send(());
                }
            });
        }
        (0..3).for_each(|_| forks.recv().expect("they go on"));
        scope(|s| {
            for number in 0..10 {
                s.spawn(move |s| {
                    s.yield_now();
                    if number == 5 {
                        std::process::exit(7);
                    }
                });
            }
        });
        unreachable!("one of the tasks ends the program");
    }
    let output = output_of(again(test));
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{text}");
    assert!(!text.contains("panicked"), "{text}");
}
