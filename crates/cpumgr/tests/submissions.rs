//! Submissions that wait for others, for a time, that are many, or that are watched.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::Read;
use std::process::{Child, Command, Output, Stdio};

use cpumgr::administration::QueueReport;
use platform::affinity::CpuSet;
use support::{ANSWERS_WITHIN, Manager, cpumgr, errors, eventually};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

/// `cpumgr submit` of a shell's script.
fn submit(manager: &Manager, options: &[&str], script: &str) -> Command {
    let mut command = cpumgr();
    command.args(["submit", "--socket"]).arg(manager.socket()).args(options);
    command.args(["--", "/bin/sh", "-c", script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn done(mut command: Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

fn wait(child: Child) -> Output {
    child.wait_with_output().unwrap()
}

fn queue(manager: &Manager) -> Vec<arena::message::QueuedStatus> {
    QueueReport::ask(&manager.socket()).unwrap().places
}

/// Submits one that runs until its input ends, and returns it when it runs.
fn holder(manager: &Manager, options: &[&str], code: u8) -> (Child, u64) {
    let script = format!("echo $CPUMGR_SUBMISSION; read -r word; exit {code}");
    let mut child = submit(manager, options, &script).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut said = Vec::new();
    let mut byte = [0];
    while output.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        said.push(byte[0]);
    }
    (child, String::from_utf8(said).unwrap().parse().unwrap())
}

#[test]
fn a_parent_ends_with_its_programs_code_and_one_after_it_starts_only_if_that_was_well() {
    let manager = Manager::start(&[]);
    for (code, starts) in [(0, true), (3, false)] {
        let (first, id) = holder(&manager, &["--wait"], code);
        let after = format!("ok:{id}");
        let second = submit(&manager, &["--after", &after], "echo begun").spawn().unwrap();
        let place = eventually("it waits", || queue(&manager).pop());
        assert_eq!(place.after, std::slice::from_ref(&after));
        // One that waits for nothing passes it by.
        assert!(done(submit(&manager, &[], "true")).status.success());
        assert_eq!(wait(first).status.code(), Some(i32::from(code)));
        let second = wait(second);
        if starts {
            assert_eq!(String::from_utf8_lossy(&second.stdout), "begun\n", "{}", errors(&second));
        } else {
            assert_eq!(second.status.code(), Some(7));
            let why = format!("submission {id} ended with code 3");
            assert!(errors(&second).contains(&why), "{}", errors(&second));
        }
    }
}

#[test]
fn one_whose_end_is_not_told_lets_others_begin_that_do_not_ask_how_it_was() {
    let manager = Manager::start(&[]);
    let (first, id) = holder(&manager, &[], 0);
    let [any, ok] = [id.to_string(), format!("ok:{id}")];
    let any = submit(&manager, &["--after", &any], "echo any").spawn().unwrap();
    let ok = submit(&manager, &["--after", &ok], "echo ok").spawn().unwrap();
    eventually("both wait", || (queue(&manager).len() == 2).then_some(()));
    wait(first);
    assert_eq!(String::from_utf8_lossy(&wait(any).stdout), "any\n");
    let ok = wait(ok);
    assert!(ok.status.code() == Some(7) && errors(&ok).contains("--wait"), "{}", errors(&ok));
}

#[test]
fn what_is_cancelled_takes_those_with_it_that_needed_it() {
    let manager = Manager::start(&["--mpl", "0"]);
    let first = submit(&manager, &["--wait"], "true").spawn().unwrap();
    let id = eventually("it waits", || queue(&manager).pop()).id;
    let after = format!("ok:{id}");
    let second = submit(&manager, &["--after", &after], "true").spawn().unwrap();
    let place = eventually("so does the second", || {
        queue(&manager).into_iter().find(|place| place.id != id)
    });
    let after = format!("ok:{}", place.id);
    let third = submit(&manager, &["--after", &after], "true").spawn().unwrap();
    eventually("and the third", || (queue(&manager).len() == 3).then_some(()));
    let cancelled =
        cpumgr().args(["cancel", &id.to_string(), "--socket"]).arg(manager.socket()).status();
    assert!(cancelled.unwrap().success());
    for (child, why) in [
        (first, "it was cancelled".to_owned()),
        (second, format!("submission {id} was cancelled")),
        (third, format!("submission {} was cancelled", place.id)),
    ] {
        let output = wait(child);
        assert_eq!(output.status.code(), Some(7));
        assert!(errors(&output).contains(&why), "{}", errors(&output));
    }
    let unknown = done(submit(&manager, &["--after", "99"], "true"));
    assert!(errors(&unknown).contains("no submission 99"), "{}", errors(&unknown));
}

#[test]
fn one_that_cannot_begin_in_time_gives_up() {
    let manager = Manager::start(&["--mpl", "0"]);
    let output = done(submit(&manager, &["--deadline", "50ms"], "true"));
    assert_eq!(output.status.code(), Some(7));
    assert!(errors(&output).contains("within 50ms (--deadline)"), "{}", errors(&output));
}

#[test]
fn one_that_runs_for_too_long_is_ended() {
    let manager = Manager::start(&[]);
    let output = done(submit(&manager, &["--time-limit", "100ms"], "exec sleep 600"));
    assert_eq!(output.status.code(), Some(128 + nix::libc::SIGTERM));
    assert!(errors(&output).contains("100ms (--time-limit)"), "{}", errors(&output));
}

#[test]
fn a_signal_to_the_parent_of_an_array_ends_its_parts_and_never_the_parent_alone() {
    let manager = Manager::start(&["--mpl", "2"]);
    for _ in 0..3 {
        let mut parent = submit(&manager, &["--array", "1-400"], "exit 0").spawn().unwrap();
        eventually("its parts wait", || (queue(&manager).len() > 20).then_some(()));
        let pid = nix::unistd::Pid::from_raw(i32::try_from(parent.id()).unwrap());
        // While parts end and others begin.
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        assert_eq!(parent.wait().unwrap().code(), Some(1));
        eventually("no part waits", || queue(&manager).is_empty().then_some(()));
    }
}

#[test]
fn a_manager_that_does_not_answer_is_waited_for_once_and_not_for_each_part() {
    let manager = Manager::start(&[]);
    let mut parent = submit(&manager, &["--array", "1-8"], "read -r word").spawn().unwrap();
    eventually("all run", || {
        (QueueReport::ask(&manager.socket()).unwrap().queue.running == 8).then_some(())
    });
    manager.signal(nix::libc::SIGSTOP);
    let begin = std::time::Instant::now();
    drop(parent.stdin.take());
    let status = parent.wait().unwrap();
    let took = begin.elapsed();
    manager.signal(nix::libc::SIGCONT);
    assert_eq!(status.code(), Some(1), "each of them read the end of its input");
    // It has two seconds to answer: one part after the other would take sixteen or more.
    assert!(took < std::time::Duration::from_secs(14), "{took:?}");
}

#[test]
fn an_array_runs_each_of_its_numbers_as_many_at_a_time_as_the_level_allows() {
    let manager = Manager::start(&["--mpl", "2"]);
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "echo {{index}} $CPUMGR_ARRAY_INDEX > {}/{{index}}; [ {{index}} != 7 ]",
        dir.path().display()
    );
    let output = done(submit(&manager, &["--array", "1-9:3"], &script));
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("1 of 3 did not end with 0: 7"), "{}", errors(&output));
    for index in [1, 4, 7] {
        let said = std::fs::read_to_string(dir.path().join(index.to_string())).unwrap();
        assert_eq!(said, format!("{index} {index}\n"));
    }
}

#[test]
fn one_in_the_background_shows_its_number_and_others_start_after_it() {
    let manager = Manager::start(&["--mpl", "0"]);
    let output_file = manager.dir.path().join("out");
    let output = output_file.to_str().unwrap();
    let first = done(submit(&manager, &["--background", "--output", output], "echo ran; exit 4"));
    let id: u64 = String::from_utf8_lossy(&first.stdout).trim().parse().unwrap();
    assert_eq!(queue(&manager).iter().map(|place| place.id).collect::<Vec<_>>(), [id]);
    let after = format!("failed:{id}");
    let second = submit(&manager, &["--after", &after], "echo begun").spawn().unwrap();
    let level = cpumgr().args(["mpl", "any", "--socket"]).arg(manager.socket()).status();
    assert!(level.unwrap().success());
    let second = wait(second);
    assert_eq!(String::from_utf8_lossy(&second.stdout), "begun\n", "{}", errors(&second));
    // A warning stands before it where the drop-in library was not built.
    let said = std::fs::read_to_string(&output_file).unwrap();
    assert!(said.ends_with("ran\n"), "{said}");
}

#[test]
fn an_output_that_no_process_reads_is_an_error_and_not_a_wait() {
    let manager = Manager::start(&[]);
    let fifo = manager.dir.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let output = fifo.to_str().unwrap();
    let refused = done(submit(&manager, &["--background", "--output", output], "echo ran"));
    assert_eq!(refused.status.code(), Some(1));
    assert!(errors(&refused).contains("no process reads"), "{}", errors(&refused));
}

#[test]
fn numbers_and_dependencies_outlive_a_manager_that_is_killed() {
    let mut manager = Manager::start(&["--mpl", "0"]);
    let first = submit(&manager, &["--wait"], "exit 5").spawn().unwrap();
    let id = eventually("it waits", || queue(&manager).pop()).id;
    let after = format!("failed:{id}");
    let second = submit(&manager, &["--after", &after], "echo begun").spawn().unwrap();
    let ids = |manager: &Manager| queue(manager).iter().map(|place| place.id).collect::<Vec<_>>();
    let both = eventually("both wait", || Some(ids(&manager)).filter(|ids| ids.len() == 2));
    eventually("that is written down", || {
        let kept = std::fs::read_to_string(manager.dir.path().join("app.sock.settings"));
        kept.is_ok_and(|kept| kept.matches("\"since\"").count() == 2).then_some(())
    });
    manager.kill();
    manager.start_again(&[]);
    eventually("both are back", || (ids(&manager) == both).then_some(()));
    let level = cpumgr().args(["mpl", "any", "--socket"]).arg(manager.socket()).status();
    assert!(level.unwrap().success());
    assert_eq!(wait(first).status.code(), Some(5));
    let second = wait(second);
    assert_eq!(String::from_utf8_lossy(&second.stdout), "begun\n", "{}", errors(&second));
}

#[test]
fn a_queue_waits_for_a_next_manager_that_is_slow_to_answer() {
    let mut manager = Manager::start(&["--mpl", "1"]);
    let (mut first, _) = holder(&manager, &[], 0);
    let mut second = submit(&manager, &[], "echo begun");
    let mut second = second.env_remove(ANSWERS_WITHIN).spawn().unwrap();
    eventually("it waits", || queue(&manager).pop());
    eventually("that is written down", || {
        let kept = std::fs::read_to_string(manager.dir.path().join("app.sock.settings"));
        kept.is_ok_and(|kept| kept.contains("\"since\"")).then_some(())
    });
    let pid = nix::unistd::Pid::from_raw(i32::try_from(second.id()).unwrap());
    let signal = |signal| nix::sys::signal::kill(pid, signal).unwrap();
    // It does not find out before the next manager is there, which says nothing for a while.
    signal(nix::sys::signal::Signal::SIGSTOP);
    manager.kill();
    manager.start_again(&[]);
    manager.signal(nix::libc::SIGSTOP);
    signal(nix::sys::signal::Signal::SIGCONT);
    let mut said = String::new();
    let mut errors = std::io::BufReader::new(second.stderr.take().unwrap());
    while !said.contains("still waiting for its queue") {
        assert!(std::io::BufRead::read_line(&mut errors, &mut said).unwrap() > 0, "{said}");
    }
    manager.signal(nix::libc::SIGCONT);
    eventually("it waits again", || queue(&manager).pop());
    assert_eq!(QueueReport::ask(&manager.socket()).unwrap().queue.running, 1);
    drop(first.stdin.take());
    wait(first);
    assert_eq!(String::from_utf8_lossy(&wait(second).stdout), "begun\n");
}

/// `cpumgr submit` whose program is another `cpumgr submit` of a shell's script.
fn submit_anew(manager: &Manager, outer: &[&str], inner: &[&str], script: &str) -> Command {
    let mut command = cpumgr();
    let program = command.get_program().to_owned();
    command.args(["submit", "--socket"]).arg(manager.socket()).args(outer).arg("--").arg(program);
    command.args(["submit", "--socket"]).arg(manager.socket()).args(inner);
    command.args(["--", "/bin/sh", "-c", script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_job_that_becomes_another_one_gives_its_processors_back_first() {
    let Some(two) = support::two_processors() else { return };
    let manager = Manager::start(&["--cpus", &two]);
    for (outer, inner) in [("2", "2"), ("2", "1"), ("1", "2")] {
        let (outer, inner) = (["--procs", outer], ["--procs", inner]);
        let output = done(submit_anew(&manager, &outer, &inner, "echo done"));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "{}", errors(&output));
    }
    let output = done(submit_anew(&manager, &[], &["--procs", "2"], "echo done"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "{}", errors(&output));
}

#[test]
fn what_starts_after_a_submission_that_becomes_another_one_starts_after_that() {
    let manager = Manager::start(&[]);
    let script = "echo $CPUMGR_SUBMISSION; read -r word; exit 3";
    let mut first = submit_anew(&manager, &["--wait"], &[], script).spawn().unwrap();
    let mut number = String::new();
    let mut output = std::io::BufReader::new(first.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut number).unwrap();
    assert_eq!(number, "1\n", "it is the same one");
    let second = submit(&manager, &["--after", "failed:1"], "echo begun").spawn().unwrap();
    let third = submit(&manager, &["--after", "ok:1"], "echo begun").spawn().unwrap();
    eventually("both wait", || (queue(&manager).len() == 2).then_some(()));
    drop(first.stdin.take());
    assert_eq!(wait(first).status.code(), Some(3));
    assert_eq!(String::from_utf8_lossy(&wait(second).stdout), "begun\n");
    assert_eq!(wait(third).status.code(), Some(7), "it ended with 3");
}

#[test]
fn a_job_passes_the_first_that_waits_only_where_it_is_over_in_time() {
    let Some(two) = support::two_processors() else { return };
    let manager = Manager::start(&["--cpus", &two]);
    let (mut first, _) = holder(&manager, &["--procs", "1", "--time-limit", "1h"], 0);
    // Needs both: it begins when the first ends, in an hour at the latest.
    let head = submit(&manager, &["--procs", "2"], "echo head").spawn().unwrap();
    let id = eventually("it waits", || queue(&manager).pop()).id;
    // These two have the free processor in time, one after the other, and the third has no limit.
    for limit in ["1min", "30min"] {
        let job = submit(&manager, &["--procs", "1..2", "--time-limit", limit], "echo over");
        assert_eq!(String::from_utf8_lossy(&done(job).stdout), "over\n");
    }
    let third = submit(&manager, &["--procs", "1"], "echo third").spawn().unwrap();
    let waits = || queue(&manager).iter().map(|place| place.id).collect::<Vec<_>>();
    let ids = eventually("it waits, too", || Some(waits()).filter(|ids| ids.len() == 2));
    assert_eq!(ids[0], id);
    drop(first.stdin.take());
    wait(first);
    for (child, said) in [(head, "head\n"), (third, "third\n")] {
        let output = wait(child);
        assert_eq!(String::from_utf8_lossy(&output.stdout), said, "{}", errors(&output));
    }
}

#[test]
fn a_submission_that_can_never_begin_does_not_run() {
    let Some(two) = support::two_processors() else { return };
    let one = CpuSet::parse_list(&two).unwrap().iter().next().unwrap().0.to_string();
    let manager = Manager::start(&["--cpus", &one]);
    let output = done(submit(&manager, &["--procs", "2..9"], "echo never"));
    assert!(!output.status.success());
    let said = errors(&output);
    assert!(said.contains("a job of 2 processors never begins here: this manager has 1"), "{said}");
    let output = done(submit(&manager, &["--after", "99"], "echo never"));
    assert!(output.stdout.is_empty() && errors(&output).contains("no submission 99 of yours"));
    let output = done(submit(&manager, &["--procs", "1..9"], "echo begun"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "begun\n", "{}", errors(&output));
}

#[test]
fn what_begins_after_others_or_on_a_number_of_processors_does_not_begin_without_a_manager() {
    let dir = tempfile::tempdir().unwrap();
    // Where no manager can be.
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let run = |options: &[&str], is_off: bool| {
        let mut command = cpumgr();
        command.arg("submit").args(options);
        match is_off {
            true => command.env("NANOS_CPUMGR", "off"),
            false => command.arg("--socket").arg(&file),
        };
        command.args(["--", "/bin/sh", "-c", "echo begun"]).stderr(Stdio::piped());
        done(command)
    };
    for is_off in [true, false] {
        for options in [["--after", "1"], ["--procs", "1"]] {
            let output = run(&options, is_off);
            assert!(!output.status.success() && output.stdout.is_empty(), "{options:?}");
            assert!(!output.stderr.is_empty(), "{options:?}");
        }
        assert_eq!(run(&[], is_off).stdout, b"begun\n", "the others run all the same");
    }
}

#[test]
fn jobs_have_what_is_not_drained_and_what_their_mask_has() {
    let Some(two) = support::two_processors() else { return };
    let manager = Manager::start(&["--cpus", &two]);
    let both = CpuSet::parse_list(&two).unwrap();
    let one = both.iter().next().unwrap().0.to_string();
    let output = done(submit(&manager, &["--procs", "2", "--cpus", &one], "echo never"));
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(
        errors(&output).contains("--procs 2: this process may run on 1"),
        "{}",
        errors(&output)
    );
    let drain = |verb: &str| {
        let mut command = cpumgr();
        command.args([verb, "--socket"]).arg(manager.socket()).arg(&one);
        assert!(command.status().unwrap().success());
    };
    drain("drain");
    let (mut first, _) = holder(&manager, &["--procs", "1"], 0);
    let second = submit(&manager, &["--procs", "1"], "echo second").spawn().unwrap();
    eventually("it waits: one processor is left", || queue(&manager).pop());
    drain("undrain");
    assert_eq!(String::from_utf8_lossy(&wait(second).stdout), "second\n");
    drop(first.stdin.take());
    wait(first);
}

#[test]
fn what_a_job_keeps_is_known_to_the_manager_after_one_that_was_killed() {
    let Some(two) = support::two_processors() else { return };
    let mut manager = Manager::start(&["--cpus", &two]);
    let (mut first, _) = holder(&manager, &["--procs", "2", "--time-limit", "1h"], 0);
    eventually("that is written down", || {
        let kept = std::fs::read_to_string(manager.dir.path().join("app.sock.settings"));
        kept.is_ok_and(|kept| kept.contains("\"job\":{\"processors\":2")).then_some(())
    });
    manager.kill();
    manager.start_again(&["--cpus", &two]);
    // No processor is left for it as long as the first one runs: an hour at most.
    let second = submit(&manager, &["--procs", "1", "--time-limit", "2min"], "echo second").spawn();
    let place = eventually("it waits", || queue(&manager).pop());
    assert_eq!(place.processors, Some(arena::message::ProcessorRange { least: 1, most: 1 }));
    assert_eq!(place.limit_ns, Some(120_000_000_000));
    let begins = place.begins_in_ns.expect("it has a reservation");
    assert!((1..=3_600_000_000_000).contains(&begins), "{begins}");
    // After the time in which programs of the killed manager come back nothing has changed.
    let seen = first.try_wait().unwrap();
    assert_eq!((seen, queue(&manager).len()), (None, 1));
    drop(first.stdin.take());
    wait(first);
    assert_eq!(String::from_utf8_lossy(&wait(second.unwrap()).stdout), "second\n");
}
