//! Spans as trace events of Chrome, which Perfetto (ui.perfetto.dev) and chrome://tracing read.
//!
//! # Form
//! After "Trace Event Format": one object with `traceEvents`. Two processes stand for what there
//! is: the processors, with a thread for each, and the programs, with a counter for each. Times are
//! microseconds.

use serde_json::{Value, json};

use super::spans::Spans;

/// The numbers of the two.
const PROCESSORS: u32 = 1;
const PROGRAMS: u32 = 2;

/// All of it.
pub(super) fn write(spans: &Spans) -> String {
    // Below 2^53 ns, a hundred days, exact to the nanosecond.
    let us = |ns: u64| ns as f64 / 1000.0;
    let name = |pid: u32, name: &str| json!({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}});
    let mut events = vec![name(PROCESSORS, "processors"), name(PROGRAMS, "programs")];
    for cpu in 0..spans.processors {
        let args = json!({"name": format!("processor {cpu}")});
        events.push(
            json!({"ph": "M", "pid": PROCESSORS, "tid": cpu, "name": "thread_name", "args": args}),
        );
    }
    for execution in &spans.executions {
        let name = format!("{} ({})", execution.name, execution.pid);
        let counter = |at: u64, count: usize| -> Value {
            json!({"ph": "C", "pid": PROGRAMS, "ts": us(at), "name": name, "args": {"processors": count}})
        };
        for span in &execution.spans {
            events.push(counter(span.begin, span.cpus.len()));
            let category = if span.shared { "shared" } else { "own" };
            for cpu in &span.cpus {
                events.push(json!({
                    "ph": "X", "pid": PROCESSORS, "tid": cpu, "ts": us(span.begin),
                    "dur": us(span.end - span.begin), "name": name, "cat": category,
                }));
            }
        }
        events.push(counter(execution.end, 0));
    }
    let text = json!({"displayTimeUnit": "ms", "traceEvents": events}).to_string();
    text + "\n"
}
