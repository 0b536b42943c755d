//! Teams.

use crate::body::Body;
use crate::frame;
use crate::region::league;
use std::ffi::{c_uint, c_void};

/// `teams` on the host.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_teams_reg(
    body: Body,
    data: *mut c_void,
    teams: c_uint,
    threads: c_uint,
    _flags: c_uint,
) {
    league::teams(frame::current(), body, data, teams, threads);
}

/// `teams` in a target region; true = run the body (again).
#[unsafe(no_mangle)]
extern "C" fn GOMP_teams4(_least: c_uint, most: c_uint, threads: c_uint, first: bool) -> bool {
    league::next_team(frame::current(), most, threads, first)
}

/// `teams` in a target region, gcc 4.9 to 11: one team.
#[unsafe(no_mangle)]
extern "C" fn GOMP_teams(_teams: c_uint, threads: c_uint) {
    league::next_team(frame::current(), 1, threads, true);
}
