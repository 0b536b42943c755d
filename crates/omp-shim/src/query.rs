//! What programs may ask about where they are, and the control variables that they may set.

pub(crate) mod display;
pub(crate) mod places;

use crate::frame::Frame;
use crate::schedule::{Kind, Schedule};
use crate::settings::{SUPPORTED_LEVELS, settings};
use platform::clock::monotonic_ns;

/// Seconds on a clock that never goes back.
pub(crate) fn wall_time() -> f64 {
    monotonic_ns() as f64 * 1e-9
}

/// Seconds between two ticks of that clock.
pub(crate) fn wall_tick() -> f64 {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 1 };
    // SAFETY: a place for the result.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC, &mut resolution) };
    resolution.tv_sec as f64 + resolution.tv_nsec as f64 * 1e-9
}

/// Processors of the original mask (D4).
pub(crate) fn processors() -> i32 {
    int(settings().processors())
}

/// A count as C's `int`.
pub(crate) fn int(count: impl TryInto<i32>) -> i32 {
    count.try_into().unwrap_or(i32::MAX)
}

/// `omp_set_num_threads`.
pub(crate) fn set_num_threads(frame: &Frame, threads: i32) {
    frame.change_icvs(|icvs| {
        icvs.num_threads = u32::try_from(threads).unwrap_or(1).max(1);
        icvs.dynamic = icvs.dynamic.after_a_number();
    });
}

/// Threads that a region without num_threads would get, were it not for grants (D4); the thread's
/// next one does get them.
pub(crate) fn max_threads(frame: &Frame) -> i32 {
    frame.promised.set(true);
    int(frame.icvs().num_threads)
}

/// True inside a region of more than one thread.
pub(crate) fn in_parallel(frame: &Frame) -> bool {
    frame.team().active_level() > 0
}

/// `omp_set_nested`: on = as many levels as we support, off = one.
pub(crate) fn set_nested(frame: &Frame, on: bool) {
    frame.change_icvs(|icvs| {
        icvs.max_active_levels = if on { SUPPORTED_LEVELS } else { icvs.max_active_levels.min(1) };
    });
}

/// True when a region here could be active inside an active one.
pub(crate) fn nested(frame: &Frame) -> bool {
    let levels = frame.icvs().max_active_levels;
    levels > 1 && levels > frame.team().active_level()
}

/// `omp_set_max_active_levels`; negative numbers are ignored.
pub(crate) fn set_max_active_levels(frame: &Frame, levels: i32) {
    if let Ok(levels) = u32::try_from(levels) {
        frame.change_icvs(|icvs| icvs.max_active_levels = levels.min(SUPPORTED_LEVELS));
    }
}

/// `omp_set_schedule`; kinds that do not exist are ignored. The top bit of the kind is the
/// modifier.
pub(crate) fn set_schedule(frame: &Frame, kind: u32, chunk: i32) {
    let Some(known) = Kind::from_number(kind & !MONOTONIC) else { return };
    let chunk = match (known, u64::try_from(chunk).unwrap_or(0)) {
        (Kind::Static, chunk) => chunk,
        (Kind::Auto, _) => frame.icvs().schedule.chunk,
        (_, chunk) => chunk.max(1),
    };
    frame.change_icvs(|icvs| {
        icvs.schedule = Schedule { kind: known, chunk, monotonic: kind & MONOTONIC != 0 }
    });
}

/// The bit of `omp_sched_monotonic`.
const MONOTONIC: u32 = 1 << 31;

/// Kind with modifier, and chunk.
pub(crate) fn schedule(frame: &Frame) -> (u32, i32) {
    let schedule = frame.icvs().schedule;
    (schedule.kind as u32 | if schedule.monotonic { MONOTONIC } else { 0 }, int(schedule.chunk))
}

/// Runs `look` with the frame of the ancestor at `level`; `None` when there is no such level.
fn at_level<R>(frame: &Frame, level: i32, look: impl FnOnce(&Frame) -> R) -> Option<R> {
    let wanted = u32::try_from(level).ok().filter(|level| *level <= frame.team().level())?;
    let mut frame = frame;
    while frame.team().level() > wanted {
        frame = frame.parent()?;
    }
    Some(look(frame))
}

/// The thread number of the ancestor at `level`, or -1.
pub(crate) fn ancestor(frame: &Frame, level: i32) -> i32 {
    at_level(frame, level, |frame| int(frame.id)).unwrap_or(-1)
}

/// The team size of the ancestor at `level`, or -1.
pub(crate) fn team_size(frame: &Frame, level: i32) -> i32 {
    at_level(frame, level, |frame| int(frame.size)).unwrap_or(-1)
}

/// True when cancellation is on.
pub(crate) fn cancellation() -> bool {
    settings().environment.cancellation
}
