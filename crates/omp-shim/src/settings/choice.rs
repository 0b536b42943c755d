//! Settings that are one of a few.

/// How threads are tied to places: the numbers of `omp_proc_bind_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Bind {
    /// Threads move freely.
    False = 0,
    /// Threads stay, where is the runtime's choice.
    True = 1,
    /// All where the primary thread is.
    Primary = 2,
    /// Near the primary thread.
    Close = 3,
    /// Far from one another.
    Spread = 4,
}

impl Bind {
    /// The policy of a region whose task has `variable` and whose proc_bind clause has the number
    /// `clause` (0 = none). Without binding there is nothing that a clause could change.
    pub(crate) fn of_region(variable: Self, clause: u8) -> Self {
        match (variable, clause) {
            (Self::False, _) => Self::False,
            (_, 2) => Self::Primary,
            (_, 3) => Self::Close,
            (_, 4) => Self::Spread,
            (variable, _) => variable,
        }
    }
}

/// Which teams follow the processor manager's grant (`NANOS_ADAPT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adapt {
    /// None; no manager is looked for.
    Off,
    /// Teams of default size while dyn-var is true.
    Default,
    /// All teams of the outermost level, whatever size the program asks for.
    All,
}

/// What teams follow that may adapt (`NANOS_SIZER`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sizer {
    /// A manager if there is one; else what the program finds out by itself, unless `OMP_DYNAMIC`
    /// is false, or a number of threads is named and it is not true.
    Auto,
    /// A manager if there is one, else nothing but mask and quota.
    Manager,
    /// What the program finds out by itself; no manager is looked for.
    Asat,
    /// Nothing: as many threads as the program was started with processors.
    Fixed,
}

/// What `OMP_DISPLAY_ENV` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DisplayEnv {
    /// Nothing.
    No,
    /// The variables of OpenMP.
    Yes,
    /// Ours and the vendor's, too.
    Verbose,
}

/// What `OMP_TARGET_OFFLOAD` asks for. There is never a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offload {
    /// Use a device where there is one.
    Default,
    /// Fail where there is none.
    Mandatory,
    /// Use none.
    Disabled,
}
