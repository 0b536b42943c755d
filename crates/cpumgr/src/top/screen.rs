//! The lines of the screen, without a terminal.

use arena::message::ProgramStatus;
use platform::affinity::CpuSet;
use unicode_width::UnicodeWidthChar;

use crate::duration;
use crate::escape::printable;
use crate::status::{self, Report};

/// In which order programs stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Arrival,
    Granted,
    Name,
}

/// What the user chose.
#[derive(Debug)]
pub(super) struct Screen {
    order: Order,
    /// Programs above the first that is shown.
    above: usize,
}

impl Screen {
    pub(super) fn new(order: Order) -> Self {
        Self { order, above: 0 }
    }

    pub(super) fn sort_otherwise(&mut self) {
        self.order = match self.order {
            Order::Arrival => Order::Granted,
            Order::Granted => Order::Name,
            Order::Name => Order::Arrival,
        };
    }

    pub(super) fn scroll(&mut self, by: isize) {
        self.above = self.above.saturating_add_signed(by);
    }

    /// At most `rows` lines of at most `columns` columns.
    pub(super) fn lines(&mut self, report: &Report, columns: usize, rows: usize) -> Vec<String> {
        let it = &report.status;
        let time = |ns| duration::show(std::time::Duration::from_nanos(ns));
        let mut lines = vec![
            format!(
                "cpumgr {}: up {}, policy {}, quantum {}, {} programs, {} waiting",
                it.manager_pid,
                status::age(it.uptime_ns),
                it.policy,
                time(it.quantum_ns),
                report.programs.len(),
                report.queue.len()
            ),
            processors(report),
            String::new(),
        ];
        let mut programs: Vec<&ProgramStatus> = report.programs.iter().collect();
        match self.order {
            Order::Arrival => {}
            // Stable: those that have as many stay in the order of their arrival.
            Order::Granted => programs.sort_by_key(|it| std::cmp::Reverse(it.granted)),
            Order::Name => programs.sort_by(|one, other| one.name.cmp(&other.name)),
        }
        lines.push("    PID  ASKS   HAS  SQUEEZED  AGE      CPUS          NAME".to_owned());
        // The last line is for the keys.
        let room = rows.saturating_sub(lines.len() + 1);
        self.above = self.above.min(programs.len().saturating_sub(room));
        let rows_of_programs = programs.iter().skip(self.above).take(room);
        lines.extend(rows_of_programs.map(|it| {
            let mark = if it.attached { " (attached)" } else { "" };
            let turns = if it.shared { "*" } else { "" };
            format!(
                "{:>7}  {:>4}  {:>4}  {:>8}  {:<7}  {:<12}  {}{mark}",
                it.pid,
                it.request,
                it.granted,
                it.squeezes,
                status::age(it.age_ns),
                format!("{}{turns}", it.cpus),
                it.name
            )
        }));
        if programs.is_empty() {
            lines.push("no programs".to_owned());
        }
        let by = match self.order {
            Order::Arrival => "arrival",
            Order::Granted => "processors",
            Order::Name => "name",
        };
        finish(
            lines,
            &format!("q ends  s sorts (by {by})  arrows scroll  * in turns"),
            columns,
            rows,
        )
    }

    /// The manager does not answer.
    pub(super) fn without_manager(&self, what: &str, columns: usize, rows: usize) -> Vec<String> {
        let lines = vec!["no manager answers".to_owned(), what.to_owned()];
        finish(lines, "q ends", columns, rows)
    }
}

/// Each processor as a sign: `#` has a program, `*` several in turn, `.` is free, `-` is left to
/// others, `x` drained.
fn processors(report: &Report) -> String {
    let set = |text: &str| CpuSet::parse_list(text).unwrap_or_default();
    let (left, drained) = (set(&report.status.left), set(&report.status.drained));
    let held: Vec<CpuSet> = report.programs.iter().map(|it| set(&it.cpus)).collect();
    let sign = |cpu| match held.iter().filter(|it| it.contains(cpu)).count() {
        0 if drained.contains(cpu) => 'x',
        0 if left.contains(cpu) => '-',
        0 => '.',
        1 => '#',
        _ => '*',
    };
    let signs: String = set(&report.status.processors).iter().map(sign).collect();
    format!("processors {}: [{signs}]", report.status.processors)
}

/// The lines with the keys below, cut to the screen.
fn finish(mut lines: Vec<String>, keys: &str, columns: usize, rows: usize) -> Vec<String> {
    lines.truncate(rows.saturating_sub(1));
    if rows > 1 {
        lines.push(keys.to_owned());
    }
    lines.iter().map(|line| cut(&printable(line), columns)).collect()
}

/// As much of a text as fits.
fn cut(text: &str, columns: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= columns
    };
    text.chars().take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn report(programs: usize) -> Report {
        let status = r#"{"manager_pid":9,"uptime_ns":61000000000,"policy":"dss-ts",
            "quantum_ns":100000000,"processors":"0-4","processor_count":5,"left":"3","drained":"4",
            "program_count":0}"#;
        let program = |at: usize| {
            let text = format!(
                r#"{{"pid":{},"name":"p{}","library":"","request":4,"max":4,"granted":{},"cpus":"{}",
                "shared":{},"dedicated":false,"fixed_team":false,"vps":1,"age_ns":5000000}}"#,
                100 + at,
                (at * 7) % 10,
                at % 3,
                if at == 0 { "0" } else { "1" },
                at > 0
            );
            serde_json::from_str(&text).unwrap()
        };
        Report {
            socket: "/s".into(),
            status: serde_json::from_str(status).unwrap(),
            programs: (0..programs).map(program).collect(),
            queue: Vec::new(),
            advice: None,
            loaded: BTreeMap::new(),
        }
    }

    #[test]
    fn the_screen_shows_the_manager_each_processor_and_each_program() {
        let lines = Screen::new(Order::Arrival).lines(&report(3), 80, 24);
        assert_eq!(
            lines,
            [
                "cpumgr 9: up 1m01s, policy dss-ts, quantum 100ms, 3 programs, 0 waiting",
                "processors 0-4: [#*.-x]",
                "",
                "    PID  ASKS   HAS  SQUEEZED  AGE      CPUS          NAME",
                "    100     4     0         0  5ms      0             p0",
                "    101     4     1         0  5ms      1*            p7",
                "    102     4     2         0  5ms      1*            p4",
                "q ends  s sorts (by arrival)  arrows scroll  * in turns",
            ]
        );
    }

    #[test]
    fn sorting_and_scrolling_stay_within_what_is_there() {
        let mut screen = Screen::new(Order::Arrival);
        let report = report(30);
        let first = |lines: &[String]| lines[4].split_whitespace().next().unwrap().to_owned();
        screen.scroll(100);
        let lines = screen.lines(&report, 80, 10);
        assert_eq!((lines.len(), first(&lines).as_str()), (10, "125"), "the last five");
        screen.scroll(-1000);
        screen.sort_otherwise();
        assert_eq!(first(&screen.lines(&report, 80, 10)), "102", "has most and came first");
        screen.sort_otherwise();
        assert_eq!(first(&screen.lines(&report, 80, 10)), "100", "p0");
    }

    #[test]
    fn no_name_leaves_the_screen_and_none_is_too_small() {
        let mut report = report(2);
        report.programs[0].name = "计算".repeat(40);
        report.programs[1].name = "a\x1b[2Jb".into();
        for (columns, rows) in [(80, 24), (3, 3), (1, 1), (0, 0), (200, 2)] {
            let lines = Screen::new(Order::Arrival).lines(&report, columns, rows);
            assert!(lines.len() <= rows, "{rows}");
            for line in lines {
                let width: usize = line.chars().map(|c| c.width().unwrap_or(0)).sum();
                assert!(width <= columns && !line.contains('\x1b'), "{line:?}");
            }
        }
        let lines = Screen::new(Order::Name).without_manager("gone", 80, 24);
        assert_eq!(lines, ["no manager answers", "gone", "q ends"]);
    }
}
