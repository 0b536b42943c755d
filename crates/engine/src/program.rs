//! The program: its settings, the processors that it was started with, its masters, and what its
//! threads count and see.

use crate::contention::Load;
use crate::process::numbers::Numbers;
use crate::process::per_process::{PerProcess, State};
use crate::program::config::Config;
use crate::program::counters::Blocks;
use crate::program::masters::Masters;
use crate::work::LARGEST;
use platform::affinity::{self, CpuSet};
use platform::lock::Once;
use platform::topology::Topology;

pub mod config;
pub mod counters;
mod kernel;
pub(crate) mod mask_and_quota;
pub(crate) mod masters;
pub(crate) mod statistics;
pub mod threads;

/// See the module head. On lines of its own: all threads that fork or wait read it, and other
/// threads may write what the allocator would put beside it.
#[repr(align(128))]
pub struct Program {
    config: Once<Config>,
    /// The affinity mask that the program was started with.
    mask: Once<CpuSet>,
    processors: Once<usize>,
    /// Looked up at first use, and leaked: forked children go on with it.
    machine: Once<Option<&'static Topology>>,
    masters: Masters,
    load: Load,
    counters: Blocks,
    numbers: Numbers,
}

/// Threads that a team may have on any machine: [`Program::largest_team`] is no less.
pub(crate) const CERTAIN: usize = 1024;

static PROGRAM: PerProcess<Program> = PerProcess::new(|| PROGRAM.renew());

/// The program that this process is. Cost: one load.
#[inline]
pub fn program() -> &'static Program {
    PROGRAM.get()
}

impl State for Program {
    fn begin() -> Self {
        Self {
            config: Once::new(),
            mask: Once::new(),
            processors: Once::new(),
            machine: Once::new(),
            masters: Masters::new(),
            load: Load::default(),
            counters: Blocks::default(),
            numbers: Numbers::default(),
        }
    }

    /// A child has none of the parent's masters, and the parent's settings.
    fn in_child(&self) -> Self {
        let fresh = Self::begin();
        if let Some(config) = self.config.get() {
            let _ = fresh.config.set(config.clone());
        }
        // The forking thread may be a bound worker; the child is a program like its parent (D2,
        // D4). What was not looked up yet, or is being looked up by another thread, the child looks
        // up itself.
        if let Some(mask) = self.mask.get() {
            let _ = fresh.mask.set(mask.clone());
        }
        if let Some(&processors) = self.processors.get() {
            let _ = fresh.processors.set(processors);
        }
        if let Some(&machine) = self.machine.get() {
            let _ = fresh.machine.set(machine);
        }
        fresh
    }
}

impl Program {
    /// Sets the configuration; false when it is already fixed.
    pub(crate) fn configure(&self, config: Config) -> bool {
        self.config.set(config).is_ok()
    }

    /// True when the configuration is fixed.
    pub fn is_configured(&self) -> bool {
        self.config.get().is_some()
    }

    #[inline]
    pub fn config(&self) -> &Config {
        self.config.get_or_init(Config::default)
    }

    /// The mask that the program was started with (or had when the engine first looked).
    pub fn mask(&self) -> &CpuSet {
        self.mask.get_or_init(|| {
            affinity::affinity(None).unwrap_or_else(|_| CpuSet::single(affinity::current_cpu()))
        })
    }

    /// The original mask, if the engine binds its masters: their own masks say nothing about what
    /// the program has.
    pub(crate) fn mask_of_bound(&self) -> Option<&CpuSet> {
        self.config.get().is_some_and(|config| config.bind).then(|| self.mask())
    }

    /// Processors of the original mask, quota counted (D4). Constant.
    pub(crate) fn processors(&self) -> usize {
        *self.processors.get_or_init(|| {
            // Here, for every program that has a team comes to this once.
            kernel::look();
            let limits = platform::cgroup::Limits::read().unwrap_or_default();
            platform::cgroup::usable_processors(self.mask(), &limits)
        })
    }

    /// The machine; one place of all processors where the system does not say more.
    pub fn machine(&self) -> Option<&'static Topology> {
        let leaked = |machine| -> &'static Topology { Box::leak(Box::new(machine)) };
        *self.machine.get_or_init(|| {
            Topology::read().ok().or_else(|| Topology::flat(self.mask())).map(leaked)
        })
    }

    /// The most threads that a team may have: beyond this a wrong number would only take the
    /// machine down.
    pub(crate) fn largest_team(&self) -> usize {
        (8 * self.processors()).clamp(CERTAIN, LARGEST)
    }

    /// Its outermost masters.
    #[inline]
    pub(crate) fn masters(&self) -> &Masters {
        &self.masters
    }

    /// What its threads saw of others on its processors.
    #[inline]
    pub(crate) fn load(&self) -> &Load {
        &self.load
    }

    /// What its threads count.
    pub(crate) fn counters(&self) -> &Blocks {
        &self.counters
    }

    /// The numbers of its threads.
    pub(crate) fn numbers(&self) -> &Numbers {
        &self.numbers
    }
}
