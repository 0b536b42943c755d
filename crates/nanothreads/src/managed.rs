//! What a program can tell the processor manager that it runs under.

/// Says that an iteration of the program's outer loop begins, so that it can be measured how much
/// the program gains from the processors that the manager grants. It is optional: iterations are
/// found in the sequence of regions, where that has a pattern. A program that calls it does so once
/// in each iteration, outside regions, on the thread that forks them. Without a manager nothing
/// happens. Cost: a few loads, and a clock reading while there is something to measure.
///
/// ```
/// for step in 0..10 {
///     nanothreads::managed::iteration();
///     nanothreads::par_for(0..100).run(|i| assert!(i + step < 109));
/// }
/// ```
pub fn iteration() {
    engine::iteration();
}
