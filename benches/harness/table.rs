//! The samples that count, the closing table, and the raw record.

use super::options::Compare;
use super::place::Row;
use super::{AGREE, Bar, Bench, Case, Engine, FAR_NS, median};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// What came of one sample.
pub(crate) enum Record {
    /// The time of an operation in nanoseconds, and the extras.
    Values(Vec<f64>),
    /// The engine cannot be run here.
    Absent(String),
    /// A wrong result, or a process that broke.
    Wrong(String),
}

impl Record {
    /// A sample's line of CSV.
    pub(crate) fn parse(text: &str) -> Self {
        let values: Result<Vec<f64>, _> = text.trim().split(',').map(str::parse).collect();
        match values {
            Ok(values) => Self::Values(values),
            Err(_) => Self::Wrong(format!("a sample printed {:?}", text.trim())),
        }
    }
}

/// One sample that counts.
struct Sample {
    round_trip: f64,
    values: Vec<f64>,
}

/// A row: case, place of the engine in it, bound or not.
type Key = (usize, String, Row);

/// All samples.
#[derive(Default)]
pub(crate) struct Table {
    kept: BTreeMap<Key, Vec<Sample>>,
    /// Rows that have nothing to measure, with the reason.
    closed: BTreeMap<Key, (bool, String)>,
    dropped: u32,
    raw: Vec<String>,
}

impl Table {
    /// True when the row will have no samples.
    pub(crate) fn is_closed(&self, case: usize, engine: &Engine, row: Row) -> bool {
        self.closed.contains_key(&(case, engine.name.clone(), row))
    }

    /// Takes a sample in. False when it was dropped.
    pub(crate) fn add(
        &mut self,
        (index, case): (usize, &Case),
        engine: &Engine,
        row: Row,
        round: u32,
        (before, after): (f64, f64),
        record: Record,
    ) -> bool {
        let key = (index, engine.name.clone(), row);
        match record {
            Record::Absent(why) => drop(self.closed.insert(key, (false, why))),
            Record::Wrong(why) => drop(self.closed.insert(key, (true, why))),
            Record::Values(values) => {
                let numbers: Vec<String> = values.iter().map(f64::to_string).collect();
                let (case, engine, row) = (&case.name, &engine.name, row.name());
                self.raw.push(format!("{case},{engine},{row},{round},{before:.1},{after:.1},{}", numbers.join(",")));
                if before.max(after) > AGREE * before.min(after) {
                    self.dropped += 1;
                    return false;
                } else {
                    let round_trip = f64::midpoint(before, after);
                    self.kept.entry(key).or_default().push(Sample { round_trip, values });
                }
            }
        }
        true
    }

    /// Prints a table for each case. False when something was wrong.
    pub(crate) fn print(&self, bench: &Bench, options: &Compare) -> bool {
        println!(
            "medians; rtt: round trip of one line; far: above {FAR_NS} ns; /rtt: median of the samples' own ratios"
        );
        for (index, case) in bench.cases.iter().enumerate() {
            if case.engines.iter().any(|engine| options.wants(case, engine)) {
                self.print_case(index, case, options);
            }
        }
        println!("\n{} samples dropped: their round trips before and after disagree", self.dropped);
        let mut right = true;
        for ((index, engine, row), (wrong, why)) in &self.closed {
            if *wrong {
                println!("WRONG: {}: {engine} ({}): {why}", bench.cases[*index].name, row.name());
                right = false;
            }
        }
        right
    }

    fn print_case(&self, index: usize, case: &Case, options: &Compare) {
        println!("\n{}", case.name);
        print!("  {:<26} {:<8} {:<5} {:>3} {:>8}", "engine", "row", "rtt", "n", "rtt ns");
        print!(" {:>11} {:>9} {:>8}", "time", "/rtt", "/ours");
        case.extras.iter().for_each(|extra| print!(" {extra:>12}"));
        println!();
        for engine in case.engines.iter().filter(|engine| options.wants(case, engine)) {
            for &row in engine.rows {
                let key = (index, engine.name.clone(), row);
                let known = |row: Row| self.closed.get(&(index, engine.name.clone(), row)).map(|(_, why)| why);
                if let (Some(here), [first, ..]) = (known(row), engine.rows)
                    && row != *first
                    && known(*first) == Some(here)
                {
                    continue;
                }
                if let Some((wrong, why)) = self.closed.get(&key) {
                    println!(
                        "  {:<26} {:<8} {}{why}",
                        engine.name,
                        row.name(),
                        if *wrong { "WRONG: " } else { "none: " }
                    );
                }
                for far in [false, true] {
                    self.print_row(index, case, engine, row, far);
                }
                if !self.closed.contains_key(&key) && !self.kept.contains_key(&key) {
                    println!("  {:<26} {:<8} none: all samples were dropped", engine.name, row.name());
                }
            }
        }
    }

    fn print_row(&self, index: usize, case: &Case, engine: &Engine, row: Row, far: bool) {
        let samples = self.samples(index, &engine.name, row, far);
        if samples.is_empty() {
            return;
        }
        let of = |pick: &dyn Fn(&Sample) -> f64| median(&mut samples.iter().map(|s| pick(s)).collect::<Vec<_>>());
        let time = of(&|s| s.values[0]);
        let per_trip = of(&|s| s.values[0] / s.round_trip);
        print!("  {:<26} {:<8} {:<5}", engine.name, row.name(), if far { "far" } else { "near" });
        // Round trips bound short operations only.
        let trips = if per_trip < 10_000.0 { format!("{per_trip:.2}") } else { "-".into() };
        print!(" {:>3} {:>8.1} {:>11} {trips:>9}", samples.len(), of(&|s| s.round_trip), duration(time));
        match self.time(index, &case.engines[0].name, row, far) {
            Some(ours) => print!(" {:>8.2}", time / ours),
            None => print!(" {:>8}", "-"),
        }
        for extra in 1..=case.extras.len() {
            match of(&|s| s.values.get(extra).copied().unwrap_or(f64::NAN)) {
                value if value.is_nan() => print!(" {:>12}", "-"),
                value => print!(" {value:>12.2}"),
            }
        }
        if engine.name.starts_with("nanothreads") {
            let extra = |number: usize| of(&|s| s.values.get(number).copied().unwrap_or(f64::NAN));
            self.print_bar(index, case, row, far, (time, per_trip), &extra);
        }
        println!();
    }

    fn print_bar(
        &self,
        index: usize,
        case: &Case,
        row: Row,
        far: bool,
        (time, per_trip): (f64, f64),
        extra: &dyn Fn(usize) -> f64,
    ) {
        let (limit, is_met) = match case.bar {
            None => return,
            Some(Bar::RoundTrips { near, far: limit_far }) => {
                let limit = if far { limit_far } else { near };
                (format!("{limit} rtt"), per_trip <= limit)
            }
            Some(Bar::Nanoseconds(limit)) => (duration(limit), time <= limit),
            Some(Bar::Extra { index, limit }) => {
                (format!("{} {limit}", case.extras.get(index - 1).unwrap_or(&"")), extra(index) <= limit)
            }
            Some(Bar::TimesOf { engines, row: peer_row, factor }) => {
                let is_meant = |known: &&Engine| engines.iter().any(|name| known.name.starts_with(name));
                let peers = case.engines.iter().skip(1).filter(is_meant);
                let times = peers.filter_map(|peer| self.time(index, &peer.name, peer_row.unwrap_or(row), far));
                let Some(best) = times.min_by(f64::total_cmp) else { return };
                let peer_row = peer_row.map_or(String::new(), |row| format!(" {}", row.name()));
                (format!("{factor} x {}{peer_row}", engines.join(", ")), time <= best * factor)
            }
        };
        print!("  bar {limit}: {}", if is_met { "met" } else { "MISSED" });
    }

    fn samples(&self, index: usize, engine: &str, row: Row, far: bool) -> Vec<&Sample> {
        let all = self.kept.get(&(index, engine.to_owned(), row)).map(Vec::as_slice).unwrap_or_default();
        all.iter().filter(|sample| (sample.round_trip > FAR_NS) == far).collect()
    }

    fn time(&self, index: usize, engine: &str, row: Row, far: bool) -> Option<f64> {
        let mut times: Vec<f64> = self.samples(index, engine, row, far).iter().map(|s| s.values[0]).collect();
        (!times.is_empty()).then(|| median(&mut times))
    }

    /// Writes the raw record.
    pub(crate) fn write(&self, bench: &Bench, options: &Compare) -> Result<(), String> {
        let name = bench.name;
        let path = if options.record {
            let date = Command::new("date").arg("+%F").output().map_err(|error| format!("date: {error}"))?;
            let date = String::from_utf8_lossy(&date.stdout).trim().to_owned();
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("benches/records/{date}-{name}.csv"))
        } else {
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.csv"))
        };
        let mut text = String::from("case,engine,row,round,rtt_before_ns,rtt_after_ns,time_ns,extras\n");
        for line in &self.raw {
            text.push_str(line);
            text.push('\n');
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("raw record: {}", path.display());
        Ok(())
    }
}

/// Nanoseconds, in a unit that suits.
fn duration(ns: f64) -> String {
    match ns {
        ns if ns < 10_000.0 => format!("{ns:.1} ns"),
        ns if ns < 10_000_000.0 => format!("{:.1} us", ns / 1e3),
        ns => format!("{:.1} ms", ns / 1e6),
    }
}
