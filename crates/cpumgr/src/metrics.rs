//! `cpumgr metrics`: what a manager does, in the text format that Prometheus reads (version 0.0.4).

use std::fmt::{Display, Write};
use std::path::Path;
use std::time::Duration;

use arena::client::{ConnectError, Connection};
use arena::message::{FromManager, Histogram, Measures, ToManager};
use platform::affinity::CpuSet;
use serde::Serialize;

use crate::cli::StatusArgs;
use crate::error::Error;
use crate::output::print;
use crate::status::Report;
use crate::{json, socket};

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(5);

/// What `cpumgr metrics --json` shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuresShown {
    /// What the manager counted and timed since it began.
    #[serde(flatten)]
    pub measures: Measures,
}

/// `cpumgr metrics`.
///
/// # Errors
/// When there is no manager.
pub fn run(args: &StatusArgs) -> Result<(), Error> {
    let socket = socket::to_ask(args.socket.as_deref())?;
    let measures = ask(&socket)?;
    if args.json {
        return print(&json::line("metrics", &MeasuresShown { measures })?);
    }
    print(&text(&Report::glance(&socket)?, &measures))
}

/// Asks the manager at `socket`.
///
/// # Errors
/// When there is none, or what answers is none.
pub fn ask(socket: &Path) -> Result<Measures, ConnectError> {
    let connection = Connection::open(socket, ANSWER)?;
    connection.send(&ToManager::Measures)?;
    match connection.receive()?.0 {
        FromManager::Measures(measures) => Ok(*measures),
        FromManager::Refused(refused) => {
            Err(ConnectError::Refused { path: socket.to_owned(), refused })
        }
        other => {
            Err(connection.broken(format!("it answered a question for measures with {other:?}")))
        }
    }
}

/// All of it.
pub fn text(report: &Report, measures: &Measures) -> String {
    let mut page = Page::default();
    let status = &report.status;
    let seconds = |ns: u64| ns as f64 / 1e9;
    let count = |list: &str| CpuSet::parse_list(list).unwrap_or_default().len();

    page.head("info", "gauge", "The manager, its version and its policy.");
    let labels = [("version", env!("CARGO_PKG_VERSION")), ("policy", status.policy.as_str())];
    page.sample("info", &labels, &1);
    page.one("uptime_seconds", "gauge", "How long it has run.", &seconds(status.uptime_ns));
    page.one("quantum_seconds", "gauge", "The quantum.", &seconds(status.quantum_ns));
    page.one("processors", "gauge", "Managed processors.", &status.processor_count);
    page.one(
        "processors_left",
        "gauge",
        "Processors that are left to other processes.",
        &count(&status.left),
    );
    page.one("processors_drained", "gauge", "Drained processors.", &count(&status.drained));
    page.one("programs", "gauge", "Programs that are there.", &report.programs.len());
    page.one("programs_waiting", "gauge", "Programs that could use more.", &status.waiting);
    page.one("queue_length", "gauge", "Programs that wait to be started.", &report.queue.len());

    for (name, help, value) in [
        ("program_requested", "Processors that a program asks for.", 0),
        ("program_granted", "Processors that it has.", 1),
        ("program_squeezes_total", "How often a thread of it was bound elsewhere.", 2),
        ("program_age_seconds", "How long it has been there.", 3),
    ] {
        let kind = if value == 2 { "counter" } else { "gauge" };
        page.head(name, kind, help);
        for program in &report.programs {
            let pid = program.pid.to_string();
            let labels = [("pid", pid.as_str()), ("name", program.name.as_str())];
            match value {
                0 => page.sample(name, &labels, &program.request),
                1 => page.sample(name, &labels, &program.granted),
                2 => page.sample(name, &labels, &program.squeezes),
                _ => page.sample(name, &labels, &seconds(program.age_ns)),
            }
        }
    }

    for (name, help, value) in [
        ("arrivals_total", "Programs that came.", measures.arrivals),
        ("exits_total", "Programs that left.", measures.exits),
        ("changes_total", "Grants of programs that changed.", measures.changes),
        ("squeezes_total", "Threads that did not leave in time and were bound.", measures.squeezes),
        ("uncooperative_total", "Programs that did so again and again.", measures.uncooperative),
        ("fenced_total", "Programs that were put into a cpuset.", measures.fenced),
        ("refusals_total", "Clients that were refused.", measures.refusals),
    ] {
        page.one(name, "counter", help, &value);
    }
    page.one(
        "manager_processor_seconds_total",
        "counter",
        "Processor time of the manager itself.",
        &seconds(measures.processor_ns),
    );
    page.histogram("pass_seconds", "How long the scheduler was busy.", &measures.passes);
    page.histogram(
        "grant_seconds",
        "From the scheduler's waking until programs were told of other processors.",
        &measures.grants,
    );
    page.text
}

/// The page as it grows. Writing to a string cannot fail.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _written = writeln!(self.text, "# HELP cpumgr_{name} {help}");
        let _written = writeln!(self.text, "# TYPE cpumgr_{name} {kind}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: &dyn Display) {
        self.head(name, kind, help);
        self.sample(name, &[], value);
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: &dyn Display) {
        let _written = write!(self.text, "cpumgr_{name}");
        for (at, (key, label)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let _written = write!(self.text, "{before}{key}=\"{}\"", escaped(label));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _written = writeln!(self.text, "{after} {value}");
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        let mut below = 0_u64;
        for at in 0..arena::message::BUCKETS - 1 {
            below += histogram.counts.get(at).copied().unwrap_or(0);
            let end = (Histogram::end(at) as f64 / 1e9).to_string();
            self.sample(&bucket, &[("le", &end)], &below);
        }
        self.sample(&bucket, &[("le", "+Inf")], &histogram.count());
        self.sample(&format!("{name}_sum"), &[], &(histogram.sum_ns as f64 / 1e9));
        self.sample(&format!("{name}_count"), &[], &histogram.count());
    }
}

/// A label's value: backslash, quotation mark and end of line are escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests;
