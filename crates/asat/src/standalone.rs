//! The call for programs whose threads are their own: how many the next parallel part is to have.
//!
//! The engine's threads serve for the tests alone, and sleep otherwise. They are made at the first
//! call. The program calls while its own threads have nothing to do, as the paper's programs do
//! before each parallel part; else it finds itself.
//!
//! Where a manager is followed, its grant is the answer.

use crate::calls::Calls;
use crate::settings::Settings;
use crate::sizer::Asat;
use engine::process::Born;
use engine::{Team, TeamSizer};
use std::ptr;
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{AcqRel, Acquire},
};

/// What answers in the process in which it was made.
struct Standalone {
    asat: Asat,
    calls: Calls,
    born: Born,
}

/// Leaked: one for each process.
static STANDALONE: AtomicPtr<Standalone> = AtomicPtr::new(ptr::null_mut());

/// How many threads, of at most `most`, the calling program's next parallel part is to have. The
/// first call makes the engine's threads, and takes what `settings` says. Once in the settings'
/// interval the call takes some milliseconds for a test; else it returns at once. By default the
/// interval is a second where less is set; that of [`Settings::paper`] and [`Settings::reset`] is
/// as it is set. Inside a region of the engine, and in work that waits for the caller, there is no
/// test.
///
/// ```
/// for _ in 0..3 {
///     let threads = asat::adjust_threads(4, asat::Settings::default);
///     assert!((1..=4).contains(&threads));
/// }
/// ```
pub fn adjust_threads(most: usize, settings: impl FnOnce() -> Settings) -> usize {
    let most = most.max(1);
    // ORDERING: Acquire - pairs with the AcqRel of `make`.
    // SAFETY: - null, or leaked by `make`.
    let standalone = match unsafe { STANDALONE.load(Acquire).as_ref() } {
        Some(standalone) if !standalone.born.is_parents() => standalone,
        // A program that follows a manager has none.
        _ if engine::is_managed() => return engine::grant_for(most).min(most),
        _ => match make(settings()) {
            Some(standalone) => standalone,
            None => return 1,
        },
    };
    if standalone.calls.is_reading_due() {
        evaluate(&standalone.asat);
    }
    standalone.asat.limit().min(most)
}

/// Evaluates if that is due.
#[cold]
fn evaluate(asat: &Asat) {
    if asat.is_due()
        && let Some(moment) = engine::moment()
    {
        asat.refresh();
        asat.between_regions(&moment);
    }
}

/// Makes the answering object and the engine's threads; `None` inside a region, where no thread is
/// made.
#[cold]
fn make(settings: Settings) -> Option<&'static Standalone> {
    engine::moment()?;
    let asat = Asat::new(settings.for_own_threads());
    asat.publish();
    // Its threads stay; they are not run yet.
    let _team = Team::reserve_available(asat.limit());
    let fresh =
        Box::into_raw(Box::new(Standalone { asat, calls: Calls::default(), born: Born::now() }));
    // ORDERING: AcqRel - publishes what was made; what another thread made meanwhile is left to the
    // threads that use it.
    STANDALONE.swap(fresh, AcqRel);
    // SAFETY: - leaked just now.
    Some(unsafe { &*fresh })
}
