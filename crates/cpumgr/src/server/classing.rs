//! Which class of the site a program is in: by the rules of the configuration, or as a client
//! chose.
//!
//! # Rules
//! - A1 Administrators of the manager may put each program into each class, and the program's
//!   user cannot change that.
//! - A2 A user may choose for programs of its own: among the classes that are open, and those of
//!   which a rule fits the program.
//! - A3 What was chosen stands above the rules, for as long as there is such a class.

use std::fs;

use platform::process::Pid;
use policies::classes::Subject;
use policies::{AppId, Cause};
use procfs::process::Status;
use procfs::{FromBufRead, ProcessCGroups};

use super::Server;
use crate::config::BY_RULES;
use crate::escape::escape;
use crate::limits;
use crate::settings::Chosen;

/// What rules look at, and whose it is.
struct Facts {
    pid: Pid,
    uid: u32,
    name: String,
}

impl Server {
    /// Puts a program into its class; true when that is another one than before.
    pub(super) fn classify(&mut self, serial: u64) -> bool {
        let class = self.class_by_choice_or_rule(serial);
        self.ledger.set_class(AppId(serial), class)
    }

    /// The same for all, after the classes changed.
    pub(super) fn classify_all(&mut self) {
        let programs = self.connections.values().filter(|it| it.program.is_some());
        let all: Vec<u64> =
            programs.map(|it| it.serial).chain(self.attached.keys().copied()).collect();
        for serial in all {
            self.classify(serial);
        }
    }

    /// What was said of a process before it registered: its class, its label, its bounds.
    pub(super) fn inherit_choices(&mut self, serial: u64, pid: Pid) {
        let same = |it: &&super::connection::Connection| it.peer.pid == pid && it.serial != serial;
        let mut before: Vec<_> =
            self.connections.values().filter(same).filter(|it| it.is_program()).collect();
        before.sort_by_key(|it| it.serial);
        let chosen = before.iter().rev().find_map(|it| it.chosen.clone());
        let label = before.iter().rev().find_map(|it| it.label.clone());
        let (min, max) = self.bounds_said_of(pid, Some(serial));
        let Some(connection) = self.connections.get_mut(&serial) else { return };
        connection.chosen = connection.chosen.take().or(chosen);
        connection.label = connection.label.take().or(label);
        connection.bounds = (connection.bounds.0.or(min), connection.bounds.1.or(max));
    }

    /// The bounds that were said of a process, but by one of its connections.
    pub(super) fn bounds_said_of(&self, pid: Pid, but: Option<u64>) -> (Option<u32>, Option<u32>) {
        let programs = self.connections.values().filter(|it| it.is_program());
        let mut before: Vec<_> =
            programs.filter(|it| it.peer.pid == pid && Some(it.serial) != but).collect();
        before.sort_by_key(|it| it.serial);
        let min = before.iter().rev().find_map(|it| it.bounds.0);
        let max = before.iter().rev().find_map(|it| it.bounds.1);
        let kept = self.legacy.bounds_of(pid).unwrap_or_default();
        (min.or(kept.0), max.or(kept.1))
    }

    /// The class of a program, or of a submission.
    pub(super) fn class_by_choice_or_rule(&self, serial: u64) -> Option<String> {
        let table = self.rules.class_table();
        if table.classes.is_empty() {
            return None;
        }
        let known = self.known_of(serial)?;
        let same = self.connections.values().filter(|it| it.peer.pid == known.pid);
        let newest = same.filter(|it| it.chosen.is_some()).max_by_key(|it| it.serial);
        let chosen = newest.and_then(|it| it.chosen.as_ref()).map(|it| it.class.clone());
        let chosen = chosen.filter(|class| table.classes.contains_key(class));
        chosen.or_else(|| table.of_program(&self.subject(&known)).map(str::to_owned))
    }

    /// What is known of a program, registered or attached.
    fn known_of(&self, serial: u64) -> Option<Facts> {
        if let Some(it) = self.attached.get(&serial) {
            let (pid, uid, name) = (it.pid, it.owner, it.name.clone());
            return Some(Facts { pid, uid, name });
        }
        let it = self.connections.get(&serial)?;
        let name = it.program.as_ref().map(|program| program.name.clone()).unwrap_or_default();
        Some(Facts { pid: it.peer.pid, uid: it.peer.uid, name })
    }

    fn subject(&self, known: &Facts) -> Subject {
        let (groups, cgroup) = self.rules.class_table().looks_at();
        let labelled = self.connections.values().filter(|it| it.peer.pid == known.pid);
        let labelled = labelled.filter(|it| it.label.is_some()).max_by_key(|it| it.serial);
        Subject {
            name: known.name.clone(),
            user: known.uid.to_string(),
            groups: if groups { groups_of(known.pid) } else { Vec::new() },
            cgroup: if cgroup { cgroup_of(known.pid) } else { String::new() },
            label: labelled.and_then(|it| it.label.clone()),
        }
    }

    /// `set class` and `run --class`, at the word of client `by`.
    pub(super) fn choose_class(
        &mut self,
        by: u64,
        pid: Pid,
        class: Option<String>,
    ) -> Result<(), String> {
        let theirs = match self.attached.values().any(|it| it.pid == pid) {
            true => Vec::new(),
            false => self.theirs(by, pid)?,
        };
        let attached = self.attached_of(by, pid);
        let Some(first) = theirs.first().or(attached.first()).copied() else {
            return Err(format!("process {pid} is no program that you may change"));
        };
        let firm = self.may_administer(by);
        if let Some(class) = class.as_deref() {
            self.may_choose(by, first, class)?;
        }
        let is_firm = self.connections.values().filter(|it| it.peer.pid == pid);
        if !firm && is_firm.filter_map(|it| it.chosen.as_ref()).any(|it| it.firm) {
            return Err("an administrator has set the class of this program".into());
        }
        if !attached.is_empty() && theirs.is_empty() {
            // Announced, if it was started by `run`; otherwise there is no place to keep it.
            let announced = self.connections.values_mut().filter(|it| it.peer.pid == pid);
            let mut kept = false;
            for it in announced.filter(|it| it.is_program()) {
                it.chosen = class.clone().map(|class| Chosen { class, firm });
                kept = true;
            }
            if !kept {
                return Err(format!(
                    "process {pid} was attached from outside: its class is what the rules say"
                ));
            }
        }
        for serial in theirs {
            if let Some(it) = self.connections.get_mut(&serial) {
                it.chosen = class.clone().map(|class| Chosen { class, firm });
            }
        }
        self.classify_process(pid);
        let class = class.as_deref().unwrap_or(BY_RULES);
        tracing::info!(pid = pid.0, class, firm, "a class is chosen");
        Ok(())
    }

    /// Whether client `by` may put a program, or a submission, into a class.
    fn may_choose(&self, by: u64, serial: u64, class: &str) -> Result<(), String> {
        let table = self.rules.class_table();
        let class: String = escape(class.as_bytes()).chars().take(limits::MAX_LABEL).collect();
        if !table.classes.contains_key(&class) {
            let known: Vec<&str> = table.classes.keys().map(String::as_str).collect();
            return Err(match known.as_slice() {
                [] => format!(
                    "there is no class {class:?}: this manager's configuration has none \
                     ([classes.NAME])"
                ),
                known => format!("there is no class {class:?}; there are: {}", known.join(", ")),
            });
        }
        let allowed =
            self.known_of(serial).is_some_and(|it| table.allows(&class, &self.subject(&it)));
        if self.may_administer(by) || allowed {
            return Ok(());
        }
        Err(format!(
            "class {class} is not for this program at your word: it is not open, and none of its \
             rules fits; an administrator may set it, or write `open = true` or a rule"
        ))
    }

    /// A submission says in which class it is to be, and what its user calls it.
    pub(super) fn place_submission(
        &mut self,
        serial: u64,
        class: Option<&str>,
        purpose: Option<&str>,
    ) -> Result<(), String> {
        if let Some(label) = purpose {
            let label = checked_label(label)?;
            if let Some(it) = self.connections.get_mut(&serial) {
                it.label = Some(label);
            }
        }
        if let Some(class) = class {
            self.may_choose(serial, serial, class)?;
            let firm = self.may_administer(serial);
            if let Some(it) = self.connections.get_mut(&serial) {
                it.chosen = Some(Chosen { class: class.to_owned(), firm });
            }
        }
        Ok(())
    }

    fn classify_process(&mut self, pid: Pid) {
        let programs = self.connections.values().filter(|it| it.peer.pid == pid);
        let programs = programs.filter(|it| it.program.is_some()).map(|it| it.serial);
        let attached = self.attached.iter().filter(|(_, it)| it.pid == pid).map(|(at, _)| *at);
        for serial in programs.chain(attached).collect::<Vec<_>>() {
            if self.classify(serial) {
                self.cause = self.cause.or(Some(Cause::Administration));
            }
        }
    }

    /// `run --label`.
    pub(super) fn set_label(&mut self, by: u64, pid: Pid, label: &str) -> Result<(), String> {
        let label = checked_label(label)?;
        for serial in self.theirs(by, pid)? {
            if let Some(it) = self.connections.get_mut(&serial) {
                it.label = Some(label.clone());
            }
        }
        self.classify_process(pid);
        Ok(())
    }

    /// The attached process of this number, if client `by` may see it.
    fn attached_of(&self, by: u64, pid: Pid) -> Vec<u64> {
        let theirs = self.attached.iter().filter(|(_, it)| it.pid == pid);
        theirs.map(|(serial, _)| *serial).filter(|serial| self.may_see(by, *serial)).collect()
    }

    /// `run --min` and `--max`, before the program registers, and `set min` and `max`, live. What
    /// is not said stays as it is.
    pub(super) fn bound(
        &mut self,
        by: u64,
        pid: Pid,
        (min, max): (Option<u32>, Option<u32>),
    ) -> Result<(), String> {
        let attached = self.attached_of(by, pid);
        let theirs = match self.theirs(by, pid) {
            Err(_) if !attached.is_empty() => Vec::new(),
            theirs => theirs?,
        };
        let processors = self.cpus.len();
        if let Some(min) = min.filter(|min| *min as usize > processors) {
            let s = if processors == 1 { "" } else { "s" };
            return Err(format!(
                "a minimum is at most what there is, not {min}: this manager has {processors} \
                 processor{s}"
            ));
        }
        let said = theirs.iter().filter_map(|it| self.connections.get(it)).map(|it| it.bounds);
        let said = said.chain(attached.iter().filter_map(|it| Some(self.attached.get(it)?.bounds)));
        let (had_min, had_max) =
            said.fold((None, None), |(min, max), it| (it.0.or(min), it.1.or(max)));
        let (min, max) = (min.or(had_min), max.or(had_max));
        if min == Some(0) || max == Some(0) || min.zip(max).is_some_and(|(min, max)| min > max) {
            let shown = |bound: Option<u32>, none: &str| {
                bound.filter(|it| *it < u32::MAX).map_or(none.to_owned(), |it| it.to_string())
            };
            return Err(format!(
                "a program has at least 1 processor, and its maximum is at least its minimum: not \
                 from {} to {}",
                shown(min, "1"),
                shown(max, "any number")
            ));
        }
        for serial in theirs {
            let Some(it) = self.connections.get_mut(&serial) else { continue };
            it.bounds = (min, max);
            if let Some(program) = &mut it.program {
                program.bind(max);
                self.ledger.set_bounds(AppId(serial), min.unwrap_or(1), program.max);
                self.cause = self.cause.or(Some(Cause::Administration));
            }
        }
        for serial in attached {
            let Some(it) = self.attached.get_mut(&serial) else { continue };
            it.bounds = (min, max);
            self.ledger.set_bounds(AppId(serial), min.unwrap_or(1), it.most());
            self.cause = self.cause.or(Some(Cause::Administration));
        }
        tracing::info!(pid = pid.0, min, max, "other bounds");
        Ok(())
    }
}

/// The numbers of the groups of a process; those that cannot be read are not there.
fn groups_of(pid: Pid) -> Vec<String> {
    let Some(status) = parsed::<Status>(pid, "status") else { return Vec::new() };
    let all = std::iter::once(status.rgid).chain(status.groups);
    all.map(|gid| gid.to_string()).collect()
}

/// The control group of a process, from `/` on; empty where it cannot be read.
fn cgroup_of(pid: Pid) -> String {
    let groups = parsed::<ProcessCGroups>(pid, "cgroup");
    let mut unified = groups.into_iter().flatten().filter(|group| group.hierarchy == 0);
    unified.next().map(|group| group.pathname).unwrap_or_default()
}

/// A file of a process, whatever bytes its name or its groups' names are made of: a process must
/// not get around a rule by a name that is no text.
fn parsed<T: FromBufRead>(pid: Pid, file: &str) -> Option<T> {
    let bytes = fs::read(format!("/proc/{pid}/{file}")).ok()?;
    T::from_buf_read(String::from_utf8_lossy(&bytes).as_bytes()).ok()
}

/// A label as it is kept.
fn checked_label(label: &str) -> Result<String, String> {
    if label.is_empty() || label.len() > limits::MAX_LABEL {
        return Err(format!("a label has 1 to {} bytes, not {}", limits::MAX_LABEL, label.len()));
    }
    Ok(escape(label.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use platform::process::{self, Peer};

    use super::super::connection::Connection;
    use super::super::looks::tests::{Asked, server};
    use super::super::model::Process;
    use super::*;
    use crate::config::{Config, Rules};

    const SITE: &str = "[classes.closed]\n[classes.open]\nopen = true\n[classes.ruled]\n\
                        [[class-rules]]\nclass = \"ruled\"\nlabel = \"nightly\"\n";

    /// A client of a process, as a user.
    fn client(server: &mut Server, pid: Pid, uid: u32) -> u64 {
        let serial = server.serials.next();
        let pidfd = process::pidfd_open(pid).unwrap();
        let peer = Peer { pid, uid, gid: uid };
        let mut connection = Connection::new(serial, None, peer, pidfd);
        connection.announced = true;
        connection.note_start();
        server.connections.insert(serial, connection);
        serial
    }

    #[test]
    fn a_user_chooses_open_classes_and_those_of_its_rules_and_an_administrator_all() {
        let dir = tempfile::tempdir().unwrap();
        let mut server = server(dir.path(), &Asked::default(), 100_000_000);
        server.set_rules(Rules::of(&Config::parse(SITE).unwrap()));
        let process = Process::start();
        let pid = process.pid();
        let owner = nix::unistd::geteuid().as_raw();
        let (user, stranger) = (owner + 4711, owner + 4712);
        let own = client(&mut server, pid, user);
        let choose = |server: &mut Server, by: u64, class: &str| {
            server.choose_class(by, pid, Some(class.to_owned()))
        };
        let refused = choose(&mut server, own, "closed").unwrap_err();
        assert!(refused.contains("open = true"), "{refused}");
        assert!(choose(&mut server, own, "ruled").is_err());
        choose(&mut server, own, "open").unwrap();
        server.set_label(own, pid, "nightly").unwrap();
        choose(&mut server, own, "ruled").unwrap();
        assert!(server.choose_class(own, pid, Some("none".into())).unwrap_err().contains("closed"));
        server.choose_class(own, pid, None).unwrap();
        // Another user's is not there for a stranger.
        let other = Process::start();
        let other = client(&mut server, other.pid(), stranger);
        assert!(choose(&mut server, other, "open").is_err());
        // What an administrator says the user does not change.
        let third = Process::start();
        let administrator = client(&mut server, third.pid(), owner);
        choose(&mut server, administrator, "closed").unwrap();
        assert!(choose(&mut server, own, "open").unwrap_err().contains("administrator"));
        assert!(server.choose_class(own, pid, None).is_err());
        let chosen = Some(Chosen { class: "closed".into(), firm: true });
        assert!(server.settings().running.iter().any(|it| it.chosen == chosen));
        assert_eq!(server.connections[&own].chosen, chosen);
        server.end(&super::super::Ended::Signal);
    }

    #[test]
    fn a_process_whose_name_is_no_text_has_its_groups() {
        let mut shell = Command::new("sh")
            .args(["-c", r"printf '\377\376' > /proc/$$/comm; echo renamed; read line"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 8];
        shell.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        let pid = Pid(shell.id().cast_signed());
        assert!(fs::read(format!("/proc/{pid}/comm")).unwrap().starts_with(b"\xff\xfe"));
        let own = nix::unistd::getgid().to_string();
        assert_eq!(groups_of(pid).first(), Some(&own));
        assert_eq!(cgroup_of(pid), cgroup_of(process::current_pid()));
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }
}
