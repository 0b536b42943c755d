//! A model of the gate between a fault handler and the owner of what it looks at: what a handler
//! found is whole and not freed while it looks. Without one of the orderings it is not.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --profile bench -p nanothreads-upm --test loom_gate \
//!     --target-dir target/loom
//! ```
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use platform::model::{RACE, explore, is_needed};
use platform::sync::HandCell;
use upm::gate::Gate;

/// What the handler reads, and the owner ends.
struct Table(HandCell<u32>);

#[test]
fn what_a_handler_finds_is_whole_and_there() {
    explore(|| {
        let gate = Arc::new(Gate::new());
        let handler = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || {
                gate.visit(|table: &Table| {
                    // SAFETY: - the model shows that no other thread writes it now.
                    let value = unsafe { table.0.with(|value| *value) };
                    assert_eq!(value, 7);
                })
            })
        };
        let table = Table(HandCell::new(0));
        // SAFETY: - no other thread knows it.
        unsafe { table.0.with_mut(|value| *value = 7) };
        assert!(gate.enter(Box::new(table)).is_ok());
        let table = gate.leave(|| true).expect("this thread put it there");
        // SAFETY: - the model shows that no handler reads it now.
        unsafe { table.0.with_mut(|value| *value = 0) };
        handler.join().unwrap();
        assert!(gate.leave(|| true).is_none());
    });
}

#[test]
fn each_ordering_of_the_gate_is_needed() {
    let tags = [
        ("gate.enter", RACE),
        ("gate.find", RACE),
        ("gate.visit", RACE),
        ("gate.leave", RACE),
        ("gate.out", RACE),
        ("gate.wait", RACE),
    ];
    is_needed("what_a_handler_finds_is_whole_and_there", "src/gate.rs", &tags);
}
