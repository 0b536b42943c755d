//! Finding the next manager after one is gone, or the first one that did not answer in time, and
//! being taken in with what is held.
//!
//! # Protocol
//! 1. Register with `held`: the epoch and the processors of the last grant; wait for the answer on
//!    that one connection, however long it takes (`asked`). The manager makes new areas, whose
//!    grants go on from that epoch. A program that was never taken in holds nothing.
//! 2. Under the lock of the tie, write into the new `up` what stands in the old one: virtual
//!    processors, the lowest request. Releases are not repeated: the grant is a new one.
//! 3. Put the new areas in the place of the old ones (`Area::replace`): readers and writers keep
//!    their pointers.
//! 4. Write the number that is wanted now, until it is the one that is wanted now; ring if it is
//!    not the one of step 1.
//!
//! # Races
//! A request while areas are exchanged: A (a thread) notes 3 as wanted, and swaps it into the old
//! area, which is gone a moment later. B (the watcher) exchanged the areas after that (A's store
//! went to the old one), so it reads 3 in step 4. Or A swaps 3 into the new area, and B, which read
//! 2 before, swaps 2 in: the swap returns A's 3, and with it (AcqRel, `request.ask`) the note of A;
//! B looks at the note again and writes 3.

use std::thread;
use std::time::{Duration, Instant};

use super::asked::Asked;
use super::error::ConnectError;
use super::hello::Hello;
use super::registration::Registration;
use super::tie::Tie;
use crate::hook::{self, Step};
use crate::layout::{Verdict, VpState};
use crate::message::{Held, RefusedCode};

/// Between two attempts at least, and while no manager is there at most.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_secs(2);
/// While no manager is there, a pause is this part of the time that passed without one: a program
/// adds no more to the time that the next manager takes to come. An attempt is one system call that
/// fails.
const PART: u32 = 8;
/// At most while a manager is there that has no room: each attempt costs it, and a program whose
/// user owes comes in no sooner for it. Twice as long each time.
const LAST_PAUSE_WHILE_FULL: Duration = Duration::from_secs(30);
/// How long a connection may take to find room in the listener's queue.
const CONNECTING: Duration = Duration::from_secs(1);
/// How often a wait for an answer looks whether another socket stands at the path. Only a listener
/// that a hung process keeps is passed by in that way: the end of any other one ends the wait.
const LOOK: Duration = Duration::from_secs(10);

/// Tries until a manager takes the program in (true), or the client ends (false).
pub(super) fn until_taken_in(tie: &Tie) -> bool {
    let lost = Instant::now();
    let mut pause = FIRST_PAUSE;
    while !tie.life.is_gone() {
        // Not all programs of a dead manager in one moment.
        let jitter = pause / 16 * (std::process::id() % 16);
        thread::park_timeout(pause + jitter);
        if tie.life.is_gone() {
            break;
        }
        let wanted = tie.wanted();
        let hello = Hello { request: wanted, ..tie.hello.clone() };
        // Nothing is held from no manager.
        let held = (tie.registrations() > 0).then(|| held(tie));
        match registration(tie, &hello, held) {
            Ok(Some(registration)) => return take(tie, registration, wanted),
            // The client ended.
            Ok(None) => {}
            Err(ConnectError::Refused { refused, .. })
                if matches!(refused.code, RefusedCode::Version | RefusedCode::NotYours) =>
            {
                // Another version or another user's: neither changes.
                tie.life.end();
            }
            // No room, no manager there yet, or one that ends just now.
            Err(error) => pause = next_pause(&error, pause, lost.elapsed()),
        }
    }
    false
}

/// Step 1. `None`: the client ended.
fn registration(
    tie: &Tie,
    hello: &Hello,
    held: Option<Held>,
) -> Result<Option<Registration>, ConnectError> {
    let asked = Asked::ask(&tie.path, hello, held, CONNECTING)?;
    tie.wait_at(Some(asked.socket()));
    let answered = asked.until_answered(LOOK, || !tie.life.is_gone());
    tie.wait_at(None);
    if answered? { asked.registration().map(Some) } else { Ok(None) }
}

/// The pause after such a failure, `without` a manager for so long.
fn next_pause(error: &ConnectError, pause: Duration, without: Duration) -> Duration {
    let is_full = matches!(
        error,
        ConnectError::Refused { refused, .. } if refused.code == RefusedCode::Full
    );
    if is_full {
        (pause * 2).min(LAST_PAUSE_WHILE_FULL)
    } else {
        (without / PART).clamp(FIRST_PAUSE, LAST_PAUSE)
    }
}

/// What the program holds, in the order of its virtual processors.
fn held(tie: &Tie) -> Held {
    let (grant, cpus) = tie.down.grant.read_with_cpus();
    let placed = tie.down.vps.iter().map(|word| word.get());
    let mut list: Vec<u32> = placed
        .take_while(|(cpu, verdict)| cpu.is_some() && *verdict == Verdict::Run)
        .filter_map(|(cpu, _)| cpu.filter(|cpu| cpus.contains(*cpu)).map(|cpu| cpu.0))
        .collect();
    if list.len() != cpus.len() {
        list = cpus.iter().map(|cpu| cpu.0).collect();
    }
    Held { epoch: grant.epoch, cpus: list }
}

/// Steps 2 to 4.
fn take(tie: &Tie, new: Registration, stated: u32) -> bool {
    hook::at(Step::AnsweredAgain);
    let mut link = tie.link();
    if tie.life.is_gone() {
        return false;
    }
    for (old, vp) in tie.up.vps.iter().zip(&new.up.vps) {
        vp.set_tid(old.tid());
        if old.state() != VpState::Unknown {
            vp.set_state(old.state());
        }
    }
    new.up.request.set_lowest(tie.up.request.read().lowest);
    let replaced = tie.global.replace(new.global).and_then(|()| {
        hook::at(Step::HalfReplaced);
        tie.up.replace(new.up)
    });
    if replaced.and_then(|()| tie.down.replace(new.down)).is_err() {
        // No memory for three mappings: the areas are zeroes, a grant of one processor; the program
        // runs on unmanaged.
        tie.life.end();
        return false;
    }
    hook::at(Step::Replaced);
    loop {
        let wanted = tie.wanted();
        tie.up.request.ask(wanted);
        if tie.wanted() == wanted {
            break;
        }
    }
    *link = std::sync::Arc::new(new.descriptors);
    drop(link);
    tie.registered_again(new.slot);
    tie.life.revive();
    if tie.wanted() != stated || tie.up.request.read().lowest > 1 {
        tie.ring();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Refused;

    #[test]
    fn the_pause_follows_the_time_without_a_manager_and_grows_while_one_has_no_room() {
        let path = std::path::PathBuf::from("/m");
        let refused = |code| ConnectError::Refused {
            path: path.clone(),
            refused: Refused { code, reason: String::new() },
        };
        let source = platform::SysError::new("connect", libc::ECONNREFUSED);
        let absent = ConnectError::Unreachable { path: path.clone(), source };
        let (second, long) = (Duration::from_secs(1), Duration::from_secs(3600));
        let full = refused(RefusedCode::Full);
        assert_eq!(next_pause(&full, FIRST_PAUSE, second), 2 * FIRST_PAUSE);
        assert_eq!(next_pause(&full, 29 * second, long), LAST_PAUSE_WHILE_FULL);
        for failure in [&absent, &refused(RefusedCode::System)] {
            let after = |without| next_pause(failure, LAST_PAUSE_WHILE_FULL, without);
            assert_eq!([Duration::ZERO, second / 10].map(after), [FIRST_PAUSE; 2]);
            assert_eq!(after(2 * second), second / 4);
            assert_eq!(after(long), LAST_PAUSE);
        }
    }
}
