//! Policies that follow each other while programs run, and parameters that cannot be.

use platform::affinity::{CpuSet, affinity};
use policies::{Needs, Registry};

use crate::stage;
use crate::support::{Program, cpumgr, errors, eventually};

/// The masks of its spinners: the initial thread's is never touched.
fn masks(program: &mut Program) -> Vec<CpuSet> {
    program.ask("masks").split(' ').skip(1).map(|list| CpuSet::parse_list(list).unwrap()).collect()
}

#[test]
fn every_policy_takes_over_from_the_one_before_while_programs_run() {
    // A quantum so long that a look at a program falls into one.
    let Some(stage) = stage(&["equip"], "200ms") else { return };
    let p = stage.processors();
    let mut programs = stage.programs(&[p, p, p]);
    let everywhere = affinity(None).unwrap();
    for name in Registry::with_builtin_for(Needs::EVERYTHING).names() {
        stage.policy(&[name]);
        assert_eq!(stage.manager.status().status.policy, name);
        for program in &mut programs {
            eventually("the threads are where the manager says", || {
                let before = program.seen();
                let masks = masks(program);
                let still = program.seen().epoch == before.epoch;
                let wanted = if name == "none" { &everywhere } else { &before.cpus };
                (still && masks.iter().all(|mask| mask.is_subset(wanted))).then_some(())
            });
        }
        if name == "none" {
            for program in &mut programs {
                let seen = program.seen();
                assert_eq!(
                    (seen.processors, seen.cpus.len()),
                    (p, 0),
                    "all that it asks for, and bound to nothing"
                );
            }
        }
    }
    for program in &mut programs {
        assert_eq!(program.ask("registrations"), "1", "it noticed more than its processors");
    }
}

#[test]
fn parameters_that_cannot_be_are_refused_with_what_is_allowed() {
    let Some(stage) = stage(&["vtq-dss", "load=2"], "100ms") else { return };
    let parameter = |key: &str| stage.manager.status().status.parameters[key].clone();
    for (setting, says) in [
        ("load=0.5", "from 1 to 64"),
        ("load=-1", "from 1 to 64"),
        ("load=NaN", "from 1 to 64"),
        ("load=inf", "from 1 to 64"),
        ("load=1e300", "from 1 to 64"),
        ("load=99999999999999999999999999", "from 1 to 64"),
        ("load=true", "a number"),
        ("load=100ms", "a number"),
        ("load=", "a number from 1 to 64"),
        ("masters=1.5", "a whole number"),
        ("masters=0", "from 1 to 1024"),
        ("masters=4294967297", "from 1 to 1024"),
        ("shortest=5", "a time"),
        ("shortest=99999999999999999999s", "1ms to 1s"),
        ("shortest=1d", "a time from 1ms to 1s"),
        ("shortest=1h", "from 1ms to 1s"),
        ("shortest=1us", "from 1ms"),
        ("speed=3", "there are: load, shortest"),
        ("=3", "there is no parameter"),
    ] {
        let mut command = cpumgr();
        // A correct setting in the same command is not set either.
        let output = command
            .args(["policy", "--socket"])
            .arg(stage.manager.socket())
            .args(["longest=1s", setting])
            .output();
        let output = output.unwrap();
        assert!(matches!(output.status.code(), Some(2 | 6)), "{setting}: {:?}", output.status);
        assert!(errors(&output).contains(says), "{setting}: {}", errors(&output));
    }
    assert_eq!((parameter("load"), parameter("longest")), ("2".to_owned(), "500ms".to_owned()));
    stage.policy(&["load=3", "longest=1s"]);
    assert_eq!((parameter("load"), parameter("longest")), ("3".to_owned(), "1s".to_owned()));
}
