//! The thread that notices the manager's death or silence, and finds the next one.
//!
//! Death is the end of the socket: the kernel closes it when the manager ends, however it ends.
//! Silence is counted in looks of this thread and not in time, so that a program (or a machine)
//! that was stopped itself, and finds an old heartbeat when it goes on, does not take a healthy
//! manager for a hung one. Nor does a look count at which the manager was waiting for a processor
//! ([`starved`](super::starved)).

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use platform::signals::Blocked;
use platform::{fdpass, process};

use super::kept::Descriptors;
use super::reconnect;
use super::starved::Starvation;
use super::tie::Tie;
use crate::global::Global;
use crate::message::{Heard, MAX_MESSAGE};

/// The manager is silent when its heartbeat stands still for this many looks.
const SILENT_LOOKS: u32 = 3;
/// The shortest silence that counts.
const MIN_SILENCE: Duration = Duration::from_secs(1);
/// The quanta that count as silence when they are longer than that.
const SILENT_QUANTA: u32 = 10;
/// How often a program that was not let in everywhere in time tries that again with one manager.
const RETURNS: u32 = 6;
/// Enough for a thread that polls, receives, and reads a message; the guard page and the
/// thread-locals come on top.
const STACK: usize = 128 * 1024;

/// How following a manager ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The manager is gone; there may be another one.
    Lost,
    /// The program has no use for another one, or cannot speak any more.
    Over,
}

/// Starts the watcher, with every signal blocked: the program's signals are for the program's
/// threads.
pub(super) fn start(tie: Arc<Tie>) -> io::Result<JoinHandle<()>> {
    let _blocked = Blocked::begin()?;
    thread::Builder::new().name("nanos-watch".into()).stack_size(STACK).spawn(move || watch(&tie))
}

fn watch(tie: &Tie) {
    // One that no manager has answered yet has none to follow.
    let mut before = (tie.registrations() == 0).then_some(Ended::Lost);
    loop {
        let ended = before.take().unwrap_or_else(|| follow(&tie.descriptors(), tie));
        if ended == Ended::Over {
            tie.life.end();
        } else {
            tie.life.lose();
        }
        // After the state: a thread that is woken and finds the manager alive would sleep again.
        tie.go_on_alone();
        if ended == Ended::Over || !reconnect::until_taken_in(tie) {
            return;
        }
        return_to(tie);
    }
}

/// Tells the program that there is a manager for it.
fn return_to(tie: &Tie) {
    tie.set_again(false);
    if let Some(call) = tie.on_return.get() {
        call();
    }
}

/// Which looks at one manager are followed by another call of `on_return`, when the program wants
/// one.
#[derive(Debug)]
struct Returns {
    left: u32,
    pause: u32,
    wait: u32,
}

impl Returns {
    fn new() -> Self {
        // A caller that asks for the first one has the time of a look to get ready for it.
        Self { left: RETURNS, pause: 2, wait: 2 }
    }

    fn is_due(&mut self, wanted: bool) -> bool {
        if !wanted || self.left == 0 {
            return false;
        }
        self.wait -= 1;
        if self.wait > 0 {
            return false;
        }
        self.left -= 1;
        self.pause *= 2;
        self.wait = self.pause;
        true
    }
}

/// Watches one manager.
fn follow(descriptors: &Descriptors, tie: &Tie) -> Ended {
    let mut packet = vec![0; MAX_MESSAGE];
    let mut beat = tie.global.life.heartbeat_ns();
    let mut still = 0;
    let mut starvation = Starvation::of(descriptors.socket().ours());
    let mut returns = Returns::new();
    loop {
        // A program that closes all its descriptors loses the connection. What it opens then may
        // have the socket's number: waiting for that does it no harm, receiving from it would.
        let waited = process::wait_readable(
            &[descriptors.socket().unchecked()],
            Some(look_every(&tie.global)),
        );
        let (Ok(ready), Some(socket), false) =
            (waited, descriptors.socket().ours(), tie.life.is_gone())
        else {
            return Ended::Over;
        };
        if !ready.is_empty() {
            match fdpass::recv(socket, &mut packet, Some(Duration::ZERO)) {
                Ok((length, _)) if length > 0 => match Heard::decode(&packet[..length]) {
                    Ok(Heard::Replaced | Heard::Refused(_)) => return Ended::Over,
                    // Nothing else that a manager says to a registered program needs an answer.
                    Ok(_) | Err(_) => continue,
                },
                Err(error) if error.is(libc::ETIMEDOUT) => {}
                Ok(_) | Err(_) => return Ended::Lost,
            }
        }
        let now = tie.global.life.heartbeat_ns();
        if now != beat {
            still = 0;
            starvation.is_well();
        } else if !starvation.is_starved() {
            still = (still + 1).min(SILENT_LOOKS);
        }
        beat = now;
        if still < SILENT_LOOKS {
            tie.life.revive();
            if returns.is_due(tie.wants_again()) {
                return_to(tie);
            }
        } else if tie.life.is_alive() {
            tie.life.miss();
            tie.go_on_alone();
        }
    }
}

/// The time between two looks: the silence that counts, divided by the looks that it takes, and a
/// part of that more for some processes than for others, so that not all of them leave in one
/// moment.
fn look_every(global: &Global) -> Duration {
    let quanta = Duration::from_nanos(global.life.quantum_ns()).saturating_mul(SILENT_QUANTA);
    let look = quanta.clamp(MIN_SILENCE, Duration::from_secs(3600)) / SILENT_LOOKS;
    look + look / 64 * (std::process::id() % 16)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn another_return_is_made_when_it_is_wanted_later_each_time_and_not_for_ever() {
        let mut returns = Returns::new();
        assert!((0..100).all(|_| !returns.is_due(false)), "no program wants one");
        let due: Vec<u32> = (1..1000).filter(|_| returns.is_due(true)).collect();
        assert_eq!(due, [2, 6, 14, 30, 62, 126]);
    }
}
