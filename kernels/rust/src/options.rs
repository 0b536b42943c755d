//! The command line that all kernels share. A wrong one is an error on stderr and exit code 2.

use clap::{Parser, ValueEnum};

/// The size of the problem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Class {
    /// For tests.
    #[default]
    #[value(name = "S")]
    S,
    /// For a workstation of old.
    #[value(name = "W")]
    W,
    /// Small.
    #[value(name = "A")]
    A,
    /// Four to sixteen times as large.
    #[value(name = "B")]
    B,
}

impl Class {
    /// The entry of a table with one row a class.
    pub fn of<T>(self, table: &[T; 4]) -> &T {
        &table[self as usize]
    }

    /// Its letter.
    pub fn letter(self) -> char {
        *self.of(&['S', 'W', 'A', 'B'])
    }
}

/// What runs the loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Runtime {
    /// This project's library; threads: `OMP_NUM_THREADS`, else as many as the program has.
    #[default]
    Nanothreads,
    /// The same, and without a manager the program finds out how many threads it can run (asat).
    SelfAllocating,
    /// rayon; threads: `RAYON_NUM_THREADS`, else one for each processor.
    Rayon,
}

/// What the command line says.
#[derive(Clone, Debug, Parser)]
#[command(about = "A kernel of the NAS parallel benchmarks", args_override_self = true)]
pub struct Options {
    /// The size of the problem.
    #[arg(long, value_enum, default_value = "S")]
    pub class: Class,
    /// Repeat until this many seconds have passed.
    #[arg(long, value_parser = positive, conflicts_with = "repeat", value_name = "T")]
    pub seconds: Option<f64>,
    /// Repeat this many times.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..),
          value_name = "N")]
    pub repeat: u32,
    /// One JSON line, the last on stdout.
    #[arg(long)]
    pub json: bool,
    /// No text on stdout; errors still go to stderr.
    #[arg(long)]
    pub quiet: bool,
    /// What runs the loops.
    #[arg(long, value_enum, default_value = "nanothreads")]
    pub runtime: Runtime,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds > 0.0 => Ok(seconds),
        _ => Err("not a time above 0".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, i32> {
        let words = std::iter::once("kernel").chain(line.split_whitespace());
        Options::try_parse_from(words).map_err(|error| error.exit_code())
    }

    #[test]
    fn what_is_not_said_has_its_default() {
        let options = read("").unwrap();
        assert_eq!((options.class, options.runtime), (Class::S, Runtime::Nanothreads));
        assert_eq!((options.seconds, options.repeat), (None, 1));
        assert!(!options.json && !options.quiet);
    }

    #[test]
    fn what_is_said_is_read() {
        let options = read("--class A --seconds 2.5 --json --quiet --runtime rayon").unwrap();
        assert_eq!((options.class.letter(), options.runtime), ('A', Runtime::Rayon));
        assert_eq!(options.seconds, Some(2.5));
        assert!(options.json && options.quiet);
        assert_eq!(read("--repeat 3 --class W --class B").unwrap().class, Class::B);
    }

    #[test]
    fn what_is_wrong_has_exit_code_2() {
        for line in [
            "--class Z",
            "--class",
            "--class s",
            "--unknown",
            "--repeat 0",
            "--seconds 0",
            "--seconds inf",
            "--seconds 1 --repeat 1",
            "--runtime tokio",
            "more",
        ] {
            assert_eq!(read(line).unwrap_err(), 2, "{line}");
        }
        assert_eq!(read("--help").unwrap_err(), 0);
    }
}
