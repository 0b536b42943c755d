//! What `list`, `show` and `cpus` make of a report.

use super::*;

fn program(pid: i32, name: &str, cpus: &str) -> ProgramStatus {
    let text = format!(
        r#"{{"pid":{pid},"name":"{name}","library":"","request":2,"max":2,"granted":1,
            "cpus":"{cpus}","shared":false,"dedicated":false,"fixed_team":false,"vps":1,
            "age_ns":61000000000,"speedup":[1.5,2],"within":"0-1"}}"#
    );
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_program_is_found_by_its_process_and_by_a_name_that_is_its_own() {
    let programs = [program(7, "cg", "0"), program(8, "cg", "1"), program(9, "8", "2")];
    assert_eq!(find(&programs, "7").unwrap().pid, 7);
    assert_eq!(find(&programs, "8").unwrap().pid, 8, "a number is a process first");
    let several = find(&programs, "cg").unwrap_err();
    assert!(several.to_string().contains("2 programs are called cg") && several.code() == 2);
    assert!(several.to_string().ends_with("7, 8"), "{several}");
    let none = find(&programs, "ft").unwrap_err().to_string();
    assert!(none.contains("ft is no program") && none.contains("cpumgr list"), "{none}");
}

#[test]
fn a_program_is_shown_with_its_threads_and_why_it_has_no_more() {
    let me = i32::try_from(std::process::id()).unwrap();
    let threads = seats::of_process(me);
    assert!(threads.iter().any(|it| it.tid == me), "its first thread is there: {threads:?}");
    let shown = Shown {
        program: program(me, "cg", "0"),
        why_not_more: Some("1 other program has a share".into()),
        libraries: vec![Library { path: "/l/libgomp.so.1".into(), ours: true }],
        threads,
    };
    let text = shown.text();
    for line in [
        format!("process      {me}"),
        "asks for     2 (at most 2)".into(),
        "speedup      1.50 on 2".into(),
        "stays on     0-1".into(),
        "why not more 1 other program has a share".into(),
        "library      /l/libgomp.so.1 (ours)".into(),
        "for          1m01s".into(),
    ] {
        assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
    }
    assert!(seats::of_process(i32::MAX).is_empty());
}

fn processor(cpu: u32, state: Use, programs: Vec<i32>) -> Processor {
    Processor { cpu, state, speed: 0, programs, threads: Vec::new() }
}

#[test]
fn each_processor_says_which_program_and_which_threads_it_has() {
    let set = |text: &str| CpuSet::parse_list(text).unwrap();
    let state = |cpu, programs: &[i32]| state(CpuId(cpu), programs, &set("3"), &set("2,4"));
    assert_eq!(
        [state(0, &[]), state(0, &[7]), state(0, &[7, 8]), state(3, &[]), state(2, &[])],
        [Use::Free, Use::Own, Use::Shared, Use::Left, Use::Drained]
    );
    assert_eq!(state(4, &[7]), Use::Own, "a program can run nowhere else");
    let seat = Seat { pid: 7, tid: 70, name: "worker".into(), cpu: 0, state: 'R' };
    let processors = Processors {
        processors: vec![
            Processor { threads: vec![seat], ..processor(0, Use::Shared, vec![7, 8]) },
            processor(1, Use::Free, Vec::new()),
        ],
    };
    let table = processors.table(&[program(7, "cg", "0")]);
    assert_eq!(
        table,
        "CPU   STATE    PROGRAM                   THREADS THERE\n\
         0     shared   7 cg, 8                   70 worker\n\
         1     free     -\n"
    );
}

#[test]
fn processors_say_how_fast_they_are_where_some_are_slower() {
    let with = |speeds: [u32; 3]| {
        let of = |(cpu, speed)| Processor { speed, ..processor(cpu, Use::Own, vec![7]) };
        Processors { processors: (0..).zip(speeds).map(of).collect() }.table(&[])
    };
    assert_eq!(
        with([0, 1, 2]),
        "CPU   STATE    SPEED    PROGRAM                   THREADS THERE\n\
         0     own      fast     7\n\
         1     own      slow     7\n\
         2     own      slow 2   7\n"
    );
    assert!(!with([0; 3]).contains("SPEED"));
}
