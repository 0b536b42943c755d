//! What a program or its user may set: triggers, times, options; and the variables of the
//! environment.

use crate::controller::{Counts, Rules};
use std::time::Duration;

/// The published algorithm's interval.
const PUBLISHED_INTERVAL: Duration = Duration::from_secs(1);
/// That of the default, whose evidence costs little.
const INTERVAL: Duration = Duration::from_millis(50);
/// A passage that is longer is bad.
pub(crate) const BAD_TIME: Duration = Duration::from_millis(1);
/// Bad and good evaluations that lead to a change. The paper names no numbers.
const TRIGGERS: (u32, u32) = (1, 3);

/// What tells good from bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// The timed barrier of the paper, at each evaluation.
    Barrier,
    /// What the kernel and the engine's waits tell anyway; a team is kept busy for a test only
    /// where that is missing, and before a thread is added.
    #[default]
    Passive,
    /// A test that keeps all threads busy for longer than two time slices, at each evaluation: for
    /// programs whose own threads are not the engine's.
    Watch,
}

/// Whether intervals differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Jitter {
    /// They are equal.
    None,
    /// As a sequence says that belongs to the process.
    OfProcess,
    /// As the sequence says that this begins.
    Seed(u64),
}

impl Jitter {
    /// What begins the sequence of the calling process, at `now`. The children of one parent have
    /// the same settings, and programs in containers of their own have the same process numbers.
    pub(crate) fn seed(self, now: u64) -> Option<u64> {
        match self {
            Self::None => None,
            Self::OfProcess => Some((u64::from(std::process::id()) << 32) ^ now),
            Self::Seed(seed) => Some(seed),
        }
    }
}

/// How a program adapts. [`Settings::default`] is what today's kernels need; [`Settings::paper`]
/// and [`Settings::reset`] are the published algorithm.
///
/// ```
/// use asat::Settings;
/// use std::time::Duration;
///
/// let settings = Settings::reset().eval_interval(Duration::from_millis(500)).max(8);
/// assert!(settings != Settings::reset());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Settings {
    pub(crate) rules: Rules,
    pub(crate) evidence: Evidence,
    pub(crate) interval: Duration,
    pub(crate) bad_time: Duration,
    pub(crate) most: Option<usize>,
    pub(crate) early_stop: bool,
    pub(crate) jitter: Jitter,
    pub(crate) reports: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let (bad_trigger, good_trigger) = TRIGGERS;
        Self {
            rules: Rules { counts: Counts::Reset, bad_trigger, good_trigger, several: true },
            evidence: Evidence::Passive,
            interval: INTERVAL,
            bad_time: BAD_TIME,
            most: None,
            early_stop: true,
            jitter: Jitter::OfProcess,
            reports: false,
        }
    }
}

impl Settings {
    /// The published algorithm, whose counts stay as they are after a change, without options.
    pub fn paper() -> Self {
        Self::published(Counts::Kept)
    }

    /// The same with counts that begin anew after each change.
    pub fn reset() -> Self {
        Self::published(Counts::Reset)
    }

    /// These for a program with threads of its own, of which the engine's threads see nothing:
    /// where they rest on passive evidence, each evaluation is a test instead, once in a second or
    /// in their interval where that is longer. The published algorithm tests anyway, and keeps its
    /// interval, whatever it is; what tests cost is bounded there, too.
    pub(crate) fn for_own_threads(self) -> Self {
        match self.evidence {
            Evidence::Barrier | Evidence::Watch => self,
            Evidence::Passive => {
                let interval = self.interval.max(PUBLISHED_INTERVAL);
                Self { evidence: Evidence::Watch, interval, ..self }
            }
        }
    }

    fn published(counts: Counts) -> Self {
        let default = Self::default();
        Self {
            rules: Rules { counts, several: false, ..default.rules },
            evidence: Evidence::Barrier,
            interval: PUBLISHED_INTERVAL,
            early_stop: false,
            jitter: Jitter::None,
            ..default
        }
    }

    /// The time between two evaluations: 1 s as published, 50 ms by default.
    pub fn eval_interval(self, interval: Duration) -> Self {
        Self { interval, ..self }
    }

    /// What is longer is bad: 1 ms.
    pub fn bad_time(self, bad_time: Duration) -> Self {
        Self { bad_time, ..self }
    }

    /// Bad evaluations in sequence that take a thread: 1.
    pub fn bad_trigger(mut self, bad_trigger: u32) -> Self {
        self.rules.bad_trigger = bad_trigger;
        self
    }

    /// Good evaluations in sequence after which one thread more is tested: 3.
    pub fn good_trigger(mut self, good_trigger: u32) -> Self {
        self.rules.good_trigger = good_trigger;
        self
    }

    /// The most threads; never more than processors of mask and quota.
    pub fn max(self, most: usize) -> Self {
        Self { most: Some(most), ..self }
    }

    /// Several threads are dropped at once where several were missing, at most half of them.
    pub fn several(mut self, several: bool) -> Self {
        self.rules.several = several;
        self
    }

    /// A test ends as soon as it is bad.
    pub fn early_stop(self, early_stop: bool) -> Self {
        Self { early_stop, ..self }
    }

    /// Intervals differ by up to a quarter, as a sequence says that `seed` begins; `None`: they are
    /// equal. By default each process has a sequence of its own, forked children, too.
    pub fn jitter(self, seed: Option<u64>) -> Self {
        Self { jitter: seed.map_or(Jitter::None, Jitter::Seed), ..self }
    }

    /// Whether the user wants to read at the program's end what was done ([`statistics`]). The
    /// crate itself writes nothing: what reads the variables for a program does.
    ///
    /// [`statistics`]: crate::statistics()
    #[must_use]
    pub fn reports(&self) -> bool {
        self.reports
    }

    /// These settings as the variables change them that `get` knows: `ASAT_VARIANT` (default, paper
    /// or reset, from which the others depart), `ASAT_EVAL_TIME`, `ASAT_BAD_TIME`, `ASAT_BAD_TRIG`,
    /// `ASAT_GOOD_TRIG`, `ASAT_MAX`, `ASAT_OPTIONS`, `ASAT_REPORT`. The second value has a line for
    /// each wrong one, which then changes nothing.
    pub fn from_environment(get: &dyn Fn(&str) -> Option<String>) -> (Self, Vec<String>) {
        let mut reader = Reader { get, complaints: Vec::new() };
        let r = &mut reader;
        let mut own = r
            .read("ASAT_VARIANT", "default, paper or reset", |text| match text {
                "default" => Some(Self::default()),
                "paper" => Some(Self::paper()),
                "reset" => Some(Self::reset()),
                _ => None,
            })
            .unwrap_or_default();
        const TIME: &str =
            "a time above 0 of at most an hour, in seconds or with a unit: 0.5, 50ms, 800us";
        const COUNT: &str = "a number from 1 to 1000000";
        let count =
            |text: &str| text.parse::<u32>().ok().filter(|count| (1..=1_000_000).contains(count));
        own.interval = r.read("ASAT_EVAL_TIME", TIME, time).unwrap_or(own.interval);
        own.bad_time = r.read("ASAT_BAD_TIME", TIME, time).unwrap_or(own.bad_time);
        let rules = &mut own.rules;
        rules.bad_trigger = r.read("ASAT_BAD_TRIG", COUNT, count).unwrap_or(rules.bad_trigger);
        rules.good_trigger = r.read("ASAT_GOOD_TRIG", COUNT, count).unwrap_or(rules.good_trigger);
        own.most = r.read("ASAT_MAX", COUNT, count).map(|most| most as usize).or(own.most);
        const OPTIONS: &str =
            "a list of several, early, jitter, each with no- before it to switch it off";
        let options = r.read("ASAT_OPTIONS", OPTIONS, |text| {
            text.split(',').try_fold(own.clone(), |own, option| own.with_option(option.trim()))
        });
        own = options.unwrap_or(own);
        let r = &mut reader;
        own.reports = r.read("ASAT_REPORT", "on or off", switch).unwrap_or(own.reports);
        (own, reader.complaints)
    }

    /// Each variable with the value that leads to these settings; `max` without one is empty.
    pub fn shown(&self) -> [(&'static str, String); 8] {
        let variant = match (self.evidence, self.rules.counts) {
            (Evidence::Passive | Evidence::Watch, _) => "default",
            (Evidence::Barrier, Counts::Kept) => "paper",
            (Evidence::Barrier, Counts::Reset) => "reset",
        };
        let option = |name: &str, is_on: bool| format!("{}{name}", if is_on { "" } else { "no-" });
        let options = [
            option("several", self.rules.several),
            option("early", self.early_stop),
            option("jitter", self.jitter != Jitter::None),
        ];
        [
            ("ASAT_VARIANT", variant.to_owned()),
            ("ASAT_EVAL_TIME", shown(self.interval)),
            ("ASAT_BAD_TIME", shown(self.bad_time)),
            ("ASAT_BAD_TRIG", self.rules.bad_trigger.to_string()),
            ("ASAT_GOOD_TRIG", self.rules.good_trigger.to_string()),
            ("ASAT_MAX", self.most.map_or_else(String::new, |most| most.to_string())),
            ("ASAT_OPTIONS", options.join(",")),
            ("ASAT_REPORT", if self.reports { "on" } else { "off" }.to_owned()),
        ]
    }

    fn with_option(self, option: &str) -> Option<Self> {
        let (name, is_on) = match option.strip_prefix("no-") {
            Some(name) => (name, false),
            None => (option, true),
        };
        match name {
            "several" => Some(self.several(is_on)),
            "early" => Some(self.early_stop(is_on)),
            "jitter" if is_on => Some(Self { jitter: Jitter::OfProcess, ..self }),
            "jitter" => Some(self.jitter(None)),
            _ => None,
        }
    }
}

/// The variables that [`Settings::from_environment`] reads, for lists of them.
pub const VARIABLES: [&str; 8] = [
    "ASAT_VARIANT",
    "ASAT_EVAL_TIME",
    "ASAT_BAD_TIME",
    "ASAT_BAD_TRIG",
    "ASAT_GOOD_TRIG",
    "ASAT_MAX",
    "ASAT_OPTIONS",
    "ASAT_REPORT",
];

/// Reads variables and collects the complaints.
struct Reader<'a> {
    get: &'a dyn Fn(&str) -> Option<String>,
    complaints: Vec<String>,
}

impl Reader<'_> {
    fn read<T>(
        &mut self,
        name: &str,
        wanted: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text = (self.get)(name)?;
        let value = parse(&text.trim().to_ascii_lowercase());
        if value.is_none() {
            self.complaints.push(format!(
                "Invalid value for environment variable {name}: \"{}\" (must be {wanted}); it is \
                 ignored",
                text.escape_default()
            ));
        }
        value
    }
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "1" | "on" | "true" | "yes" => Some(true),
        "0" | "off" | "false" | "no" => Some(false),
        _ => None,
    }
}

/// `1`, `0.5`, `1s`, `50ms`, `800us`.
fn time(text: &str) -> Option<Duration> {
    let units = [("ms", 1e-3), ("us", 1e-6), ("s", 1.0), ("", 1.0)];
    let (number, unit) =
        units.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, *size)))?;
    let number = number.trim();
    if !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let seconds = number.parse::<f64>().ok()? * unit;
    (1e-6..=3600.0).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

/// A time as the variables take it.
fn shown(time: Duration) -> String {
    let us = time.as_micros();
    if us.is_multiple_of(1000) { format!("{}ms", us / 1000) } else { format!("{us}us") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_leads_to_the_same_settings() {
        for settings in [
            Settings::default().bad_time(Duration::from_micros(700)).several(false),
            Settings::paper().max(3).eval_interval(Duration::from_millis(1500)),
            Settings::reset().early_stop(true).bad_trigger(4).good_trigger(7),
            Settings { reports: true, ..Settings::default() },
        ] {
            let shown = settings.shown();
            assert_eq!(shown.each_ref().map(|(name, _)| *name), VARIABLES);
            let get = |name: &str| {
                let (_, value) = shown.iter().find(|(key, _)| *key == name)?;
                (!value.is_empty()).then(|| value.clone())
            };
            assert_eq!(Settings::from_environment(&get), (settings, vec![]));
        }
    }

    #[test]
    fn own_threads_are_tested_once_in_a_second_by_default_and_as_often_as_set_as_published() {
        let of = |settings: Settings, ms| {
            let own = settings.eval_interval(Duration::from_millis(ms)).for_own_threads();
            (own.evidence, own.interval.as_millis())
        };
        for (ms, least) in [(50, 1000), (999, 1000), (1000, 1000), (3000, 3000)] {
            assert_eq!(of(Settings::default(), ms), (Evidence::Watch, least));
            for settings in [Settings::paper(), Settings::reset()] {
                assert_eq!(of(settings, ms), (Evidence::Barrier, u128::from(ms)));
            }
        }
        // Nothing else is changed.
        let settings = Settings::default().max(3).bad_trigger(2).several(false).jitter(Some(5));
        let interval = PUBLISHED_INTERVAL;
        let expected = Settings { evidence: Evidence::Watch, interval, ..settings.clone() };
        assert_eq!(settings.for_own_threads(), expected);
    }

    #[test]
    fn each_process_has_a_sequence_of_its_own_unless_the_program_names_one() {
        assert_eq!(Settings::default().jitter(Some(7)).jitter.seed(9), Some(7));
        assert_eq!(Settings::default().jitter(None).jitter.seed(9), None);
        assert_eq!(Settings::paper().jitter.seed(9), None);
        // A child has the settings that its parent made.
        let made = Settings::default();
        let is_own = || {
            let seed = made.jitter.seed(9).expect("intervals differ");
            seed >> 32 == u64::from(std::process::id())
        };
        assert!(is_own());
        // SAFETY: - the child compares two numbers, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: - ends the child without the parent's destructors.
            unsafe { libc::_exit(i32::from(!is_own())) };
        }
        let mut status = 0;
        // SAFETY: - `status` outlives the call; the child is ours.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }

    fn read(pairs: &[(&str, &str)]) -> (Settings, Vec<String>) {
        Settings::from_environment(&|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn an_empty_environment_changes_nothing() {
        assert_eq!(read(&[]), (Settings::default(), vec![]));
    }

    #[test]
    fn each_variable_changes_what_its_name_says_from_the_variant_on() {
        let (settings, complaints) = read(&[
            ("ASAT_VARIANT", " Paper "),
            ("ASAT_EVAL_TIME", "0.25"),
            ("ASAT_BAD_TIME", " 800 us "),
            ("ASAT_BAD_TRIG", "2"),
            ("ASAT_GOOD_TRIG", "5"),
            ("ASAT_MAX", "3"),
            ("ASAT_OPTIONS", "early, several"),
        ]);
        assert_eq!(complaints, Vec::<String>::new());
        let expected = Settings::paper()
            .eval_interval(Duration::from_millis(250))
            .bad_time(Duration::from_micros(800))
            .bad_trigger(2)
            .good_trigger(5)
            .max(3)
            .early_stop(true)
            .several(true);
        assert_eq!(settings, expected);
        assert_eq!(read(&[("ASAT_OPTIONS", "no-jitter")]).0, Settings::default().jitter(None));
    }

    #[test]
    fn garbage_brings_one_line_that_names_it_and_changes_nothing() {
        for (name, value) in [
            ("ASAT_VARIANT", "papers"),
            ("ASAT_EVAL_TIME", "soon"),
            ("ASAT_EVAL_TIME", "0"),
            ("ASAT_EVAL_TIME", "-1"),
            ("ASAT_EVAL_TIME", ""),
            ("ASAT_EVAL_TIME", "1e3"),
            ("ASAT_EVAL_TIME", "inf"),
            ("ASAT_EVAL_TIME", "3601"),
            ("ASAT_BAD_TIME", "1 m"),
            ("ASAT_BAD_TIME", "nan"),
            ("ASAT_BAD_TRIG", "0"),
            ("ASAT_GOOD_TRIG", "1.5"),
            ("ASAT_GOOD_TRIG", "99999999999999"),
            ("ASAT_MAX", "all"),
            ("ASAT_OPTIONS", "early,late"),
            ("ASAT_OPTIONS", ""),
            ("ASAT_REPORT", "2"),
        ] {
            let (settings, complaints) = read(&[(name, value)]);
            assert_eq!(complaints.len(), 1, "{name}={value}");
            assert!(complaints[0].contains(&format!("{name}: \"{value}\"")), "{complaints:?}");
            assert_eq!(settings, Settings::default(), "{name}={value}");
            assert!(VARIABLES.contains(&name));
        }
    }
}
