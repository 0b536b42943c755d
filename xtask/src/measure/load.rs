//! Which processors we may use, and how much of them others took while we measured.

use std::fmt;
use std::num::NonZero;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use procfs::process::Process;
use procfs::{CpuInfo, CpuTime, Current, CurrentSI, KernelStats};

use super::copies::{Finish, run_together};
use super::process::monotonic_ns;

/// The processors of this process's affinity mask, ascending.
pub(crate) fn processors() -> anyhow::Result<Vec<u32>> {
    let status = Process::myself()
        .and_then(|process| process.status())
        .context("cannot read /proc/self/status")?;
    let ranges = status.cpus_allowed_list.context("/proc/self/status has no Cpus_allowed_list")?;
    Ok(ranges.into_iter().flat_map(|(first, last)| first..=last).collect())
}

/// How many of them programs can keep busy: the mask, or less under a quota.
pub(crate) fn usable() -> anyhow::Result<usize> {
    let mask = processors()?.len();
    Ok(std::thread::available_parallelism().map_or(mask, NonZero::get).min(mask))
}

/// Seconds that our processors have been busy since the machine started, with any program (or taken
/// away by the hypervisor).
fn busy() -> anyhow::Result<f64> {
    let stat = KernelStats::current().context("cannot read /proc/stat")?;
    // Processors that are offline are in neither list: the same order, and the second one has the
    // numbers.
    let online = CpuInfo::current().context("cannot read /proc/cpuinfo")?;
    let numbers =
        online.cpus.iter().map(|cpu| cpu.get("processor").and_then(|number| number.parse().ok()));
    let times: Vec<(Option<u32>, CpuTime)> = numbers.zip(stat.cpu_time).collect();
    Ok(busy_ticks(&times, &processors()?) as f64 / procfs::ticks_per_second() as f64)
}

/// Guest times are inside `user` and `nice`.
fn busy_ticks(times: &[(Option<u32>, CpuTime)], processors: &[u32]) -> u64 {
    let ours = times
        .iter()
        .filter(|(number, _)| number.is_some_and(|number| processors.contains(&number)));
    let rare =
        |time: &CpuTime| [time.irq, time.softirq, time.steal].into_iter().flatten().sum::<u64>();
    ours.map(|(_, time)| time.user + time.nice + time.system + rare(time)).sum()
}

/// One run, and what was beside it.
pub(crate) struct Run {
    /// In the order in which they ended.
    pub(crate) finished: Vec<Finish>,
    /// Begin and end on the clock of the manager's trace.
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    /// From the first copy's start to the last one's end.
    pub(crate) seconds: f64,
    /// Processors that other programs used, and that were idle, on average.
    pub(crate) others: f64,
    pub(crate) idle: f64,
}

/// What others took, over all runs.
#[derive(Default)]
pub(crate) struct Load {
    foreign: f64,
    elapsed: f64,
}

impl Load {
    /// Adds a run of `elapsed` seconds in which processors were busy for `busy` seconds in all,
    /// `own` of them with our copies. Returns how many processors other programs had in it, and how
    /// many were idle.
    fn note(&mut self, processors: usize, busy: f64, own: f64, elapsed: f64) -> (f64, f64) {
        let foreign = (busy - own).max(0.0);
        self.foreign += foreign;
        self.elapsed += elapsed;
        (foreign / elapsed, (processors as f64 - busy.max(own) / elapsed).max(0.0))
    }

    /// Starts these commands together, waits for all, at most until `cap`, and adds what others
    /// took meanwhile. Others are not what `servant` tells the processor time of so far: a manager,
    /// which is a part of what is measured.
    pub(crate) fn run_beside(
        &mut self,
        processors: usize,
        cap: Duration,
        commands: Vec<Command>,
        servant: impl Fn() -> anyhow::Result<Duration>,
    ) -> anyhow::Result<Run> {
        let servant_before = servant()?;
        let (busy_before, begin_ns, begin) = (busy()?, monotonic_ns(), Instant::now());
        let finished = run_together(cap, commands)?;
        let (end_ns, seconds) = (monotonic_ns(), begin.elapsed().as_secs_f64());
        let busy = busy()? - busy_before;
        let of_copies: Duration = finished.iter().map(|finish| finish.cpu).sum();
        let own = of_copies + servant()?.saturating_sub(servant_before);
        let own = own.as_secs_f64();
        let (others, idle) = self.note(processors, busy, own, seconds);
        Ok(Run { finished, begin_ns, end_ns, seconds, others, idle })
    }

    fn processors(&self) -> f64 {
        if self.elapsed > 0.0 { self.foreign / self.elapsed } else { 0.0 }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processors = self.processors();
        write!(f, "others used {processors:.2} processors on average while we measured")?;
        if processors > 0.1 {
            write!(f, ": the times are disturbed, repeat this on a quiet machine")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::FromReadSI;

    #[test]
    fn this_process_may_use_a_processor() {
        assert!((1..=processors().unwrap().len()).contains(&usable().unwrap()));
    }

    #[test]
    fn busy_time_counts_our_processors_without_their_idle_time() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 4 1000 1000 8 16 32 7 7\ncpu2 100 0 0 0 0 0 \
                    0 0 0 0\n\
                    ctxt 1\nbtime 1\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n";
        let stat = KernelStats::from_read(stat.as_bytes(), procfs::current_system_info()).unwrap();
        let times: Vec<_> = [Some(0), Some(2)].into_iter().zip(stat.cpu_time).collect();
        assert_eq!(busy_ticks(&times, &[0]), 63);
        assert_eq!(busy_ticks(&times, &[0, 2]), 163);
        assert_eq!(busy_ticks(&times, &[1]), 0);
    }

    #[test]
    fn a_run_is_noted_with_its_copies() {
        let mut load = Load::default();
        let commands = (0..2).map(|_| Command::new("/bin/true")).collect();
        let none = || Ok(Duration::ZERO);
        let run = load.run_beside(1, Duration::from_secs(60), commands, none).unwrap();
        assert_eq!(run.finished.len(), 2);
        assert!(run.begin_ns < run.end_ns && run.seconds > 0.0);
        assert!(load.elapsed == run.seconds && run.others >= 0.0 && run.idle >= 0.0);
    }

    #[test]
    fn a_servant_s_time_is_not_that_of_others() {
        let (mut load, calls) = (Load::default(), std::cell::Cell::new(0));
        // It says that it took much more than all processors can.
        let servant = || Ok(Duration::from_secs(1000 * u64::from(calls.replace(1) == 1)));
        let mut spin = Command::new("/bin/sh");
        spin.args(["-c", "sleep 0.05"]);
        let run = load.run_beside(1, Duration::from_secs(60), vec![spin], servant).unwrap();
        assert_eq!(run.others, 0.0);
    }

    #[test]
    fn what_others_took_is_averaged_and_judged() {
        let mut load = Load::default();
        assert_eq!(load.note(2, 2.0, 1.98, 1.0).1, 0.0);
        assert!(!load.to_string().contains("disturbed"), "{load}");
        assert_eq!(load.note(3, 2.0, 1.0, 1.0), (1.0, 1.0));
        assert!(load.to_string().starts_with("others used 0.51 processors"), "{load}");
        assert!(load.to_string().contains("disturbed"), "{load}");
    }
}
