//! What is looked at on the machine: kernel, control groups, masks, quotas, limits, services.

use std::borrow::Cow;
use std::fs;
use std::os::fd::AsFd;
use std::path::Path;

use arena::client::{SYSTEM_SOCKET, in_the_way, user_socket};
use arena::message::{Narrow, Status};
use nix::sys::resource::{Resource, getrlimit};
use platform::affinity;
use platform::cgroup::Limits;
use platform::process::{self, PeerRung};
use platform::topology::Topology;

use super::others::Places;
use super::{Finding, others};
use crate::config::{Config, Sources};
use crate::dropin::{self, NoLibrary};
use crate::{socket, status};

/// CAP_SYS_NICE, as a bit of the capabilities.
const SYS_NICE: u64 = 1 << 23;
/// Descriptors that the most programs of a manager need, nearly.
const DESCRIPTORS: u64 = 8192;

/// Everything.
pub(super) fn look(named: Option<&Path>) -> Vec<Finding> {
    let mut findings = vec![
        kernel(),
        identity(rung()),
        mask(),
        quota(),
        fences(Path::new("/sys/fs/cgroup")),
        privilege(),
        descriptors(),
        container(),
        service_manager(Path::new("/run/systemd/system")),
        library(),
        configuration(),
        manager(named),
        others::units(&Places {
            vendor: Path::new("/usr/lib/systemd/system"),
            administrator: Path::new("/etc/systemd/system"),
            groups: Path::new("/sys/fs/cgroup"),
        }),
    ];
    findings.extend(others::movers(Path::new("/proc"), Path::new("/sys")));
    findings.extend(in_the_way().iter().map(|it| {
        Finding::wrong("socket", it.to_string(), "have it removed, or name a socket with --socket")
    }));
    findings
}

fn kernel() -> Finding {
    let release = nix::sys::utsname::uname();
    let release = release.as_ref().map_or(Cow::Borrowed(""), |it| it.release().to_string_lossy());
    match process::pidfd_open(process::current_pid()) {
        Ok(_) => Finding::well("kernel", format!("Linux {release}")),
        Err(error) => Finding::wrong(
            "kernel",
            format!("Linux {release} cannot name processes by descriptors ({error})"),
            "use Linux 5.4 or newer, or permit pidfd_open where a filter of system calls refuses \
             it",
        ),
    }
}

/// How this kernel names the process at a socket.
fn rung() -> Option<PeerRung> {
    let (one, _other) = std::os::unix::net::UnixStream::pair().ok()?;
    process::peer(one.as_fd()).ok().map(|it| it.rung)
}

/// From which the manager knows which process speaks.
fn identity(rung: Option<PeerRung>) -> Finding {
    match rung {
        Some(PeerRung::Exact) => {
            Finding::well("identity", "the kernel names the process at a socket (SO_PEERPIDFD)")
        }
        Some(PeerRung::Rechecked) | None => Finding::note(
            "identity",
            "the kernel names only the number of the process at a socket; the manager looks twice",
            "Linux 6.5 or newer names the process itself",
        ),
    }
}

fn mask() -> Finding {
    let online = Topology::read().map(|it| it.online());
    match (affinity::affinity(None), online) {
        (Ok(mask), Ok(online)) if online.iter().all(|cpu| mask.contains(cpu)) => {
            Finding::well("mask", format!("this shell may use all processors: {online}"))
        }
        (Ok(mask), Ok(online)) => Finding::note(
            "mask",
            format!("this shell may use {mask} of {online}: a mask (taskset) or a cpuset"),
            "programs started here stay there; start them from another shell, or widen it \
             (taskset -pc LIST $$)",
        ),
        (mask, online) => {
            let error = mask.err().map(|it| it.to_string());
            let error = error.or_else(|| online.err().map(|it| it.to_string()));
            Finding::wrong(
                "mask",
                format!("the processors cannot be read: {}", error.unwrap_or_default()),
                "mount /sys and /proc here",
            )
        }
    }
}

fn quota() -> Finding {
    match Limits::read() {
        Ok(Limits { quota: Some(quota), .. }) => Finding::note(
            "quota",
            format!("a control group gives this shell {quota:.2} processors' worth of time"),
            "programs here have no use for more threads than that; raise cpu.max (version 1: \
             cpu.cfs_quota_us) of the group, or run elsewhere",
        ),
        Ok(_) => Finding::well("quota", "no control group limits processor time here"),
        Err(error) => Finding::note(
            "quota",
            format!("what control groups allow cannot be read: {error}"),
            "mount /sys/fs/cgroup here",
        ),
    }
}

/// How hard processors are taken from programs that do not obey.
fn fences(root: &Path) -> Finding {
    let offered = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    if offered.split_whitespace().any(|it| it == "cpuset") {
        return Finding::well(
            "fences",
            "cpusets of version 2: `cpumgr daemon --fence DIRECTORY` (systemd: Delegate=cpuset) \
             holds programs that do not obey",
        );
    }
    if root.join("cpuset/cpuset.cpus").exists() {
        return Finding::well(
            "fences",
            "cpusets of version 1: `cpumgr daemon --fence DIRECTORY` holds programs that do not \
             obey, where the directory is the manager's to change",
        );
    }
    Finding::note(
        "fences",
        "no cpusets: a program that binds itself back to a processor that was taken is bound \
         again and again, and not held",
        "boot with control groups of version 2 and the controller cpuset",
    )
}

fn privilege() -> Finding {
    match own_status().is_some_and(|status| status.capeff & SYS_NICE != 0) {
        true => Finding::well("privilege", "CAP_SYS_NICE: may serve all users (daemon --system)"),
        false => Finding::well(
            "privilege",
            "none, and none is needed for your own programs; a manager for all users needs root \
             or CAP_SYS_NICE",
        ),
    }
}

fn own_status() -> Option<procfs::process::Status> {
    procfs::process::Process::myself().ok()?.status().ok()
}

fn descriptors() -> Finding {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((_, hard)) if hard >= DESCRIPTORS => {
            Finding::well("descriptors", format!("up to {hard} for each process"))
        }
        Ok((_, hard)) => Finding::note(
            "descriptors",
            format!(
                "a process may have {hard}: room for {} programs",
                hard.saturating_sub(256) / 6
            ),
            "raise the hard limit (ulimit -Hn; systemd: LimitNOFILE=)",
        ),
        Err(error) => Finding::note(
            "descriptors",
            format!("their limit cannot be read: {error}"),
            "see errno(3)",
        ),
    }
}

/// Processes have other numbers in a PID namespace.
fn container() -> Finding {
    let numbers = own_status().and_then(|status| status.nspid);
    match numbers.map(|numbers| numbers.len()) {
        Some(2..) => Finding::note(
            "container",
            "this shell is in a PID namespace: `attach`, `detach` and `set` cannot name processes",
            "say those outside; programs on the library work inside, with the socket's directory \
             mounted",
        ),
        _ => Finding::well("container", "numbers of processes are those that this shell sees"),
    }
}

fn service_manager(running: &Path) -> Finding {
    match running.is_dir() {
        true => Finding::well("systemd", "is there: a manager that `run` starts has its own scope"),
        false => Finding::note(
            "systemd",
            "is not there: a manager that `run` starts stays in the control group of its starter",
            "start it by hand (cpumgr daemon --background) from a place with all processors",
        ),
    }
}

fn library() -> Finding {
    match dropin::library_directory(None) {
        Ok(directory) => {
            Finding::well("library", format!("the drop-in library is in {}", directory.display()))
        }
        Err(NoLibrary::Absent { looked }) => Finding::note(
            "library",
            format!(
                "the drop-in OpenMP library is not in {looked}: OpenMP programs keep their own"
            ),
            "install it, or name its directory with NANOS_SHIM_DIR",
        ),
        Err(NoLibrary::Unsafe { directory, why }) => Finding::wrong(
            "library",
            format!("the drop-in library in {} is not loaded: {why}", directory.display()),
            "let no other user write it, the directories above it, or the links on its way",
        ),
    }
}

fn configuration() -> Finding {
    let named = Sources::named_by_environment();
    let sources = Sources::usual(false, named.as_deref());
    let outcome =
        sources.load().and_then(|_| Config::of_environment()).and_then(|_| sources.files());
    match outcome {
        Ok(files) if files.is_empty() => Finding::well("configuration", "none: all is as built in"),
        Ok(files) => Finding::well("configuration", format!("{} files, all well", files.len())),
        Err(error) => Finding::wrong(
            "configuration",
            error.to_string(),
            "mend it: no manager begins with it (`cpumgr check-config` says the same)",
        ),
    }
}

fn manager(named: Option<&Path>) -> Finding {
    let advice = "`cpumgr run PROGRAM` starts one, `cpumgr daemon` too";
    let socket = match socket::to_ask(named) {
        Ok(socket) => socket,
        Err(_) => {
            let own = user_socket();
            let says = format!("none answers at {SYSTEM_SOCKET} or {}", own.display());
            return Finding::note("manager", says, advice);
        }
    };
    match status::of_manager(&socket) {
        Ok(status) => of_status(&status, &socket),
        Err(error) => Finding::note("manager", error.to_string(), advice),
    }
}

/// What a manager lacks, or that it is there.
fn of_status(status: &Status, socket: &Path) -> Finding {
    let narrow = status.narrow.as_ref().map(|it| {
        let Narrow { processors, of, why, .. } = it;
        format!("manager {} manages {processors} of {of}: {why}", status.manager_pid)
    });
    let kept = (!status.kept.is_empty()).then(|| {
        format!(
            "manager {} kept of its starter, which it may end or fail by: {}",
            status.manager_pid,
            status.kept.join(", ")
        )
    });
    if !status.unkept.is_empty() {
        let says = format!(
            "if manager {} is killed, the next one will not know {}",
            status.manager_pid,
            status.unkept.join("; ")
        );
        let remedy = "make room in the socket's directory, or let its user write there";
        return Finding::note("manager", says, remedy);
    }
    let lacks: Vec<String> = narrow.into_iter().chain(kept).collect();
    if !lacks.is_empty() {
        let remedy = "end it (cpumgr stop) and start one elsewhere";
        return Finding::note("manager", lacks.join("; "), remedy);
    }
    let says = format!(
        "{} answers at {}: policy {}, {} processors, {} programs",
        status.manager_pid,
        socket.display(),
        status.policy,
        status.processor_count,
        status.program_count
    );
    Finding::well("manager", says)
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn cpusets_are_what_the_mounted_control_groups_offer() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(fences(dir.path()).verdict, Verdict::Note);
        fs::write(dir.path().join("cgroup.controllers"), "hugetlb\n").unwrap();
        let none = fences(dir.path());
        assert!(none.verdict == Verdict::Note && none.remedy.unwrap().contains("cpuset"));
        fs::write(dir.path().join("cgroup.controllers"), "cpu cpuset\n").unwrap();
        assert!(fences(dir.path()).says.contains("version 2"));
        fs::write(dir.path().join("cgroup.controllers"), "").unwrap();
        fs::create_dir(dir.path().join("cpuset")).unwrap();
        fs::write(dir.path().join("cpuset/cpuset.cpus"), "0\n").unwrap();
        assert!(fences(dir.path()).says.contains("version 1"));
    }

    #[test]
    fn a_kernel_that_names_no_process_at_a_socket_is_told_from_one_that_does() {
        assert_eq!(identity(Some(PeerRung::Exact)).verdict, Verdict::Well);
        for lower in [Some(PeerRung::Rechecked), None] {
            let found = identity(lower);
            assert!(found.verdict == Verdict::Note && found.says.contains("looks twice"));
        }
        assert!(rung().is_some(), "one of both works");
    }

    #[test]
    fn this_process_has_a_status_with_a_number_in_each_namespace() {
        let status = own_status().unwrap();
        assert_eq!(status.nspid.unwrap().first(), Some(&std::process::id().cast_signed()));
        // The superuser's mask is never empty.
        assert!(status.capeff != 0 || !nix::unistd::geteuid().is_root());
    }

    #[test]
    fn a_manager_that_does_not_answer_comes_with_what_starts_one() {
        let dir = tempfile::tempdir().unwrap();
        let found = manager(Some(&dir.path().join("app.sock")));
        assert_eq!(found.verdict, Verdict::Note);
        assert!(found.remedy.unwrap().contains("cpumgr run"));
        assert_eq!(service_manager(&dir.path().join("no")).verdict, Verdict::Note);
        assert_eq!(service_manager(dir.path()).verdict, Verdict::Well);
    }

    #[test]
    fn a_manager_that_kept_its_starters_limits_is_told() {
        let mut status = status::tests::of_a_manager();
        let socket = Path::new("/run/cpumgr/socket");
        assert_eq!(of_status(&status, socket).verdict, Verdict::Well);
        status.kept = vec!["a limit of 100 seconds of processor time".into()];
        let finding = of_status(&status, socket);
        assert_eq!(finding.verdict, Verdict::Note);
        assert!(finding.says.contains("a limit of 100 seconds"), "{}", finding.says);
    }
}
