//! What a program wants of its workers' threads: names, a priority, calls at begin and end.

use platform::message::say;
use platform::scheduling::set_nice;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What is called on a thread with its worker's number.
pub type Hook = Arc<dyn Fn(usize) + Send + Sync>;

/// See the module head. Workers count from 1.
#[derive(Clone, Default)]
pub struct Threads {
    /// What its name begins with: a hyphen and the worker's number follow. No code of the program:
    /// workers begin in the middle of a master's bookkeeping. The system shows the first 15 bytes.
    pub name: Option<Arc<str>>,
    /// Called on a thread before it runs anything else.
    pub start: Option<Hook>,
    /// Called on a thread that ends.
    pub exit: Option<Hook>,
    /// The nice value: 19 is the least favourable one, -20 the most.
    pub nice: Option<i32>,
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads")
            .field("name", &self.name)
            .field("has_start", &self.start.is_some())
            .field("has_exit", &self.exit.is_some())
            .field("nice", &self.nice)
            .finish()
    }
}

impl Threads {
    /// The name of worker `number`'s thread.
    pub(crate) fn name_of(&self, number: usize) -> String {
        format!("{}-{number}", self.name.as_deref().unwrap_or("nanos-w"))
    }

    /// The calling thread begins, as that of worker `number`.
    pub fn begin(&self, number: usize) {
        if let Some(nice) = self.nice
            && let Err(error) = set_nice(nice)
        {
            say_refused(nice, &error);
        }
        call(self.start.as_ref(), number);
    }

    /// The calling thread ends, as that of worker `number`.
    pub fn end(&self, number: usize) {
        call(self.exit.as_ref(), number);
    }
}

/// A panic of the program's has its message, and costs no worker.
fn call(hook: Option<&Hook>, number: usize) {
    if let Some(hook) = hook
        && let Err(payload) = catch_unwind(AssertUnwindSafe(|| hook(number)))
    {
        crate::process::panics::discard(payload);
    }
}

#[cold]
fn say_refused(nice: i32, error: &platform::SysError) {
    static SAID: AtomicBool = AtomicBool::new(false);
    // ORDERING: Relaxed - a flag on its own.
    if !SAID.swap(true, Relaxed) {
        say(format_args!(
            "nanos: the system refuses nice value {nice} for a worker ({error}), which keeps the \
             one it has: values below that of the program need CAP_SYS_NICE or a larger limit \
             (ulimit -e)"
        ));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn names_begin_as_the_program_says_and_end_with_the_workers_number() {
        assert_eq!(Threads::default().name_of(3), "nanos-w-3");
        let named = Threads { name: Some("render".into()), ..Threads::default() };
        assert_eq!(named.name_of(12), "render-12");
    }

    #[test]
    fn a_hook_that_panics_costs_no_thread() {
        let hook: Hook = Arc::new(|number| panic!("planted {number}"));
        let hooked = Threads { start: Some(hook.clone()), exit: Some(hook), ..Threads::default() };
        hooked.begin(1);
        hooked.end(1);
    }
}
