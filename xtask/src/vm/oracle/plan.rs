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
    /// How often each of its phases runs in an iteration; 0: none of them uses pages from other
    /// nodes than another one.
    pub(super) phases: usize,
}

impl Kernel {
    /// It is another one whose phases are longer: for the paper's figure 6 alone.
    pub(super) fn is_long(&self) -> bool {
        self.phases > 1
    }

    /// Whether it runs from this placement and with this engine.
    pub(super) fn has(&self, placement: &str, engine: &str) -> bool {
        let is_of_figure_6 = placement == "first-touch" && engine != "sampled";
        (self.phases > 0 || engine != "record-replay") && (is_of_figure_6 || !self.is_long())
    }
}

/// The smallest classes whose arrays have 16 pages for each of 8 threads.
pub(super) const KERNELS: [Kernel; 6] = [
    Kernel {
        name: "bt",
        sources: &["bt.c", "cfd_block.c"],
        class: "W",
        alone: 2,
        moved: 12,
        phases: 1,
    },
    Kernel { name: "sp", sources: &["sp.c"], class: "W", alone: 2, moved: 12, phases: 1 },
    Kernel { name: "cg", sources: &["cg.c"], class: "W", alone: 2, moved: 12, phases: 0 },
    Kernel { name: "mg", sources: &["mg.c"], class: "W", alone: 2, moved: 12, phases: 0 },
    Kernel { name: "ft", sources: &["ft.c"], class: "S", alone: 2, moved: 12, phases: 0 },
    // The program is that of BT.
    Kernel { name: "bt-long", sources: &[], class: "W", alone: 2, moved: 12, phases: 4 },
];
