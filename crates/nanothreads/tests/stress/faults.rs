//! Steps that panic on purpose: the payload reaches the thread that joins, no thread waits for
//! ever, and nothing is lost.

use crate::loops::schedule;
use crate::random::{Random, fold, mix};
use crate::slots::Slots;
use crate::step::work;
use nanothreads::{Schedule, broadcast, doacross, join, par_for, pipeline, scope, sections};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Where the panic is.
#[derive(Clone, Copy, Debug)]
enum Place {
    Loop(Schedule),
    Ordered(Schedule),
    Doacross,
    Pipeline,
    Broadcast,
    Join,
    Section,
    Task,
    /// No panic: the tasks of a cancelled handle do not start.
    Cancel,
}

#[derive(Debug)]
pub(crate) struct Fault {
    place: Place,
    seed: u64,
    /// Iterations, and which of them panics.
    length: usize,
    at: usize,
}

/// The payload of a planted panic. It is thrown by `resume_unwind`, which prints nothing.
struct Planted(u64);

impl Fault {
    pub(crate) fn random(random: &mut Random) -> Self {
        let place = match random.below(9) {
            0 => Place::Loop(schedule(random)),
            1 => Place::Ordered(schedule(random)),
            2 => Place::Doacross,
            3 => Place::Pipeline,
            4 => Place::Broadcast,
            5 => Place::Join,
            6 => Place::Section,
            7 => Place::Task,
            _ => Place::Cancel,
        };
        let length = 1 + random.below(60);
        Self { place, seed: random.next(), length, at: random.below(length) }
    }

    pub(crate) fn expected(&self) -> u64 {
        match self.place {
            // Those before and beside the task that panics run, its successors do not.
            Place::Task => fold([mix(self.seed), 1, 0, 1]),
            Place::Cancel => 0,
            _ => mix(self.seed),
        }
    }

    fn panic_at(&self, i: usize) {
        work(self.seed ^ i as u64);
        if i == self.at {
            resume_unwind(Box::new(Planted(mix(self.seed))));
        }
    }

    pub(crate) fn run(&self) -> u64 {
        let (range, one) = (0..self.length, NonZeroUsize::MIN);
        let ran = Slots::new(3);
        let outcome = catch_unwind(AssertUnwindSafe(|| match self.place {
            Place::Loop(schedule) => par_for(range).schedule(schedule).run(|i| self.panic_at(i)),
            Place::Ordered(schedule) => {
                par_for(range)
                    .schedule(schedule)
                    .ordered(|i, order| order.wait_turn(|| self.panic_at(i)));
            }
            Place::Doacross => doacross(range).chunks(one).run(|i, cross| {
                cross.wait_back(1 + self.at % 3);
                self.panic_at(i);
            }),
            Place::Pipeline => pipeline(range, 0..20).run(|outer, inner| {
                if inner.contains(&(self.at % 20)) {
                    outer.for_each(|o| self.panic_at(o));
                }
            }),
            Place::Broadcast => broadcast(|member| {
                if member.id == 0 {
                    self.panic_at(self.at);
                }
            }),
            Place::Join if self.seed.is_multiple_of(2) => {
                let _ = join(|| self.panic_at(self.at), || work(self.seed));
            }
            Place::Join => {
                let _ = join(|| work(self.seed), || self.panic_at(self.at));
            }
            Place::Section => {
                let first = || self.panic_at(self.at);
                sections().add(first).add(|| _ = work(self.seed)).run();
            }
            Place::Task => scope(|s| {
                let ran = &ran;
                let fails = s.task().spawn(|_| {
                    ran.set(0, 1);
                    self.panic_at(self.at);
                });
                s.task().depends_on(&fails).spawn(move |_| ran.set(1, 1));
                s.spawn(move |_| ran.set(2, 1));
            }),
            Place::Cancel => {
                let started = AtomicU32::new(0);
                scope(|s| {
                    s.cancel();
                    (0..self.length).for_each(|_| {
                        s.spawn(|_| {
                            started.fetch_add(1, Relaxed);
                        });
                    });
                });
                ran.set(0, u64::from(started.into_inner()));
            }
        }));
        let value = match outcome {
            Ok(()) if matches!(self.place, Place::Cancel) => return ran.get(0),
            Ok(()) => panic!("the planted panic was lost: {self:#?}"),
            Err(payload) => match payload.downcast::<Planted>() {
                Ok(planted) => planted.0,
                Err(other) => resume_unwind(other),
            },
        };
        if matches!(self.place, Place::Task) {
            fold([value].into_iter().chain(ran.values()))
        } else {
            value
        }
    }
}
