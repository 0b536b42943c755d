//! Control variables: those of a task ([`Icvs`]) and those of the process ([`Settings`]).

use crate::copies::Host;
use crate::env::{Adapt, Bind, Environment};
use crate::message;
use crate::places::Fence;
use crate::schedule::Schedule;
use engine::{self, Config};
use platform::lock::Once;

/// Active levels that we support.
pub(crate) const SUPPORTED_LEVELS: u32 = 255;

/// No limit on the number of threads.
pub(crate) const NO_LIMIT: u32 = i32::MAX as u32;

/// The control variables of one data environment: each task has its own copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Icvs {
    /// run-sched-var.
    pub(crate) schedule: Schedule,
    /// nthreads-var of this level; deeper levels come from the list in [`Settings`].
    pub(crate) num_threads: u32,
    /// thread-limit-var.
    pub(crate) thread_limit: u32,
    /// max-active-levels-var.
    pub(crate) max_active_levels: u32,
    /// default-device-var.
    pub(crate) default_device: i32,
    /// def-allocator-var.
    pub(crate) allocator: usize,
    /// dyn-var.
    pub(crate) dynamic: bool,
    /// bind-var of this level.
    pub(crate) bind: Bind,
}

/// What the environment says, and what follows from it.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The variables.
    pub(crate) environment: Environment,
    /// Explicit places.
    pub(crate) fence: Option<Fence>,
    /// Whose engine this copy of the library uses.
    pub(crate) host: Host,
}

static SETTINGS: Once<Settings> = Once::new();

/// The settings of the process. The first call (when the library is loaded) reads the environment
/// and says what is wrong with it.
pub(crate) fn settings() -> &'static Settings {
    SETTINGS.get_or_init(|| {
        let (mut environment, complaints) = Environment::read(&|name| {
            std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
        });
        for complaint in complaints {
            message::warn(&complaint);
        }
        let host = Host::find();
        let fence = Fence::put_up(&mut environment);
        engine::configure(Config {
            waiting: environment.wait_policy,
            stack_size: environment.stack_size,
            bind: environment.binds(),
            // A copy without an engine of its own looks for no manager.
            adapt: environment.adapt != Adapt::Off && matches!(host, Host::Own),
            library: "libgomp",
            ..Config::default()
        });
        Settings { environment, fence, host }
    })
}

impl Settings {
    /// Processors of the mask that the program was started with, quota counted.
    pub(crate) fn processors(&self) -> usize {
        self.fence.as_ref().map_or_else(|| self.host.processors(), |fence| fence.processors)
    }

    /// The control variables of an initial task.
    pub(crate) fn initial(&self) -> Icvs {
        let env = &self.environment;
        let default_size = || u32::try_from(self.processors()).unwrap_or(NO_LIMIT);
        let lists = env.num_threads.len() > 1 || env.proc_bind.len() > 1;
        let levels = match (env.max_active_levels, env.nested) {
            (Some(levels), _) => levels.min(SUPPORTED_LEVELS),
            (None, Some(true)) => SUPPORTED_LEVELS,
            (None, None) if lists => SUPPORTED_LEVELS,
            (None, _) => 1,
        };
        let bind = match env.proc_bind.first() {
            Some(bind) => *bind,
            None if env.binds() => Bind::True,
            None => Bind::False,
        };
        Icvs {
            schedule: env.schedule,
            num_threads: env.num_threads.first().copied().unwrap_or_else(default_size),
            thread_limit: env.thread_limit.unwrap_or(NO_LIMIT),
            max_active_levels: levels,
            default_device: i32::try_from(env.default_device).unwrap_or(i32::MAX),
            allocator: env.allocator,
            // D4: under a manager teams of default size follow the grant, unless the user said
            //     otherwise.
            dynamic: env
                .dynamic
                .unwrap_or_else(|| env.adapt != Adapt::Off && self.host.is_managed()),
            bind,
        }
    }

    /// `icvs` as the members of a region at nesting level `level`, bound by `bind`, inherit them.
    pub(crate) fn inherited(&self, icvs: &Icvs, level: u32, bind: Bind) -> Icvs {
        let mut icvs = Icvs { bind, ..*icvs };
        if let Some(threads) = self.environment.num_threads.get(level as usize) {
            icvs.num_threads = *threads;
        }
        if let Some(bind) = self.environment.proc_bind.get(level as usize) {
            icvs.bind = *bind;
        }
        icvs
    }
}
