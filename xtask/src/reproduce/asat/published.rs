//! The paper's sentences, each with the figure here, and why they differ where they do.
//!
//! The paper had four processors, and four copies at most.

use std::fmt::Write as _;

use super::beside::Beside;
use super::table::Table;
use super::version::{Grain, Version};
use crate::report::Section;

/// Where the paper's FTS sleeps, spins or thrashes.
const SPINS: &str = "A thread of the paper's runtime spins at a join until its partners come, \
                     whether they have a processor or not. On the drop-in library it gives its \
                     processor up: what the paper calls FTS is libgomp here.";
/// Fewer processors.
const FEWER: &str = "With fewer processors than the paper's four a join waits for fewer partners, \
                     and one without a processor has it after a turn of some milliseconds.";
/// Speedups.
const SPEEDUP: &str = "On as many processors as are here; about a tenth of the time is serial.";
/// No superlinear speedup.
const CACHES: &str = "An element computes for much longer than its 24 bytes take to come from \
                      memory: whether they are in a cache makes no difference, and more caches \
                      make no speedup.";
/// Joins.
const JOINS: &str = "By the choice of the serial part: the paper does not say how long it is.";
/// Paging.
const PAGES: &str = "Only where a control group with too little memory can be made and swap is \
                     free. Where swap is a file that a host caches a page comes back soon, so that \
                     more threads gain nothing, and copies are farther apart than versions.";
/// Spread.
const SPREAD: &str = "The kernel here gives programs that began together equal shares of the \
                      processors every few milliseconds.";

/// A figure that the paper prints.
struct Figure {
    what: &'static str,
    published: &'static str,
    measured: Option<f64>,
    /// Why it is another one here.
    why: &'static str,
}

/// All of them.
fn figures(table: &Table) -> Vec<Figure> {
    let ratio = |over: Option<f64>, under: Option<f64>| Some(over? / under?);
    let wall = |grain, copies, version| table.wall(grain, copies, version);
    let joins = |grain, copies, version| {
        table.joins((grain, Beside::Nothing, copies, version)).map(|share| share * 100.0)
    };
    let sleeps = |grain, copies, version| table.sleeps(grain, copies, version);
    // The paper's order is worst to best: both ratios above 1.
    let paging = |version| table.of_key((Grain::B, Beside::Memory, 4, version));
    let (s, w) = (Grain::S, Grain::W);
    let (single, fts, asat) = (Version::Single, Version::Fts, Version::Asat);
    let gcc = Version::Libgomp;
    let figure = |what, published, measured, why| Figure { what, published, measured, why };
    vec![
        figure(
            "10K: speedup of FTS alone over SINGLE",
            "2.7",
            ratio(wall(s, 1, single), wall(s, 1, fts)),
            SPEEDUP,
        ),
        figure(
            "10K: FTS in 4 copies to FTS alone",
            "21",
            ratio(wall(s, 4, fts), wall(s, 1, fts)),
            SPINS,
        ),
        figure(
            "10K: libgomp in 4 copies to alone",
            "21",
            ratio(wall(s, 4, gcc), wall(s, 1, gcc)),
            FEWER,
        ),
        figure(
            "10K: FTS to ASAT in 4 copies",
            "3.5",
            ratio(wall(s, 4, fts), wall(s, 4, asat)),
            SPINS,
        ),
        figure(
            "10K: libgomp to ASAT in 4 copies",
            "3.5",
            ratio(wall(s, 4, gcc), wall(s, 4, asat)),
            FEWER,
        ),
        figure(
            "10K: FTS to SINGLE in 4 copies",
            "3.5",
            ratio(wall(s, 4, fts), wall(s, 4, single)),
            SPINS,
        ),
        figure("10K: joins, FTS alone, %", "10", joins(s, 1, fts), JOINS),
        figure("10K: joins, ASAT alone, %", "10", joins(s, 1, asat), JOINS),
        figure("10K: joins, ASAT in 4 copies, %", "6", joins(s, 4, asat), FEWER),
        figure(
            "10K: sleeps, FTS to ASAT in 4 copies",
            "10",
            ratio(sleeps(s, 4, fts), sleeps(s, 4, asat)),
            SPINS,
        ),
        figure(
            "10K: sleeps, libgomp to ASAT in 4 copies",
            "10",
            ratio(sleeps(s, 4, gcc), sleeps(s, 4, asat)),
            "libgomp's threads spin long before they sleep (`GOMP_SPINCOUNT`).",
        ),
        figure(
            "100K: speedup of FTS alone over SINGLE",
            "8",
            ratio(wall(w, 1, single), wall(w, 1, fts)),
            CACHES,
        ),
        figure(
            "100K: speedup of ASAT alone over SINGLE",
            "8",
            ratio(wall(w, 1, single), wall(w, 1, asat)),
            CACHES,
        ),
        figure("100K: joins, FTS in 4 copies, %", "50", joins(w, 4, fts), SPINS),
        figure("100K: joins, libgomp in 4 copies, %", "50", joins(w, 4, gcc), FEWER),
        figure("100K: joins, ASAT in 4 copies, %", "10", joins(w, 4, asat), FEWER),
        figure(
            "100K: sleeps, FTS to ASAT in 4 copies",
            "6",
            ratio(sleeps(w, 4, fts), sleeps(w, 4, asat)),
            SPINS,
        ),
        figure(
            "1M: FTS to ASAT in 4 copies",
            "1",
            ratio(wall(Grain::A, 4, fts), wall(Grain::A, 4, asat)),
            "An iteration is so long that neither joins nor tests take part of it.",
        ),
        figure(
            "4M, paging: SINGLE to ASAT in 4 copies",
            "> 1",
            ratio(paging(single), paging(asat)),
            PAGES,
        ),
        figure(
            "4M, paging: ASAT to FTS in 4 copies",
            "> 1",
            ratio(paging(asat), paging(fts)),
            PAGES,
        ),
        figure("10K: spread of 3 copies, ASAT, %", "10-25", table.spread(s, 3, asat), SPREAD),
        figure("100K: spread of 3 copies, ASAT, %", "10-25", table.spread(w, 3, asat), SPREAD),
    ]
}

/// A line for each figure that was measured; what was not is named at the end.
pub(super) fn text(table: &Table) -> String {
    let mut text = String::from("published (4 processors) beside measured here\n");
    let mut absent = Vec::new();
    for Figure { what, published, measured, .. } in figures(table) {
        match measured {
            Some(measured) => {
                let _infallible = writeln!(text, "  {what:<52} {published:>5}  {measured:>7.2}");
            }
            None => absent.push(what),
        }
    }
    if !absent.is_empty() {
        let _infallible = writeln!(text, "  not measured: {}", absent.join("; "));
    }
    text
}

/// The same for the page, with the reasons.
pub(super) fn section(table: &Table) -> Section {
    let line = |Figure { what, published, measured, why }: Figure| match measured {
        Some(measured) => format!("{what}: published {published}, here {measured:.2}. {why}"),
        None => format!("{what}: published {published}, not measured in this run. {why}"),
    };
    Section {
        title: "Published beside measured".to_owned(),
        about: figures(table).into_iter().map(line).collect(),
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Row;
    use super::super::table::tests::row;
    use super::*;

    fn of(version: Version, wall: f64, voluntary: u64) -> Row {
        Row { copies: 4, voluntary, ..row(version, 0, 0, wall, 0.25) }
    }

    #[test]
    fn a_figure_that_was_measured_stands_beside_the_published_one_and_others_are_named() {
        let rows = [of(Version::Fts, 7.0, 900), of(Version::Asat, 2.0, 100)];
        let text = text(&Table::of(&rows));
        let line = |what: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(what));
            line.map(|line| line.split_whitespace().rev().take(2).collect::<Vec<_>>())
        };
        assert_eq!(line("10K: FTS to ASAT in 4 copies"), Some(vec!["3.50", "3.5"]));
        assert_eq!(line("10K: sleeps, FTS to ASAT in 4 copies"), Some(vec!["9.00", "10"]));
        assert_eq!(line("10K: joins, ASAT in 4 copies, %"), Some(vec!["25.00", "6"]));
        assert_eq!(line("100K: speedup of FTS"), None);
        let absent = text.lines().last().unwrap();
        assert!(absent.contains("not measured: 10K: speedup of FTS alone"), "{absent}");
        assert!(!absent.contains("10K: FTS to ASAT in 4 copies"), "{absent}");
    }

    #[test]
    fn the_page_gives_a_reason_for_each() {
        let rows = [of(Version::Fts, 7.0, 900), of(Version::Asat, 2.0, 100)];
        let section = section(&Table::of(&rows));
        assert_eq!(section.about.len(), figures(&Table::of(&rows)).len());
        assert!(section.about.iter().any(|line| {
            line.starts_with("10K: FTS to ASAT in 4 copies: published 3.5, here 3.50. A thread")
        }));
        assert!(section.about.iter().all(|line| line.ends_with('.')));
    }
}
