//! The text format, read by a reader that is written from its description.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Each sample by name and labels. Refuses what the description refuses: a sample without a type
/// before it, two samples of the same name and labels, a histogram whose buckets fall.
fn read(text: &str) -> BTreeMap<String, f64> {
    let mut types = BTreeSet::new();
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["gauge", "counter", "histogram"].contains(&kind), "{line}");
            assert!(types.insert(name.to_owned()), "{name} has two types");
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (key, value) = line.rsplit_once(' ').unwrap();
        let name = key.split('{').next().unwrap();
        let is_typed = types.contains(name)
            || ["_bucket", "_sum", "_count"]
                .iter()
                .any(|end| name.strip_suffix(end).is_some_and(|it| types.contains(it)));
        assert!(is_typed, "{line} has no type");
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(samples.insert(key.to_owned(), value).is_none(), "{key} is there twice");
    }
    assert!(text.ends_with('\n'));
    samples
}

fn report(name: &str) -> Report {
    let status = r#"{"manager_pid":1,"uptime_ns":2500000000,"policy":"dss-ts","quantum_ns":100000000,
        "processors":"0-3","processor_count":4,"left":"2-3","drained":"1","waiting":1,"program_count":1}"#;
    let mut program: arena::message::ProgramStatus = serde_json::from_str(
        r#"{"pid":7,"name":"","library":"","request":4,"max":4,"granted":1,"cpus":"0","shared":false,
            "dedicated":false,"fixed_team":false,"vps":1,"squeezes":3,"age_ns":61000000000}"#,
    )
    .unwrap();
    program.name = name.to_owned();
    Report {
        socket: "/s".into(),
        status: serde_json::from_str(status).unwrap(),
        programs: vec![program],
        queue: Vec::new(),
        advice: None,
        loaded: BTreeMap::new(),
    }
}

#[test]
fn what_a_manager_does_is_read_back_as_it_is() {
    let mut measures = Measures { arrivals: 5, squeezes: 3, ..Measures::default() };
    for ns in [500, 1500, 3_000_000, u64::MAX / 2] {
        measures.passes.add(ns);
    }
    let samples = read(&text(&report("cg"), &measures));
    for (key, value) in [
        ("cpumgr_processors", 4.0),
        ("cpumgr_processors_left", 2.0),
        ("cpumgr_processors_drained", 1.0),
        ("cpumgr_uptime_seconds", 2.5),
        ("cpumgr_arrivals_total", 5.0),
        ("cpumgr_program_requested{pid=\"7\",name=\"cg\"}", 4.0),
        ("cpumgr_program_age_seconds{pid=\"7\",name=\"cg\"}", 61.0),
        ("cpumgr_pass_seconds_bucket{le=\"0.000001\"}", 1.0),
        ("cpumgr_pass_seconds_bucket{le=\"0.000002\"}", 2.0),
        ("cpumgr_pass_seconds_bucket{le=\"0.004096\"}", 3.0),
        ("cpumgr_pass_seconds_bucket{le=\"+Inf\"}", 4.0),
        ("cpumgr_pass_seconds_count", 4.0),
        ("cpumgr_grant_seconds_count", 0.0),
    ] {
        assert_eq!(samples.get(key), Some(&value), "{key} in {samples:?}");
    }
}

#[test]
fn a_name_cannot_forge_a_line() {
    let page = text(&report("a\"} 1\ncpumgr_forged{x=\"\\"), &Measures::default());
    assert!(!page.lines().any(|line| line.starts_with("cpumgr_forged")), "{page}");
    assert!(page.contains(r#"name="a\"} 1\ncpumgr_forged{x=\"\\""#), "{page}");
}
