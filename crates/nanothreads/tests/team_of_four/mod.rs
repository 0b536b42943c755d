//! Four processors for the tests of a process, which run at the same time.

use engine::sizer::Fixed;
use nanothreads::{Alpha, Schedule, broadcast};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// This process has four processors, which the masters of all tests that run at the same time
/// share.
pub(crate) fn four() -> RwLockReadGuard<'static, ()> {
    fix_team_size();
    MASTERS.read().unwrap_or_else(PoisonError::into_inner)
}

/// As [`four`], for tests that need all four for themselves.
pub(crate) fn four_alone() -> RwLockWriteGuard<'static, ()> {
    fix_team_size();
    let masters = MASTERS.write().unwrap_or_else(PoisonError::into_inner);
    // The threads of the tests before count until they have ended (D6).
    while nanothreads::Team::available().size() != 4 {
        std::thread::yield_now();
    }
    masters
}

static MASTERS: RwLock<()> = RwLock::new(());

fn fix_team_size() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| assert!(nanothreads::builder().sizer(Fixed::new(4)).install().is_ok()));
}

/// A number that is not 0.
pub(crate) fn n(value: usize) -> NonZeroUsize {
    NonZeroUsize::new(value).expect("not 0")
}

/// One of each kind.
pub(crate) fn schedules() -> Vec<Schedule> {
    vec![
        Schedule::Static,
        Schedule::StaticChunks(n(7)),
        Schedule::PURE,
        Schedule::Dynamic(n(7)),
        Schedule::Guided(n(3)),
        Schedule::Trapezoid,
        Schedule::TrapezoidFrom { first: n(20), last: n(3) },
        Schedule::Safe(Alpha::HALF),
        Schedule::Factoring,
        Schedule::Affinity,
        Schedule::Auto,
    ]
}

/// The text of the panic with which `body` ends.
pub(crate) fn panic_of(body: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(body)).expect_err("the panic reaches the caller");
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => {
            (*payload.downcast_ref::<&str>().expect("the payload is the body's")).to_owned()
        }
    }
}

/// All workers are back: four members answer a broadcast. Not at once where the thread
/// of a test before, which slept when [`four_alone`] looked, is about to end: it counts while it
/// runs (D6).
pub(crate) fn four_answer() {
    let begin = std::time::Instant::now();
    while members() != 4 {
        assert!(begin.elapsed().as_secs() < 20, "{} members answer", members());
        std::thread::yield_now();
    }
}

/// Members that answer a broadcast.
pub(crate) fn members() -> u32 {
    let seen = AtomicU32::new(0);
    broadcast(|_| {
        seen.fetch_add(1, Relaxed);
    });
    seen.into_inner()
}
