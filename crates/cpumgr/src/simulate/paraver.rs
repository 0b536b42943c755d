//! Timelines as traces for Paraver: the records (`.prv`), what their numbers mean (`.pcf`), names
//! (`.row`).
//!
//! # Form
//! After "Paraver: Trace format" of the Barcelona Supercomputing Center. One node with all
//! processors; an application per execution, with one task and a thread per virtual processor.
//! State records only: `1:cpu:application:task:thread:begin:end:state`, times in ns, processors
//! from 1, 0 for none. The states are those of [`Activity::ALL`], from 0.
//!
//! # Invariants
//! V1  Records are in order of begin; those of a thread follow each other without gap from its
//!     execution's start to its end; a processor has one exclusive thread at a time.
//! V2  What is written passes [`validate`], which is written from the form and shares nothing with
//!     [`write()`].

mod validate;

use std::fmt::Write as _;

use policies::sim::{Activity, Timeline};

pub use validate::{Totals, TraceError, validate};

/// Why a trace is not written to standard output.
pub(crate) const NO_STANDARD_OUTPUT: &str = "--prv -: a trace for Paraver is three files, and \
                                             standard output is one; name a file (./- is one, too)";

/// The three files of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The records.
    pub prv: String,
    /// What their numbers mean.
    pub pcf: String,
    /// Names of processors, applications and threads.
    pub row: String,
}

/// The day that stands in the header: a trace depends on its workload alone.
const DATE: &str = "01/01/2000 at 00:00";
/// A colour for each state.
const COLOURS: [(u8, u8, u8); 6] =
    [(117, 195, 255), (0, 0, 255), (255, 0, 174), (255, 255, 0), (255, 144, 26), (255, 255, 255)];

/// A timeline as a trace.
#[must_use]
pub fn write(timeline: &Timeline) -> Trace {
    let threads: Vec<usize> =
        timeline.tracks.iter().map(|track| track.virtual_processors.len()).collect();
    let mut prv = format!(
        "#Paraver ({DATE}):{}_ns:1({}):{}",
        timeline.end,
        timeline.processors,
        threads.len()
    );
    for count in &threads {
        let _infallible = write!(prv, ":1({count}:1)");
    }
    prv.push('\n');

    let mut records = Vec::new();
    for (application, track) in timeline.tracks.iter().enumerate() {
        for (thread, list) in track.virtual_processors.iter().enumerate() {
            for interval in list {
                let cpu = interval.cpu.map_or(0, |cpu| cpu + 1);
                let state =
                    Activity::ALL.iter().position(|known| *known == interval.activity).unwrap_or(0);
                records.push((
                    interval.begin,
                    application + 1,
                    thread + 1,
                    interval.end,
                    cpu,
                    state,
                ));
            }
        }
    }
    records.sort_unstable();
    for (begin, application, thread, end, cpu, state) in records {
        let _infallible = writeln!(prv, "1:{cpu}:{application}:1:{thread}:{begin}:{end}:{state}");
    }

    let mut pcf =
        "DEFAULT_OPTIONS\n\nLEVEL               THREAD\nUNITS               NANOSEC\nLOOK_BACK           \
         100\n\
         SPEED               1\nFLAG_ICONS          ENABLED\nNUM_OF_STATE_COLORS 1000\nYMAX_SCALE          \
         37\n\n\nDEFAULT_SEMANTIC\n\nTHREAD_FUNC          State As Is\n\n\nSTATES\n"
            .to_owned();
    for (state, activity) in Activity::ALL.iter().enumerate() {
        let _infallible = writeln!(pcf, "{state:<4} {}", name(*activity));
    }
    pcf.push_str("\n\nSTATES_COLOR\n");
    for (state, (red, green, blue)) in COLOURS.iter().enumerate() {
        let _infallible = writeln!(pcf, "{state:<4} {{{red},{green},{blue}}}");
    }

    let mut row = format!("LEVEL CPU SIZE {}\n", timeline.processors);
    for cpu in 1..=timeline.processors {
        let _infallible = writeln!(row, "{cpu}.1");
    }
    row.push_str("\nLEVEL NODE SIZE 1\nmachine\n");
    let names: Vec<String> = timeline.tracks.iter().map(|track| one_line(&track.name)).collect();
    let _infallible = writeln!(row, "\nLEVEL APPL SIZE {}", names.len());
    for name in &names {
        let _infallible = writeln!(row, "{name}");
    }
    let _infallible = writeln!(row, "\nLEVEL TASK SIZE {}", names.len());
    for name in &names {
        let _infallible = writeln!(row, "{name}");
    }
    let _infallible = writeln!(row, "\nLEVEL THREAD SIZE {}", threads.iter().sum::<usize>());
    for (name, count) in names.iter().zip(&threads) {
        for thread in 1..=*count {
            let _infallible = writeln!(row, "{name} VP {}", thread - 1);
        }
    }
    Trace { prv, pcf, row }
}

/// A name that does not end its line.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn name(activity: Activity) -> &'static str {
    match activity {
        Activity::Idle => "Idle",
        Activity::Running => "Running",
        Activity::Refilling => "Cache refill",
        Activity::Sharing => "Shares a processor",
        Activity::TimeShared => "Time-shared by the kernel",
        Activity::Absent => "No processor",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::parse;
    use policies::sim::{Options, Outcome, simulate};
    use policies::{Needs, Registry};
    use std::path::Path;

    const WORKLOAD: &str = r#"name = "three"
        machine = { processors = 6, per_cache = 2 }
        jobs = [{ program = "a", copies = 2, repetitions = 2 }, { program = "b", arrival = "30ms" }]
        [programs.a]
        request = 4
        iterations = 3
        pattern = "alternate"
        refill = "1ms"
        phases = [{ serial = "10ms" }, { parallel = "200ms", regions = 50 }]
        [programs.b]
        request = 6
        phases = [{ parallel = "600ms", regions = 7 }]"#;

    fn outcome(policy: &str) -> Outcome {
        let registry = Registry::with_builtin_for(Needs::EVERYTHING);
        let workload = parse(Path::new("w"), WORKLOAD, &registry, |_| Ok(String::new())).unwrap();
        simulate(&workload, &registry, &Options { timeline: true, ..Options::policy(policy) })
            .unwrap()
    }

    #[test]
    fn traces_of_every_policy_pass_the_validator_and_add_up_to_the_run() {
        for policy in Registry::with_builtin_for(Needs::EVERYTHING).names() {
            let outcome = outcome(policy);
            let timeline = outcome.timeline.as_ref().unwrap();
            let trace = write(timeline);
            let totals = validate(&trace).unwrap_or_else(|error| panic!("{policy}: {error}"));
            assert_eq!(totals.end, timeline.end, "{policy}");
            assert_eq!(totals.by_application.len(), outcome.executions.len(), "{policy}");
            let threads = |name: &str| if name.starts_with('a') { 4 } else { 6 };
            let lives: u64 = timeline
                .tracks
                .iter()
                .map(|track| threads(&track.name) * (track.ended - track.started))
                .sum();
            assert_eq!(
                totals.by_state.values().sum::<u64>(),
                lives,
                "{policy}: states add up to the run"
            );
            if policy != "none" {
                // Own processors cost their whole time; parts of shared ones are less than the
                // record's length.
                let own: u64 =
                    [0, 1, 2].iter().map(|state| totals.by_state.get(state).unwrap_or(&0)).sum();
                let shared = totals.by_state.get(&3).copied().unwrap_or(0);
                let cpu_time = outcome.cpu_time();
                assert!(
                    own <= cpu_time + 10 && cpu_time <= own + shared + 10,
                    "{policy}: {own} {shared} {cpu_time}"
                );
            }
        }
    }

    #[test]
    fn the_same_run_gives_the_same_trace() {
        let [a, b] =
            [outcome("ssw-dss"), outcome("ssw-dss")].map(|o| write(o.timeline.as_ref().unwrap()));
        assert_eq!(a, b);
        assert!(
            a.prv.starts_with("#Paraver (01/01/2000 at 00:00):"),
            "{}",
            a.prv.lines().next().unwrap()
        );
    }

    #[test]
    fn the_validator_finds_what_is_wrong() {
        let good = write(outcome("equip").timeline.as_ref().unwrap());
        let lines: Vec<&str> = good.prv.lines().collect();
        let with = |change: &dyn Fn(&mut Vec<String>)| {
            let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            change(&mut lines);
            let broken = Trace { prv: lines.join("\n") + "\n", ..good.clone() };
            validate(&broken).expect_err("something is wrong").to_string()
        };
        let first = lines[1].split(':').collect::<Vec<_>>();
        let edit = |field: usize, value: &str| {
            let mut fields = first.clone();
            fields[field] = value;
            fields.join(":")
        };
        for (message, text) in [
            (with(&|l| drop(l.remove(1))), "line"),
            (with(&|l| l.swap(1, 30)), "order"),
            (with(&|l| l[1] = edit(0, "9")), "kind"),
            (with(&|l| l[1] = edit(1, "7")), "processor 7"),
            (with(&|l| l[1] = edit(2, "99")), "application 99"),
            (with(&|l| l[1] = edit(4, "0")), "thread 0"),
            (with(&|l| l[1] = edit(7, "77")), "state 77"),
            (with(&|l| l[1] = edit(6, "0")), "length"),
            (with(&|l| l[1] = edit(6, "x")), "number"),
            (with(&|l| l[1] = first[..7].join(":")), "fields"),
            (with(&|l| l[0] = l[0].replace("#Paraver", "#Parader")), "header"),
            (with(&|l| l[0] = l[0].replace("_ns:1(6)", "_ns:1(5)")), "LEVEL CPU SIZE 5"),
        ] {
            assert!(message.contains(text), "{message} does not say {text}");
        }
        let short =
            Trace { row: good.row.replace("LEVEL CPU SIZE 6", "LEVEL CPU SIZE 7"), ..good.clone() };
        assert!(validate(&short).expect_err("a name is missing").to_string().contains("CPU"));
        let unnamed = Trace { pcf: good.pcf.replace("1    Running\n", ""), ..good };
        assert!(
            validate(&unnamed).expect_err("a state has no name").to_string().contains("state 1")
        );
    }
}
