//! The door: who connects, and whether there is room.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use platform::process::{self, PeerProcess};
use platform::{SysResult, fdpass};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep, timeout};

use super::client::Client;
use super::{Call, Doorman, FAREWELL, Line, MAILBOX, Mailbox, Serials, wait_for};

/// Connections that are neither programs, nor announced, nor queued.
const MAX_OTHERS: usize = 64;
/// How long a connection may be silent before it makes room for others.
const SILENT: Duration = Duration::from_secs(1);
/// How long newcomers wait when there is no room.
const ROOM_PAUSE: Duration = Duration::from_millis(2);
/// How long no connections are taken when descriptors are used up.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A connection that has not become anything yet.
#[derive(Debug)]
struct Other {
    since: Instant,
    /// Tells it to leave.
    leave: Rc<Notify>,
}

/// All of them, by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Others(Rc<RefCell<BTreeMap<u64, Other>>>);

impl Others {
    fn enter(&self, serial: u64) -> Rc<Notify> {
        let leave = Rc::new(Notify::new());
        self.0.borrow_mut().insert(serial, Other { since: Instant::now(), leave: Rc::clone(&leave) });
        leave
    }

    /// It became a program, announced itself, waits in the queue, or is gone.
    pub(super) fn leave(&self, serial: u64) {
        self.0.borrow_mut().remove(&serial);
    }

    /// Whether one more may come. When too many are here the oldest makes room if it had time enough to say what it
    /// wants: nobody keeps others out by connecting only. Without one the newcomer waits in the listener's queue, which
    /// a crowd of programs that start together needs.
    fn has_room(&self) -> bool {
        let mut others = self.0.borrow_mut();
        if others.len() < MAX_OTHERS {
            return true;
        }
        // Numbers are given in order, so the first is the oldest.
        let oldest = others.iter().next().map(|(serial, other)| (*serial, other.since.elapsed()));
        match oldest {
            Some((serial, age)) if age >= SILENT => {
                if let Some(other) = others.remove(&serial) {
                    other.leave.notify_one();
                }
                true
            }
            _ => false,
        }
    }
}

/// The thread's life.
pub(super) fn run(
    runtime: &Runtime,
    listener: OwnedFd,
    doorman: Doorman,
    serials: Serials,
    line: Line,
    stopped: oneshot::Receiver<()>,
) {
    let local = LocalSet::new();
    let mut clients = JoinSet::new();
    local.block_on(runtime, async {
        tokio::select! {
            outcome = serve(listener, doorman, serials, line, &mut clients) => {
                if let Err(error) = outcome {
                    tracing::error!(%error, "nobody can connect any more");
                }
            }
            // An error means that the scheduler is gone.
            _ = stopped => {}
        }
        // The listener is closed. Mailboxes are dropped by now; each client ends when its last answer is sent.
        let rest = async { while clients.join_next().await.is_some() {} };
        if timeout(FAREWELL, rest).await.is_err() {
            tracing::debug!("some clients did not hear the farewell");
        }
    });
}

async fn serve(
    listener: OwnedFd,
    doorman: Doorman,
    serials: Serials,
    line: Line,
    clients: &mut JoinSet<()>,
) -> std::io::Result<()> {
    let listener = wait_for(listener)?;
    let others = Others::default();
    loop {
        tokio::select! {
            ready = listener.readable() => {
                let mut ready = ready?;
                if !others.has_room() {
                    sleep(ROOM_PAUSE).await;
                    continue;
                }
                match fdpass::accept(&listener) {
                    Ok(socket) => match open(socket, doorman, serials.next(), &line, &others).await {
                        Ok(client) => drop(clients.spawn_local(client.serve())),
                        Err(error) => tracing::debug!(%error, "a connection was not taken"),
                    },
                    Err(error) if error.is(nix::errno::Errno::EAGAIN as i32) => ready.clear_ready(),
                    Err(error) if error.is(nix::errno::Errno::ECONNABORTED as i32) => {}
                    Err(error) => {
                        // Descriptors or memory are used up: the connection stays in the queue, and asking again at
                        // once would be a busy loop.
                        tracing::warn!(%error, "no connections are taken for a moment");
                        sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
            // Those who have ended leave the set.
            Some(_) = clients.join_next() => {}
        }
    }
}

/// Finds out who that is, and tells the scheduler.
async fn open(socket: OwnedFd, doorman: Doorman, serial: u64, line: &Line, others: &Others) -> SysResult<Client> {
    fdpass::set_nonblocking(&socket)?;
    // ESRCH: it connected and died.
    let PeerProcess { peer, pidfd, .. } = process::peer(&socket)?;
    let (sender, mailbox) = mpsc::channel(MAILBOX);
    let welcome = doorman.public || peer.uid == doorman.owner || peer.uid == 0;
    let refusal = (!welcome).then(|| format!("this manager belongs to user {}", doorman.owner));
    let client = Client::new(serial, socket, mailbox, line.clone(), others, others.enter(serial), refusal)?;
    line.call(serial, Call::Opened { peer, pidfd, mailbox: Mailbox(sender) }).await;
    Ok(client)
}
