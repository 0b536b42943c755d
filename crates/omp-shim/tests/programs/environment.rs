//! What the environment's variables set, and what is said of wrong ones.

use crate::Subject;

#[test]
fn the_environment_sets_the_control_variables() {
    let Some(subject) = Subject::new("settings", &[]) else { return };
    for (variables, expected) in [
        (&[("OMP_NUM_THREADS", "3")][..], "threads=3 members=3 dynamic=0"),
        (&[("OMP_NUM_THREADS", "3,2")], "levels=255"),
        (&[("OMP_NUM_THREADS", "8"), ("OMP_THREAD_LIMIT", "3")], "threads=8 members=3"),
        (&[("OMP_SCHEDULE", "guided,4")], "schedule=3,4"),
        (&[("OMP_SCHEDULE", "static")], "schedule=80000001,0"),
        (&[("OMP_NESTED", "true")], "levels=255"),
        (&[("OMP_MAX_ACTIVE_LEVELS", "7")], "levels=7"),
        (&[("OMP_CANCELLATION", "true")], "cancel=1"),
        (&[], "dynamic=1"),
        (&[("ASAT_MAX", "1")], "members=1 dynamic=1"),
        (&[("OMP_NUM_THREADS", "3"), ("ASAT_MAX", "1")], "members=3 dynamic=0"),
        (&[("OMP_DYNAMIC", "false")], "dynamic=0"),
        (&[("OMP_DYNAMIC", "true")], "dynamic=1"),
        (&[("OMP_PROC_BIND", "spread")], "bind=4"),
        (&[("NANOS_SIZER", "asat")], "dynamic=1"),
        (&[("NANOS_SIZER", "asat"), ("OMP_DYNAMIC", "false")], "dynamic=0"),
        (&[("NANOS_SIZER", "asat"), ("ASAT_MAX", "1")], "members=1 dynamic=1"),
        (&[("OMP_DYNAMIC", "true"), ("ASAT_MAX", "1")], "members=1 dynamic=1"),
        (
            &[("NANOS_SIZER", "manager"), ("OMP_DYNAMIC", "true"), ("OMP_NUM_THREADS", "1")],
            "members=1",
        ),
        (&[("NANOS_SIZER", "fixed")], "dynamic=0"),
    ] {
        let (out, err) = subject.says(variables);
        assert!(out.contains(expected) && err.is_empty(), "{variables:?}: {out}{err}");
    }
}

#[test]
fn what_the_program_found_out_by_itself_is_written_at_its_end_when_it_is_asked_for() {
    let Some(subject) = Subject::new("settings", &[]) else { return };
    let report = ("ASAT_REPORT", "on");
    let (_, err) = subject.says(&[("NANOS_SIZER", "asat"), ("ASAT_MAX", "1"), report]);
    assert!(err.starts_with("asat: threads 1 of 1; evaluations "), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    let (_, err) = subject.says(&[("NANOS_SIZER", "fixed"), report]);
    assert!(err.starts_with("asat: team sizes had another source"), "{err}");
}

#[test]
fn a_number_of_threads_that_a_program_names_is_exact_unless_it_allows_others() {
    for (options, variables, expected) in [
        (&[][..], &[][..], "before=1 named=3 dynamic=0 inside=0"),
        (&["-DALLOWED"], &[], "before=1 named=1 dynamic=1 inside=2"),
        (&[], &[("OMP_DYNAMIC", "true")], "before=1 named=1 dynamic=1 inside=2"),
        (&[], &[("NANOS_SIZER", "asat")], "before=1 named=1 dynamic=1 inside=2"),
    ] {
        let Some(subject) = Subject::new("named", options) else { return };
        let all: Vec<_> = [("ASAT_MAX", "1")].iter().chain(variables).copied().collect();
        let (out, err) = subject.says(&all);
        assert!(out.contains(expected) && err.is_empty(), "{options:?} {variables:?}: {out}{err}");
    }
}

#[test]
fn wrong_variables_are_named_and_the_program_runs_with_the_default() {
    let Some(subject) = Subject::new("settings", &[]) else { return };
    let (default, quiet) = subject.says(&[]);
    assert_eq!(quiet, "");
    for (name, value) in [
        ("OMP_NUM_THREADS", "garbage"),
        ("OMP_NUM_THREADS", "0"),
        ("OMP_NUM_THREADS", "99999999999"),
        ("OMP_MAX_TASK_PRIORITY", "2147483648"),
        ("OMP_DEFAULT_DEVICE", "-1"),
        ("OMP_SCHEDULE", "sometimes"),
        ("OMP_STACKSIZE", "12q"),
        ("OMP_PROC_BIND", "glue"),
        ("NANOS_ADAPT", "perhaps"),
        ("NANOS_SIZER", "perhaps"),
        ("ASAT_EVAL_TIME", "soon"),
        ("UPM", "maybe"),
        ("UPM_REPORT", "2"),
        ("ASAT_REPORT", "2"),
        ("UPM_PLACEMENT", "anywhere"),
        ("UPM_CRITICAL_PAGES", "0"),
        ("UPM_SOURCE", "pebs"),
        ("UPM_NODES", "1"),
    ] {
        let (out, err) = subject.says(&[(name, value)]);
        assert_eq!(out, default, "{name}={value}");
        assert!(
            err.contains("libgomp: ") && err.contains(name) && err.contains(value),
            "{name}={value}: {err}"
        );
    }
}

#[test]
fn a_team_that_cannot_be_had_runs_with_what_there_is_and_says_so() {
    let Some(subject) = Subject::new("settings", &[]) else { return };
    let (out, err) = subject.says(&[("OMP_NUM_THREADS", "1000000"), ("OMP_STACKSIZE", "64k")]);
    assert!(
        out.starts_with("threads=1000000 members=") && !out.contains("members=1000000"),
        "{out}"
    );
    assert!(err.contains("a team of 1000000 threads was asked for and has "), "{err}");
}

#[test]
fn display_env_shows_every_variable_when_the_library_is_loaded() {
    let Some(subject) = Subject::new("settings", &[]) else { return };
    let (_, err) = subject.says(&[("OMP_DISPLAY_ENV", "verbose"), ("OMP_NUM_THREADS", "3")]);
    for line in [
        "OMP_NUM_THREADS = '3'",
        "OMP_SCHEDULE = 'DYNAMIC'",
        "NANOS_ADAPT = 'default'",
        "NANOS_SIZER = 'auto'",
        "ASAT_EVAL_TIME = '50ms'",
        "UPM = 'off'",
    ] {
        assert!(err.contains(line), "{line} is missing: {err}");
    }
    // Those that are ours are explained.
    let shown = err.lines().filter_map(|line| line.trim().split_once(" = ").map(|(name, _)| name));
    let readme = include_str!("../../README.md");
    let ours = ["NANOS_", "ASAT_", "GOMP_", "UPM"];
    let ours: Vec<_> =
        shown.filter(|name| ours.iter().any(|ours| name.starts_with(ours))).collect();
    for name in &ours {
        assert!(readme.contains(&format!("`{name}`")), "{name} is not in the README");
    }
    let explained = readme.lines().filter(|line| line.starts_with('|'));
    let explained =
        explained.flat_map(|line| line.split('|').nth(1)).flat_map(|cell| cell.split(','));
    for name in explained.map(|name| name.trim().trim_matches('`')) {
        let is_ours = ["NANOS_", "ASAT_", "UPM"].iter().any(|ours| name.starts_with(ours));
        assert!(!is_ours || ours.contains(&name), "{name} is not shown");
    }
}

#[test]
fn explicit_places_keep_the_program_and_what_it_shows_of_the_machine() {
    let Some(subject) = Subject::new("fenced", &[]) else { return };
    let mask = platform::affinity::affinity(None).unwrap();
    let (Some(first), count) = (mask.first(), mask.len()) else {
        panic!("a thread without processors")
    };
    let said = |variables: &[(&str, &str)]| {
        subject.says(&[&[("OMP_NUM_THREADS", "2")], variables].concat())
    };
    let all = format!("procs={count} within={count}\n");
    assert_eq!(said(&[]).0, all);
    assert_eq!(said(&[("OMP_PLACES", "threads")]).0, all);
    let one = format!("procs={count} within=1\n");
    let place = format!("{{{first}}}");
    assert_eq!(said(&[("OMP_PLACES", &place)]), (one.clone(), String::new()));
    assert_eq!(said(&[("GOMP_CPU_AFFINITY", &first.to_string())]), (one, String::new()));
    // Unless the program is not to be bound.
    assert_eq!(said(&[("OMP_PLACES", &place), ("OMP_PROC_BIND", "false")]).0, all);
}

#[test]
fn the_readme_lists_the_variables_that_display_env_shows() {
    let Some(subject) = Subject::new("settings", &[]) else { return };
    let (_, err) = subject.says(&[("OMP_DISPLAY_ENV", "verbose")]);
    let is_ours = |name: &&str| name.starts_with("NANOS_") || name.starts_with("GOMP_");
    let shown: std::collections::BTreeSet<&str> = err
        .lines()
        .filter_map(|line| line.trim().trim_start_matches("[host] ").split(" = ").next())
        .filter(is_ours)
        .collect();
    let readme = include_str!("../../README.md");
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let listed = rows.filter(is_ours).collect();
    assert!(shown.len() > 3, "{err}");
    assert_eq!(shown, listed);
}
