//! The closing table of whole programs, whose rows are unbound: our best form of each case beside
//! the best peer.

use super::options::Compare;
use super::place::Row;
use super::report::{table_row, wanted};
use super::table::{Table, duration, is_ours};
use super::{Bench, Case, Engine};

/// How many times the best peer's median ours may take.
const BAR: f64 = 1.05;
/// The row of an engine that is no peer: the program on one thread.
pub(crate) const ONE: &str = "one thread";

/// The table, in Markdown; its last line says how many rows are within the bar.
pub(super) fn table(table: &Table, bench: &Bench, options: &Compare) -> String {
    let mut text = table_row(&["case", "ours", "time", "best peer", "time", "ratio", "bar 1.05"]);
    text.push_str(&table_row(&["---", "---", "---:", "---", "---:", "---:", "---"]));
    let (mut rows, mut within) = (0, 0);
    for (index, case) in wanted(bench, options) {
        let best = |is_meant: &dyn Fn(&Engine) -> bool| best(table, index, case, is_meant);
        let peer = best(&|engine| !is_ours(engine) && engine.name != ONE);
        let ours = best(&is_ours);
        let ratio = ours.and_then(|(_, ours)| Some(ours / peer?.1));
        let missing = table.missing(index, case, Row::Unbound, options);
        // A comparison that lacks a peer is not won.
        let is_within = missing.is_empty() && ratio.is_some_and(|ratio| ratio <= BAR);
        rows += 1;
        within += u32::from(is_within);
        let words = |best: Option<(&str, f64)>| {
            best.map_or(["-".into(), "-".into()], |(name, time)| [name.into(), duration(time)])
        };
        let ([our_name, our_time], [peer_name, peer_time]) = (words(ours), words(peer));
        let ratio = ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
        let mark = match (is_within, &*missing) {
            (true, _) => String::new(),
            (false, []) => "MISSED".into(),
            (false, missing) => format!("MISSED: without {}", missing.join(", ")),
        };
        text.push_str(&table_row(&[
            &case.name, &our_name, &our_time, &peer_name, &peer_time, &ratio, &mark,
        ]));
    }
    text + &format!("\n{within} of {rows} rows are within {BAR} of the best peer\n")
}

/// The engine with the least median.
fn best<'a>(
    table: &Table,
    index: usize,
    case: &'a Case,
    is_meant: &dyn Fn(&Engine) -> bool,
) -> Option<(&'a str, f64)> {
    let meant = case.engines.iter().filter(|engine| is_meant(engine));
    let times = meant.filter_map(|engine| Some((&*engine.name, table.median(index, engine)?)));
    times.min_by(|a, b| a.1.total_cmp(&b.1))
}
