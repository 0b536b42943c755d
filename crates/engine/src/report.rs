//! What each virtual processor is at: for whoever asks why a program does not go on.

use crate::engine_state::engine;
use std::fmt::Write;

/// What each virtual processor of the process is at, a line for each: whether it sleeps, and the numbers of its last work
/// in its supply line (supplied, claimed, done: `supplied` above `done` is work that it has, or that waits for it), and how often it arrived from works that were broadcast. The numbers change while they are read. For reports of programs that hang.
///
/// ```
/// # unsafe fn nothing(_: *const (), _: nanothreads_engine::Member) {}
/// // SAFETY: - `nothing` takes no data, and does not unwind.
/// unsafe { nanothreads_engine::Team::reserve(2).run(nothing, std::ptr::null()) };
/// let report = nanothreads_engine::report();
/// assert_eq!(report.lines().count(), nanothreads_engine::virtual_processors().len() + 1);
/// ```
pub fn report() -> String {
    let engine = engine();
    let sizer = engine.sizer();
    let mut text = format!(
        "{} processors, {} granted, lease {:?}, epoch {}\n",
        engine.processors(),
        sizer.limit(),
        sizer.lease(),
        sizer.epoch()
    );
    for vp in engine.all().iter() {
        let _ = writeln!(text, "{vp}");
    }
    text
}
