//! What the command line gave, as a configuration: it stands above all files, also when those are
//! read anew while the manager runs, and after `cpumgr restart`.

use toml::{Table, Value};

use super::Options;
use crate::cli::Level;
use crate::config::Config;
use crate::error::Error;

impl Options {
    /// What the starter of the first manager of this process gave. One that begins anew has what
    /// was in force as its options, and what was given beside them (`given`).
    ///
    /// # Errors
    /// `--given` cannot be read: a program that is no manager of ours wrote it.
    pub fn above(&self) -> Result<Config, Error> {
        let given = self.given.as_deref().map(|text| {
            Config::parse(text).map_err(|(_, what)| Error::Usage(format!("--given: {what}")))
        });
        let told = match given {
            Some(given) => given?,
            None => Config {
                policy: self.policy.clone(),
                parameters: self.parameters.clone(),
                quantum: self.quantum,
                grace: self.grace,
                mpl: self.level,
                ..Config::default()
            },
        };
        Ok(Config {
            fair_share: self.fair_share,
            smt: self.smt,
            cpus: self.cpus.clone().map(Some),
            strangers: self.strangers,
            idle_exit: self.idle_exit,
            fence: self.fence.clone(),
            trace: self.trace.clone(),
            trace_size: self.trace_size,
            history: self.history.clone(),
            listen: self.listen,
            ..told
        })
    }

    /// The same for the command line of the manager that this one becomes, as far as its options
    /// say what is in force instead.
    pub(super) fn given_on(&self) -> String {
        if let Some(given) = &self.given {
            return given.clone();
        }
        let time = |time: std::time::Duration| Value::from(format!("{}ns", time.as_nanos()));
        let level = |level: Level| match level {
            Level::Any => Value::from("any"),
            Level::AtMost(number) => Value::from(i64::from(number)),
        };
        let given = [
            ("policy", self.policy.clone().map(Value::from)),
            ("quantum", self.quantum.map(time)),
            ("grace", self.grace.map(time)),
            ("mpl", self.level.map(level)),
        ];
        let given = given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Table::from_iter(given).to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn options(words: &[&str]) -> Options {
        let words = ["cpumgr", "daemon"].iter().chain(words);
        let Command::Daemon(args) = Cli::try_parse_from(words).unwrap().command else {
            panic!("not daemon")
        };
        Options::of(&args, Path::new("/s")).unwrap()
    }

    #[test]
    fn what_was_given_is_known_after_any_number_of_new_beginnings() {
        let words = ["--policy", "pdpa", "--quantum", "50ms", "--mpl", "3", "--smt", "pack"];
        let first = options(&words);
        let given = first.given_on();
        let next = options(&["--smt", "pack", "--quantum", "7ms", "--given", &given]);
        assert_eq!(next.above().unwrap(), first.above().unwrap());
        assert_eq!(next.given_on(), given);
        let nothing = options(&["--quantum", "7ms", "--given", &options(&[]).given_on()]);
        assert_eq!(nothing.above().unwrap(), Config::default());
        assert!(options(&["--given", "colour = 4"]).above().is_err());
    }
}
