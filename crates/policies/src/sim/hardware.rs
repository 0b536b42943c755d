//! What the hardware that programs share costs them: cores of several hardware threads, slow cores,
//! far memory, the bandwidth of a node.
//!
//! # Rule
//! - n busy hardware threads of a core do together 1 + (gain - 1)(n - 1) times what one does alone.
//! - A slow core takes longer for everything, by its speed.
//! - A program's pages lie on its *homes*, the nodes on which it ran first, evenly. The part of its
//!   threads' time that goes to memory grows by `remote` for pages of another node, and by what the
//!   threads of all programs together ask of a home beyond its `bandwidth`.
//! - A region ends when the slowest thread of its team has ended; where threads take their work
//!   piece by piece, a team goes at their mean speed.
//! - Under the kernel (`none`) threads are spread over cores and nodes evenly, over fast cores
//!   first.

use super::workload::MachineSpec;

/// The machine, as far as it makes programs slower.
pub(super) struct Hardware {
    spec: MachineSpec,
    nodes: u32,
    /// Of each processor; empty: all have 1.
    speeds: Vec<f64>,
    /// Of the cores, the fastest first.
    cores: Vec<f64>,
}

/// The threads of a program that work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Working<'a> {
    /// Where, if processors are its own or it shares one.
    pub(super) cpus: &'a [u32],
    /// The part of these processors that it has: all, or of a shared one less.
    pub(super) part: f64,
    /// How many there are, if the kernel runs them.
    pub(super) unbound: u32,
    /// They take their work piece by piece.
    pub(super) dynamic: bool,
    /// The part of their time that goes to memory.
    pub(super) memory: f64,
    pub(super) homes: &'a [u32],
}

impl Hardware {
    pub(super) fn new(spec: &MachineSpec) -> Self {
        let per_node = spec.per_node.unwrap_or(spec.processors).max(1);
        let speeds = spec.speed_of_each();
        let mut cores: Vec<f64> =
            speeds.iter().step_by(spec.per_core.max(1) as usize).copied().collect();
        cores.sort_unstable_by(|a, b| b.total_cmp(a));
        Self { spec: spec.clone(), nodes: spec.processors.div_ceil(per_node), speeds, cores }
    }

    /// The node of a processor.
    pub(super) fn node(&self, cpu: u32) -> u32 {
        cpu / self.spec.per_node.unwrap_or(self.spec.processors).max(1)
    }

    /// The speed of each program relative to whole cores and near memory that no other uses. O(P +
    /// threads x homes); `None`, at once, where nothing of this costs anything.
    pub(super) fn speeds(&self, programs: &[Working<'_>]) -> Option<Vec<f64>> {
        let has_far = self.nodes > 1 && self.spec.remote > 1.0;
        let is_felt = has_far || self.spec.bandwidth.is_some();
        let asks = is_felt && programs.iter().any(|it| it.memory > 0.0);
        if self.spec.per_core < 2 && self.speeds.is_empty() && !asks {
            return None;
        }
        let cores = self.cores(programs);
        let unbound: u32 = programs.iter().map(|it| it.unbound).sum();
        let spread = self.spread(unbound);
        let demand = self.demand(programs, &cores, spread);
        let stretch = |home: u32| match self.spec.bandwidth {
            Some(bandwidth) => (demand[home as usize] / bandwidth).max(1.0),
            None => 1.0,
        };
        let speed = |it: &Working<'_>| {
            let far = |node: Option<u32>| {
                let mean = |one: &dyn Fn(u32) -> f64, homes: &mut dyn Iterator<Item = u32>| {
                    let (sum, number) = homes.fold((0.0, 0.0), |(s, n), h| (s + one(h), n + 1.0));
                    if number > 0.0 { sum / number } else { 1.0 }
                };
                let elsewhere = f64::from(self.nodes - 1) / f64::from(self.nodes);
                let one = |home: u32| {
                    let distance = match node {
                        Some(node) if node == home => 1.0,
                        Some(_) => self.spec.remote,
                        None => 1.0 + (self.spec.remote - 1.0) * elsewhere,
                    };
                    distance * stretch(home)
                };
                match node {
                    Some(_) => mean(&one, &mut it.homes.iter().copied()),
                    None => mean(&one, &mut (0..self.nodes)),
                }
            };
            let time = |core: f64, node: Option<u32>| {
                let memory = if it.memory > 0.0 { it.memory * far(node) } else { 0.0 };
                (1.0 - it.memory + memory) / core
            };
            let times = it.cpus.iter().map(|&cpu| {
                time(self.share(cores[self.core(cpu)]) * self.speed(cpu), Some(self.node(cpu)))
            });
            let unbound = (it.unbound > 0).then(|| time(spread, None));
            let times = times.chain(unbound);
            if it.dynamic {
                let (sum, number) =
                    times.fold((0.0, 0.0), |(sum, n), time| (sum + 1.0 / time, n + 1.0));
                return if number > 0.0 { sum / number } else { 1.0 };
            }
            1.0 / times.fold(1.0, f64::max)
        };
        Some(programs.iter().map(speed).collect())
    }

    /// Busy hardware threads of each core. Masters that share one are one.
    fn cores(&self, programs: &[Working<'_>]) -> Vec<u32> {
        let mut busy = vec![false; self.spec.processors as usize];
        for &cpu in programs.iter().flat_map(|it| it.cpus) {
            busy[cpu as usize] = true;
        }
        let per_core = self.spec.per_core.max(1) as usize;
        let number = |core: &[bool]| core.iter().map(|busy| u32::from(*busy)).sum();
        busy.chunks(per_core).map(number).collect()
    }

    fn core(&self, cpu: u32) -> usize {
        (cpu / self.spec.per_core.max(1)) as usize
    }

    /// The speed of a processor whose core no other one uses.
    fn speed(&self, cpu: u32) -> f64 {
        self.speeds.get(cpu as usize).copied().unwrap_or(1.0)
    }

    /// The speed of each of `busy` hardware threads of a core.
    fn share(&self, busy: u32) -> f64 {
        if busy <= 1 {
            return 1.0;
        }
        (1.0 + (self.spec.smt_gain - 1.0) * f64::from(busy - 1)) / f64::from(busy)
    }

    /// The mean speed of hardware threads while so many, or all, are busy anywhere.
    fn spread(&self, threads: u32) -> f64 {
        let (per_core, all) = (self.spec.per_core.max(1), self.spec.processors);
        let cores = all.div_ceil(per_core);
        let busy = threads.min(all);
        let used = &self.cores[..self.cores.len().min(busy as usize)];
        let fast = match used.len() {
            0 => 1.0,
            number => used.iter().sum::<f64>() / number as f64,
        };
        if busy <= cores {
            return fast;
        }
        let (each, more) = (busy / cores, busy % cores);
        let of = |number: u32, busy: u32| f64::from(number * busy) * self.share(busy);
        fast * (of(cores - more, each) + of(more, each + 1)) / f64::from(busy)
    }

    /// What threads ask of the memory of each node, in threads that do nothing else.
    fn demand(&self, programs: &[Working<'_>], cores: &[u32], spread: f64) -> Vec<f64> {
        let mut demand = vec![0.0; self.nodes as usize];
        let unbound: u32 = programs.iter().map(|it| it.unbound).sum();
        // No more threads of the kernel's run than there are processors.
        let run = f64::from(unbound.min(self.spec.processors)) / f64::from(unbound.max(1));
        for it in programs.iter().filter(|it| it.memory > 0.0) {
            let core = |cpu: &u32| self.share(cores[self.core(*cpu)]) * self.speed(*cpu);
            let speed = it.part * it.cpus.iter().map(core).sum::<f64>();
            for &home in it.homes {
                demand[home as usize] += speed * it.memory / it.homes.len() as f64;
            }
            let anywhere = f64::from(it.unbound) * run * spread * it.memory;
            demand.iter_mut().for_each(|node| *node += anywhere / f64::from(self.nodes));
        }
        demand
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(processors: u32, per_core: u32, per_node: u32) -> MachineSpec {
        MachineSpec { per_core, per_node: Some(per_node), ..MachineSpec::flat(processors) }
    }

    fn working<'a>(cpus: &'a [u32], memory: f64, homes: &'a [u32]) -> Working<'a> {
        Working { cpus, part: 1.0, unbound: 0, dynamic: false, memory, homes }
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn threads_of_a_core_share_it_and_a_team_waits_for_its_slowest() {
        let hardware = Hardware::new(&MachineSpec { smt_gain: 1.2, ..spec(4, 2, 4) });
        let speeds = hardware.speeds(&[working(&[0, 2], 0.0, &[0]), working(&[1], 0.0, &[0])]);
        let speeds = speeds.expect("cores are shared");
        // Processor 2 has its core for itself; that the other thread is slow is felt all the same.
        near(speeds[0], 0.6);
        near(speeds[1], 0.6);
        // The kernel: three threads on two cores, one of them with two.
        let unbound = Working { unbound: 3, ..working(&[], 0.0, &[]) };
        near(hardware.speeds(&[unbound]).expect("cores are shared")[0], (1.0 + 1.2) / 3.0);
        assert_eq!(Hardware::new(&spec(4, 1, 4)).speeds(&[working(&[0], 0.5, &[0])]), None);
    }

    #[test]
    fn a_slow_core_takes_longer_and_a_team_waits_for_it_unless_its_work_is_taken_in_pieces() {
        // Two fast cores and two slow ones, of two threads.
        let slow = MachineSpec { smt_gain: 1.2, speeds: vec![(4, 1.0), (4, 0.5)], ..spec(8, 2, 8) };
        let hardware = Hardware::new(&slow);
        let speed = |it: Working<'_>| hardware.speeds(&[it]).expect("some are slow")[0];
        near(speed(working(&[0, 2], 0.0, &[0])), 1.0);
        near(speed(working(&[0, 4], 0.0, &[0])), 0.5);
        near(speed(Working { dynamic: true, ..working(&[0, 4], 0.0, &[0]) }), 0.75);
        // Two threads of a slow core: 1.2 / 2 of a half.
        near(speed(working(&[4, 5], 0.0, &[0])), 0.3);
        // The kernel's threads are on fast cores, as far as these go.
        let unbound = |threads| Working { unbound: threads, ..working(&[], 0.0, &[]) };
        near(speed(unbound(2)), 1.0);
        near(speed(unbound(4)), 0.75);
        near(speed(unbound(8)), 0.75 * 0.6);
    }

    #[test]
    fn far_memory_and_a_full_node_cost_the_part_of_the_time_that_goes_there() {
        let far = MachineSpec { remote: 3.0, ..spec(4, 1, 2) };
        let speed = |spec: &MachineSpec, it: &[Working<'_>]| {
            Hardware::new(spec).speeds(it).expect("memory costs something")
        };
        // Half of the time goes to pages that all lie on node 0: 0.5 + 0.5 x 3.
        near(speed(&far, &[working(&[0], 0.5, &[0])])[0], 1.0);
        near(speed(&far, &[working(&[2], 0.5, &[0])])[0], 0.5);
        // Pages on both: half of them are far for each thread, 0.5 + 0.5 x 2.
        near(speed(&far, &[working(&[0, 2], 0.5, &[0, 1])])[0], 1.0 / 1.5);
        // Two threads of 0.5 each ask a whole one of a node that has half of that.
        let narrow = MachineSpec { bandwidth: Some(0.5), ..spec(4, 1, 4) };
        near(speed(&narrow, &[working(&[0, 1], 0.5, &[0])])[0], 1.0 / 1.5);
        // Masters that share a processor ask no more together than one that has it.
        let half = Working { part: 0.5, ..working(&[1], 0.5, &[0]) };
        assert_eq!(speed(&narrow, &[working(&[0], 0.5, &[0]), half, half]), [1.0 / 1.5; 3]);
        let apart = [working(&[0], 0.5, &[0]), working(&[1], 0.0, &[0])];
        assert_eq!(speed(&narrow, &apart), [1.0, 1.0]);
    }
}
