//! The tables of a summary: a line for each scenario, a column for each runtime.

use std::fmt::Write as _;

use super::runtime::Runtime;
use super::summary::{Summary, Verdict, Yardstick};

/// The ratios to a yardstick; empty where there is none.
pub(super) fn table(summary: &Summary<'_>, by: Yardstick) -> String {
    let mut runtimes = summary.runtimes();
    // What clang compiled is another program: it has lines of its own.
    runtimes.retain(|it| !it.is_clang() && (*it != Runtime::One || by == Yardstick::Alone));
    let mut lines = String::new();
    for scenario in summary.scenarios() {
        let kinds: Vec<Vec<(Option<String>, Verdict)>> =
            runtimes.iter().map(|runtime| summary.verdicts(by, &scenario, *runtime)).collect();
        let labels: Vec<Option<String>> = match kinds.iter().max_by_key(|kind| kind.len()) {
            Some(longest) if !longest.is_empty() => {
                longest.iter().map(|(label, _)| label.clone()).collect()
            }
            _ => continue,
        };
        for label in labels {
            let name = match &label {
                Some(program) => format!("{}, {program}", scenario.name()),
                None => scenario.name(),
            };
            let program = label.as_deref().or_else(|| scenario.program()).unwrap_or_default();
            let yardstick = summary.yardstick(by, &scenario, program, None);
            let yardstick = yardstick.map_or("-".to_owned(), |it| format!("{it:.2}"));
            _ = write!(lines, "{name:<34} {yardstick:>8}");
            for kind in &kinds {
                let verdict = kind.iter().find(|(own, _)| *own == label).map(|(_, it)| it);
                _ = write!(lines, " {:>22}", verdict.map_or("-".to_owned(), cell));
            }
            lines.push('\n');
        }
    }
    if lines.is_empty() {
        return lines;
    }
    let mut text = format!("{:<34} {:>8}", heading(summary, by), "s");
    for runtime in &runtimes {
        _ = write!(text, " {:>22}", runtime.name());
    }
    text + "\n" + &lines
}

fn heading(summary: &Summary<'_>, by: Yardstick) -> String {
    let by = match by {
        Yardstick::Together => "by as many one-thread copies",
        Yardstick::Alone => "by one one-thread copy alone",
    };
    match summary.distance {
        Some(distance) => format!("{by}, {}", distance.name()),
        None => by.to_owned(),
    }
}

fn cell(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Wrong(_) => "WRONG".to_owned(),
        Verdict::Above(ratio) => format!("> {ratio:.2}"),
        Verdict::Ratio { ratio, inequality } if ratio.runs > 1 => format!(
            "{:.2} ({:.2}-{:.2}) {:.2}",
            ratio.median, ratio.least, ratio.most, inequality.median
        ),
        Verdict::Ratio { ratio, inequality } => {
            format!("{:.2} {:.2}", ratio.median, inequality.median)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::{KILLED, Row};
    use super::super::summary::Summaries;
    use super::super::summary::tests::run;
    use super::*;

    #[test]
    fn a_line_for_each_program_and_a_cell_for_each_runtime() {
        let again = |row: Row| Row { repetition: 1, turnaround: 2.0 * row.turnaround, ..row };
        let managed = run("a*2", Runtime::Managed, &[4.0; 2]);
        let one = run("a*2", Runtime::One, &[4.0; 2]);
        let mut rows = [
            managed.iter().cloned().map(again).collect(),
            managed,
            one.iter().cloned().map(|row| Row { repetition: 1, ..row }).collect(),
            one,
            run("a*2", Runtime::Libgomp, &[20.0; 2]),
            run("a*2", Runtime::Libomp, &[4.0; 2]),
            run("a*1", Runtime::One, &[2.0]),
            run("a+b", Runtime::One, &[4.0, 8.0]),
            run("a+b", Runtime::Managed, &[4.0, 10.0]),
        ]
        .concat();
        for row in &mut rows {
            match row.runtime {
                Runtime::Libgomp => row.outcome = KILLED.into(),
                Runtime::Libomp => row.outcome = "exit status: 1".into(),
                _ => {}
            }
        }
        let summaries = Summaries::new(&rows).unwrap();
        let text = table(&summaries.all[0], Yardstick::Together);
        assert!(text.starts_with("by as many one-thread copies, near"), "{text}");
        for part in ["1.50 (1.00-2.00) 1.00", "> 5.00", "WRONG", "a+b, b", "1.25 1.00"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains(" one "), "{text}");
        // Two copies with one thread each take twice what one leaves to hope for.
        let text = table(&summaries.all[0], Yardstick::Alone);
        assert!(text.contains(" one ") && text.contains("2.00 (2.00-2.00) 1.00"), "{text}");
        assert!(!text.contains("a+b"), "{text}");
    }
}
