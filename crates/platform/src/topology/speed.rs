//! Classes of speed: which cores of a hybrid processor are fast ones.
//!
//! # Sources
//! In this order; the first that tells processors apart is believed:
//! 1. `cpu_capacity`, the scheduler's own number (arm64, riscv, newer kernels on x86). Where every
//!    processor has one nothing else is asked, also when all are equal.
//! 2. `acpi_cppc/highest_perf`, else `nominal_perf`. Some firmware has the same number, its
//!    largest, for cores of all kinds: so equal numbers do not end the search.
//! 3. Intel's counters of hybrid processors, `cpu_core`, `cpu_atom` and `cpu_lowpower`, each with a
//!    list of its processors.
//! 4. `cpufreq/cpuinfo_max_freq`.
//!
//! A source of which a processor that is online has no number, no positive one or garbage is left
//! out: numbers of two sources cannot be compared. It is no error either. A wrong order of cores
//! costs time, and a manager that refuses the machine costs more.
//!
//! # Classes
//! A core is as fast as the fastest of its hardware threads. In order of their speeds, a new class
//! begins where a core has less than 85 % of the next faster one. Equal cores differ by less: their
//! best frequencies by some per cent (Turbo Boost Max 3.0, two dies of one package), and firmware
//! that ranks its preferred cores does it in steps of two or three per cent, which may add up to
//! more than 15 % from the first to the last one. So neighbours are compared, not ends. Kinds of
//! cores on one processor differ by a third and more.
//!
//! # Not here
//! How much faster a class is: no program asks for that, and the ratio depends on the program.

use std::path::Path;

use super::Cpu;
use crate::affinity::CpuSet;
use crate::file;

/// A core of the same class has at least this part of the speed of the next faster one, in per
/// cent.
const SAME: u64 = 85;

/// A number for each processor, in their order.
type Numbers = Vec<u64>;

/// Sets the class of each processor; `root` is as `/sys/devices/system`.
pub(super) fn find(root: &Path, cpus: &mut [Cpu]) {
    let folder = root.join("cpu");
    let of_files = |name: &str| -> Option<Numbers> {
        cpus.iter().map(|cpu| number(&folder.join(format!("cpu{}", cpu.id)).join(name))).collect()
    };
    let capacities = of_files("cpu_capacity");
    let is_final = capacities.is_some();
    let told_apart = |numbers: Option<Numbers>| {
        let classes = classes(cpus, &numbers?);
        classes.iter().any(|class| *class > 0).then_some(classes)
    };
    let mut found = told_apart(capacities);
    if !is_final {
        found = found
            .or_else(|| told_apart(of_files("acpi_cppc/highest_perf")))
            .or_else(|| told_apart(of_files("acpi_cppc/nominal_perf")))
            .or_else(|| told_apart(by_counters(root, cpus)))
            .or_else(|| told_apart(of_files("cpufreq/cpuinfo_max_freq")));
    }
    for (cpu, class) in cpus.iter_mut().zip(found.into_iter().flatten()) {
        cpu.speed = class;
    }
}

/// A positive number that is all of a file.
fn number(path: &Path) -> Option<u64> {
    let text = file::text(path).ok()?;
    text.trim().parse().ok().filter(|number| *number > 0)
}

/// Numbers that say no more than which kind is faster.
fn by_counters(root: &Path, cpus: &[Cpu]) -> Option<Numbers> {
    let beside = root.parent()?;
    let kinds = [("cpu_core", 100), ("cpu_atom", 50), ("cpu_lowpower", 25)];
    let list = |(name, number): (&str, u64)| {
        let text = file::text(beside.join(name).join("cpus")).ok()?;
        Some((CpuSet::parse_list(&text).ok()?, number))
    };
    let kinds: Vec<(CpuSet, u64)> = kinds.into_iter().filter_map(list).collect();
    let of = |cpu: &Cpu| kinds.iter().find(|(set, _)| set.contains(cpu.id)).map(|(_, it)| *it);
    cpus.iter().map(of).collect()
}

/// The class of each processor by a number for each.
fn classes(cpus: &[Cpu], numbers: &[u64]) -> Vec<u32> {
    let cores = cpus.iter().map(|cpu| cpu.core as usize + 1).max().unwrap_or(0);
    let mut of_core = vec![0_u64; cores];
    for (cpu, number) in cpus.iter().zip(numbers) {
        let core = &mut of_core[cpu.core as usize];
        *core = (*core).max(*number);
    }
    let mut speeds = of_core.clone();
    speeds.sort_unstable_by(|a, b| b.cmp(a));
    // The least speed of each class but the last one.
    let falls = |pair: &&[u64]| u128::from(pair[1]) * 100 < u128::from(pair[0]) * u128::from(SAME);
    let ends: Vec<u64> = speeds.windows(2).filter(falls).map(|pair| pair[0]).collect();
    let class = |cpu: &Cpu| ends.iter().filter(|end| of_core[cpu.core as usize] < **end).count();
    cpus.iter()
        .map(|cpu| u32::try_from(class(cpu)).expect("there are fewer than CpuSet::LIMIT"))
        .collect()
}
