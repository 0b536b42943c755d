//! `docs/json.md` against what is written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use arena::message::{
    Account, Measures, Narrow, ProcessorRange, ProgramStatus, Queue, QueuedStatus, RunState, Status,
};
use serde_json::{Value, json};

use super::*;
use crate::accounts::Accounts;
use crate::administration::{InForce, LevelInForce, Listing, QueueReport};
use crate::command::Checked;
use crate::doctor::{Finding, Findings, Follows, Pool, Pools, Verdict};
use crate::libraries::Library;
use crate::limits;
use crate::metrics::MeasuresShown;
use crate::replay::TraceShown;
use crate::status::Report;
use crate::views::{List, Processor, Processors, Seat, Shown, Use};
use crate::web;

const DOCUMENT: &str = include_str!("../../../../docs/json.md");

fn program() -> ProgramStatus {
    ProgramStatus {
        pid: 4711,
        name: "cg".into(),
        library: "nanothreads 0.1.0".into(),
        request: 4,
        max: 4,
        granted: 2,
        cpus: "0-1".into(),
        within: Some("0-3".into()),
        shared: false,
        dedicated: false,
        fixed_team: false,
        attached: false,
        vps: 4,
        asked: 0,
        preempted: 1,
        squeezes: 3,
        fence: Some("nanos-program-7-1".into()),
        speedup: Some((1.5, 2)),
        class: Some("night".into()),
        min: Some(1),
        bound: Some(4),
        weight: 1.0,
        age_ns: 61_000_000_000,
    }
}

fn status() -> Status {
    Status {
        manager_pid: 4000,
        uptime_ns: 5_000_000_000,
        policy: "dss-ts".into(),
        policy_failure: Some("mine panicked in decide: no".into()),
        parameters: BTreeMap::from([("step".into(), "2".into())]),
        quantum_ns: 100_000_000,
        grace_ns: 2_000_000,
        waiting: 1,
        processors: "0-3".into(),
        processor_count: 4,
        left: "3".into(),
        drained: "2".into(),
        trace: Some("/tmp/trace.jsonl".into()),
        trace_fault: None,
        program_count: 1,
        silent: vec![4712],
        fences: Some("/sys/fs/cgroup/cpumgr".into()),
        level: Some(3),
        narrow: Some(Narrow {
            processors: "0-3".into(),
            count: 4,
            of: "0-7".into(),
            why: "started inside cpuset /x by process 12".into(),
        }),
        kept: vec!["niceness 5".into()],
        reasons: vec![(4712, "it has one thread".into())],
        unkept: vec!["what this one was told: No space left on device (os error 28)".into()],
    }
}

fn measures() -> Measures {
    let mut measures = Measures { arrivals: 1, changes: 3, ..Measures::default() };
    [900, 12_000].into_iter().for_each(|ns| measures.passes.add(ns));
    measures.grants.add(12_000);
    measures
}

fn place() -> QueuedStatus {
    QueuedStatus {
        id: 9,
        pid: 4800,
        label: "ft".into(),
        request: 2,
        waits_ns: 3_000_000_000,
        after: vec!["ok:7".into()],
        within_ns: Some(60_000_000_000),
        processors: Some(ProcessorRange { least: 1, most: 2 }),
        limit_ns: Some(3_600_000_000_000),
        begins_in_ns: Some(30_000_000_000),
        user: Some(1000),
        consumed_ns: Some(7_200_000_000_000),
        never_begins: Some("it has at most 1, for other classes keep the rest (reserve)".into()),
    }
}

fn seat() -> Seat {
    Seat { pid: 4711, tid: 4713, name: "nanos-1".into(), cpu: 1, state: 'R' }
}

/// A document of each kind in which nothing is left out.
fn examples() -> Vec<(&'static str, Value)> {
    fn of(kind: &'static str, body: &impl Serialize) -> (&'static str, Value) {
        (kind, serde_json::from_str(&line(kind, body).unwrap()).unwrap())
    }
    let library = Library { path: "/usr/lib/nanos/libgomp.so.1".into(), ours: true };
    let report = Report {
        socket: "/run/user/1000/cpumgr/app.sock".into(),
        status: status(),
        programs: vec![program()],
        queue: vec![place()],
        advice: None,
        loaded: BTreeMap::from([(4711, vec![library.clone()])]),
    };
    let policies = limits::builtin();
    let listing = Listing::new(&policies, "equip", &BTreeMap::new());
    let (_, mut policy) = of("policy", &listing);
    // One will do, and one that has a parameter.
    let all = policy["policies"].as_array_mut().unwrap();
    all.retain(|it| it["name"] == "pdpa");
    all[0]["parameters"].as_array_mut().unwrap().truncate(1);
    vec![
        of("status", &report),
        of("list", &List { programs: vec![program()] }),
        of(
            "show",
            &Shown {
                program: program(),
                why_not_more: Some("1 other program has a share".into()),
                libraries: vec![library],
                threads: vec![seat()],
            },
        ),
        of(
            "cpus",
            &Processors {
                processors: vec![Processor {
                    cpu: 1,
                    state: Use::Own,
                    speed: 0,
                    programs: vec![4711],
                    threads: vec![seat()],
                }],
            },
        ),
        of(
            "queue",
            &QueueReport {
                queue: Queue {
                    level: Some(3),
                    running: 1,
                    waiting: 1,
                    half_life_ns: Some(604_800_000_000_000),
                },
                places: vec![place()],
            },
        ),
        ("policy", policy),
        of("set", &InForce::of(&status())),
        of("mpl", &LevelInForce { level: Some(3) }),
        of(
            "doctor",
            &Findings {
                findings: vec![Finding {
                    check: "quota",
                    verdict: Verdict::Note,
                    says: "a control group gives this shell 1.50 processors' worth of time".into(),
                    remedy: Some("raise cpu.max of the group".into()),
                }],
            },
        ),
        of(
            "doctor-pools",
            &Pools {
                of: "4711".into(),
                findings: vec![Finding {
                    check: "mask",
                    verdict: Verdict::Well,
                    says: "its first thread may use all processors: 0-3".into(),
                    remedy: None,
                }],
                pools: vec![Pool {
                    name: "OpenBLAS".into(),
                    version: Some("0.3.21".into()),
                    file: "/usr/lib/libopenblas.so.0".into(),
                    follows: Follows::Yes,
                    says: "the drop-in library sets how many threads it uses".into(),
                }],
            },
        ),
        of(
            "history",
            &Accounts {
                file: "/home/me/.local/state/cpumgr/history.redb".into(),
                fault: None,
                left_out: 0,
                rows: vec![Account {
                    user: 1000,
                    program: "cg".into(),
                    runs: 1,
                    pid: Some(4711),
                    state: Some(RunState::Ended),
                    began_ns: 1_700_000_000_000_000_000,
                    until_ns: 1_700_000_060_000_000_000,
                    granted_ns: 120_000_000_000,
                    used_ns: 118_500_000_000,
                    waited_ns: 60_000_000_000,
                    queued_ns: 0,
                }],
            },
        ),
        of("trace", &TraceShown { trace: Some("/tmp/trace.jsonl".into()) }),
        of("metrics", &MeasuresShown { measures: measures() }),
        of(
            "web",
            &web::Shown {
                report: &report,
                samples: &[web::Sample { at: 2.5, granted: BTreeMap::from([(4711, 2)]) }].into(),
            },
        ),
        of("check-config", &Checked::of(&[PathBuf::from("/etc/cpumgr/cpumgr.toml")], true, &[])),
    ]
}

/// The section of a kind.
fn section(kind: &str) -> &'static str {
    let head = format!("\n## {kind}\n");
    let at = DOCUMENT.find(&head).unwrap_or(DOCUMENT.len());
    let rest = DOCUMENT.get(at + head.len()..).unwrap_or_default();
    &rest[..rest.find("\n## ").unwrap_or(rest.len())]
}

/// The names of all fields, of those within others too.
fn fields(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                // Keys that are data: processes, and a policy's parameters.
                let is_data = key.bytes().all(|it| it.is_ascii_digit()) || key == "step";
                if !is_data {
                    into.insert(key.clone());
                }
                fields(value, into);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| fields(value, into)),
        _ => {}
    }
}

#[test]
fn the_document_shows_what_is_written() {
    let mut missing = String::new();
    for (kind, example) in examples() {
        let block = format!("```json\n{example:#}\n```\n");
        if !section(kind).contains(&block) {
            missing += &format!("\n## {kind}\n\n{block}");
        }
        assert_eq!((&example["schema"], &example["kind"]), (&json!(SCHEMA), &json!(kind)));
    }
    assert!(missing.is_empty(), "docs/json.md lacks:\n{missing}");
}

#[test]
fn the_document_explains_every_field() {
    let explained: BTreeSet<String> = DOCUMENT
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned()))
        .collect();
    let mut written = BTreeSet::new();
    examples().iter().for_each(|(_, example)| fields(example, &mut written));
    let missing: Vec<_> = written.difference(&explained).collect();
    assert!(missing.is_empty(), "docs/json.md does not explain {missing:?}");
}
