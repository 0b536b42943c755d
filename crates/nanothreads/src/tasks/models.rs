//! Models of the nano-threads' shipped protocol types, driven by loom:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads --lib tasks::models`. Each has a
//! twin with a planted bug that loom must find.

mod creator;
mod inbox;
mod scheduler;
mod sleepers;
mod successors;
mod suspension;
mod targets;
mod vacancies;

use platform::sync::HandCell;

/// A plain value that a protocol hands over: loom reports accesses that nothing orders.
#[derive(Default)]
struct Data(HandCell<u32>);

// SAFETY: loom checks what the protocols under test promise.
unsafe impl Sync for Data {}
// SAFETY: as above.
unsafe impl Send for Data {}

impl Data {
    fn set(&self, value: u32) {
        // SAFETY: checked by loom.
        unsafe { self.0.with_mut(|cell| *cell = value) };
    }

    fn get(&self) -> u32 {
        // SAFETY: checked by loom.
        unsafe { self.0.with(|cell| *cell) }
    }
}
