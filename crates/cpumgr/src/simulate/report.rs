//! The simulator's findings as a table, as comma-separated values and as JSON.

use std::fmt::Write as _;

use policies::sim::{Outcome, Workload};
use serde::Serialize;
use serde_json::{Value, json};

use super::Found;
use crate::json::SCHEMA;

const NS: f64 = 1e9;
/// Of executions, whose times are told.
const PARTS: [f64; 3] = [0.50, 0.95, 0.99];

/// A table per policy, and what changes with the kernel's parameters.
pub(super) fn table(workload: &Workload, found: &[Found]) -> String {
    let mut text = format!("{}: {} processors\n", workload.name, workload.machine.processors);
    let width = workload.programs.keys().map(String::len).max().unwrap_or(0).max(12);
    for Found { outcome, variants } in found {
        let _infallible = write!(text, "\npolicy {}\n{:width$}", outcome.policy, "program");
        for head in ["runs", "response s", "execution s", "longest s", "processors", "alone s"] {
            let _infallible = write!(text, " {head:>11}");
        }
        text.push('\n');
        for row in outcome.programs() {
            let _infallible = writeln!(
                text,
                "{:width$} {:11} {:11.3} {:11.3} {:11.3} {:11.2} {:11.3}",
                row.program,
                row.executions,
                row.response,
                row.execution,
                row.longest,
                row.processors,
                row.dedicated
            );
        }
        let _infallible = writeln!(
            text,
            "makespan {:.3} s, mean response {:.3} s, slowdown {:.2}, fairness {:.3}, utilisation \
             {:.1} %, efficiency {:.1} %\n{} decisions, {} reallocations, {} migrations, {} \
             speedup reports ({} refused)",
            outcome.makespan() as f64 / NS,
            outcome.response(),
            outcome.slowdown(),
            outcome.fairness(),
            100.0 * outcome.utilisation(),
            100.0 * outcome.efficiency(),
            outcome.decisions,
            outcome.reallocations,
            outcome.migrations,
            outcome.reports.0,
            outcome.reports.1,
        );
        for variant in variants {
            let change =
                |of: fn(&Outcome) -> f64| 100.0 * (of(&variant.outcome) / of(outcome) - 1.0);
            let _infallible = writeln!(
                text,
                "  native.{} x {:.2}: mean response {:+.1} %, makespan {:+.1} %",
                variant.parameter,
                variant.factor,
                change(Outcome::response),
                change(|outcome| outcome.makespan() as f64),
            );
        }
    }
    text
}

/// A line per policy: what programs wait for, from the best mean response on.
pub(super) fn comparison(workload: &Workload, found: &[Found]) -> String {
    let runs = found.first().map_or(0, |found| found.outcome.executions.len());
    let mut text = format!(
        "{}: {} processors, {runs} executions; times in s\n\n{:<12}",
        workload.name, workload.machine.processors, "policy"
    );
    let heads = [
        "response", "p50", "p95", "p99", "wait p50", "p95", "p99", "makespan", "slowdown",
        "fairness", "used %",
    ];
    for head in heads {
        let _infallible = write!(text, " {head:>9}");
    }
    text.push('\n');
    let mut outcomes: Vec<&Outcome> = found.iter().map(|found| &found.outcome).collect();
    outcomes.sort_by(|a, b| a.response().total_cmp(&b.response()));
    for outcome in outcomes {
        let _infallible = write!(text, "{:<12} {:>9.3}", outcome.policy, outcome.response());
        for part in PARTS {
            let _infallible = write!(text, " {:>9.3}", outcome.response_within(part));
        }
        for part in PARTS {
            let _infallible = write!(text, " {:>9.3}", outcome.wait_within(part));
        }
        let _infallible = writeln!(
            text,
            " {:>9.3} {:>9.2} {:>9.3} {:>9.1}",
            outcome.makespan() as f64 / NS,
            outcome.slowdown(),
            outcome.fairness(),
            100.0 * outcome.utilisation()
        );
    }
    text
}

/// A line per execution.
pub(super) fn csv(found: &[Found]) -> String {
    let mut text =
        "policy,program,copy,repetition,arrival_s,started_s,ended_s,response_s,cpu_s,dedicated_s\n"
            .to_owned();
    for Found { outcome, .. } in found {
        for e in &outcome.executions {
            let times = [e.arrival, e.started, e.ended, e.response(), e.cpu_time, e.dedicated];
            let times: Vec<String> =
                times.iter().map(|&time| format!("{:.9}", time as f64 / NS)).collect();
            let name = quoted(&e.program);
            let _infallible = writeln!(
                text,
                "{},{name},{},{},{}",
                outcome.policy,
                e.copy,
                e.repetition,
                times.join(",")
            );
        }
    }
    text
}

/// A field of comma-separated values.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// One object.
pub(super) fn json(workload: &Workload, found: &[Found]) -> String {
    let runs: Vec<Value> = found
        .iter()
        .map(|Found { outcome, variants }| {
            let variants: Vec<Value> = variants
                .iter()
                .map(|variant| {
                    json!({
                        "parameter": variant.parameter,
                        "factor": variant.factor,
                        "measures": measures(&variant.outcome),
                        "programs": variant.outcome.programs(),
                    })
                })
                .collect();
            json!({
                "policy": outcome.policy,
                "measures": measures(outcome),
                "programs": outcome.programs(),
                "executions": outcome.executions,
                "sensitivity": variants,
            })
        })
        .collect();
    let document = json!({ "schema": SCHEMA, "kind": "simulate", "workload": workload.name, "processors": workload.machine.processors, "runs": runs });
    format!("{document:#}\n")
}

/// The measures of a whole run.
#[derive(Serialize)]
struct Measures {
    makespan_s: f64,
    response_s: f64,
    response_p50_s: f64,
    response_p95_s: f64,
    response_p99_s: f64,
    wait_p50_s: f64,
    wait_p95_s: f64,
    wait_p99_s: f64,
    slowdown: f64,
    fairness: f64,
    utilisation: f64,
    efficiency: f64,
    decisions: u64,
    reallocations: u64,
    migrations: u64,
    reports: u64,
    reports_refused: u64,
}

fn measures(outcome: &Outcome) -> Measures {
    let [response_p50_s, response_p95_s, response_p99_s] =
        PARTS.map(|part| outcome.response_within(part));
    let [wait_p50_s, wait_p95_s, wait_p99_s] = PARTS.map(|part| outcome.wait_within(part));
    Measures {
        makespan_s: outcome.makespan() as f64 / NS,
        response_s: outcome.response(),
        response_p50_s,
        response_p95_s,
        response_p99_s,
        wait_p50_s,
        wait_p95_s,
        wait_p99_s,
        slowdown: outcome.slowdown(),
        fairness: outcome.fairness(),
        utilisation: outcome.utilisation(),
        efficiency: outcome.efficiency(),
        decisions: outcome.decisions,
        reallocations: outcome.reallocations,
        migrations: outcome.migrations,
        reports: outcome.reports.0,
        reports_refused: outcome.reports.1,
    }
}
