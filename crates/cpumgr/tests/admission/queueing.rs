//! Programs that wait to be started.

use super::*;

fn queue(manager: &Manager) -> QueueReport {
    QueueReport::ask(&manager.socket()).unwrap()
}

/// A submitted `cat`, which runs until its input ends.
fn submission(manager: &Manager) -> Command {
    let mut command = cpumgr();
    command
        .args(["submit", "--preload", "never", "--socket"])
        .arg(manager.socket())
        .args(["--", "cat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn submitted(manager: &Manager) -> Child {
    submission(manager).spawn().unwrap()
}

#[test]
fn submitted_programs_start_in_turn() {
    let manager = Manager::start(&["--mpl", "1"]);
    let mut first = submitted(&manager);
    eventually("the first runs", || (queue(&manager).queue.running == 1).then_some(()));
    let second = submitted(&manager);
    eventually("the second waits", || (queue(&manager).places.len() == 1).then_some(()));
    let third = submitted(&manager);
    let report =
        eventually("both wait", || Some(queue(&manager)).filter(|it| it.places.len() == 2));
    assert_eq!((report.queue.level, report.queue.running), (Some(1), 1));
    assert_eq!(report.places[0].pid.unsigned_abs(), second.id());
    assert!(
        report.places[0].label == "cat" && report.table().contains("cat"),
        "{}",
        report.table()
    );

    // The third is cancelled, the second follows the first.
    done(&manager, &["cancel", &report.places[1].id.to_string()]);
    let cancelled = third.wait_with_output().unwrap();
    assert_eq!(cancelled.status.code(), Some(7), "{}", errors(&cancelled));
    drop(first.stdin.take());
    assert!(first.wait().unwrap().success());
    eventually("the second runs", || {
        (queue(&manager).queue.running == 1 && queue(&manager).places.is_empty()).then_some(())
    });
    let output = second.wait_with_output().unwrap();
    assert!(output.status.success());
    let output = say(&manager, &["cancel", "77"]);
    assert!(errors(&output).contains("no program waits under number 77"), "{}", errors(&output));
}

#[test]
fn a_program_that_waits_for_a_manager_that_was_stopped_says_so_and_waits_on() {
    let manager = Manager::start(&["--mpl", "1"]);
    let mut first = submitted(&manager);
    eventually("the first runs", || (queue(&manager).queue.running == 1).then_some(()));
    let mut second = submission(&manager).env_remove(ANSWERS_WITHIN).spawn().unwrap();
    eventually("the second waits", || (queue(&manager).places.len() == 1).then_some(()));
    manager.signal(nix::libc::SIGSTOP);
    let mut lines =
        BufReader::new(second.stderr.take().unwrap()).lines().map(|line| line.unwrap() + "\n");
    let waits = lines.next().unwrap();
    assert!(waits.contains("0 were before it") && waits.contains("cpumgr cancel"), "{waits}");
    let said = lines.next().unwrap();
    manager.signal(nix::libc::SIGCONT);
    assert!(said.contains("SIGCONT") && said.ends_with("still waiting in its queue\n"), "{said}");
    drop(first.stdin.take());
    assert!(first.wait().unwrap().success());
    assert!(second.wait_with_output().unwrap().status.success());
}

#[test]
fn a_level_that_rises_starts_what_waits_and_a_killed_one_leaves_the_queue() {
    let manager = Manager::start(&["--mpl", "0"]);
    let mut children = [submitted(&manager), submitted(&manager), submitted(&manager)];
    eventually("no program runs at level 0", || (queue(&manager).places.len() == 3).then_some(()));
    children[0].kill().unwrap();
    children[0].wait().unwrap();
    eventually("a dead one does not wait", || (queue(&manager).places.len() == 2).then_some(()));
    done(&manager, &["mpl", "any"]);
    eventually("both run", || (queue(&manager).queue.running == 2).then_some(()));
    assert_eq!(queue(&manager).queue.level, None);
    for child in &mut children[1..] {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(say(&manager, &["mpl", "many"]).status.code(), Some(2));
}

#[test]
fn a_submission_that_becomes_a_submission_waits_for_others_and_not_for_itself() {
    let manager = Manager::start(&["--mpl", "1"]);
    let socket = manager.socket();
    let again = |verb: &str, words: &[&str]| {
        let mut command = cpumgr();
        let program = command.get_program().to_owned();
        command.args([verb, "--preload", "never", "--socket"]).arg(&socket).arg("--").arg(program);
        command.args(["submit", "--preload", "never", "--socket"]).arg(&socket).arg("--");
        command.args(words).stderr(Stdio::piped()).spawn().unwrap()
    };
    for verb in ["submit", "run"] {
        assert!(again(verb, &["true"]).wait().unwrap().success(), "{verb}");
    }
    // Another one that runs is waited for.
    let mut first = submitted(&manager);
    eventually("the first runs", || (queue(&manager).queue.running == 1).then_some(()));
    let mut second = again("submit", &["true"]);
    eventually("the second waits", || (queue(&manager).places.len() == 1).then_some(()));
    assert_eq!(queue(&manager).queue.running, 1);
    drop(first.stdin.take());
    assert!(first.wait().unwrap().success() && second.wait().unwrap().success());
}

#[test]
fn pdpa_keeps_its_level_until_a_program_has_waited_for_too_long() {
    let manager = Manager::start(&["--policy", "pdpa"]);
    done(&manager, &["policy", "level=1", "max-level=1", "max-wait=1h"]);
    // Programs that never register count, too.
    let mut children = vec![submitted(&manager)];
    eventually("the first runs", || (queue(&manager).queue.running == 1).then_some(()));
    children.push(submitted(&manager));
    eventually("the second waits", || (queue(&manager).places.len() == 1).then_some(()));
    // Something happens, and it waits all the same.
    done(&manager, &["policy", "max-wait=2h"]);
    assert_eq!((queue(&manager).queue.running, queue(&manager).places.len()), (1, 1));
    done(&manager, &["policy", "max-wait=500ms"]);
    eventually("the second runs", || (queue(&manager).queue.running == 2).then_some(()));
    // The next one waits for as long, and no longer, although nothing happens.
    children.push(submitted(&manager));
    eventually("the third runs", || (queue(&manager).queue.running == 3).then_some(()));
    for child in &mut children {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn pdpa_tries_processors_that_were_kept_for_a_program_that_was_cancelled() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--policy", "pdpa", "--cpus", &cpus]);
    done(&manager, &["policy", "base=1", "step=1", "level=2", "max-level=3", "max-wait=1h"]);
    let [mut stays, mut leaves] = [manager.program(2, 2), manager.program(2, 2)];
    for program in [&mut stays, &mut leaves] {
        program.until("it has its base", |seen| seen.processors == 1 && !seen.shared);
        // Efficient, but nothing is free: its allocation is found.
        program.ask("report 1 1000 1000");
    }
    eventually("both reports are heard", || {
        manager.status().programs.iter().all(|it| it.speedup.is_some()).then_some(())
    });
    let waits = submitted(&manager);
    let place = eventually("it waits", || queue(&manager).places.first().map(|place| place.id));
    done(&manager, &["cancel", &place.to_string()]);
    assert_eq!(waits.wait_with_output().unwrap().status.code(), Some(7));
    leaves.kill();
    stays.until("it tries what is free", |seen| seen.processors == 2);
}
