//! What else decides about processors here: the manager's own units, and services and schedulers
//! that move programs, too.

use std::fs;
use std::path::Path;

use super::Finding;

const UNIT: &str = "cpumgr.service";
/// Processes by the name that the kernel has for them, what they do, and what helps.
const MOVERS: [(&str, &str, &str); 3] = [
    (
        "numad",
        "binds programs to memory nodes by itself, also those that are managed",
        "end it (systemctl stop numad), or keep it off a program (numad -x PID)",
    ),
    (
        "intel_lpmd",
        "takes processors from all programs while little runs",
        "end it (systemctl stop intel_lpmd) where programs compute",
    ),
    (
        "scx_loader",
        "puts schedulers in the place of the kernel's own",
        "end it (systemctl stop scx_loader), or measure with the one that you use",
    ),
];

/// Where units stand and are enabled, and the control groups of those that run.
pub(super) struct Places<'a> {
    pub(super) vendor: &'a Path,
    pub(super) administrator: &'a Path,
    pub(super) groups: &'a Path,
}

/// The manager's service of the whole machine.
pub(super) fn units(places: &Places<'_>) -> Finding {
    let own = places.administrator.join(UNIT);
    if fs::read_link(&own).is_ok_and(|target| target == Path::new("/dev/null")) {
        return Finding::note(
            "units",
            format!("{UNIT} is masked: no manager serves all users"),
            format!("systemctl unmask {UNIT} cpumgr.socket, and enable them"),
        );
    }
    if !own.exists() && !places.vendor.join(UNIT).exists() {
        let says = "none is installed: each user has a manager of their own, by `cpumgr run`";
        return Finding::well("units", says);
    }
    let is_wanted =
        |target: &str| fs::symlink_metadata(places.administrator.join(target).join(UNIT)).is_ok();
    let procs = places.groups.join("system.slice").join(UNIT).join("cgroup.procs");
    let runs = fs::read_to_string(procs).is_ok_and(|procs| !procs.trim().is_empty());
    match (runs, is_wanted("multi-user.target.wants")) {
        (true, true) => Finding::well("units", format!("{UNIT} runs, and is enabled")),
        (true, false) => Finding::note(
            "units",
            format!("{UNIT} runs, and does not after the next boot"),
            format!("systemctl enable {UNIT}"),
        ),
        (false, true) => Finding::note(
            "units",
            format!("{UNIT} is enabled and does not run"),
            format!(
                "systemctl status {UNIT} says why; with cpumgr.socket the first client starts it"
            ),
        ),
        (false, false) => Finding::note(
            "units",
            format!("{UNIT} is installed and not enabled"),
            format!("systemctl enable --now cpumgr.socket {UNIT}"),
        ),
    }
}

/// Services that move programs (`proc`), and the scheduler (`sys`) that decides.
pub(super) fn movers(proc: &Path, sys: &Path) -> Vec<Finding> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let names: Vec<String> = entries
        .filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit))
        .filter_map(|entry| fs::read_to_string(entry.path().join("comm")).ok())
        .collect();
    let is_there = |name: &str| names.iter().any(|it| it.trim_end() == name);
    let mut findings: Vec<Finding> = MOVERS
        .into_iter()
        .filter(|(name, ..)| is_there(name))
        .map(|(name, does, remedy)| Finding::note("movers", format!("{name} {does}"), remedy))
        .collect();
    let scheduler = sys.join("kernel/sched_ext");
    let read = |name: &str| fs::read_to_string(scheduler.join(name)).unwrap_or_default();
    if read("state").trim() == "enabled" {
        let name = read("root/ops");
        findings.push(Finding::note(
            "movers",
            format!("{} schedules in the place of the kernel's own (sched_ext)", name.trim()),
            "masks and turns hold as far as it heeds them: end it, or measure with it",
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::well("movers", "nothing else moves programs between processors"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::Verdict;
    use super::*;

    #[test]
    fn the_state_of_the_unit_is_what_stands_in_the_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name);
        let [vendor, administrator, groups] = ["lib", "etc", "cgroup"].map(place);
        let wants = administrator.join("multi-user.target.wants");
        let group = groups.join("system.slice").join(UNIT);
        [&vendor, &wants, &group].into_iter().for_each(|path| fs::create_dir_all(path).unwrap());
        let look = || {
            let places = Places { vendor: &vendor, administrator: &administrator, groups: &groups };
            let found = units(&places);
            (found.verdict, found.says)
        };
        let is = |verdict, word: &str| {
            let (found, says) = look();
            assert!(found == verdict && says.contains(word), "{says}");
        };
        is(Verdict::Well, "none is installed");
        fs::write(vendor.join(UNIT), "").unwrap();
        is(Verdict::Note, "not enabled");
        symlink(vendor.join(UNIT), wants.join(UNIT)).unwrap();
        is(Verdict::Note, "does not run");
        fs::write(group.join("cgroup.procs"), "7\n").unwrap();
        is(Verdict::Well, "runs, and is enabled");
        fs::remove_file(wants.join(UNIT)).unwrap();
        is(Verdict::Note, "next boot");
        symlink("/dev/null", administrator.join(UNIT)).unwrap();
        is(Verdict::Note, "masked");
    }

    #[test]
    fn services_and_schedulers_that_move_programs_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let (proc, sys) = (dir.path().join("proc"), dir.path().join("sys"));
        let looked = || movers(&proc, &sys);
        assert_eq!(looked().len(), 1);
        assert_eq!(looked()[0].verdict, Verdict::Well);
        for (pid, name) in [("7", "numad"), ("8", "numadx"), ("self", "intel_lpmd")] {
            fs::create_dir_all(proc.join(pid)).unwrap();
            fs::write(proc.join(pid).join("comm"), format!("{name}\n")).unwrap();
        }
        let found = looked();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].verdict == Verdict::Note && found[0].says.starts_with("numad "));
        fs::create_dir_all(sys.join("kernel/sched_ext/root")).unwrap();
        fs::write(sys.join("kernel/sched_ext/state"), "disabled\n").unwrap();
        assert_eq!(looked().len(), 1);
        fs::write(sys.join("kernel/sched_ext/state"), "enabled\n").unwrap();
        fs::write(sys.join("kernel/sched_ext/root/ops"), "lavd\n").unwrap();
        assert!(looked()[1].says.starts_with("lavd schedules"), "{:?}", looked());
    }
}
