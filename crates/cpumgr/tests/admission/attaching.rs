//! Processes that know nothing of a manager: their threads' masks are managed.

use super::*;

#[test]
fn an_attached_process_is_managed_by_its_threads_masks_and_gets_them_back() {
    let Some(cpus) = two_processors() else { return };
    let mut manager = Manager::start(&["--cpus", &cpus, "--quantum", "10ms"]);
    let (mut stranger, mut tids) = Stranger::start();
    let before = masks(&tids);
    let mut program = manager.program(2, 2);
    done(&manager, &["attach", &stranger.pid().to_string()]);
    let own = program.until("the program has one", |seen| seen.processors == 1).cpus;
    eventually("the stranger's threads have the other one", || {
        masks(&tids).iter().all(|mask| mask.len() == 1 && mask.is_disjoint(&own)).then_some(())
    });
    let report = manager.status();
    let status = report.programs.iter().find(|it| it.attached).unwrap();
    assert_eq!((status.pid.unsigned_abs(), status.granted), (stranger.pid(), 1));
    // A thread that is made later inherits that, and one that breaks out is caught.
    tids.push(stranger.say("make"));
    stranger.say(&format!("bind {own}"));
    eventually("all threads have the other one", || {
        masks(&tids).iter().all(|mask| mask.len() == 1 && mask.is_disjoint(&own)).then_some(())
    });
    program.ask("request 1");
    done(&manager, &["detach", &stranger.pid().to_string()]);
    program.until("it is alone", |seen| seen.dedicated);
    assert_eq!(masks(&tids[..3]), before);
    assert_eq!(
        affinity(Some(tids[3])).unwrap(),
        before[2],
        "the new thread has the initial thread's"
    );

    // The same when the manager ends.
    done(&manager, &["attach", &stranger.pid().to_string()]);
    program.ask("request 2");
    eventually("the threads are bound again", || {
        masks(&tids).iter().all(|mask| mask.len() == 1).then_some(())
    });
    manager.signal(nix::libc::SIGTERM);
    assert!(manager.wait().success());
    assert_eq!(masks(&tids[..3]), before);
}

#[test]
fn a_program_under_run_that_has_threads_and_does_not_speak_is_attached_by_itself() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus]);
    let (alone, alone_tids) = Stranger::run(&manager, "run", &["--no-attach"]);
    let before = masks(&alone_tids);
    let (stranger, tids) = Stranger::run(&manager, "run", &[]);
    let mut program = manager.program(2, 2);
    let status = eventually("it is attached", || {
        manager.status().programs.into_iter().find(|it| it.attached)
    });
    assert_eq!((status.pid.unsigned_abs(), status.request), (stranger.pid(), 2), "{status:?}");
    let own = program.until("the program has one", |seen| seen.processors == 1).cpus;
    eventually("the stranger's threads have the other one", || {
        masks(&tids).iter().all(|mask| mask.len() == 1 && mask.is_disjoint(&own)).then_some(())
    });
    // A program that did not want that is only named.
    let report = manager.status();
    assert_eq!(report.status.silent, [alone.pid().cast_signed()]);
    // How, depends on whether `run` had a library for it.
    let naming = format!("{} ", alone.pid());
    let table = report.table();
    assert_eq!(table.lines().filter(|line| line.starts_with(&naming)).count(), 1, "{table}");
    assert_eq!(masks(&alone_tids), before);
    drop(stranger);
    program.until("its processor is free again", |seen| seen.processors == 2);
}

#[test]
fn a_program_whose_threads_run_all_the_time_is_not_bound_to_fewer_processors_by_itself() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus]);
    let mut program = manager.program(2, 2);
    let (mut stranger, mut tids) = Stranger::run(&manager, "run", &[]);
    tids.extend([stranger.say("spin"), stranger.say("spin")]);
    let before = masks(&tids);
    let says = |what: &str| manager.log().contains(what);
    eventually("it is left alone, and the log says why", || {
        (says("is left alone: more of its threads run") || says("is left alone from now on"))
            .then_some(())
    });
    if says("is left alone from now on") {
        return platform::skip!(busy: "its threads did not run all the time when it was looked at");
    }
    assert_eq!(manager.status().status.silent, [stranger.pid().cast_signed()]);
    let seen = program.seen();
    assert!(seen.processors == 2 && seen.dedicated, "{seen:?}");
    // It could have what no other program wants.
    program.ask("leave");
    eventually("it is attached", || {
        manager.status().programs.iter().any(|it| it.attached).then_some(())
    });
    // And is let go when another program wants a part of that.
    drop(program);
    let mut program = manager.program(2, 2);
    eventually("it is let go, and the log says why", || {
        manager.log().contains("is left alone from now on").then_some(())
    });
    assert_eq!(masks(&tids), before);
    program.until("it has both", |seen| seen.processors == 2);
}

#[test]
fn what_is_attached_is_not_lost_by_managers_that_are_killed_as_soon_as_they_begin() {
    let Some(cpus) = two_processors() else { return };
    let mut manager = Manager::start(&["--cpus", &cpus]);
    let (stranger, tids) = Stranger::start();
    let before = masks(&tids);
    let mut program = manager.program(2, 2);
    done(&manager, &["attach", &stranger.pid().to_string()]);
    eventually("the stranger's threads have one", || {
        masks(&tids).iter().all(|mask| mask.len() == 1).then_some(())
    });
    for round in 0..20 {
        // Sooner and later: before it binds, between what it binds and its writing, after that.
        manager.kill();
        manager.start_again(&["--cpus", &cpus]);
        std::thread::sleep(std::time::Duration::from_micros(300 * round));
    }
    let attached = manager.status().programs.into_iter().find(|it| it.attached);
    assert_eq!(attached.map(|it| it.pid.unsigned_abs()), Some(stranger.pid()));
    program.until("the program has one", |seen| seen.processors == 1);
    eventually("the stranger's threads have one again", || {
        masks(&tids).iter().all(|mask| mask.len() == 1).then_some(())
    });
    done(&manager, &["detach", &stranger.pid().to_string()]);
    assert_eq!(masks(&tids), before, "none counts as its own choice");
}

#[test]
fn a_program_that_is_attached_by_itself_has_at_most_what_its_user_said() {
    let Some(cpus) = two_processors() else { return };
    let mut manager = Manager::start(&["--cpus", &cpus]);
    let (stranger, tids) = Stranger::run(&manager, "run", &["--max", "1"]);
    let (mut busy, mut busy_tids) = Stranger::run(&manager, "run", &["--max", "1"]);
    busy_tids.extend([busy.say("spin"), busy.say("spin")]);
    let are_bound =
        |tids: &[Tid], most: usize| masks(tids).iter().all(|mask| mask.len() == most).then_some(());
    eventually("each has one processor", || are_bound(&tids, 1));
    // Left alone, its threads would have two.
    eventually("also the one whose threads run all the time", || are_bound(&busy_tids, 1));
    drop(busy);
    let of = |manager: &Manager| {
        let status = manager.status();
        status.programs.into_iter().find(|it| it.pid.unsigned_abs() == stranger.pid())
    };
    let one = of(&manager).unwrap();
    assert_eq!((one.max, one.bound), (1, Some(1)), "{one:?}");
    // Also under the next manager, and until it is said anew.
    manager.kill();
    manager.start_again(&["--cpus", &cpus]);
    let back = eventually("it is attached again", || of(&manager));
    assert_eq!((back.max, back.bound), (1, Some(1)), "{back:?}");
    eventually("its threads are bound again", || are_bound(&tids, 1));
    done(&manager, &["set", "max", &stranger.pid().to_string(), "2"]);
    eventually("it has both", || are_bound(&tids, 2));
}

#[test]
fn a_program_that_is_attached_by_hand_stays_so_and_the_log_says_that_it_suffers() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus]);
    let mut program = manager.program(2, 2);
    assert_eq!(program.ask("hogs 1"), "hogging");
    let (mut stranger, mut tids) = Stranger::start();
    tids.extend([stranger.say("spin"), stranger.say("spin")]);
    done(&manager, &["attach", &stranger.pid().to_string()]);
    eventually("the log says so", || {
        manager.log().contains("`cpumgr detach` lets it go").then_some(())
    });
    assert!(manager.status().programs.iter().any(|it| it.attached));
    assert!(masks(&tids).iter().all(|mask| mask.len() == 1));
}

#[test]
fn a_program_that_was_attached_to_a_killed_manager_is_attached_to_the_next_one_and_gets_its_own_masks_back()
 {
    let Some(cpus) = two_processors() else { return };
    let mut manager = Manager::start(&["--cpus", &cpus]);
    let (mut stranger, mut tids) = Stranger::start();
    let before = masks(&tids);
    let mut program = manager.program(2, 2);
    done(&manager, &["attach", &stranger.pid().to_string()]);
    program.until("the program has one", |seen| seen.processors == 1);
    eventually("the stranger's threads have one", || {
        masks(&tids).iter().all(|mask| mask.len() == 1).then_some(())
    });
    let file = manager.dir.path().join("app.sock.masks");
    let bound = masks(&tids)[0].to_string();
    let written = |text: String| {
        tids.iter().all(|tid| text.contains(&format!("[{},\"{}\",\"{bound}\"]", tid.0, before[0])))
    };
    eventually("that is written down", || {
        std::fs::read_to_string(&file).is_ok_and(written).then_some(())
    });
    tids.push(stranger.say("make"));
    manager.kill();
    assert!(
        masks(&tids).iter().all(|mask| mask.len() == 1),
        "no manager is there to put them back"
    );
    manager.start_again(&["--cpus", &cpus]);
    // It is there from the first answer on.
    let status = manager.status().programs.into_iter().find(|it| it.attached).unwrap();
    assert_eq!((status.pid.unsigned_abs(), status.request), (stranger.pid(), 2));
    program.until("the program has one of the next manager", |seen| seen.processors == 1);
    eventually("its threads follow", || {
        masks(&tids).iter().all(|mask| mask.len() == 1).then_some(())
    });

    // A second death changes nothing.
    let bound = masks(&tids)[0].to_string();
    let written = |text: String| {
        tids[..3]
            .iter()
            .all(|tid| text.contains(&format!("[{},\"{}\",\"{bound}\"]", tid.0, before[0])))
    };
    eventually("it is written down again", || {
        std::fs::read_to_string(&file).is_ok_and(written).then_some(())
    });
    manager.kill();
    manager.start_again(&["--cpus", &cpus]);
    done(&manager, &["detach", &stranger.pid().to_string()]);
    assert_eq!(masks(&tids[..3]), before);
    assert_eq!(masks(&tids)[3], before[2], "the new thread has the initial thread's");
    eventually("nothing is attached", || (!file.exists()).then_some(()));
}

#[test]
fn masks_that_a_killed_manager_left_are_put_back_without_another_one() {
    let Some(cpus) = two_processors() else { return };
    let mut manager = Manager::start(&["--cpus", &cpus]);
    let (stranger, tids) = Stranger::start();
    let before = masks(&tids);
    let mut program = manager.program(2, 2);
    done(&manager, &["attach", &stranger.pid().to_string()]);
    program.until("the program has one", |seen| seen.processors == 1);
    let file = manager.dir.path().join("app.sock.masks");
    eventually("its threads are bound, and that is written down", || {
        let bound = masks(&tids);
        let written = std::fs::read_to_string(&file).ok()?;
        let is_there = |(tid, mask): (&Tid, &CpuSet)| {
            written.contains(&format!("[{},", tid.0)) && mask.len() == 1
        };
        tids.iter().zip(&bound).all(is_there).then_some(())
    });
    let socket = manager.socket();
    let release = |result: &str| {
        let mut command = cpumgr();
        command.env("SERVICE_RESULT", result).args(["release", "--socket"]);
        command.arg(&socket).output().unwrap()
    };
    // As long as there is a manager the processes are its own.
    let output = release("signal");
    assert_eq!(output.status.code(), Some(4), "{}", errors(&output));
    manager.kill();
    // After a clean end there is nothing to do, or the next one does it.
    assert!(release("success").status.success());
    assert!(masks(&tids).iter().all(|mask| mask.len() == 1));
    let output = release("signal");
    assert!(output.status.success(), "{}", errors(&output));
    assert!(errors(&output).contains("has its masks again"), "{}", errors(&output));
    assert_eq!(masks(&tids), before);
    // The next one, if one comes, attaches it again.
    manager.start_again(&["--cpus", &cpus]);
    let status = manager.status().programs.into_iter().find(|it| it.attached).unwrap();
    assert_eq!(status.pid.unsigned_abs(), stranger.pid());
    done(&manager, &["detach", &stranger.pid().to_string()]);
    assert_eq!(masks(&tids), before);
}

#[test]
fn a_submitted_program_that_has_threads_and_does_not_speak_is_attached_as_under_run() {
    let manager = Manager::start(&[]);
    let (alone, _) = Stranger::run(&manager, "submit", &["--no-attach"]);
    let (stranger, _) = Stranger::run(&manager, "submit", &[]);
    let status = eventually("it is attached", || {
        manager.status().programs.into_iter().find(|it| it.attached)
    });
    assert_eq!(status.pid.unsigned_abs(), stranger.pid());
    assert_eq!(manager.status().status.silent, [alone.pid().cast_signed()]);
}

#[test]
fn attached_processes_keep_to_the_processors_with_which_they_were_started() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus]);
    let managed = CpuSet::parse_list(&cpus).unwrap();
    let [first, second] = [0, 1].map(|index| CpuSet::single(managed.iter().nth(index).unwrap()));
    // One of them would be moved to the idle processor.
    let strangers = [Stranger::start_on(&first), Stranger::start_on(&first)];
    for (stranger, _) in &strangers {
        done(&manager, &["attach", &stranger.pid().to_string()]);
    }
    let report = eventually("both have a processor", || {
        Some(manager.status()).filter(|it| it.programs.iter().all(|it| !it.cpus.is_empty()))
    });
    for (stranger, tids) in &strangers {
        let status =
            report.programs.iter().find(|it| it.pid.unsigned_abs() == stranger.pid()).unwrap();
        assert_eq!(
            (status.cpus.as_str(), status.within.as_deref()),
            (&*first.to_string(), Some(&*first.to_string()))
        );
        assert!(masks(tids).iter().all(|mask| *mask == first), "{:?}", masks(tids));
    }
    let mut program = manager.program(2, 2);
    assert_eq!(
        program.until("it has what they cannot use", |seen| seen.processors == 1).cpus,
        second
    );

    // A process that may run on no managed processor stays where it is.
    let narrow = Manager::start(&["--cpus", &second.to_string()]);
    let (stranger, tids) = Stranger::start_on(&first);
    done(&narrow, &["attach", &stranger.pid().to_string()]);
    let status = eventually("it counts", || {
        narrow.status().programs.into_iter().find(|it| !it.cpus.is_empty())
    });
    assert_eq!(status.request, 1);
    assert!(masks(&tids).iter().all(|mask| *mask == first), "{:?}", masks(&tids));
}

#[test]
fn a_thread_of_the_kernel_is_not_attached() {
    let kthreadd = Tid(2);
    if !nix::unistd::geteuid().is_root()
        || !std::fs::read("/proc/2/comm").is_ok_and(|name| name == b"kthreadd\n")
    {
        platform::skip!("needs root, and a view of the kernel's threads");
        return;
    }
    let manager = Manager::start(&[]);
    let before = affinity(Some(kthreadd)).unwrap();
    let output = say(&manager, &["attach", "2"]);
    let after = affinity(Some(kthreadd)).unwrap();
    // Whatever happened: all programs need this thread.
    set_affinity(Some(kthreadd), &before).unwrap();
    assert_eq!(after, before);
    assert!(errors(&output).contains("a thread of the kernel"), "{}", errors(&output));
}

#[test]
fn only_living_processes_that_no_manager_has_can_be_attached() {
    let manager = Manager::start(&[]);
    let program = manager.program(1, 1);
    let (stranger, tids) = Stranger::start();
    let [pid, thread] = [stranger.pid().to_string(), tids[0].to_string()];
    let is_thread = format!("{thread} is a thread of process {pid}");
    done(&manager, &["attach", &pid]);
    let own = manager.pid().to_string();
    for (words, hint) in [
        (["attach", &pid], "managed already"),
        (["attach", &program.pid().to_string()], "managed already"),
        (["attach", &own], "does not manage itself"),
        (["attach", "1"], if nix::unistd::geteuid().is_root() { "starts all others" } else { "1" }),
        (["attach", "4194304"], "cannot be attached"),
        (["attach", &thread], &is_thread),
        (["detach", &own], "not attached"),
    ] {
        let output = say(&manager, &words);
        assert_eq!(output.status.code(), Some(6), "{words:?}");
        assert!(errors(&output).contains(hint), "{words:?}: {}", errors(&output));
    }
    assert_eq!(say(&manager, &["attach", "0"]).status.code(), Some(2));
    drop(stranger);
    eventually("its end is noticed", || (manager.status().programs.len() == 1).then_some(()));
}

#[test]
fn a_refusal_that_quotes_what_was_said_fits_a_packet() {
    let manager = Manager::start(&[]);
    // Each takes two bytes in a text, and two more in a message.
    let output = say(&manager, &["policy", &"\"".repeat(15_000)]);
    assert!(errors(&output).contains("refused"), "{}", errors(&output));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn numbers_of_processes_in_a_container_are_not_taken_for_the_managers() {
    let manager = Manager::start(&[]);
    let program = manager.program(1, 1);
    let socket = manager.socket();
    for words in [["attach", "1"].as_slice(), &["detach", "1"], &["set", "weight", "1", "2"]] {
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"])
            .arg(env!("CARGO_BIN_EXE_cpumgr"));
        let Ok(output) = command.args(words).arg("--socket").arg(&socket).output() else {
            return platform::skip!("no unshare");
        };
        if errors(&output).starts_with("unshare") {
            return platform::skip!("no namespaces for this user: {}", errors(&output));
        }
        assert!(errors(&output).contains("PID namespace"), "{words:?}: {}", errors(&output));
        assert_eq!(output.status.code(), Some(6), "{words:?}");
    }
    // What it says of itself needs no number.
    let mut inside = Command::new("unshare");
    inside.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]);
    inside.arg(env!("CARGO_BIN_EXE_cpumgr")).arg("run").arg("--socket").arg(&socket);
    let inside = inside.args(["--max", "1", "--label", "x", "--", "echo", "ran"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&inside.stdout), "ran\n", "{}", errors(&inside));
    assert_eq!(manager.status().programs.len(), 1);
    drop(program);
}
