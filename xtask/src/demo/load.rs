//! Which processors we may use, and how much of them others took while we measured.

use std::fmt;
use std::num::NonZero;

use anyhow::Context;

/// The processors of this process's affinity mask, ascending.
pub(crate) fn processors() -> anyhow::Result<Vec<u32>> {
    let text = std::fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let list = list.context("/proc/self/status has no Cpus_allowed_list")?.trim();
    parse_list(list).with_context(|| format!("Cpus_allowed_list of /proc/self/status: '{list}'"))
}

/// How many of them programs can keep busy: the mask, or less under a quota.
pub(crate) fn usable() -> anyhow::Result<usize> {
    let mask = processors()?.len();
    Ok(std::thread::available_parallelism().map_or(mask, NonZero::get).min(mask))
}

fn parse_list(list: &str) -> anyhow::Result<Vec<u32>> {
    let mut processors = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<u32>().with_context(|| format!("'{text}' is no processor number"));
        processors.extend(number(first)?..=number(last)?);
    }
    Ok(processors)
}

/// Seconds that our processors have been busy since the machine started, whoever used them (or took them away).
pub(crate) fn busy() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    // SAFETY: takes a number, returns a number.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1);
    Ok(busy_ticks(&text, &processors()?) as f64 / per_second as f64)
}

fn busy_ticks(stat: &str, processors: &[u32]) -> u64 {
    let mut sum = 0;
    for line in stat.lines() {
        let mut words = line.split_whitespace();
        let number = words.next().and_then(|name| name.strip_prefix("cpu")).and_then(|number| number.parse().ok());
        if number.is_some_and(|number: u32| processors.contains(&number)) {
            let fields: Vec<u64> = words.map(|word| word.parse().unwrap_or(0)).collect();
            // user nice system idle iowait irq softirq steal; guest times are inside user and nice.
            sum += [0, 1, 2, 5, 6, 7].iter().filter_map(|&index| fields.get(index)).sum::<u64>();
        }
    }
    sum
}

/// What others took, over all runs.
#[derive(Default)]
pub(crate) struct Load {
    foreign: f64,
    elapsed: f64,
}

impl Load {
    /// Adds a run of `elapsed` seconds in which processors were busy for `busy` seconds in all, `own` of them with our
    /// copies. Returns how many processors others had in it, and how many nobody used.
    pub(crate) fn note(&mut self, processors: usize, busy: f64, own: f64, elapsed: f64) -> (f64, f64) {
        let foreign = (busy - own).max(0.0);
        self.foreign += foreign;
        self.elapsed += elapsed;
        (foreign / elapsed, (processors as f64 - busy.max(own) / elapsed).max(0.0))
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

    #[test]
    fn processor_lists_are_read() {
        assert_eq!(parse_list("0-2,8,10-11").unwrap(), [0, 1, 2, 8, 10, 11]);
        assert!(parse_list("0-x").is_err());
        assert!(parse_list("").is_err());
    }

    #[test]
    fn this_process_may_use_a_processor() {
        assert!((1..=processors().unwrap().len()).contains(&usable().unwrap()));
    }

    #[test]
    fn busy_time_counts_our_processors_without_their_idle_time() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 4 1000 1000 8 16 32 7 7\ncpu1 100 0 0 0 0 0 0 0 0 0\nintr 1 2\n";
        assert_eq!(busy_ticks(stat, &[0]), 63);
        assert_eq!(busy_ticks(stat, &[0, 1]), 163);
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
