//! The call for programs whose threads are their own: how many the next parallel part is to have.
//!
//! The engine's threads serve for the tests alone, and sleep otherwise. They are made at the first
//! call; for another calling thread, or where mask or quota became wider, before the next test. The
//! program calls while its own threads have nothing to do, as the paper's programs do before each
//! parallel part; else it finds itself.
//!
//! Where a manager is followed, its grant is the answer.

use crate::calls::Calls;
use crate::settings::Settings;
use crate::sizer::Asat;
use engine::process::Born;
use engine::sizer::Moment;
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

/// How many threads, of at most `most`, the calling program's next parallel part is to have; 0
/// counts as 1. The first call makes the engine's threads, and takes what `settings` says. Once in
/// the settings' interval the call takes some milliseconds for a test; else it returns at once. By
/// default the interval is a second where less is set; that of [`Settings::paper`] and
/// [`Settings::reset`] is as it is set. Tests take one part of the time in a hundred: after one
/// that took long the answer stays for a hundred times as long. Any thread may call; one that was
/// not the first gets threads of the engine for itself when it is to test. Inside a region of the
/// engine, beside regions of other threads, and in work that waits for the caller there is no test;
/// a first call inside a region answers 1.
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
    let known = STANDALONE.load(Acquire);
    // SAFETY: - null, or leaked by `make`.
    let standalone = match unsafe { known.as_ref() } {
        Some(standalone) if !standalone.born.is_parents() => standalone,
        // A program that follows a manager has none.
        _ if engine::is_managed() => return engine::grant_for(most).min(most),
        _ => match make(settings(), known) {
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
        asat.between_regions(&with_workers(moment, asat.most()));
    }
}

/// The same moment when the caller has the workers for a test of `most` threads: those of the first
/// call are another thread's, or are for a narrower mask.
fn with_workers(moment: Moment, most: usize) -> Moment {
    // Beside another master's regions there is no test: a master without workers is not the caller.
    let is_beside = moment.masters > usize::from(moment.workers > 0);
    if moment.workers + 1 >= most || is_beside {
        return moment;
    }
    let _team = Team::reserve_available(most);
    engine::moment().unwrap_or(moment)
}

/// Makes the answering object, in the place of `known`, and the engine's threads; `None` inside a
/// region, where no thread is made. Of several threads that call first one makes it for all.
#[cold]
fn make(settings: Settings, known: *mut Standalone) -> Option<&'static Standalone> {
    engine::moment()?;
    let asat = Asat::new(settings.for_own_threads());
    let fresh =
        Box::into_raw(Box::new(Standalone { asat, calls: Calls::default(), born: Born::now() }));
    // ORDERING: AcqRel - publishes what was made; Acquire - pairs with that of the thread that was
    // faster.
    match STANDALONE.compare_exchange(known, fresh, AcqRel, Acquire) {
        Ok(_) => {
            // SAFETY: - leaked just now.
            let standalone = unsafe { &*fresh };
            standalone.asat.publish();
            // Its threads stay; they are not run yet.
            let _team = Team::reserve_available(standalone.asat.limit());
            Some(standalone)
        }
        Err(other) => {
            // SAFETY: - no other thread has it.
            drop(unsafe { Box::from_raw(fresh) });
            // SAFETY: - leaked by the thread that was faster.
            Some(unsafe { &*other })
        }
    }
}
