//! Faults planted on purpose, one a test, which a sanitizer must report: `cargo xtask san` runs
//! each in a process of its own and fails when nothing is reported. Nothing of this is compiled
//! without a sanitizer.
//!
//! They go through the engine, so that a report shows that the sanitizer follows what the engine
//! does: its threads, its stacks, its orderings.
#![cfg(any(tsan, asan))]

use std::cell::UnsafeCell;
use std::ptr;

/// Memory that all threads use, without any protection.
struct Bare(UnsafeCell<u64>);

// SAFETY: - none: that is the fault.
unsafe impl Sync for Bare {}

impl Bare {
    fn change(&self) {
        // SAFETY: - in bounds and aligned; the race is planted.
        unsafe { ptr::write_volatile(self.0.get(), ptr::read_volatile(self.0.get()) + 1) }
    }
}

fn four() {
    assert!(nanothreads::builder().sizer(engine::sizer::Fixed::new(4)).install().is_ok());
}

#[cfg(tsan)]
mod races {
    use super::{Bare, UnsafeCell, four};
    use nanothreads::{broadcast, scope};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    #[ignore = "a planted race"]
    fn members_that_change_a_value_at_once() {
        four();
        let value = Bare(UnsafeCell::new(0));
        broadcast(|_| value.change());
    }

    #[test]
    #[ignore = "a planted race"]
    fn a_relaxed_flag_that_publishes() {
        four();
        let (value, flag) = (Bare(UnsafeCell::new(0)), AtomicBool::new(false));
        broadcast(|member| match member.id {
            0 => {
                value.change();
                flag.store(true, Relaxed);
            }
            1 => {
                while !flag.load(Relaxed) {
                    std::thread::yield_now();
                }
                value.change();
            }
            _ => {}
        });
    }

    #[test]
    #[ignore = "a planted race"]
    fn nano_threads_without_a_dependence() {
        four();
        let (value, begun) =
            (Bare(UnsafeCell::new(0)), [AtomicBool::new(false), AtomicBool::new(false)]);
        scope(|s| {
            for me in 0..2 {
                let (value, begun) = (&value, &begun);
                s.spawn(move |_| {
                    // Neither goes on, nor leaves its thread, before both have begun: they are on
                    // two threads.
                    begun[me].store(true, Relaxed);
                    while !begun[1 - me].load(Relaxed) {
                        std::thread::yield_now();
                    }
                    value.change();
                });
            }
        });
    }
}

#[cfg(asan)]
mod addresses {
    use super::{Bare, UnsafeCell, four};
    use nanothreads::{broadcast, scope};
    use std::hint::black_box;

    #[test]
    #[ignore = "a planted use after free"]
    fn a_member_that_uses_what_was_freed() {
        four();
        let value = Box::into_raw(Box::new(Bare(UnsafeCell::new(0)))).expose_provenance();
        // SAFETY: - the first free.
        drop(unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<Bare>(value)) });
        // SAFETY: - none: the use after free is planted.
        broadcast(|_| unsafe { &*std::ptr::with_exposed_provenance::<Bare>(value) }.change());
    }

    #[test]
    #[ignore = "a planted overflow"]
    fn a_nano_thread_that_writes_beyond_an_array_on_its_stack() {
        four();
        scope(|s| {
            s.spawn(|s| {
                let mut array = black_box([0_u64; 4]);
                s.yield_now();
                // SAFETY: - none: one element too far is planted.
                unsafe { array.as_mut_ptr().add(black_box(4)).write_volatile(1) };
                black_box(&array);
            });
        });
    }
}
