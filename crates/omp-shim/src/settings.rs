//! What the environment says, and what follows from it: the control variables of the process
//! ([`Settings`]), and those that a task begins with ([`Icvs`]).

mod choice;
pub(crate) mod device;
mod environment;
pub(crate) mod fence;
mod icvs;
mod parse;
mod places;

pub(crate) use choice::{Adapt, Bind, DisplayEnv, Offload, Sizer};
pub(crate) use environment::ALLOCATORS;
pub(crate) use icvs::{Dynamic, Icvs, NO_LIMIT, SUPPORTED_LEVELS};

use crate::process::copies::Host;
use crate::process::message;
use engine::Config;
use engine::sizer::Fixed;
use environment::Environment;
use fence::Fence;
use platform::lock::Once;

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
        let mut config = Config::default();
        config.waiting = environment.wait_policy;
        config.stack_size = environment.stack_size;
        config.bind = environment.binds();
        // A copy without an engine of its own looks for no manager.
        config.adapt = environment.follows_manager() && matches!(host, Host::Own);
        config.library = "libgomp";
        // The same threads for all regions of an initial thread.
        config.keeps_idle = true;
        // Too late only where the engine is in use by another library of the process: then that
        // one's settings hold.
        let _is_first = engine::configure(config);
        if matches!(host, Host::Own) {
            choose_sizer(&environment);
        }
        Settings { environment, fence, host }
    })
}

/// Names what sizes the teams of this copy's engine. A program that linked the library and forked a
/// region by the engine's own functions before has one already.
fn choose_sizer(environment: &Environment) {
    if environment.follows_itself() {
        asat::install(environment.asat.clone());
    } else if environment.sizer == Sizer::Fixed {
        let _is_first = engine::set_team_sizer(Box::new(Fixed::new(engine::processors())));
    }
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
            // D4: teams of default size follow the grant, or what the program finds out by itself
            //     where there is no manager, unless the user said otherwise.
            dynamic: match env.dynamic {
                Some(on) => Dynamic::said(on),
                None if env.follows_manager() && self.host.is_managed() => Dynamic::On,
                None if !env.follows_itself() => Dynamic::Off,
                None if env.sizer == Sizer::Asat => Dynamic::On,
                None => Dynamic::UntilNamed,
            },
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
