//! The thread that notices the manager's death or silence.
//!
//! Death is the end of the socket: the kernel closes it when the manager ends, however it ends. Silence is counted in
//! looks of this thread and not in time, so that a program (or a machine) that was stopped itself, and finds an old
//! heartbeat when it goes on, does not take a healthy manager for a hung one.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use platform::sync::atomic::{AtomicU32, Ordering};
use platform::{fdpass, process};

use super::kept::Descriptors;
use crate::area::Area;
use crate::layout::Down;
use crate::message::MAX_MESSAGE;

/// The manager is silent when its heartbeat stands still for this many looks.
const SILENT_LOOKS: u32 = 3;
/// The shortest silence that counts.
const MIN_SILENCE: Duration = Duration::from_secs(1);
/// The quanta that count as silence when they are longer than that.
const SILENT_QUANTA: u32 = 10;
/// Enough for a thread that polls and receives; the guard page and the thread-locals come on top.
const STACK: usize = 64 * 1024;

const ALIVE: u32 = 0;
const SILENT: u32 = 1;
const GONE: u32 = 2;

/// What is known of the manager: by the watcher, and by whoever finds that the registration is lost.
#[derive(Debug)]
pub(super) struct Life(AtomicU32);

impl Life {
    #[inline]
    pub(super) fn is_alive(&self) -> bool {
        // ORDERING: Relaxed - a fact on its own; whoever acts on it reads nothing that the manager wrote before.
        self.0.load(Ordering::Relaxed) == ALIVE
    }

    pub(super) fn is_gone(&self) -> bool {
        // ORDERING: Relaxed - see `is_alive`.
        self.0.load(Ordering::Relaxed) == GONE
    }

    /// For ever.
    pub(super) fn end(&self) {
        // ORDERING: Relaxed - see `is_alive`.
        self.0.store(GONE, Ordering::Relaxed);
    }

    /// What a look says; an end that came meanwhile stays.
    fn set(&self, state: u32) {
        // ORDERING: Relaxed - see `is_alive`.
        let before = self.0.load(Ordering::Relaxed);
        if before != GONE && before != state {
            // ORDERING: Relaxed - see `is_alive`. It fails only when `end` was faster: the watcher alone calls `set`.
            let _set = self.0.compare_exchange(before, state, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// Starts the watcher, with every signal blocked: the program's signals are for the program's threads.
pub(super) fn start(descriptors: Arc<Descriptors>, down: Area<Down>) -> io::Result<(Arc<Life>, JoinHandle<()>)> {
    let life = Arc::new(Life(AtomicU32::new(ALIVE)));
    let seen_by_watcher = Arc::clone(&life);
    let mut before = SigSet::empty();
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut before))?;
    let started = thread::Builder::new()
        .name("nanos-watch".into())
        .stack_size(STACK)
        .spawn(move || watch(&descriptors, &down, &seen_by_watcher));
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
    Ok((life, started?))
}

fn watch(descriptors: &Descriptors, down: &Area<Down>, life: &Life) {
    let mut packet = vec![0; MAX_MESSAGE];
    let mut beat = down.manager.heartbeat_ns();
    let mut still = 0;
    loop {
        // A program that closes all its descriptors loses the connection. What it opens then may have the socket's
        // number: waiting for that does it no harm, receiving from it would.
        let waited = process::wait_readable(&[descriptors.unchecked_socket()], Some(look_every(down)));
        let (Ok(ready), Some(socket), false) = (waited, descriptors.socket(), life.is_gone()) else {
            life.end();
            return;
        };
        if !ready.is_empty() {
            match fdpass::recv(socket, &mut packet, Some(Duration::ZERO)) {
                // Nothing that a manager of this version says to a registered program needs an answer.
                Ok((length, _)) if length > 0 => continue,
                Err(error) if error.is(nix::errno::Errno::ETIMEDOUT as i32) => {}
                Ok(_) | Err(_) => {
                    life.end();
                    return;
                }
            }
        }
        let now = down.manager.heartbeat_ns();
        still = if now == beat { (still + 1).min(SILENT_LOOKS) } else { 0 };
        beat = now;
        life.set(if still >= SILENT_LOOKS { SILENT } else { ALIVE });
    }
}

/// The time between two looks: the silence that counts, divided by the looks that it takes, and a part of that more
/// for some processes than for others, so that not all of them leave in one moment.
fn look_every(down: &Area<Down>) -> Duration {
    let quanta = Duration::from_nanos(down.manager.quantum_ns()).saturating_mul(SILENT_QUANTA);
    let look = quanta.clamp(MIN_SILENCE, Duration::from_secs(3600)) / SILENT_LOOKS;
    look + look / 64 * (std::process::id() % 16)
}
