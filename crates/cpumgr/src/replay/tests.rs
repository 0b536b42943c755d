//! A trace in its other forms.

use serde_json::Value;

use super::spans::Span;
use super::*;

const TRACE: &str = r#"{"t_ns":1000,"event":"start","pid":1,"name":"cpumgr","cpus":[0,1],"shared":false}
{"t_ns":2000,"event":"arrival","pid":7,"name":"cg","cpus":[],"shared":false}
{"t_ns":2000,"event":"allocation","pid":7,"name":"cg","cpus":[0,1],"shared":false}
{"t_ns":5000,"event":"arrival","pid":8,"name":"ft","cpus":[],"shared":false}
{"t_ns":5000,"event":"allocation","pid":8,"name":"ft","cpus":[1],"shared":false}
{"t_ns":5000,"event":"allocation","pid":7,"name":"cg","cpus":[0],"shared":false}
{"t_ns":8000,"event":"allocation","pid":7,"name":"cg","cpus":[1],"shared":true}
{"t_ns":8000,"event":"allocation","pid":8,"name":"ft","cpus":[1],"shared":true}
{"t_ns":9000,"event":"exit","pid":7,"name":"cg","cpus":[],"shared":false,"lost":2}
{"t_ns":10000,"event":"stop","pid":1,"name":"cpumgr","cpus":[0,1],"shared":false}
"#;

#[test]
fn a_trace_is_read_as_spans_that_end_where_the_next_one_begins() {
    let spans = Spans::read(TRACE).unwrap();
    assert_eq!((spans.processors, spans.end, spans.executions.len()), (2, 9000, 2));
    let span = |begin, end, cpus: &[u32], shared| Span { begin, end, cpus: cpus.into(), shared };
    assert_eq!(
        spans.executions[0].spans,
        [
            span(1000, 4000, &[0, 1], false),
            span(4000, 7000, &[0], false),
            span(7000, 8000, &[1], true)
        ]
    );
    assert_eq!(
        spans.executions[1].spans,
        [span(4000, 7000, &[1], false), span(7000, 9000, &[1], true)],
        "it was there at the end"
    );
}

#[test]
fn a_trace_for_paraver_passes_the_validator_and_adds_up() {
    let trace = paraver::write(&Spans::read(TRACE).unwrap().timeline());
    let totals = paraver::validate(&trace).unwrap();
    // Running: 2 for 3 us, 1 for 3 us twice; sharing: 1 us and 2 us; without: 4 us of one thread.
    let of = |state| totals.by_state.get(&state).copied().unwrap_or(0);
    assert_eq!((of(1), of(3), of(5)), (12_000, 3000, 4000));
    assert!(trace.row.contains("cg (7)") && trace.row.contains("ft (8)"), "{}", trace.row);
}

#[test]
fn a_trace_for_perfetto_has_what_each_processor_did_and_what_each_program_had() {
    let text = perfetto::write(&Spans::read(TRACE).unwrap());
    let value: Value = serde_json::from_str(&text).unwrap();
    let events = value["traceEvents"].as_array().unwrap();
    let sum = |cpu: u32| -> f64 {
        let there = events.iter().filter(|it| it["ph"] == "X" && it["tid"] == cpu);
        there.map(|it| it["dur"].as_f64().unwrap()).sum()
    };
    assert!((sum(0) - 6.0).abs() < 1e-9 && (sum(1) - 9.0).abs() < 1e-9, "{text}");
    let last = events.iter().rev().find(|it| it["ph"] == "C" && it["name"] == "cg (7)").unwrap();
    assert_eq!((&last["ts"], &last["args"]["processors"]), (&8.0.into(), &0.into()));
}

#[test]
fn what_is_no_trace_is_named_with_its_line() {
    let of = |text: &str| Spans::read(text).unwrap_err();
    assert_eq!(of("").0, 1);
    assert_eq!(of(&TRACE.replacen("\"event\":\"arrival\"", "\"event\":\"x\"", 1)).0, 2);
    assert_eq!(of("{\"t_ns\":1,\"event\":\"start\",\"pid\":1,\"cpus\":[70000]}").0, 1);
    assert_eq!(of("{\"t_ns\":1,").0, 1);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t");
    fs::write(&file, "x\n").unwrap();
    let error = convert(&file, None, None).unwrap_err();
    assert!(error.to_string().contains("t:1: ") && error.code() == 2, "{error}");
    fs::write(&file, TRACE).unwrap();
    assert!(convert(&file, Some(&file), None).is_err(), "it would be overwritten");
    assert_eq!(fs::read_to_string(&file).unwrap(), TRACE);
    let of = |prv: &str, perfetto: &str| {
        let [prv, perfetto] = [prv, perfetto].map(|name| dir.path().join(name));
        convert(&file, Some(&prv), Some(&perfetto)).map_err(|error| error.to_string())
    };
    for (prv, perfetto) in [("o", "o"), ("o.prv", "o.row"), ("o.pcf", "p")] {
        assert!(of(prv, perfetto).unwrap_err().contains("two forms"), "{prv} {perfetto}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is written");
    of("o.prv", "o.json").unwrap();
}
