//! Leagues: `teams` on the host, and target regions, which always run here. The teams of a league
//! run one after another, each in a fresh initial task.

use crate::body::Body;
use crate::frame::{self, Frame, RootFrame};
use crate::process::message;
use crate::settings::{Icvs, NO_LIMIT, Offload, device, settings};
use crate::tasking;
use crate::team::Team;
use std::ffi::c_void;

/// Threads that each team may have: what the construct says, else the control variable, else what
/// the task has.
fn limit_for(frame: &Frame, asked: u32) -> u32 {
    let own = frame.icvs().thread_limit;
    match (asked, device::thread_limit()) {
        (0, 0) => own,
        (0, limit) | (limit, _) => limit.min(NO_LIMIT),
    }
}

/// Runs a `teams` construct of `teams` teams (0 = as nteams-var says, else 1).
pub(crate) fn teams(frame: &Frame, body: Body, data: *mut c_void, teams: u32, threads: u32) {
    let count = [teams, device::max_teams()].into_iter().find(|count| *count > 0).unwrap_or(1);
    let mut icvs = frame.icvs();
    icvs.thread_limit = limit_for(frame, threads);
    for number in 0..count {
        // SAFETY: the compiled code's body and argument.
        with_initial(icvs, number, count, || unsafe { body(data) });
    }
}

/// `teams` inside a target region: the compiled code loops over the teams. True = run the body
/// (again).
pub(crate) fn next_team(frame: &Frame, most: u32, threads: u32, first: bool) -> bool {
    let team = frame.team();
    if first {
        let count = [most, device::max_teams()].into_iter().find(|count| *count > 0).unwrap_or(1);
        let limit = limit_for(frame, threads);
        frame.change_icvs(|icvs| icvs.thread_limit = limit);
        team.set_league(0, count);
        return true;
    }
    let league = team.league();
    let more = league.number + 1 < league.count;
    if more {
        team.set_league(league.number + 1, league.count);
    }
    more
}

/// Ends the program when it demands devices (`OMP_TARGET_OFFLOAD=MANDATORY`) and names one, which
/// is not there. `device` is the number that compiled code passes.
pub(crate) fn require(frame: &Frame, device: i32) {
    /// That of the task.
    const DEFAULT: i32 = -1;
    /// The `if` clause was false.
    const HERE: i32 = -2;
    let device = if device == DEFAULT { frame.icvs().default_device } else { device };
    if device != HERE && device != HOST {
        must_have(device);
    }
}

/// The same for a device that is not the host.
pub(crate) fn must_have(device: i32) {
    if settings().environment.target_offload == Offload::Mandatory {
        message::fatal(&format!(
            "OMP_TARGET_OFFLOAD is set to MANDATORY, but there is no device {device}"
        ));
    }
}

/// The host's device number: the number of devices.
pub(crate) const HOST: i32 = 0;

/// Runs a target region here, as the device's initial task: with the control variables that the
/// environment gives. `threads` is its thread_limit clause, or 0.
pub(crate) fn target(body: Body, data: *mut c_void, threads: u32) {
    let mut icvs = settings().initial();
    if threads > 0 {
        icvs.thread_limit = threads.min(NO_LIMIT);
    }
    // SAFETY: the compiled code's body and argument.
    with_initial(icvs, 0, 1, || unsafe { body(data) });
}

/// Runs `body` in a fresh initial task, as team `number` of a league of `count`.
fn with_initial(icvs: Icvs, number: u32, count: u32, body: impl FnOnce()) {
    let root = RootFrame::new(icvs, Team::initial(icvs, number, count));
    let before = frame::switch(root.frame());
    body();
    tasking::finish_all(root.frame());
    frame::switch(before);
}
