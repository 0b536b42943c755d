//! A client as the scheduler sees it.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use arena::message::FromManager;
use platform::SysResult;
use platform::process::{self, Peer, Pid};
use policies::backfill::Running;

use super::program::Program;
use crate::api::{Answer, Mailbox, Post};
use crate::reactor::{Reactor, Role};
use crate::settings::Chosen;

/// When an announced process is looked at again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) at: u64,
    pub(super) pause: u64,
}

/// A client.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) serial: u64,
    /// Where answers go; gone when an announced program closed its end: by exec.
    pub(super) mailbox: Option<Mailbox>,
    pub(super) peer: Peer,
    /// The group of administrators of which it was when it connected.
    pub(super) of_admins: Option<u32>,
    pub(super) pidfd: OwnedFd,
    /// The pidfd is waited for.
    pub(super) watched: bool,
    /// The process said that it is about to become a program.
    pub(super) announced: bool,
    /// Processors that it asked for when it was submitted; 1 if it was not.
    pub(super) request: u32,
    /// Whether its program's teams keep their size, where that was said.
    pub(super) team: Option<bool>,
    /// The site's class that was chosen for its program.
    pub(super) chosen: Option<Chosen>,
    /// What its program was started for.
    pub(super) label: Option<String>,
    /// Processors that its program is to have before others have more than theirs, and at most.
    pub(super) bounds: (Option<u32>, Option<u32>),
    /// The number under which it was submitted.
    pub(super) submission: Option<u64>,
    /// How long it waited to be started.
    pub(super) queued_ns: u64,
    /// The processors that it keeps as a job, and when it ends at the latest; its class is found
    /// anew for each plan.
    pub(super) job: Option<Running>,
    /// It may be managed by its threads' masks when it does not register.
    pub(super) attach: bool,
    /// When it is looked at again, for that.
    pub(super) look: Option<Look>,
    /// The share of its program relative to others.
    pub(super) weight: f64,
    /// Why its process is not managed, though it was announced.
    pub(super) reason: Option<String>,
    /// When its process started, as far as that had to be known.
    pub(super) start: Option<u64>,
    /// It stands for a program that was registered with a killed manager, until that one registers
    /// here.
    pub(super) is_stand_in: bool,
    /// A client detached it: it is not attached by itself again.
    pub(super) detached: bool,
    /// What it registered.
    pub(super) program: Option<Program>,
}

impl Connection {
    /// A client that said nothing yet.
    pub(super) fn new(serial: u64, mailbox: Option<Mailbox>, peer: Peer, pidfd: OwnedFd) -> Self {
        Self {
            serial,
            mailbox,
            peer,
            of_admins: None,
            pidfd,
            watched: false,
            announced: false,
            request: 1,
            team: None,
            chosen: None,
            label: None,
            bounds: (None, None),
            submission: None,
            queued_ns: 0,
            job: None,
            attach: false,
            look: None,
            weight: 1.0,
            reason: None,
            start: None,
            is_stand_in: false,
            detached: false,
            program: None,
        }
    }

    /// Its process is kept in mind, for the next manager, too. One that cannot be asked is about to
    /// end.
    pub(super) fn note_start(&mut self) {
        self.start = self.start.or_else(|| process::start_time(self.peer.pid).ok());
    }

    /// Puts an answer into its mailbox. False: it does not read what it asks for.
    pub(super) fn put(&self, answer: Answer) -> bool {
        self.mailbox.as_ref().is_none_or(|mailbox| mailbox.put(answer) == Post::Done)
    }

    /// Says that the manager ends.
    pub(super) fn say_goodbye(&self) {
        // A client that has left too much unread to get this does not need it: the connection ends.
        let _put = self.put(Answer::Messages(vec![FromManager::Leaving]));
    }

    /// Its process is a program, or said that it is going to be one.
    pub(super) fn is_program(&self) -> bool {
        self.announced || self.program.is_some()
    }

    /// Its process is a program now. One that was announced or admitted and waits has become
    /// `cpumgr submit` since: what it was before is over.
    pub(super) fn runs(&self, waits: &BTreeSet<Pid>) -> bool {
        self.program.is_some() || self.announced && !waits.contains(&self.peer.pid)
    }

    /// It is process `pid`, which said that it is going to be a program, and has become one that
    /// does not speak.
    pub(super) fn is_silent(&self, pid: Pid) -> bool {
        self.peer.pid == pid
            && self.announced
            && self.attach
            && self.program.is_none()
            && self.has_left()
    }

    /// It has closed its end, by exec: its process lives on.
    pub(super) fn has_left(&self) -> bool {
        self.mailbox.is_none()
    }

    /// It may be managed from outside, and no client let it go.
    pub(super) fn wants_attach(&self) -> bool {
        self.attach && !self.detached
    }

    /// Why its threads are not managed from outside, where its starter said so.
    pub(super) fn is_left_alone(&self) -> Option<String> {
        (!self.attach).then(|| "started with --no-attach".into())
    }

    /// Waits for the end of the process too.
    pub(super) fn watch(&mut self, reactor: &Reactor) -> SysResult<()> {
        if !self.watched {
            reactor.add(&self.pidfd, self.serial, Role::Process)?;
            self.watched = true;
        }
        Ok(())
    }
}
