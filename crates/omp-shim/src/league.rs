//! Leagues: `teams` on the host, and target regions, which always run here. The teams of a league
//! run one after another, each in a fresh initial task.

use crate::env::Offload;
use crate::frame::Frame;
use crate::icv::{NO_LIMIT, settings};
use crate::message;
use crate::root;
use crate::team::Body;
use platform::lock::Once;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// nteams-var and teams-thread-limit-var: of the device, not of a task. 0 = not set.
#[derive(Debug)]
struct Limits {
    teams: AtomicU32,
    threads: AtomicU32,
}

fn limits() -> &'static Limits {
    static LIMITS: Once<Limits> = Once::new();
    LIMITS.get_or_init(|| {
        let env = &settings().environment;
        Limits {
            teams: AtomicU32::new(env.num_teams),
            threads: AtomicU32::new(env.teams_thread_limit),
        }
    })
}

/// nteams-var.
pub(crate) fn max_teams() -> u32 {
    // ORDERING: Relaxed, here and below - numbers on their own.
    limits().teams.load(Relaxed)
}

/// Sets nteams-var; negative numbers are ignored.
pub(crate) fn set_max_teams(teams: i32) {
    if let Ok(teams) = u32::try_from(teams) {
        limits().teams.store(teams, Relaxed);
    }
}

/// teams-thread-limit-var.
pub(crate) fn thread_limit() -> u32 {
    limits().threads.load(Relaxed)
}

/// Sets teams-thread-limit-var; negative numbers are ignored.
pub(crate) fn set_thread_limit(threads: i32) {
    if let Ok(threads) = u32::try_from(threads) {
        limits().threads.store(threads, Relaxed);
    }
}

/// Threads that each team may have: what the construct says, else the control variable, else what
/// the task has.
fn limit_for(frame: &Frame, asked: u32) -> u32 {
    let own = frame.icvs().thread_limit;
    match (asked, thread_limit()) {
        (0, 0) => own,
        (0, limit) | (limit, _) => limit.min(NO_LIMIT),
    }
}

/// Runs a `teams` construct of `teams` teams (0 = as nteams-var says, else 1).
pub(crate) fn teams(frame: &Frame, body: Body, data: *mut c_void, teams: u32, threads: u32) {
    let count = [teams, max_teams()].into_iter().find(|count| *count > 0).unwrap_or(1);
    let mut icvs = frame.icvs();
    icvs.thread_limit = limit_for(frame, threads);
    for number in 0..count {
        // SAFETY: the compiled code's body and argument.
        root::with_initial(icvs, number, count, || unsafe { body(data) });
    }
}

/// `teams` inside a target region: the compiled code loops over the teams. True = run the body
/// (again).
pub(crate) fn next_team(frame: &Frame, most: u32, threads: u32, first: bool) -> bool {
    let team = frame.team();
    if first {
        let count = [most, max_teams()].into_iter().find(|count| *count > 0).unwrap_or(1);
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
    root::with_initial(icvs, 0, 1, || unsafe { body(data) });
}
