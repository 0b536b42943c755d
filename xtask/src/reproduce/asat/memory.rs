//! The memory that programs have: what is available, and a control group that limits it, so that
//! they page, where this machine has one that we may make, and somewhere to page to.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use procfs::process::Process;
use procfs::{Current, Meminfo};

/// Tries to remove the group: its programs have ended, and the kernel may still take them down.
const TRIES: u32 = 100;

/// The limit of either version of control groups.
const LIMITS: [&str; 2] = ["memory.max", "memory.limit_in_bytes"];

/// A group of ours; dropped = removed.
pub(super) struct Limited {
    folder: PathBuf,
}

impl Limited {
    /// Makes one whose programs have at most `bytes` together, and want `wanted`; an error says
    /// what the machine lacks.
    pub(super) fn new(bytes: u64, wanted: u64) -> anyhow::Result<Limited> {
        let swap = Meminfo::current().context("cannot read /proc/meminfo")?.swap_free;
        let beyond = wanted.saturating_sub(bytes);
        ensure!(
            swap >= beyond,
            "the copies want {beyond} bytes beyond the limit, and {swap} of swap are free: the \
             kernel would end them"
        );
        Limited::below(&place()?, bytes)
    }

    fn below(parent: &Path, bytes: u64) -> anyhow::Result<Limited> {
        let folder = parent.join(format!("nanos-reproduce-{}", std::process::id()));
        fs::create_dir(&folder)
            .with_context(|| format!("cannot make the control group {}", folder.display()))?;
        let limited = Limited { folder };
        let limits = LIMITS.map(|name| limited.folder.join(name));
        let Some(limit) = limits.iter().find(|limit| limit.exists()) else {
            bail!("the control group {} has no limit of memory", limited.folder.display());
        };
        fs::write(limit, bytes.to_string())
            .with_context(|| format!("cannot write {}", limit.display()))?;
        Ok(limited)
    }

    /// The command that runs this one in the group.
    pub(super) fn enclose(&self, command: &Command) -> Command {
        let mut enclosed = Command::new("/bin/sh");
        enclosed.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]);
        enclosed.arg(self.folder.join("cgroup.procs"));
        enclosed.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => enclosed.env(name, value),
                None => enclosed.env_remove(name),
            };
        }
        enclosed
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        for _ in 0..TRIES {
            match fs::remove_dir(&self.folder) {
                Ok(()) => return,
                Err(fault) if fault.kind() == std::io::ErrorKind::NotFound => return,
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        eprintln!("the control group {} could not be removed", self.folder.display());
    }
}

/// Bytes that programs can have without paging: what the machine has available, or the least limit
/// of our control group and of those above it, where that is less.
pub(super) fn available() -> anyhow::Result<u64> {
    let machine = Meminfo::current().context("cannot read /proc/meminfo")?;
    let machine = machine.mem_available.unwrap_or(machine.mem_free);
    // Without control groups there is no other limit.
    let limit = own().ok().and_then(|own| least_limit(&own.folder, &own.mount));
    Ok(limit.map_or(machine, |limit| machine.min(limit)))
}

/// The least limit from `folder` up to `mount`; `None`: there is none.
fn least_limit(folder: &Path, mount: &Path) -> Option<u64> {
    let within = folder.ancestors().take_while(|above| above.starts_with(mount));
    let limits = within.flat_map(|above| LIMITS.map(|name| above.join(name)));
    // `max` is no number.
    limits.filter_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok()).min()
}

/// Our group in the hierarchy that limits memory.
struct Own {
    mount: PathBuf,
    folder: PathBuf,
    is_first_version: bool,
}

fn own() -> anyhow::Result<Own> {
    let own = Process::myself().context("cannot read /proc/self")?;
    let groups = own.cgroups().context("cannot read /proc/self/cgroup")?;
    let mounts = own.mountinfo().context("cannot read /proc/self/mountinfo")?;
    let has_memory = |options: &std::collections::HashMap<String, Option<String>>| {
        options.contains_key("memory")
    };
    if let Some(mount) =
        mounts.iter().find(|mount| mount.fs_type == "cgroup" && has_memory(&mount.super_options))
    {
        let of_memory = |group: &&procfs::ProcessCGroup| {
            group.controllers.iter().any(|controller| controller == "memory")
        };
        let path = groups.into_iter().find(|group| of_memory(&group)).map(|group| group.pathname);
        let folder = below(&mount.mount_point, path.as_deref().unwrap_or("/"));
        return Ok(Own { mount: mount.mount_point.clone(), folder, is_first_version: true });
    }
    let Some(mount) = mounts.iter().find(|mount| mount.fs_type == "cgroup2") else {
        bail!("no control groups are mounted");
    };
    let path = groups.into_iter().find(|group| group.hierarchy == 0).map(|group| group.pathname);
    let folder = below(&mount.mount_point, path.as_deref().unwrap_or("/"));
    Ok(Own { mount: mount.mount_point.clone(), folder, is_first_version: false })
}

/// Where a group may be made: beside ours, or below the first version's own.
fn place() -> anyhow::Result<PathBuf> {
    let Own { mount, folder, is_first_version } = own()?;
    if is_first_version {
        return Ok(folder);
    }
    // Beside ours: a group that has programs hands no controller on.
    let parent = match folder.parent() {
        Some(parent) if folder != mount => parent.to_owned(),
        _ => folder,
    };
    let file = parent.join("cgroup.subtree_control");
    let handed_on =
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    ensure!(
        handed_on.split_whitespace().any(|controller| controller == "memory"),
        "{} does not hand the controller `memory` on; `systemd-run --user --scope` gives a group \
         that has it",
        file.display()
    );
    Ok(parent)
}

/// A group's folder; of one that cannot be seen from here the topmost.
fn below(mount: &Path, path: &str) -> PathBuf {
    let folder = mount.join(path.trim_start_matches('/'));
    if folder.is_dir() { folder } else { mount.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_a_group_and_those_above_it_counts() {
        let mount = tempfile::tempdir().unwrap();
        let folder = mount.path().join("above/own");
        fs::create_dir_all(&folder).unwrap();
        let least = || least_limit(&folder, mount.path());
        assert_eq!(least(), None);
        fs::write(folder.join("memory.max"), "max\n").unwrap();
        assert_eq!(least(), None);
        fs::write(mount.path().join("above/memory.max"), "1073741824\n").unwrap();
        assert_eq!(least(), Some(1 << 30));
        fs::write(folder.join("memory.limit_in_bytes"), "4096\n").unwrap();
        assert_eq!(least(), Some(4096));
        // What is above the mount is no group.
        fs::write(mount.path().join("memory.max"), "1\n").unwrap();
        assert_eq!(least_limit(&folder, &mount.path().join("above")), Some(4096));
    }

    #[test]
    fn what_is_available_is_no_more_than_the_machine_has() {
        let machine = Meminfo::current().unwrap().mem_total;
        let available = available().unwrap();
        assert!(available > 0 && available <= machine, "{available} of {machine}");
    }

    #[test]
    fn a_limit_beyond_memory_and_swap_is_refused_with_its_numbers() {
        let fault = Limited::new(1, u64::MAX).err().unwrap().to_string();
        assert!(fault.contains(&format!("want {} bytes beyond", u64::MAX - 1)), "{fault}");
    }

    #[test]
    fn a_folder_that_is_no_control_group_is_refused_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let fault = Limited::below(folder.path(), 1 << 20).err().unwrap().to_string();
        assert!(fault.contains("no limit of memory"), "{fault}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_enclosed_program_enters_the_group_and_keeps_arguments_and_variables() {
        let folder = tempfile::tempdir().unwrap();
        let limited = Limited { folder: folder.path().join("group") };
        fs::create_dir(&limited.folder).unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo $$ \"$1\" $WORD $PATH", "sh", "two  words"]);
        command.env("WORD", "word").env_remove("PATH");
        let output = limited.enclose(&command).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let entered = fs::read_to_string(limited.folder.join("cgroup.procs")).unwrap();
        let (pid, rest) = said.trim_end().split_once(' ').unwrap();
        assert_eq!(entered.trim_end(), pid);
        assert!(rest.starts_with("two  words word"), "{said}");
        fs::remove_file(limited.folder.join("cgroup.procs")).unwrap();
    }

    #[test]
    fn a_group_that_was_made_has_its_limit_and_goes() {
        let made = place().and_then(|parent| Limited::below(&parent, 64 << 20));
        let Ok(limited) = made.inspect_err(|fault| crate::skips::note(format!("{fault:#}"))) else {
            return;
        };
        let folder = limited.folder.clone();
        let limits = LIMITS.iter().filter_map(|name| fs::read_to_string(folder.join(name)).ok());
        assert_eq!(limits.map(|limit| limit.trim().to_owned()).collect::<Vec<_>>(), ["67108864"]);
        let mut command = Command::new("/bin/cat");
        command.arg("/proc/self/cgroup");
        let output = limited.enclose(&command).output().unwrap();
        assert!(String::from_utf8(output.stdout).unwrap().contains("nanos-reproduce-"));
        drop(limited);
        assert!(!folder.exists());
    }
}
