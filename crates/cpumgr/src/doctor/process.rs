//! What a process may use: its mask, its quota, and whether a manager manages it.

use std::path::Path;

use arena::message::ProgramStatus;
use platform::affinity::{self, CpuSet, Tid};
use platform::cgroup::Limits;
use platform::topology::Topology;

use super::Finding;
use crate::socket;
use crate::status::Report;

/// All of it; and whether a manager manages it by what it says itself, not from outside.
pub(super) fn look(pid: i32, named: Option<&Path>) -> (Vec<Finding>, bool) {
    let (manager, is_managed) = manager(pid, named);
    (vec![mask(pid), quota(pid), manager], is_managed)
}

fn mask(pid: i32) -> Finding {
    let online = Topology::read().map(|it| it.online()).unwrap_or_default();
    match affinity::affinity(Some(Tid(pid))) {
        Ok(mask) => of_mask(&mask, &online),
        Err(error) => Finding::note(
            "mask",
            format!("its processors cannot be read: {error}"),
            "ask while it runs, as its user",
        ),
    }
}

fn of_mask(mask: &CpuSet, online: &CpuSet) -> Finding {
    if online.is_subset(mask) {
        return Finding::well("mask", format!("its first thread may use all processors: {online}"));
    }
    Finding::note(
        "mask",
        format!("its first thread may use {mask} of {online}: a mask, a cpuset, or a manager"),
        "more threads than that wait for each other; where no manager binds it, `taskset -apc \
         LIST PID` widens the mask",
    )
}

fn quota(pid: i32) -> Finding {
    match Limits::of_process(pid) {
        Ok(Limits { quota: Some(quota), .. }) => Finding::note(
            "quota",
            format!("a control group gives it {quota:.2} processors' worth of time"),
            "with more threads than that it is stopped in the middle of its work; raise cpu.max \
             (version 1: cpu.cfs_quota_us) of the group",
        ),
        Ok(_) => Finding::well("quota", "no control group that is seen here limits its time"),
        Err(error) => Finding::note(
            "quota",
            format!("what its control groups allow cannot be read: {error}"),
            "mount /sys/fs/cgroup here",
        ),
    }
}

fn manager(pid: i32, named: Option<&Path>) -> (Finding, bool) {
    const ADVICE: &str = "start it by `cpumgr run`; `cpumgr attach PID` binds the threads of one \
                          that runs already";
    let report = socket::to_ask(named).ok().and_then(|socket| Report::glance(&socket).ok());
    let Some(report) = report else {
        let finding = Finding::note("manager", "no manager answers: it has what it takes", ADVICE);
        return (finding, false);
    };
    let manager = report.status.manager_pid;
    let program = report.programs.iter().find(|program| program.pid == pid);
    // One that was started by the manager's `run` speaks with its first team or call.
    let is_silent = report.status.silent.contains(&pid);
    let is_managed = program.map_or(is_silent, |program| !program.attached);
    let finding = match program {
        Some(program) => of_program(program, manager),
        None if is_silent => Finding::note(
            "manager",
            format!("manager {manager} knows it, and does not manage it"),
            "`cpumgr status` says why",
        ),
        None => Finding::note("manager", format!("manager {manager} does not know it"), ADVICE),
    };
    (finding, is_managed)
}

fn of_program(program: &ProgramStatus, manager: i32) -> Finding {
    let ProgramStatus { request, granted, cpus, attached, .. } = program;
    let how = if *attached { ", its threads bound from outside" } else { "" };
    Finding::well(
        "manager",
        format!("manager {manager} manages it{how}: asks for {request}, has {granted} ({cpus})"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn a_mask_that_leaves_processors_out_is_told() {
        let set = |list: &str| CpuSet::parse_list(list).unwrap();
        assert_eq!(of_mask(&set("0-7"), &set("0-3")).verdict, Verdict::Well);
        let less = of_mask(&set("0,2"), &set("0-3"));
        assert!(less.verdict == Verdict::Note && less.says.contains("0,2 of 0-3"), "{less:?}");
    }

    #[test]
    fn this_process_has_a_mask_and_a_quota_that_can_be_read_and_no_manager() {
        let dir = tempfile::tempdir().unwrap();
        let pid = std::process::id().cast_signed();
        let (found, is_managed) = look(pid, Some(&dir.path().join("app.sock")));
        assert!(!is_managed);
        let checks: Vec<_> = found.iter().map(|it| it.check).collect();
        assert_eq!(checks, ["mask", "quota", "manager"]);
        assert!(found.iter().all(|it| !it.says.contains("cannot be read")), "{found:?}");
        assert!(found[2].says.contains("no manager answers"), "{:?}", found[2]);
        let own = Limits::read().unwrap().quota;
        assert_eq!(found[1].verdict == Verdict::Note, own.is_some());
        // No process has this number.
        assert_eq!(mask(i32::MAX).verdict, Verdict::Note);
    }
}
