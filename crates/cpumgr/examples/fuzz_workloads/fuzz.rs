//! A fuzzer of workload files and policy parameters that runs on a stable compiler: mutations of
//! good files, and what must hold for whatever comes out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use cpumgr::simulate::paraver;
use cpumgr::simulate::{FileError, parse};
use policies::sim::{Options, SimError, Workload, simulate};
use policies::{Needs, Registry, Value};

/// Files with more executions are read and not run: each is bounded, all of them together take
/// long.
const MOST_EXECUTIONS: u64 = 300;
/// Events per run.
const MOST_EVENTS: u64 = 5_000;

/// Numbers by a fixed rule (splitmix64), so that a seed says all.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.roll() % bound.max(1) as u64) as usize
    }

    fn one_of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// What the file of a request pattern holds: comments of the workload that begin so, so that
/// mutations reach both.
const PATTERN_FILE: &str = "#| ";

/// Small files with every table and key, and every parameter of every policy there is.
pub(crate) fn seeds() -> Vec<String> {
    let registry = Registry::with_builtin_for(Needs::EVERYTHING);
    let mut every = SEEDS[1].to_owned();
    for name in registry
        .names()
        .into_iter()
        .filter(|name| !SEEDS[1].contains(&format!("[parameters.{name}]")))
    {
        let parameters =
            registry.create(name).map(|policy| policy.parameters()).unwrap_or_default();
        every.push_str(&format!("[parameters.{name}]\n"));
        for parameter in parameters {
            let value = match parameter.default {
                time @ Value::Time(_) => format!("\"{time}\""),
                // With a point, to be of the same kind when it is read.
                Value::Number(number) => format!("{number:?}"),
                other => other.to_string(),
            };
            every.push_str(&format!("{} = {value}\n", parameter.key));
        }
    }
    SEEDS.iter().map(|seed| (*seed).to_owned()).chain([every]).collect()
}

const SEEDS: [&str; 3] = [
    r#"name = "seed"
jobs = [{ program = "a", copies = 3, repetitions = 2, until = "1s" }, { program = "b", arrival = "20ms", every = "5ms" }]
switches = [{ at = "30ms", policy = "equip" }]
[machine]
processors = 6
per_core = 2
per_cache = 2
per_node = 2
smt_gain = 1.4
remote = 2.5
bandwidth = 0.5
[manager]
policy = "ssw-dss"
quantum = "10ms"
level = 3
master_always = false
work_list = true
hold = "2ms"
noise = 0.2
keep_minima = true
[native]
slice = "3ms"
patience = "1ms"
switch = "10us"
coincidence = 0.5
adapts = "7ms"
[parameters.pdpa]
base = 2
step = 1
min-efficiency = 0.5
[parameters.vtq-dss]
load = 1.2
shortest = "2ms"
longest = "40ms"
masters = 2
[programs.a]
request = 4
pattern = "alternate"
iterations = 3
phases = [{ serial = "2ms" }, { parallel = "40ms", regions = 8, steps = 4 }]
curve = { downey = { parallelism = 3.0, variance = 1.5 } }
bottleneck = "machine"
waiting = "block"
refill = "200us"
min = 2
max = 5
weight = 2.5
memory = 0.6
label = "night"
[programs.a.native]
work = 1.2
curve = { times = [[1, 10.0], [4, 6.0]] }
busy = "linear"
[programs.b]
request = 8
pattern = "diamond"
phases = [{ parallel = "60ms" }]
curve = { times = [[1, 10.0], [2, 6.0], [8, 3.0]] }
"#,
    r#"name = "other"
jobs = [{ program = "c", copies = 5 }]
machine = { processors = 3 }
[manager]
policy = "pdpa"
[parameters.cluster]
size = 2
[parameters.batch]
backfill = true
[programs.c]
request = 3
pattern = { list = [1, 3, 2] }
iterations = 6
phases = [{ parallel = "12ms", regions = 3 }]
curve = { amdahl = { serial = 0.2 } }
"#,
    r#"name = "pattern"
#| 2
#| 4 # both
#| # nothing
#| 1
jobs = [{ program = "d", copies = 3, repetitions = 2 }]
machine = { processors = 4, per_core = 2 }
[manager]
policy = "batch"
smt = "pack"
work_list = false
[programs.d]
request = 4
pattern = { file = "requests" }
rigid = true
iterations = 5
phases = [{ parallel = "8ms", regions = 2 }, { serial = "1ms" }]
curve = { speedups = [[1, 1.0], [4, 3.5]] }
"#,
];

/// Values that find limits.
const VALUES: [&str; 26] = [
    "0",
    "1",
    "-1",
    "2",
    "7",
    "4096",
    "4097",
    "65536",
    "100001",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "0.0",
    "1.0",
    "-0.5",
    "0.001",
    "1e308",
    "nan",
    "inf",
    "true",
    "\"0ms\"",
    "\"1ns\"",
    "\"99999999999s\"",
    "\"1.5s\"",
    "[]",
    "\"\"",
];

/// A mutation of one of the seeds, or of what came before.
fn mutate(text: &str, seeds: &[String], dice: &mut Dice) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..=dice.below(3) {
        if lines.is_empty() {
            lines = dice.one_of(seeds).lines().map(str::to_owned).collect();
        }
        let at = dice.below(lines.len());
        match dice.below(7) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[dice.below(lines.len())].clone()),
            2 => {
                let other = dice.below(lines.len());
                lines.swap(at, other);
            }
            3 => {
                let seed: Vec<&str> = dice.one_of(seeds).lines().collect();
                lines.insert(at, (*dice.one_of(&seed)).to_owned());
            }
            4 => {
                let byte = dice.below(lines[at].len() + 1);
                if lines[at].is_char_boundary(byte) {
                    lines[at].insert(
                        byte,
                        *dice.one_of(&['"', '[', '}', '=', '.', '-', '9', 'e', '\u{e4}', ',']),
                    );
                }
            }
            _ => lines[at] = with_another_value(&lines[at], dice),
        }
    }
    lines.join("\n") + "\n"
}

/// The line with one of its numbers or words in quotes replaced.
fn with_another_value(line: &str, dice: &mut Dice) -> String {
    let mut places: Vec<(usize, usize)> = Vec::new();
    let bytes = line.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let begin = at;
        if bytes[at] == b'"' {
            at += 1;
            while at < bytes.len() && bytes[at] != b'"' {
                at += 1;
            }
            at = (at + 1).min(bytes.len());
            places.push((begin, at));
        } else if bytes[at].is_ascii_digit() {
            while at < bytes.len() && (bytes[at].is_ascii_digit() || bytes[at] == b'.') {
                at += 1;
            }
            places.push((begin, at));
        } else {
            at += 1;
        }
    }
    if places.is_empty() {
        return line.to_owned();
    }
    let (begin, end) = *dice.one_of(&places);
    if !line.is_char_boundary(begin) || !line.is_char_boundary(end) {
        return line.to_owned();
    }
    format!("{}{}{}", &line[..begin], dice.one_of(&VALUES), &line[end..])
}

/// What came of one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    /// It is no workload, and was refused well.
    Refused,
    /// It was simulated.
    Ran,
}

/// Reads `text` and simulates what it says; `Err` is a defect. With `planted` the reader forgets to
/// check ranges, as a reader would that trusts its parser.
pub(crate) fn examine(text: &str, policy: usize, planted: bool) -> Result<Came, String> {
    catch_unwind(AssertUnwindSafe(|| examine_inside(text, policy, planted)))
        .unwrap_or_else(|_| Err("a panic".to_owned()))
}

fn examine_inside(text: &str, policy: usize, planted: bool) -> Result<Came, String> {
    let registry = Registry::with_builtin_for(Needs::EVERYTHING);
    let pattern: String = text
        .lines()
        .filter_map(|line| line.strip_prefix(PATTERN_FILE))
        .fold(String::new(), |all, line| all + line + "\n");
    let load = |name: &str| match name {
        "requests" => Ok(pattern.clone()),
        _ => Err(FileError::Unreadable {
            path: PathBuf::from(name),
            source: std::io::Error::other("no"),
        }),
    };
    let read = parse(Path::new("w.toml"), text, &registry, load);
    let workload: Workload = match read {
        Ok(workload) => workload,
        Err(error) => match toml::from_str(text) {
            Ok(unchecked) if planted => unchecked,
            _ => return refused(text, &pattern, &error),
        },
    };
    let executions: u64 = workload
        .jobs
        .iter()
        .map(|job| u64::from(job.copies).saturating_mul(u64::from(job.repetitions)))
        .sum();
    if executions > MOST_EXECUTIONS {
        return Ok(Came::Refused);
    }
    let names = registry.names();
    let name = names[policy % names.len()];
    let options = Options { timeline: true, most_events: MOST_EVENTS, ..Options::policy(name) };
    let outcome = match simulate(&workload, &registry, &options) {
        Ok(outcome) => outcome,
        Err(SimError::TooLong { .. } | SimError::TooMuch { .. }) => return Ok(Came::Refused),
        Err(error) => return Err(format!("under {name}: {error}")),
    };
    // Each execution's processor time is a whole number of ns, rounded.
    let rounding = outcome.executions.len() as f64 / 2.0;
    let machine_time = outcome.makespan() as f64 * f64::from(outcome.processors) * (1.0 + 1e-9);
    let has_its_time = outcome.cpu_time() as f64 <= machine_time + rounding;
    if !(has_its_time && outcome.fairness() <= 1.0 + 1e-9) {
        return Err(format!(
            "under {name}: utilisation {}, fairness {}",
            outcome.utilisation(),
            outcome.fairness()
        ));
    }
    let timeline = outcome.timeline.as_ref().ok_or("no timeline")?;
    paraver::validate(&paraver::write(timeline))
        .map_err(|error| format!("under {name}: {error}"))?;
    Ok(Came::Ran)
}

/// A refusal names the file and a line of it, in one line of text.
fn refused(text: &str, pattern: &str, error: &FileError) -> Result<Came, String> {
    let message = error.to_string();
    match error {
        FileError::Wrong { path, line, message: said } => {
            let text = if path == Path::new("requests") { pattern } else { text };
            let lines = text.lines().count().max(1);
            let well =
                (1..=lines + 1).contains(line) && !said.is_empty() && !message.contains('\n');
            if well {
                Ok(Came::Refused)
            } else {
                Err(format!("a bad refusal: {message:?} for {lines} lines"))
            }
        }
        // What a line of the workload names is told with that line.
        _ => Err(format!("a bad refusal: {message:?} names no line")),
    }
}

/// Looks for a defect in this many texts. Returns the first one with what is wrong, else how many
/// ran.
pub(crate) fn search(
    seed: u64,
    rounds: u64,
    planted: bool,
    mut go_on: impl FnMut() -> bool,
) -> Result<u64, (String, String)> {
    let mut dice = Dice(seed);
    let seeds = seeds();
    let mut corpus = seeds.clone();
    let mut ran = 0;
    for round in 0..rounds {
        if !go_on() {
            break;
        }
        let text = mutate(&dice.one_of(&corpus).clone(), &seeds, &mut dice);
        match examine(&text, round as usize, planted) {
            Ok(Came::Ran) => {
                ran += 1;
                // What still runs is a start for more, and takes the place of an older one.
                if corpus.len() < 64 {
                    corpus.push(text);
                } else {
                    let at = seeds.len() + dice.below(corpus.len() - seeds.len());
                    corpus[at] = text;
                }
            }
            Ok(Came::Refused) => {}
            Err(defect) => return Err((text, defect)),
        }
    }
    Ok(ran)
}
