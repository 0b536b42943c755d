//! Control variables of the device, not of a task.

use super::settings;
use platform::lock::Once;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// nteams-var and teams-thread-limit-var. 0 = not set.
#[derive(Debug)]
struct TeamsIcvs {
    teams: AtomicU32,
    threads: AtomicU32,
}

fn limits() -> &'static TeamsIcvs {
    static LIMITS: Once<TeamsIcvs> = Once::new();
    LIMITS.get_or_init(|| {
        let env = &settings().environment;
        TeamsIcvs {
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
