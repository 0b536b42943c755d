//! Named steps of the program's side, at which a test can end the process. Without feature `hooks`
//! there are none.

/// A step that was just done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The socket is connected, nothing is said.
    Connected,
    /// `register` is sent, the answer is not there.
    RegisterSent,
    /// The answer is received, nothing is mapped.
    Answered,
    /// All areas are mapped, the watcher does not run.
    Mapped,
    /// A request stands in `up`, the bell is not rung.
    Asked,
    /// The bell is rung.
    Rung,
    /// A processor stands among those given back, the bell is not rung.
    Released,
    /// Nothing is given back any more, the bell is not rung.
    Resumed,
    /// A park word says that its virtual processor sleeps; it does not yet.
    ParkPrepared,
    /// A report stands in `up`, the bell is not rung.
    Reported,
    /// The next manager answered, the old areas are in place.
    AnsweredAgain,
    /// One of the new areas is in place, the others are not.
    HalfReplaced,
    /// The next manager's areas are in place, nothing of the program is said again.
    Replaced,
}

/// All steps, in the order of their names.
pub const ALL: [Step; 13] = [
    Step::Answered,
    Step::AnsweredAgain,
    Step::Asked,
    Step::Connected,
    Step::HalfReplaced,
    Step::Mapped,
    Step::ParkPrepared,
    Step::RegisterSent,
    Step::Released,
    Step::Replaced,
    Step::Reported,
    Step::Resumed,
    Step::Rung,
];

#[cfg(feature = "hooks")]
static HOOK: std::sync::OnceLock<fn(Step)> = std::sync::OnceLock::new();

/// Calls `hook` at each step from now on; only the first one counts.
#[cfg(feature = "hooks")]
pub fn set(hook: fn(Step)) {
    // A second hook of one process is a test's mistake, and changes nothing.
    let _first: Result<(), fn(Step)> = HOOK.set(hook);
}

/// A step was done.
#[inline]
pub(crate) fn at(step: Step) {
    #[cfg(feature = "hooks")]
    if let Some(hook) = HOOK.get() {
        hook(step);
    }
    #[cfg(not(feature = "hooks"))]
    let _ = step;
}
