//! What the scheduler is started with, why it ends, and what it leaves to the one that comes next.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

use arena::message::Narrow;
use platform::affinity::CpuSet;
use platform::process;

use crate::config::Rules;
use crate::fence::Fences;
use crate::foreign::Foreign;
use crate::history::History;
use crate::instance::Instance;
use crate::kernel::Kernel;
use crate::ledger::Ledger;
use crate::reactor::Reactor;
use crate::reload::Reload;
use crate::service::notify::Notifier;
use crate::settings::LevelFrom;
use crate::trace::Trace;

/// What the scheduler is started with.
pub struct Setup {
    /// The right to the socket.
    pub instance: Instance,
    /// Its listener.
    pub listener: OwnedFd,
    /// What the scheduler waits for; made before any thread, for the signals' sake.
    pub reactor: Reactor,
    /// The books.
    pub ledger: Ledger,
    /// The managed processors.
    pub cpus: CpuSet,
    /// Where the trace goes.
    pub trace: Option<Trace>,
    /// What is kept of programs beyond their end.
    pub(crate) history: Option<History>,
    /// How long a manager without programs stays; `None` for ever.
    pub idle_exit: Option<Duration>,
    /// The time between asking for a processor and squeezing.
    pub grace: Duration,
    /// The calls that act upon threads of programs.
    pub kernel: Box<dyn Kernel>,
    /// How many programs may run at once; `None`: any number.
    pub level: Option<u32>,
    /// Where that came from.
    pub(crate) level_from: LevelFrom,
    /// After which time what users consumed counts by half; `None`: the queue is first come, first
    /// served.
    pub fair_share: Option<Duration>,
    /// Every user's programs may come, and not only those of its own.
    pub public: bool,
    /// Programs may pass processors to each other.
    pub domain: bool,
    /// Where programs that do not obey are fenced in.
    pub fences: Option<Fences>,
    /// Processors on which others run are left to them.
    pub heeds_strangers: bool,
    /// Its starter left it fewer processors than the machine has.
    pub narrow: Option<Narrow>,
    /// What else it kept of its starter, for reports.
    pub kept: Vec<String>,
    /// What single users and programs have.
    pub rules: Rules,
    /// Where its configuration is, to be read anew.
    pub reload: Option<Reload>,
    /// The service manager that wants to hear of it.
    pub service: Option<Notifier>,
}

/// Nothing is known of strangers yet.
pub(super) fn none_known() -> Foreign {
    Foreign::new(u64::from(process::current_pid().0.unsigned_abs()))
}

/// What is in force in a manager, for the one that comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which policy decides.
    pub policy: String,
    /// The parameters of the policy, as people write them.
    pub parameters: BTreeMap<String, String>,
    /// How often programs that share processors take turns.
    pub quantum: Duration,
    /// The time between asking for a processor and squeezing.
    pub grace: Duration,
    /// How many programs may run at once; `None`: any number.
    pub level: Option<u32>,
}

/// Why the scheduler ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A signal.
    Signal,
    /// No client came.
    Idle,
    /// A client said so (`cpumgr stop`).
    Stopped,
    /// A client starts another one in its place (`cpumgr run` from a wider place), which has its
    /// settings.
    Replaced,
    /// A client said so, and it is to begin anew with these (`cpumgr restart`). What is attached
    /// stays bound as it is.
    Restarts(Box<Settings>),
    /// A signal said that the next one comes at once. What is attached stays bound as it is.
    Relieved,
    /// Its socket file is gone.
    Displaced,
}

impl Ended {
    /// The next manager listens with the same socket, and takes over what is attached.
    pub(super) fn is_succeeded(&self) -> bool {
        matches!(self, Self::Restarts(_) | Self::Relieved)
    }
}
