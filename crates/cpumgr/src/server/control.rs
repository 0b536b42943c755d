//! What an administrator changes while programs run.

use std::time::Duration;

use arena::message::{Control, FromManager, RefusedCode};
use nix::libc;
use platform::process::{self, Pid};
use policies::{AppId, Cause};

use super::connection::Connection;
use super::{Ended, Server, Settings};
use crate::daemon::background;
use crate::guarded::Guarded;
use crate::limits::{self, Weight};
use crate::settings::LevelFrom;

/// Whether it is about the client itself, which says 0: in a container it knows no number of its
/// own that the manager knows. Then the number is `pid`.
fn names_itself(control: &mut Control, pid: i32) -> bool {
    let named = match control {
        Control::Team { pid, .. }
        | Control::Class { pid, .. }
        | Control::Label { pid, .. }
        | Control::Bounds { pid, .. }
        | Control::Weight { pid, .. } => pid,
        _ => return false,
    };
    let is_itself = *named == 0;
    if is_itself {
        *named = pid;
    }
    is_itself
}

impl Server {
    /// Does what a control message says, or says why not. The manager's user, the superuser and
    /// administrators may control everything. Other users, which only a system's manager lets in,
    /// may control their own.
    pub(super) fn control(&mut self, serial: u64, mut control: Control, now: u64) {
        let peer = self.connections.get(&serial).map(|it| it.peer.pid.0);
        let is_itself = peer.is_some_and(|pid| names_itself(&mut control, pid));
        let names_a_process = matches!(
            control,
            Control::Attach { .. }
                | Control::Detach { .. }
                | Control::Team { .. }
                | Control::Class { .. }
                | Control::Label { .. }
                | Control::Bounds { .. }
                | Control::Weight { .. }
        );
        // Weights are for administrators.
        let own = names_a_process && !matches!(control, Control::Weight { .. })
            || matches!(control, Control::Cancel { .. });
        if !own && !self.may_administer(serial) {
            let mut reason = format!("that is for user {}, the superuser", self.doorman.owner);
            reason.push_str(match self.doorman.admins.get() {
                Some(_) => ", and members of the administrators' group (admin-group)",
                None => " and no other one",
            });
            return self.refuse(serial, RefusedCode::NotYours, reason);
        }
        if names_a_process
            && !is_itself
            && let Err(reason) = self.same_numbers(serial)
        {
            return self.refuse(serial, RefusedCode::NotPossible, reason);
        }
        let outcome = match control {
            // Its answer follows when the files were read.
            Control::Reload => return self.reload(Some(serial)),
            Control::Quantum { quantum_ns } => self.change_quantum(quantum_ns, now),
            Control::Grace { grace_ns } => self.change_grace(grace_ns),
            Control::Policy { name, settings } => {
                let settings = settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
                self.change_policy(name.as_deref(), settings, now)
            }
            Control::Weight { pid, thousandths } => self.change_weight(Pid(pid), thousandths),
            Control::Team { pid, fixed_team } => self.change_team(serial, Pid(pid), fixed_team),
            Control::Class { pid, class } => self.choose_class(serial, Pid(pid), class),
            Control::Label { pid, label } => self.set_label(serial, Pid(pid), &label),
            Control::Bounds { pid, min, max } => self.bound(serial, Pid(pid), (min, max)),
            Control::Level { level } => {
                self.change_level(level);
                self.level_from = LevelFrom::Command;
                Ok(())
            }
            Control::Cancel { id } => self.cancel(serial, id),
            Control::TraceStart { path, most, folder } => {
                self.start_trace(&path, most, folder, now)
            }
            Control::TraceStop => self.stop_trace(),
            Control::Drain { processors } => self.change_drained(&processors, true),
            Control::Undrain { processors } => self.change_drained(&processors, false),
            Control::Stop { if_idle } => self.stop(serial, if_idle),
            // Once it has ended there is no way back.
            Control::Restart => background::can_begin_anew().map(|()| {
                self.over = Some(Ended::Restarts(Box::new(self.in_force())));
            }),
            Control::Attach { pid } => {
                let owner = self.connections.get(&serial).map_or(u32::MAX, |it| it.peer.uid);
                self.attach(owner, Pid(pid), now)
            }
            Control::Detach { pid } => self.detach_for(serial, Pid(pid)),
        };
        // What others change costs a write with others' changes, and no more.
        self.legacy.is_urgent |= !own && outcome.is_ok();
        self.legacy.unwritten = true;
        match outcome {
            Ok(()) => self.say(serial, vec![FromManager::Done]),
            Err(reason) => self.refuse(serial, RefusedCode::NotPossible, reason),
        }
    }

    /// The numbers by which client `serial` names processes are the manager's.
    fn same_numbers(&self, serial: u64) -> Result<(), String> {
        let Some(connection) = self.connections.get(&serial) else { return Ok(()) };
        match process::numbers_differ(connection.peer.pid) {
            Ok(true) => {
                Err("you are in a PID namespace (a container), where processes have other numbers \
                     than here; say it outside"
                    .into())
            }
            Ok(false) => Ok(()),
            // It has ended, or there is no /proc: then no process has a namespace of which we could
            // know.
            Err(error) if error.is(libc::ESRCH) => Ok(()),
            Err(error) => Err(format!(
                "whether your numbers of processes are the manager's cannot be told: {error}"
            )),
        }
    }

    pub(super) fn change_quantum(&mut self, quantum: u64, now: u64) -> Result<(), String> {
        let possible = limits::quantum();
        if !possible.contains(&quantum) {
            return Err(format!(
                "a quantum is {} to {} ns, not {quantum} ns",
                possible.start(),
                possible.end()
            ));
        }
        self.ledger.set_quantum(quantum, now);
        self.page.set_quantum_ns(quantum);
        self.next_beat = self.next_beat.min(now + self.beat_interval());
        self.cause = self.cause.or(Some(Cause::Administration));
        tracing::info!(quantum, "another quantum");
        Ok(())
    }

    /// The weight of a process that is a program, or said that it is going to be one. It keeps it
    /// when it becomes another program by exec.
    fn change_weight(&mut self, pid: Pid, thousandths: u32) -> Result<(), String> {
        let weight = Weight::of(thousandths)
            .ok_or_else(|| format!("a weight is 1 to 1000000 thousandths, not {thousandths}"))?
            .number();
        let mut apps = Vec::new();
        let announced =
            self.connections.values_mut().filter(|it| it.peer.pid == pid && it.is_program());
        for connection in announced {
            connection.weight = weight;
            apps.push(connection.serial);
        }
        apps.extend(
            self.attached
                .iter()
                .filter(|(_, attached)| attached.pid == pid)
                .map(|(serial, _)| *serial),
        );
        if apps.is_empty() {
            return Err(format!(
                "process {pid} is no program of this manager; `cpumgr status` lists those that are"
            ));
        }
        for serial in apps {
            // A program that is only announced has no entry yet.
            let _changed: bool = self.ledger.set_weight(AppId(serial), weight);
        }
        self.cause = self.cause.or(Some(Cause::Administration));
        tracing::info!(pid = pid.0, weight, "another weight");
        Ok(())
    }

    /// How the teams of a process behave that is a program, or said that it is going to be one, at
    /// the word of client `by`. It keeps it when it becomes another program by exec.
    fn change_team(&mut self, by: u64, pid: Pid, fixed_team: bool) -> Result<(), String> {
        if self.attached.iter().any(|(serial, it)| it.pid == pid && self.may_see(by, *serial)) {
            return Err(format!(
                "process {pid} is attached from outside: its threads are as many as it makes"
            ));
        }
        for serial in self.theirs(by, pid)? {
            let Some(connection) = self.connections.get_mut(&serial) else { continue };
            connection.team = Some(fixed_team);
            if let Some(program) = &mut connection.program {
                program.set_team(Some(fixed_team));
            }
        }
        tracing::info!(pid = pid.0, fixed_team, "other teams");
        Ok(())
    }

    /// The connections of process `pid`, which is a program or said that it is going to be one, if
    /// client `by` may change it.
    pub(super) fn theirs(&self, by: u64, pid: Pid) -> Result<Vec<u64>, String> {
        let is_it = |it: &&Connection| it.peer.pid == pid && it.is_program();
        let serials = self.connections.values().filter(is_it).map(|it| it.serial);
        let theirs: Vec<u64> = serials.filter(|it| self.may_see(by, *it)).collect();
        if theirs.is_empty() {
            return Err(format!(
                "process {pid} is no program of this manager that you may change; `cpumgr status` \
                 lists those that are"
            ));
        }
        Ok(theirs)
    }

    /// How its teams behave was set for a process.
    pub(super) fn team_of(&self, pid: Pid) -> Option<bool> {
        let programs = self.connections.values().filter(|it| it.peer.pid == pid && it.is_program());
        programs.filter(|it| it.team.is_some()).max_by_key(|it| it.serial)?.team
    }

    /// The weight that was set for a process; 1 unless one was set.
    pub(super) fn weight_of(&self, pid: Pid) -> f64 {
        // The newest connection that says so.
        let programs = self.connections.values().filter(|it| it.peer.pid == pid && it.is_program());
        let newest = programs.max_by_key(|it| it.serial).map(|it| it.weight);
        newest.or_else(|| self.legacy.weight_of(pid)).unwrap_or(1.0)
    }

    pub(super) fn stop(&mut self, serial: u64, if_idle: bool) -> Result<(), String> {
        let own = self.connections.get(&serial).map(|it| it.peer.pid);
        let others = self
            .connections
            .values()
            .filter(|it| it.is_program() && Some(it.peer.pid) != own)
            .count();
        if if_idle && (others > 0 || !self.queue.is_empty() || !self.attached.is_empty()) {
            return Err("programs run here".into());
        }
        self.over = Some(if if_idle { Ended::Replaced } else { Ended::Stopped });
        Ok(())
    }

    /// What is in force, for the one that comes next.
    pub(super) fn in_force(&self) -> Settings {
        let (policy, parameters) = self.ledger.policy_asked_for();
        Settings {
            policy: policy.to_owned(),
            parameters: parameters.iter().map(|it| (it.key.into(), it.value.to_string())).collect(),
            quantum: Duration::from_nanos(self.ledger.quantum()),
            grace: Duration::from_nanos(self.grace),
            level: self.level,
        }
    }

    pub(super) fn change_grace(&mut self, grace: u64) -> Result<(), String> {
        let possible = limits::grace();
        if !possible.contains(&grace) {
            return Err(format!(
                "a grace is {} to {} ns, not {grace} ns",
                possible.start(),
                possible.end()
            ));
        }
        self.grace = grace;
        for program in self.connections.values().filter_map(|it| it.program.as_ref()) {
            program.areas.set_grace_ns(grace);
        }
        tracing::info!(grace, "another grace");
        Ok(())
    }

    /// Another policy, or other parameters of the one in force. All or nothing: a setting that is
    /// refused leaves everything as it was.
    fn change_policy<'a>(
        &mut self,
        name: Option<&str>,
        settings: impl Iterator<Item = (&'a str, &'a str)>,
        now: u64,
    ) -> Result<(), String> {
        let name = name.unwrap_or(self.ledger.policy()).to_owned();
        let mut policy = Guarded::make(|| limits::policy(&name))?;
        // One that panicked is replaced, by the same one too.
        let is_in_force = name == self.ledger.policy() && self.ledger.policy_failure().is_none();
        if is_in_force {
            for parameter in self.ledger.parameters() {
                let kept = policy.configure(parameter.key, &parameter.value);
                kept.map_err(|error| {
                    format!("the parameter {} in force is refused: {error}", parameter.key)
                })?;
            }
        }
        let mut changes = Vec::new();
        for (key, text) in settings {
            let value = policy.configure_text(key, text).map_err(|error| error.to_string())?;
            changes.push((key.to_owned(), value));
        }
        if let Some(failure) = policy.failure() {
            return Err(failure.to_owned());
        }
        if is_in_force {
            // The object in force keeps what it knows; that it takes each value was tried above.
            for (key, value) in &changes {
                self.ledger.configure(key, value).map_err(|error| error.to_string())?;
            }
        } else {
            self.ledger.set_policy(policy);
            self.page.set_policy(&name);
        }
        self.cause = self.cause.or(Some(Cause::Administration));
        tracing::info!(policy = name, ?changes, now, "another policy or other parameters");
        Ok(())
    }

    /// A policy that panicked decides no more: programs read which one does, and that one decides
    /// from now on.
    pub(super) fn heed_policy_failure(&mut self, now: u64) {
        if self.ledger.new_policy_failure().is_none() {
            return;
        }
        self.page.set_policy(self.ledger.policy());
        self.legacy.unwritten = true;
        self.cause = self.cause.or(Some(Cause::Administration));
        self.decide(now);
    }
}
