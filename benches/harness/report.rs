//! The closing tables, for people at a terminal and in Markdown.

use super::options::Compare;
use super::place::Row;
use super::table::{Line, Measured, Table, duration};
use super::{Bench, Case, FAR_NS};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Prints a table for each case. False when a result was wrong.
pub(super) fn print(table: &Table, bench: &Bench, options: &Compare) -> bool {
    println!("{}", legend());
    for (index, case) in wanted(bench, options) {
        println!("\n{}", case.name);
        print!("  {:<26} {:<8} {:<5} {:>3} {:>8}", "engine", "row", "rtt", "n", "rtt ns");
        print!(" {:>11} {:>23} {:>9} {:>8}", "time", "spread", "/rtt", "/ours");
        case.extras.iter().for_each(|extra| print!(" {extra:>12}"));
        println!();
        for line in table.lines(index, case, options) {
            match line {
                Line::Without { engine, row, why } => println!("  {engine:<26} {row:<8} {why}"),
                Line::Measured(line) => print_line(&line),
            }
        }
    }
    println!("\n{} samples dropped: their round trips before and after disagree", table.dropped());
    let mut right = true;
    for line in wrong(table, bench) {
        println!("{line}");
        right = false;
    }
    right
}

fn print_line(line: &Measured) {
    let Cells { rtt, round_trip, time, spread, trips, ours, extras, bar } = Cells::of(line);
    print!("  {:<26} {:<8} {rtt:<5} {:>3} {round_trip:>8}", line.engine, line.row, line.count);
    print!(" {time:>11} {spread:>23} {trips:>9} {ours:>8}");
    extras.iter().for_each(|extra| print!(" {extra:>12}"));
    println!("{}", if bar.is_empty() { bar } else { format!("  bar {bar}") });
}

/// Writes the tables as Markdown.
pub(super) fn write_markdown(
    path: &Path,
    table: &Table,
    bench: &Bench,
    options: &Compare,
) -> Result<(), String> {
    let mut text = format!("## {}\n\n{}.\n", bench.name, legend());
    for (index, case) in wanted(bench, options) {
        let has_bar = case.bar.is_some();
        let heads =
            ["engine", "row", "rtt", "n", "rtt ns", "time", "spread", "/rtt", "/ours"].into_iter();
        let heads: Vec<&str> =
            heads.chain(case.extras.iter().copied()).chain(has_bar.then_some("bar")).collect();
        let rules =
            heads.iter().enumerate().map(|(place, _)| if place < 3 { "---" } else { "---:" });
        let rules: Vec<&str> = rules.collect();
        let _ = write!(text, "\n### {}\n\n{}{}", case.name, table_row(&heads), table_row(&rules));
        for line in table.lines(index, case, options) {
            let mut cells = match line {
                Line::Without { engine, row, why } => vec![engine, row.into(), why],
                Line::Measured(line) => {
                    let Cells { rtt, round_trip, time, spread, trips, ours, extras, bar } =
                        Cells::of(&line);
                    let first = [line.engine, line.row.into(), rtt.into(), line.count.to_string()];
                    let mut cells: Vec<String> = first.into();
                    cells.extend([round_trip, time, spread, trips, ours]);
                    cells.extend(extras);
                    cells.push(bar);
                    cells
                }
            };
            cells.resize(heads.len(), String::new());
            text.push_str(&table_row(&cells.iter().map(String::as_str).collect::<Vec<_>>()));
        }
    }
    let _ = writeln!(
        text,
        "\n{} samples dropped: their round trips before and after disagree.",
        table.dropped()
    );
    if bench.programs {
        let _ = write!(text, "\n{}", super::closing::table(table, bench, options));
    }
    for line in wrong(table, bench) {
        let _ = writeln!(text, "\n{line}");
    }
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// A row of a Markdown table; a bar in a cell would end it.
pub(super) fn table_row(cells: &[&str]) -> String {
    format!("| {} |\n", cells.join(" | ").replace('\n', " "))
}

fn legend() -> String {
    format!(
        "medians; spread: the least and the most of the n samples; rtt: round trip of one line; \
         far: above {FAR_NS} ns; /rtt: median of the samples' own ratios"
    )
}

pub(super) fn wanted<'a>(
    bench: &'a Bench,
    options: &'a Compare,
) -> impl Iterator<Item = (usize, &'a Case)> {
    let is_wanted = |case: &Case| case.engines.iter().any(|engine| options.wants(case, engine));
    bench.cases.iter().enumerate().filter(move |(_, case)| is_wanted(case))
}

fn wrong<'a>(table: &'a Table, bench: &'a Bench) -> impl Iterator<Item = String> + 'a {
    let line = |(index, engine, row, why): (usize, &str, Row, &str)| {
        format!("WRONG: {}: {engine} ({}): {why}", bench.cases[index].name, row.name())
    };
    table.wrong().map(line)
}

/// A measured line in words.
struct Cells {
    rtt: &'static str,
    round_trip: String,
    time: String,
    spread: String,
    trips: String,
    ours: String,
    extras: Vec<String>,
    bar: String,
}

impl Cells {
    fn of(line: &Measured) -> Self {
        let extra = |value: &f64| if value.is_nan() { "-".into() } else { format!("{value:.2}") };
        let verdict = |(bar, is_met): &(String, bool)| {
            format!("{bar}: {}", if *is_met { "met" } else { "MISSED" })
        };
        Self {
            rtt: line.distance,
            round_trip: format!("{:.1}", line.round_trip),
            time: duration(line.time),
            // Of one sample there is none.
            spread: match (line.count, line.spread) {
                (1, _) => "-".into(),
                (_, (least, most)) => format!("{} - {}", duration(least), duration(most)),
            },
            // Round trips bound short operations only.
            trips: if line.per_trip < 10_000.0 {
                format!("{:.2}", line.per_trip)
            } else {
                "-".into()
            },
            ours: line.to_ours.map_or("-".into(), |ratio| format!("{ratio:.2}")),
            extras: line.extras.iter().map(extra).collect(),
            bar: line.bar.as_ref().map_or(String::new(), verdict),
        }
    }
}
