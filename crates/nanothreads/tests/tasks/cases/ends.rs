//! Handles that are used while what they belong to ends, and after that.

use super::team;
use nanothreads::{Canceller, scope};
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::thread;

/// Counts how many of it live.
struct Counted<'a>(&'a AtomicIsize);

impl<'a> Counted<'a> {
    fn new(live: &'a AtomicIsize) -> Self {
        live.fetch_add(1, Relaxed);
        Self(live)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[test]
fn spawners_and_completions_hold_a_scope_open_whose_body_has_ended() {
    own_process!();
    team();
    for _ in 0..500 {
        let count = AtomicUsize::new(0);
        let ran = || _ = count.fetch_add(1, Relaxed);
        thread::scope(|threads| {
            scope(|s| {
                // The outer one often comes when all others of the scope have ended, the inner
                // ones when their task has.
                let (completion, spawner) = (s.completion(), s.spawner());
                threads.spawn(move || {
                    completion.complete();
                    (0..3).for_each(|_| spawner.spawn(move |_| ran()));
                });
                s.spawn(move |s| {
                    let (completion, spawner) = (s.completion(), s.spawner());
                    threads.spawn(move || {
                        spawner.spawn(move |s| s.spawn(move |_| ran()));
                        drop(spawner);
                        drop(completion);
                    });
                });
            });
            assert_eq!(count.load(Relaxed), 4);
        });
    }
}

#[test]
fn cancellers_of_other_threads_come_while_what_they_cancel_ends_and_after_it() {
    own_process!();
    team();
    let live = AtomicIsize::new(0);
    for _ in 0..200 {
        let (sender, receiver) = channel::<Canceller>();
        thread::scope(|threads| {
            threads.spawn(|| {
                let all: Vec<_> = receiver.into_iter().inspect(Canceller::cancel).collect();
                // The scope has ended.
                for canceller in all {
                    canceller.cancel();
                    assert!(!canceller.is_cancelled());
                }
            });
            scope(|s| {
                let send = |canceller| sender.send(canceller).expect("the thread takes all");
                send(s.canceller());
                for _ in 0..20 {
                    let (counted, sender) = (Counted::new(&live), sender.clone());
                    s.spawn(move |s| {
                        let counted = counted;
                        sender.send(s.canceller()).expect("the thread takes all");
                        s.group(|g| {
                            sender.send(g.canceller()).expect("the thread takes all");
                            g.spawn(move |_| drop(counted));
                        });
                    });
                }
            });
            assert_eq!(live.load(Relaxed), 0);
            drop(sender);
        });
    }
}

#[test]
fn what_is_cancelled_at_any_depth_drops_what_it_captured_and_inner_scopes_end() {
    own_process!();
    team();
    let (live, begun) = (AtomicIsize::new(0), AtomicUsize::new(0));
    let (live, begun) = (&live, &begun);
    for guilty in 0..30 {
        let kept = Mutex::new(Vec::new());
        let keep = |canceller: &Canceller| kept.lock().unwrap().push(canceller.clone());
        scope(|s| {
            let canceller = s.canceller();
            keep(&canceller);
            for number in 0..30 {
                let (canceller, counted) = (canceller.clone(), Counted::new(live));
                s.spawn(move |s| {
                    let _counted = counted;
                    begun.fetch_add(1, Relaxed);
                    scope(|inner| {
                        for part in 0..8 {
                            let (canceller, counted) = (canceller.clone(), Counted::new(live));
                            inner.spawn(move |s| {
                                let _counted = counted;
                                if (number, part) == (guilty, 3) {
                                    canceller.cancel();
                                }
                                s.group(|g| {
                                    let own = g.canceller();
                                    keep(&own);
                                    for _ in 0..4 {
                                        let (own, counted) = (own.clone(), Counted::new(live));
                                        g.spawn(move |_| {
                                            drop(counted);
                                            own.cancel();
                                        });
                                    }
                                    g.wait();
                                });
                            });
                        }
                    });
                    s.group(|g| {
                        g.cancel();
                        let counted = Counted::new(live);
                        g.spawn(move |_| {
                            drop(counted);
                            unreachable!("its group was cancelled before");
                        });
                    });
                });
            }
        });
        assert_eq!(live.load(Relaxed), 0);
        for canceller in kept.into_inner().unwrap() {
            canceller.cancel();
            assert!(!canceller.is_cancelled(), "what it was of has ended");
        }
    }
    assert!(begun.load(Relaxed) >= 30, "in each round one at least");
}
