//! Panics travel to the joiner, with their payload; no thread is lost.

use super::team;
use nanothreads::{Scope, broadcast, scope};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{self, ThreadId};

/// Unwinds with `number` without a message on the terminal.
fn fail(number: u32) -> ! {
    resume_unwind(Box::new(number))
}

fn number_of(payload: &(dyn Any + Send)) -> Option<u32> {
    payload.downcast_ref().copied()
}

/// The payload of `body`'s panic.
fn caught<R>(body: impl FnOnce() -> R) -> Option<u32> {
    catch_unwind(AssertUnwindSafe(body)).err().and_then(|payload| number_of(&*payload))
}

fn members() -> Vec<ThreadId> {
    let ids = Mutex::new(Vec::new());
    broadcast(|member| {
        ids.lock().expect("no member panics").push((member.id, thread::current().id()))
    });
    let mut ids = ids.into_inner().expect("no member panics");
    ids.sort_by_key(|&(id, _)| id);
    ids.into_iter().map(|(_, thread)| thread).collect()
}

#[test]
fn the_payload_of_a_task_reaches_the_caller_after_all_tasks_and_no_virtual_processor_is_lost() {
    own_process!(alone);
    team();
    let before = members();
    for guilty in 0..20 {
        let count = AtomicUsize::new(0);
        let got = caught(|| {
            scope(|s| {
                let count = &count;
                for number in 0..20 {
                    s.spawn(move |s| {
                        count.fetch_add(1, Relaxed);
                        s.spawn(move |s| {
                            s.yield_now();
                            count.fetch_add(1, Relaxed);
                        });
                        if number == guilty {
                            fail(number);
                        }
                    });
                }
            });
        });
        assert_eq!((got, count.into_inner()), (Some(guilty), 40));
    }
    assert_eq!(members(), before);
}

#[test]
fn the_body_s_own_panic_goes_before_those_of_tasks() {
    own_process!();
    team();
    let ran = AtomicUsize::new(0);
    let got = caught(|| {
        scope(|s| {
            s.spawn(|_| {
                ran.fetch_add(1, Relaxed);
                fail(2);
            });
            fail(1);
        })
    });
    assert_eq!((got, ran.into_inner()), (Some(1), 1));
}

#[test]
fn a_nano_thread_that_waits_gets_the_panic_of_its_child_and_may_stop_it() {
    own_process!();
    team();
    scope(|s| {
        for _ in 0..20 {
            s.spawn(|s| {
                s.spawn(|s| s.spawn(|_| fail(7)));
                assert_eq!(
                    caught(|| s.wait()),
                    Some(7),
                    "through the grandchild's creator, which did not wait"
                );
                s.wait();
                assert_eq!(caught(|| s.group(|g| g.spawn(|_| fail(8)))), Some(8));
                assert_eq!(caught(|| s.group(|_| fail(9))), Some(9));
                assert_eq!(s.group(|_| 10), 10);
            });
        }
    });
}

#[test]
fn what_depends_on_a_task_that_panicked_is_dropped_and_what_does_not_runs() {
    own_process!();
    team();
    let ran = AtomicUsize::new(0);
    let value = 0;
    let got = caught(|| {
        scope(|s| {
            let (ran, value) = (&ran, &value);
            let bad = s.task().writes(value).spawn(|s| {
                s.yield_now();
                s.spawn(|_| fail(3));
            });
            let after = s.task().depends_on(&bad).spawn(move |_| {
                ran.fetch_add(100, Relaxed);
            });
            s.task().depends_on(&after).spawn(move |_| {
                ran.fetch_add(100, Relaxed);
            });
            s.task().reads(value).spawn(move |_| {
                ran.fetch_add(100, Relaxed);
            });
            s.task().spawn(move |_| {
                ran.fetch_add(1, Relaxed);
            });
            while !after.is_finished() {
                s.yield_now();
            }
            // Also when the failure is known at the creation already.
            s.task().depends_on(&after).spawn(move |_| {
                ran.fetch_add(100, Relaxed);
            });
            s.task().reads(value).spawn(move |_| {
                ran.fetch_add(100, Relaxed);
            });
        });
    });
    assert_eq!((got, ran.into_inner()), (Some(3), 1));
}

#[test]
fn a_destructor_that_panics_in_a_dropped_task_is_reported_too() {
    own_process!();
    team();
    struct Fails;
    impl Drop for Fails {
        fn drop(&mut self) {
            fail(4);
        }
    }
    let got = caught(|| {
        scope(|s| {
            s.cancel();
            let fails = Fails;
            s.spawn(move |_| drop(fails));
        });
    });
    assert_eq!(got, Some(4));
}

#[test]
fn impossible_predecessors_are_refused_with_the_reason() {
    own_process!();
    team();
    let text = |body: &mut dyn FnMut()| {
        let payload = catch_unwind(AssertUnwindSafe(body)).expect_err("refused");
        payload
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| payload.downcast_ref::<&str>().map(|&text| text.into()))
    };
    let own = Mutex::new(None);
    let refused = AtomicUsize::new(0);
    let text = &text;
    scope(|s| {
        let (own, refused) = (&own, &refused);
        let task = s.task().spawn(move |s| {
            let me = loop {
                if let Some(me) = own.lock().unwrap().take() {
                    break me;
                }
                s.yield_now();
            };
            let reason = text(&mut || drop(s.task().depends_on(&me))).expect("a message");
            assert!(reason.contains("ancestor"), "{reason}");
            scope(|inner| {
                let reason = text(&mut || drop(inner.task().depends_on(&me))).expect("a message");
                assert!(reason.contains("another scope"), "{reason}");
            });
            refused.fetch_add(1, Relaxed);
        });
        *own.lock().unwrap() = Some(task);
    });
    assert_eq!(refused.into_inner(), 1);
}

#[test]
fn a_finished_task_of_an_earlier_scope_is_no_obstacle() {
    own_process!();
    team();
    let old = scope(|s| s.task().spawn(|_| ()));
    assert!(old.is_finished());
    let ran = AtomicUsize::new(0);
    scope(|s| {
        s.task().depends_on(&old).spawn(|_| {
            ran.fetch_add(1, Relaxed);
        });
    });
    assert_eq!(ran.into_inner(), 1);
}

#[test]
fn a_destructor_waits_and_forks_tasks_while_its_task_unwinds() {
    own_process!();
    team();
    struct Waits<'a, 'scope>(&'a Scope<'scope>, &'a AtomicUsize);
    impl Drop for Waits<'_, '_> {
        fn drop(&mut self) {
            self.0.yield_now();
            self.0.wait();
            let count = self.1;
            self.0.group(|s| s.spawn(|_| _ = count.fetch_add(1, Relaxed)));
        }
    }
    for _ in 0..20 {
        let count = &AtomicUsize::new(0);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            scope(|s| {
                for number in 0..20 {
                    s.spawn(move |s| {
                        let _waits = Waits(s, count);
                        s.spawn(|s| {
                            s.yield_now();
                            count.fetch_add(1, Relaxed);
                        });
                        if number % 3 == 0 {
                            fail(number);
                        }
                    });
                }
            });
        }));
        assert!(caught.is_err(), "seven tasks panic");
        assert_eq!(count.load(Relaxed), 40);
    }
}
