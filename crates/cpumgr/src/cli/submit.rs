//! What `submit` can be told besides what `run` can.

use std::path::PathBuf;
use std::time::Duration;

use arena::message::{After, ProcessorRange};
use clap::Args;

use super::RunArgs;
use super::exit_codes::EXIT_CODES;
use super::value::{age, time_limit};

/// What `submit` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct SubmitArgs {
    /// Starts it after these submissions have ended: their numbers, with commas between them.
    /// `ok:7` is after number 7 has ended with exit code 0, `failed:7` after it ended in another
    /// way or was cancelled. What cannot come about any more cancels it (exit code 7).
    #[arg(long, value_name = "[ok:|failed:|any:]ID,...", value_delimiter = ',')]
    pub after: Vec<After>,
    /// Gives up when it could not begin within this time (exit code 7).
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub deadline: Option<Duration>,
    /// Stays beside the program as its parent, tells the manager how it ended, for `--after ok:ID`,
    /// and ends with its exit code.
    #[arg(long)]
    pub wait: bool,
    /// Ends the program when it has run for this long: by SIGTERM, and 10 s later by SIGKILL. As
    /// with --wait: `cpumgr` stays as its parent, and where that is killed nothing ends it. Jobs
    /// with --procs may start before others that cannot start yet, where they are over in time by
    /// this limit.
    #[arg(long, value_name = "TIME", value_parser = time_limit)]
    pub time_limit: Option<Duration>,
    /// Starts it when so many processors are free for it, and takes no other job for them until it
    /// ends (programs that are no jobs may share them); of 4..16 as many as there are then. Jobs
    /// start in their order, and one that does not delay the first that waits may start before it.
    #[arg(long, value_name = "N|MIN..MAX", value_parser = processors, conflicts_with_all = ["min", "max"])]
    pub procs: Option<ProcessorRange>,
    /// Submits it once for each number from A to B (in steps of S), which it finds in
    /// CPUMGR_ARRAY_INDEX and in place of each {index} of its words. As with --wait: ends when all
    /// have ended, with 0 when all did so with 0.
    #[arg(long, value_name = "A-B[:S]", value_parser = array)]
    pub array: Option<Array>,
    /// Shows its number and returns, while it waits and runs. As with --wait.
    #[arg(long, conflicts_with = "array")]
    pub background: bool,
    /// With --background: what it writes is appended to this file.
    #[arg(long, value_name = "FILE", default_value = "cpumgr.out", requires = "background")]
    pub output: PathBuf,
    /// Which of the processes of one command line it is.
    #[arg(long, hide = true, default_value_t = 0)]
    pub stage: u8,
    /// Which one of an array.
    #[arg(long, hide = true)]
    pub index: Option<u64>,
    /// Where its number is told.
    #[arg(long, hide = true)]
    pub tell: Option<i32>,
    /// What `run` can be told, too.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Numbers of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    /// The first one.
    pub first: u64,
    /// The last one, or less than a step beyond it.
    pub last: u64,
    /// From one to the next.
    pub step: u64,
}

/// The most numbers of one array.
const MOST: u64 = 100_000;

impl Array {
    /// All of them.
    pub fn numbers(self) -> impl Iterator<Item = u64> {
        (self.first..=self.last).step_by(usize::try_from(self.step).unwrap_or(usize::MAX))
    }
}

fn array(text: &str) -> Result<Array, String> {
    let (range, step) = text.split_once(':').unwrap_or((text, "1"));
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let number = |text: &str| {
        text.parse::<u64>().map_err(|_| format!("{text:?} is no number; write 1-10, or 0-90:10"))
    };
    let array = Array { first: number(first)?, last: number(last)?, step: number(step)? };
    if array.last < array.first || array.step == 0 {
        return Err("an array goes up, in steps of 1 or more: 1-10, or 0-90:10".into());
    }
    if (array.last - array.first) / array.step >= MOST {
        return Err(format!("an array has at most {MOST} numbers"));
    }
    Ok(array)
}

fn processors(text: &str) -> Result<ProcessorRange, String> {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
    match (number(least), number(most)) {
        (Some(least), Some(most)) if least <= most => Ok(ProcessorRange { least, most }),
        _ => Err("that is a number of processors, 8, or a range of them, 4..16".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_a_number_or_a_range_that_goes_up() {
        assert_eq!(processors("8"), Ok(ProcessorRange { least: 8, most: 8 }));
        assert_eq!(processors("4..16"), Ok(ProcessorRange { least: 4, most: 16 }));
        for bad in ["", "0", "4..", "..4", "8..4", "0..4", "4-8", "-1"] {
            assert!(processors(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_array_is_a_range_with_steps() {
        let numbers = |text: &str| array(text).map(|it| it.numbers().collect::<Vec<_>>());
        assert_eq!(numbers("3-5"), Ok(vec![3, 4, 5]));
        assert_eq!(numbers("0-90:40"), Ok(vec![0, 40, 80]));
        assert_eq!(numbers("7"), Ok(vec![7]));
        for bad in ["5-3", "1-4:0", "a-b", "1-", "0-100000"] {
            assert!(numbers(bad).is_err(), "{bad}");
        }
    }
}
