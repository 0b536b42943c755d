//! What is run: kernels, placements, engines of migration.

/// Where pages are at first.
pub(super) const PLACEMENTS: [&str; 4] = ["first-touch", "round-robin", "random", "worst-case"];
/// What moves them: `upm` by what the kernels' loops say that they touch, `sampled` by samples.
pub(super) const ENGINES: [&str; 5] = ["nothing", "kernel", "upm", "sampled", "record-replay"];
/// Of these the iterative ones of ours.
pub(super) const MIGRATING: [&str; 2] = ["upm", "sampled"];

/// A kernel: its sources but for what all share, its class, and the counted iterations of a run
/// without migration and of one with.
pub(super) struct Kernel {
    pub(super) name: &'static str,
    pub(super) sources: &'static [&'static str],
    pub(super) class: &'static str,
    pub(super) alone: usize,
    pub(super) moved: usize,
    /// Phases that use the same pages from different nodes.
    pub(super) has_phases: bool,
}

/// The smallest classes whose arrays have 16 pages for each of 8 threads.
pub(super) const KERNELS: [Kernel; 5] = [
    Kernel {
        name: "bt",
        sources: &["bt.c", "cfd_block.c"],
        class: "W",
        alone: 2,
        moved: 12,
        has_phases: true,
    },
    Kernel { name: "sp", sources: &["sp.c"], class: "W", alone: 2, moved: 12, has_phases: true },
    Kernel { name: "cg", sources: &["cg.c"], class: "W", alone: 2, moved: 12, has_phases: false },
    Kernel { name: "mg", sources: &["mg.c"], class: "W", alone: 2, moved: 12, has_phases: false },
    Kernel { name: "ft", sources: &["ft.c"], class: "S", alone: 2, moved: 12, has_phases: false },
];
