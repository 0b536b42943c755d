//! Programs that bind themselves back to what was taken from them, and real control groups that
//! hold them.
//!
//! Needs a cpuset that this user may change: `NANOS_FENCE_GROUP` names one, otherwise one is made
//! where that is possible (as the superuser: version 1, or version 2 where the controller is to be
//! had).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use platform::affinity::CpuSet;
use support::{Manager, Program, cpumgr, eventually, two_processors};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

/// A control group for this test.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        // A manager in it is killed by now; its own group below may be there still.
        let _own = fs::remove_dir(self.0.join("nanos-manager"));
        if std::thread::panicking() {
            let _removed = fs::remove_dir(&self.0);
        } else {
            eventually("the group is empty", || fs::remove_dir(&self.0).ok());
        }
    }
}

/// One below the group of this process that has a cpuset, or a printed reason.
fn group(name: &str) -> Option<Group> {
    let name = format!("nanos-test-{name}-{}", std::process::id());
    let named = std::env::var_os("NANOS_FENCE_GROUP").map(PathBuf::from);
    let made = named
        .iter()
        .map(PathBuf::as_path)
        .chain([Path::new("/sys/fs/cgroup/cpuset"), Path::new("/sys/fs/cgroup")]);
    for above in made {
        let group = above.join(&name);
        if above.join("cpuset.mems").is_file() && above.join("tasks").is_file() {
            if fs::create_dir(&group).is_ok() {
                for file in ["cpuset.mems", "cpuset.cpus"] {
                    let all = fs::read_to_string(above.join(file)).unwrap();
                    fs::write(group.join(file), all).unwrap();
                }
                return Some(Group(group));
            }
        } else if fs::write(above.join("cgroup.subtree_control"), "+cpuset").is_ok()
            && fs::create_dir(&group).is_ok()
        {
            return Some(Group(group));
        }
    }
    platform::skip!("no control group with a cpuset can be made here");
    None
}

fn masks(program: &mut Program) -> Vec<CpuSet> {
    program.ask("masks").split(' ').map(|list| CpuSet::parse_list(list).unwrap()).collect()
}

fn groups_below(group: &Group) -> Vec<PathBuf> {
    let entries = fs::read_dir(&group.0).unwrap().flatten().map(|entry| entry.path());
    entries
        .filter(|path| {
            path.is_dir()
                && path.file_name().unwrap().to_string_lossy().starts_with("nanos-program")
        })
        .collect()
}

#[test]
fn a_program_that_binds_itself_back_is_fenced_in_and_set_free_again() {
    let Some(cpus) = two_processors() else { return };
    let Some(group) = group("back") else { return };
    let mut manager =
        Manager::start(&["--cpus", &cpus, "--fence", group.0.to_str().unwrap(), "--grace", "1ms"]);
    let mut program = manager.program(2, 2);
    program.until("it has both", |seen| seen.processors == 2);
    assert_eq!(program.ask("spinners 2"), "spinning");
    let alone = masks(&mut program);
    let places = |pid: u32| fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let home = places(program.pid());

    let other = manager.program(2, 2);
    let kept = program.until("it keeps one", |seen| seen.processors == 1).cpus;
    eventually("the spinner is squeezed", || (masks(&mut program)[1] == kept).then_some(()));
    assert!(groups_below(&group).is_empty(), "a program that obeys is not fenced in");
    let taken = CpuSet::parse_list(&cpus).unwrap().difference(&kept);
    // Again and again: which of them the second look sees is the manager's affair.
    eventually("it is fenced in", || {
        let bound = program.ask(&format!("bind 1 {taken}"));
        (bound == "refused").then_some(())
    });
    let fence = groups_below(&group).remove(0);
    assert_eq!(fs::read_to_string(fence.join("cpuset.cpus")).unwrap().trim(), kept.to_string());
    assert!(
        masks(&mut program).iter().all(|mask| mask.is_subset(&kept)),
        "all of its threads are inside"
    );
    assert!(places(program.pid()) != home && places(other.pid()) == home);

    let name = fence.file_name().unwrap().to_str().unwrap();
    let report = manager.status();
    assert_eq!(report.status.fences.as_deref(), group.0.to_str());
    let fences: Vec<Option<&str>> = report.programs.iter().map(|it| it.fence.as_deref()).collect();
    assert_eq!(fences, [Some(name), None]);
    assert!(
        report.table().contains(&format!("{} is fenced in, on processors {kept}", program.pid()))
    );
    let output =
        cpumgr().args(["status", "--json", "--socket"]).arg(manager.socket()).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (json["fences"].as_str(), json["programs"][0]["fence"].as_str()),
        (group.0.to_str(), Some(name))
    );

    // The fence follows the grant: with both processors it may go there again.
    other.kill();
    program.until("it has both again", |seen| seen.processors == 2);
    assert_eq!(program.ask(&format!("bind 1 {taken}")), "bound");
    assert!(
        manager.status().programs[0].fence.is_some(),
        "it stays until no thread is bound any more"
    );
    // When the manager ends everything is as before.
    manager.signal(nix::libc::SIGTERM);
    assert!(manager.wait().success(), "{}", manager.log());
    assert_eq!(places(program.pid()), home);
    assert!(groups_below(&group).is_empty());
    assert_eq!(masks(&mut program)[0], alone[0], "the initial thread's mask is what it was");
    drop(program);
}

#[test]
fn the_fence_of_a_killed_manager_is_opened_by_the_next_one() {
    let Some(cpus) = two_processors() else { return };
    let Some(group) = group("killed") else { return };
    let options = ["--cpus", &cpus, "--fence", group.0.to_str().unwrap(), "--grace", "1ms"];
    let mut manager = Manager::start(&options);
    let mut program = manager.program(2, 2);
    program.until("it has both", |seen| seen.processors == 2);
    assert_eq!(program.ask("spinners 2"), "spinning");
    let other = manager.program(2, 2);
    let kept = program.until("it keeps one", |seen| seen.processors == 1).cpus;
    let taken = CpuSet::parse_list(&cpus).unwrap().difference(&kept);
    eventually("it is fenced in", || {
        (program.ask(&format!("bind 1 {taken}")) == "refused").then_some(())
    });
    manager.kill();
    drop(other);
    manager.start_again(&options);
    eventually("it is open", || (program.ask(&format!("bind 1 {taken}")) == "bound").then_some(()));
    // It dies in the open fence, which the next manager removes.
    program.kill();
    manager.kill();
    manager.start_again(&options);
    eventually("it is removed", || groups_below(&group).is_empty().then_some(()));
}
