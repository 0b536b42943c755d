//! The API: connections and messages, on one asynchronous thread of its own.
//!
//! # Protocol
//! 1. The thread accepts connections, asks the kernel for the process of each, receives packets and
//!    reads them. Each message goes to the scheduler over one bounded queue; then the scheduler's
//!    bell rings.
//! 2. The scheduler takes calls in its next pass and puts answers into the client's mailbox; the
//!    thread sends them.
//! 3. A client whose mailbox the scheduler drops is disconnected when what was in it is sent. A
//!    client that hangs up is reported as closed; the scheduler drops its mailbox then, or keeps
//!    the process in mind (`announce`).
//!
//! # Invariants
//! - I1 The scheduler never waits for this thread: [`Mailbox::put`] says that there is no room,
//!   [`Api::take`] that nothing is there. This thread waits for the scheduler, and for slow
//!   clients, one task for each.
//! - I2 Bounded: what a user costs in a second (`costs`), calls that wait for the scheduler
//!   ([`CALLS`]), answers that wait for a client ([`MAILBOX`]), messages per second of a client,
//!   connections that are neither programs nor announced nor queued, of all users and of one, and
//!   those that wait at the door, silently or not (`door`); the scheduler bounds the others.
//! - I3 One message of a client is under way: the next one is read when its answer is sent. A
//!   client that does not read answers makes no other client wait, and is let go when its queue
//!   stays full (`client::UNREAD`).
//! - I4 The identity of a client comes from the kernel, never from the client.
//! - I5 No descriptor of a client is ever this process's: none is received, hence none is closed,
//!   which could wait for its sender for ever (a file of a FUSE file system). Where the kernel can
//!   (Linux 6.16) it refuses them at the sender.
//! - I6 The manager's end waits for this thread for a bounded time ([`END`]).

use std::convert::Infallible;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::Duration;

use arena::manager::ProgramDescriptors;
use arena::message::{FromManager, ToManager};
use platform::event::Doorbell;
use platform::process::Peer;
use platform::{SysError, SysResult, fdpass};
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};

mod client;
mod costs;
mod door;
mod silent;
mod throttle;

pub(crate) use door::MAX_WAITING;

/// Calls that wait for the scheduler.
pub(crate) const CALLS: usize = 256;
/// Answers that wait for one client: what it asked for, and a farewell or two.
const MAILBOX: usize = 4;
/// How long the manager's end waits for what is still to be sent.
const FAREWELL: Duration = Duration::from_millis(200);
/// How long the manager's end waits for this thread, which hangs otherwise: in a system call that
/// does not come back.
const END: Duration = Duration::from_secs(1);

/// A descriptor that is ours alone, for the runtime to wait for.
fn wait_for(fd: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: - an `OwnedFd` is open, and names the same file as long as it lives: no other code
    //           closes or replaces its number in this process, and only shared references to it are
    //           given out.
    unsafe { AsyncFd::register(fd) }.map_err(|error| error.into_parts().1)
}

/// What a client did.
#[derive(Debug)]
pub(crate) enum Call {
    /// It connected.
    Opened {
        /// Its identity.
        peer: Peer,
        /// Its process.
        pidfd: OwnedFd,
        /// Where answers go.
        mailbox: Mailbox,
        /// The group of administrators, where it is of that.
        of_admins: Option<u32>,
    },
    /// It said something.
    Said(ToManager),
    /// It hung up, or cannot be served.
    Closed,
}

/// What the scheduler says.
#[derive(Debug)]
pub(crate) enum Answer {
    /// One packet for each.
    Messages(Vec<FromManager>),
    /// The answer to a registration.
    Areas(Box<Areas>),
    /// The answer to a program that joins a domain.
    Domain {
        /// Its line.
        line: u32,
        /// The domain's area.
        area: Arc<OwnedFd>,
    },
}

/// What a program gets with the answer to its registration.
#[derive(Debug)]
pub(crate) struct Areas {
    /// Its number.
    pub(crate) slot: u64,
    /// Its two areas; closed when they are sent.
    pub(crate) areas: ProgramDescriptors,
    /// Its doorbell.
    pub(crate) doorbell: OwnedFd,
    /// The page of all programs.
    pub(crate) page: Arc<OwnedFd>,
}

impl Areas {
    /// In the order in which they travel.
    fn in_order(&self) -> [BorrowedFd<'_>; 4] {
        let [down, up] = self.areas.in_order();
        [down, up, self.doorbell.as_fd(), self.page.as_fd()]
    }
}

/// What may happen to an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Post {
    /// It is on its way, or the client is gone and does not need it.
    Done,
    /// The client does not read what it asks for.
    Full,
}

/// Where the scheduler puts answers to one client.
#[derive(Clone, Debug)]
pub(crate) struct Mailbox(mpsc::Sender<Answer>);

impl Mailbox {
    /// One that a model looks into.
    #[cfg(test)]
    pub(crate) fn with_receiver() -> (Self, mpsc::Receiver<Answer>) {
        let (sender, receiver) = mpsc::channel(MAILBOX);
        (Self(sender), receiver)
    }

    /// Never waits.
    pub(crate) fn put(&self, answer: Answer) -> Post {
        match self.0.try_send(answer) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Post::Done,
            Err(mpsc::error::TrySendError::Full(_)) => Post::Full,
        }
    }
}

/// Numbers of connections and of whatever else stands in the books: each is given once.
#[derive(Clone, Debug)]
pub(crate) struct Serials(Arc<AtomicU64>);

impl Serials {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(1)))
    }

    pub(crate) fn next(&self) -> u64 {
        // ORDERING: Relaxed - a number that no other client has, and nothing more.
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Which users may come in.
#[derive(Clone, Debug)]
pub(crate) struct Doorman {
    /// The manager's user.
    pub(crate) owner: u32,
    /// Every user, and not only that user and the superuser.
    pub(crate) public: bool,
    /// The group of administrators.
    pub(crate) admins: Admins,
}

/// The group of administrators, which the scheduler may change and the API thread reads.
#[derive(Clone, Debug)]
pub(crate) struct Admins(Arc<AtomicU32>);

impl Admins {
    /// What stands for none: a number that no group has.
    const NONE: u32 = u32::MAX;

    pub(crate) fn new(group: Option<u32>) -> Self {
        Self(Arc::new(AtomicU32::new(group.unwrap_or(Self::NONE))))
    }

    pub(crate) fn set(&self, group: Option<u32>) {
        // ORDERING: Relaxed - the number says all. What the API thread found out by an older one
        // comes with that, and does not count any more.
        self.0.store(group.unwrap_or(Self::NONE), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Option<u32> {
        // ORDERING: Relaxed - as `set`.
        Some(self.0.load(Ordering::Relaxed)).filter(|group| *group != Self::NONE)
    }
}

/// The clients' side of the queue of calls.
#[derive(Clone, Debug)]
struct Line {
    calls: mpsc::Sender<(u64, Call)>,
    bell: Arc<Doorbell>,
}

impl Line {
    /// Waits for room. False: the scheduler is gone.
    async fn call(&self, serial: u64, call: Call) -> bool {
        if self.calls.send((serial, call)).await.is_err() {
            return false;
        }
        if let Err(error) = self.bell.ring() {
            // The scheduler finds the call when something else wakes it.
            tracing::error!(%error, "the scheduler cannot be rung for");
        }
        true
    }
}

/// The scheduler's end of the API thread.
#[derive(Debug)]
pub(crate) struct Api {
    calls: mpsc::Receiver<(u64, Call)>,
    bell: Arc<Doorbell>,
    /// None in a model.
    thread: Option<Thread>,
}

/// The thread, and what ends it.
#[derive(Debug)]
struct Thread {
    stop: oneshot::Sender<()>,
    /// Closed when the thread has ended, however it did.
    ended: std::sync::mpsc::Receiver<Infallible>,
    handle: JoinHandle<()>,
}

impl Thread {
    /// A thread that does `body`, which ends when what it is given says so.
    fn start(body: impl FnOnce(oneshot::Receiver<()>) + Send + 'static) -> std::io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (lives, ended) = std::sync::mpsc::channel();
        let handle = std::thread::Builder::new().name("cpumgr-api".into()).spawn(move || {
            let _lives = lives;
            body(stopped);
        })?;
        Ok(Self { stop, ended, handle })
    }

    /// Ends it, or gives it up after `patience`: then it ends with the process. False: it hangs.
    fn finish(self, patience: Duration) -> bool {
        // An error means that the thread has ended by itself.
        let _stopped: Result<(), ()> = self.stop.send(());
        if self.ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            tracing::error!("the API thread hangs: the manager ends without it");
            return false;
        }
        if self.handle.join().is_err() {
            tracing::error!("the API thread panicked");
        }
        true
    }
}

impl Api {
    /// Starts the thread; `listener` is its own from now on.
    ///
    /// # Errors
    /// When descriptors or threads are used up.
    pub(crate) fn start(listener: OwnedFd, doorman: Doorman, serials: Serials) -> SysResult<Self> {
        fdpass::set_nonblocking(&listener)?;
        match fdpass::refuse_descriptors(&listener) {
            Ok(refuses) => {
                tracing::debug!(refuses, "descriptors that clients send, refused at the sender")
            }
            // None is received in any case.
            Err(error) => {
                tracing::debug!(%error, "descriptors that clients send come as far as this manager")
            }
        }
        let bell = Arc::new(Doorbell::new()?);
        let (sender, calls) = mpsc::channel(CALLS);
        let line = Line { calls: sender, bell: Arc::clone(&bell) };
        let failed = |call| {
            move |error: std::io::Error| SysError::new(call, error.raw_os_error().unwrap_or(0))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed("epoll_create1"))?;
        let body = move |stopped| door::run(&runtime, listener, doorman, serials, line, stopped);
        let thread = Thread::start(body).map_err(failed("clone"))?;
        Ok(Self { calls, bell, thread: Some(thread) })
    }

    /// An API whose clients a model plays: what they do they put into the queue, which holds
    /// `calls`.
    #[cfg(test)]
    pub(crate) fn without_thread(calls: usize) -> SysResult<(Self, mpsc::Sender<(u64, Call)>)> {
        let (sender, calls) = mpsc::channel(calls);
        Ok((Self { calls, bell: Arc::new(Doorbell::new()?), thread: None }, sender))
    }

    /// What to wait for.
    pub(crate) fn bell(&self) -> impl AsFd + '_ {
        self.bell.as_fd()
    }

    /// To be called before calls are taken: a ring that comes later is heard.
    pub(crate) fn clear_bell(&self) -> SysResult<()> {
        self.bell.clear().map(drop)
    }

    /// The next call, if there is one.
    pub(crate) fn take(&mut self) -> Option<(u64, Call)> {
        self.calls.try_recv().ok()
    }

    /// For another thread that has something for the scheduler.
    pub(crate) fn bell_of_others(&self) -> Arc<Doorbell> {
        Arc::clone(&self.bell)
    }

    /// More calls are there than one pass takes.
    pub(crate) fn ring(&self) -> SysResult<()> {
        self.bell.ring()
    }

    /// Ends the thread, when the mailboxes are dropped: what was put into them is sent first, as
    /// far as that is quick.
    pub(crate) fn finish(self) {
        drop(self.calls);
        if let Some(thread) = self.thread {
            thread.finish(END);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_hangs_is_given_up_and_others_are_waited_for() {
        let (hangs, never) = std::sync::mpsc::channel::<Infallible>();
        let stuck = Thread::start(move |_| assert!(never.recv().is_err())).unwrap();
        assert!(!stuck.finish(Duration::from_millis(20)));
        drop(hangs);
        let obeys = Thread::start(|stopped| assert_eq!(stopped.blocking_recv(), Ok(()))).unwrap();
        assert!(obeys.finish(Duration::MAX));
        let fails = Thread::start(|_| panic!("a defect of the test")).unwrap();
        assert!(fails.finish(Duration::MAX), "it has ended");
    }
}
