//! The thread that notices the manager's death or silence, and finds the next one.
//!
//! Death is the end of the socket: the kernel closes it when the manager ends, however it ends. Silence is counted in
//! looks of this thread and not in time, so that a program (or a machine) that was stopped itself, and finds an old
//! heartbeat when it goes on, does not take a healthy manager for a hung one. Nor does a look count at which the manager
//! was waiting for a processor ([`starved`](super::starved)).

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use platform::{fdpass, process};

use super::kept::Descriptors;
use super::reconnect;
use super::starved::Starvation;
use super::tie::Tie;
use crate::global::Global;
use crate::message::{self, FromManager, MAX_MESSAGE};

/// The manager is silent when its heartbeat stands still for this many looks.
const SILENT_LOOKS: u32 = 3;
/// The shortest silence that counts.
const MIN_SILENCE: Duration = Duration::from_secs(1);
/// The quanta that count as silence when they are longer than that.
const SILENT_QUANTA: u32 = 10;
/// Enough for a thread that polls, receives, and reads a message; the guard page and the thread-locals come on top.
const STACK: usize = 128 * 1024;

/// How following a manager ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The manager is gone; there may be another one.
    Lost,
    /// The program has no use for another one, or cannot speak any more.
    Over,
}

/// Starts the watcher, with every signal blocked: the program's signals are for the program's threads.
pub(super) fn start(tie: Arc<Tie>) -> io::Result<JoinHandle<()>> {
    let mut before = SigSet::empty();
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut before))?;
    let started = thread::Builder::new().name("nanos-watch".into()).stack_size(STACK).spawn(move || watch(&tie));
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
    started
}

fn watch(tie: &Tie) {
    loop {
        let ended = follow(&tie.descriptors(), tie);
        if ended == Ended::Over {
            tie.life.end();
        } else {
            tie.life.lose();
        }
        // After the state: whoever is woken and finds the manager alive would sleep again.
        tie.go_on_alone();
        if ended == Ended::Over || !reconnect::until_taken_in(tie) {
            return;
        }
        if let Some(call) = tie.on_return.get() {
            call();
        }
    }
}

/// Watches one manager.
fn follow(descriptors: &Descriptors, tie: &Tie) -> Ended {
    let mut packet = vec![0; MAX_MESSAGE];
    let mut beat = tie.global.life.heartbeat_ns();
    let mut still = 0;
    let mut starvation = Starvation::of(descriptors.socket());
    loop {
        // A program that closes all its descriptors loses the connection. What it opens then may have the socket's
        // number: waiting for that does it no harm, receiving from it would.
        let waited = process::wait_readable(&[descriptors.unchecked_socket()], Some(look_every(&tie.global)));
        let (Ok(ready), Some(socket), false) = (waited, descriptors.socket(), tie.life.is_gone()) else {
            return Ended::Over;
        };
        if !ready.is_empty() {
            match fdpass::recv(socket, &mut packet, Some(Duration::ZERO)) {
                Ok((length, _)) if length > 0 => match message::decode(&packet[..length]) {
                    Ok(FromManager::Replaced | FromManager::Refused(_)) => return Ended::Over,
                    // Nothing else that a manager says to a registered program needs an answer.
                    Ok(_) | Err(_) => continue,
                },
                Err(error) if error.is(nix::errno::Errno::ETIMEDOUT as i32) => {}
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
        } else if tie.life.is_alive() {
            tie.life.miss();
            tie.go_on_alone();
        }
    }
}

/// The time between two looks: the silence that counts, divided by the looks that it takes, and a part of that more
/// for some processes than for others, so that not all of them leave in one moment.
fn look_every(global: &Global) -> Duration {
    let quanta = Duration::from_nanos(global.life.quantum_ns()).saturating_mul(SILENT_QUANTA);
    let look = quanta.clamp(MIN_SILENCE, Duration::from_secs(3600)) / SILENT_LOOKS;
    look + look / 64 * (std::process::id() % 16)
}
