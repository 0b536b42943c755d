//! What may be set before the first region.

use crate::program::threads::Threads;

/// How threads wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// Spin while that can pay, then sleep.
    // The rules are in `waits::spin_policy`.
    #[default]
    Auto,
    /// As `Auto`, and longer where no manager says which program has the machine, as long as no
    /// other program is seen on the processors: for programs with many serial parts of a
    /// millisecond, whose next region would pay for a wake-up each.
    Hot,
    /// Spin as long as the team has its processors. Between regions a thread still gives its own
    /// back where a manager says that others want it.
    Active,
    /// Sleep at once.
    Passive,
}

/// How work reaches the members of a team.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dispatch {
    /// A line for each worker, in which it also arrives (LWD).
    #[default]
    Lines,
    /// One line for all (GWD), arrival lines, leaders: for the papers' figures. A region with work
    /// that the master may take back goes by lines all the same.
    Broadcast,
}

/// Settings of the engine; fixed by the first region.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// How threads wait.
    pub waiting: Waiting,
    /// Stack of each worker in bytes; `None` = 8 MiB of address space.
    pub stack_size: Option<usize>,
    /// How work reaches the members of teams that say nothing else.
    pub dispatch: Dispatch,
    /// Bind each worker to one processor, also without a manager.
    pub bind: bool,
    /// A master keeps its workers as long as its thread lives, also while other masters lack some.
    pub keeps_idle: bool,
    /// Look for a processor manager and follow its grants.
    pub adapt: bool,
    /// Name under which the manager lists this program's runtime.
    pub library: &'static str,
    /// What the program wants of its workers' threads.
    pub threads: Threads,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            waiting: Waiting::Auto,
            stack_size: None,
            dispatch: Dispatch::Lines,
            bind: false,
            keeps_idle: false,
            adapt: true,
            library: "nanothreads",
            threads: Threads::default(),
        }
    }
}
