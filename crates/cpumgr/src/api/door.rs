//! The door: connections that come in, and the room for them.
//!
//! # Protocol
//! 1. Each connection is taken out of the listener's queue, which is one for all users. Until it
//!    says something it waits apart (`silent`), where newer ones of its user take its place.
//! 2. One that has said something, or hung up, waits at the door in a line of its user.
//! 3. One of each line after the other comes in, as far as there is room, room for one more of that
//!    user, and that user owes nothing (`costs`). A client that came while its user owed, and hung
//!    up meanwhile, is let go and costs nothing.
//! 4. Where no other connection may wait, the longest line loses the one that came last: only that
//!    line's user is affected.
//!
//! # Invariants
//! - O1 A user that connects as often as it can delays its own programs (D10): lines are served in
//!   turn, and no user has more than a share of the room where every user may come. Others wait for
//!   the listener's queue alone, which is short meanwhile (`throttle`).
//! - O2 Connections that say nothing delay no client that does.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use nix::errno::Errno;
use platform::fdpass::{self, Backlog};
use platform::process::{self, PeerProcess};
use platform::{SysError, SysResult};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::client::Client;
use super::costs::{self, Costs};
use super::silent::{MAX_SILENT, Silent};
use super::throttle::{Queue, Throttle};
use super::{Call, Doorman, FAREWELL, Line, MAILBOX, Mailbox, Serials, wait_for};
use crate::surprises::{Surprise, Surprises};

/// Connections that are neither programs, nor announced, nor queued.
const MAX_OTHERS: usize = 64;
/// Those of one user, where every user may come.
const SHARE: usize = MAX_OTHERS / 4;
/// Connections in lines.
const MAX_IN_LINES: usize = 512;
/// Connections that wait at the door, in lines or silently.
pub(crate) const MAX_WAITING: usize = MAX_IN_LINES + MAX_SILENT;
/// How long a connection may be silent before it makes room for others.
const SILENT: Duration = Duration::from_secs(1);
/// How long newcomers wait when there is no room.
const ROOM_PAUSE: Duration = Duration::from_millis(2);
/// The longest wait for a user that owes to have paid.
const DEBT_PAUSE: Duration = Duration::from_millis(20);
/// Connections that are taken at once.
const BATCH: usize = 8;
/// How long no connections are taken when descriptors are used up.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A connection that has not become anything yet.
#[derive(Debug)]
struct Other {
    since: Instant,
    uid: u32,
    /// Tells it to leave.
    leave: Rc<Notify>,
}

/// All of them, by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Others(Rc<RefCell<BTreeMap<u64, Other>>>);

impl Others {
    fn enter(&self, serial: u64, uid: u32) -> Rc<Notify> {
        let leave = Rc::new(Notify::new());
        let other = Other { since: Instant::now(), uid, leave: Rc::clone(&leave) };
        self.0.borrow_mut().insert(serial, other);
        leave
    }

    /// It became a program, announced itself, waits in the queue, or is gone.
    pub(super) fn leave(&self, serial: u64) {
        self.0.borrow_mut().remove(&serial);
    }

    /// Whether one more of user `uid` may come, which may have `share` of them. When too many are
    /// here the oldest makes room if it had time enough to say what it wants: no user keeps others
    /// out by connecting only. Without one the newcomer waits in its line, which a crowd of
    /// programs that start together needs.
    fn has_room(&self, uid: u32, share: usize) -> bool {
        let mut others = self.0.borrow_mut();
        let of_user = others.values().filter(|other| other.uid == uid).count();
        if others.len() < MAX_OTHERS && of_user < share {
            return true;
        }
        // Numbers are given in order, so the first is the oldest.
        let mut who = others.iter().filter(|(_, other)| of_user < share || other.uid == uid);
        let oldest = who.next().map(|(serial, other)| (*serial, other.since.elapsed()));
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

/// What waits at the door and has said something, each user's connections in a line of its own.
#[derive(Debug)]
struct Lines<T> {
    /// No empty ones.
    lines: BTreeMap<u32, VecDeque<T>>,
    /// Whose turn it was last.
    last: u32,
}

impl<T> Lines<T> {
    fn new() -> Self {
        Self { lines: BTreeMap::new(), last: u32::MAX }
    }

    /// Users with a line.
    fn users(&self) -> impl Iterator<Item = u32> + '_ {
        self.lines.keys().copied()
    }

    fn len(&self) -> usize {
        self.lines.values().map(VecDeque::len).sum()
    }

    /// Steps 2 and 4. Returns the connection that has to go, if there is one.
    fn push(&mut self, uid: u32, one: T) -> Option<T> {
        self.lines.entry(uid).or_default().push_back(one);
        if self.len() <= MAX_IN_LINES {
            return None;
        }
        let longest = self.lines.values_mut().max_by_key(|line| line.len())?;
        longest.pop_back()
    }

    /// Step 3: the next one of the next user that has room.
    fn next(&mut self, has_room: impl Fn(u32) -> bool) -> Option<T> {
        let behind = self.lines.range(self.last.saturating_add(1)..).map(|(uid, _)| *uid);
        let before = self.lines.range(..=self.last).map(|(uid, _)| *uid);
        let uid = behind.chain(before).find(|uid| has_room(*uid))?;
        self.last = uid;
        let line = self.lines.get_mut(&uid)?;
        let one = line.pop_front();
        if line.is_empty() {
            self.lines.remove(&uid);
        }
        one
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
                    tracing::error!(%error, "no client can connect any more");
                }
            }
            // An error means that the scheduler is gone.
            _ = stopped => {}
        }
        // The listener is closed. Mailboxes are dropped by now; each client ends when its last
        // answer is sent.
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
    let costs = Costs::new(doorman.owner, costs::clock);
    let (mut lines, mut silent, mut throttle) =
        (Lines::new(), Silent::default(), Throttle::default());
    let mut surprises = Surprises::default();
    let share = if doorman.public { SHARE } else { MAX_OTHERS };
    let usual = if doorman.public { Backlog::Shared } else { Backlog::Own };
    loop {
        while let Some(one) = lines.next(|uid| may_come_in(uid, share, &costs, &others)) {
            match open(one, &doorman, serials.next(), &line, &others, &costs).await {
                Ok(client) => drop(clients.spawn_local(client.serve())),
                Err(error) => tracing::debug!(%error, "a connection was not taken"),
            }
        }
        let paused = throttle.paused_until(Instant::now());
        // Where all are one user's they wait in the listener's queue, and take no descriptors.
        let may_wait = (doorman.public || lines.len() == 0) && paused.is_none();
        let short = throttle.short_until();
        tokio::select! {
            ready = listener.readable(), if may_wait => {
                let mut ready = ready?;
                match take(&listener, &costs, &mut lines, &mut silent) {
                    Ok(Taken { taken, turned_away, are_all }) => {
                        surprises.is_over(Surprise::Accept, 0);
                        if are_all {
                            ready.clear_ready();
                        }
                        let (backlog, now) = (usual.connections().into(), Instant::now());
                        if throttle.took((taken, turned_away), backlog, now) == Some(Queue::Short) {
                            set_backlog(&listener, Backlog::Short);
                        }
                    }
                    // Those that say nothing make room.
                    Err(_) if silent.shed() => {}
                    Err(error) => {
                        // Descriptors or memory are used up: the connection stays in the queue, and
                        // asking again at once would be a busy loop.
                        if surprises.comes(Surprise::Accept, 0) {
                            tracing::warn!(
                                %error,
                                "no connections are taken as long as this fails"
                            );
                        }
                        throttle.pause(Instant::now() + ACCEPT_PAUSE);
                    }
                }
            }
            spoken = silent.next(), if !silent.is_empty() => if let Some((uid, socket)) = spoken {
                let owes = !costs.is_free(uid);
                // A connection that has to go for it is closed.
                drop(lines.push(uid, (socket, owes)));
            },
            () = sleep_until(paused.unwrap_or_else(Instant::now)), if paused.is_some() => {}
            () = sleep_until(short.unwrap_or_else(Instant::now)), if short.is_some() => {
                if throttle.look(Instant::now()) == Some(Queue::Usual) {
                    set_backlog(&listener, usual);
                }
            }
            () = sleep(until_next(&lines, &costs)), if lines.len() > 0 => {}
            // Clients that have ended leave the set.
            Some(_) = clients.join_next() => {}
        }
    }
}

/// How many connections may wait in the listener's queue.
fn set_backlog(listener: impl AsFd, backlog: Backlog) {
    if let Err(error) = fdpass::set_backlog(listener, backlog) {
        tracing::debug!(%error, ?backlog, "the listener's queue stays as long as it is");
    }
}

/// Step 3, for the next connection of user `uid`.
fn may_come_in(uid: u32, share: usize, costs: &Costs, others: &Others) -> bool {
    costs.is_free(uid) && others.has_room(uid, share)
}

/// What [`take`] found.
struct Taken {
    taken: usize,
    /// Connections of users that owe, and those for which another one had to go.
    turned_away: usize,
    /// There are no more.
    are_all: bool,
}

/// Steps 1, 2 and 4: at most [`BATCH`] connections. Each in a line has with it whether its user
/// owed.
///
/// # Errors
/// Of `accept4`, those of single connections apart.
fn take(
    listener: impl AsFd,
    costs: &Costs,
    lines: &mut Lines<(OwnedFd, bool)>,
    silent: &mut Silent,
) -> SysResult<Taken> {
    let mut turned_away = 0;
    for taken in 0..BATCH {
        let socket = match fdpass::accept(&listener) {
            Ok(socket) => socket,
            Err(error) if error.is(Errno::EAGAIN as i32) => {
                return Ok(Taken { taken, turned_away, are_all: true });
            }
            Err(error) if error.is(Errno::ECONNABORTED as i32) => continue,
            Err(error) => return Err(error),
        };
        let uid = match process::peer_credentials(&socket) {
            Ok(peer) => peer.uid,
            Err(error) => {
                tracing::debug!(%error, "a connection was not taken");
                continue;
            }
        };
        let owes = !costs.is_free(uid);
        // A connection that has to go for it is closed.
        let is_full = match process::wait_readable(&[socket.as_fd()], Some(Duration::ZERO)) {
            Ok(ready) if ready.is_empty() => silent.enter(uid, socket),
            _ => lines.push(uid, (socket, owes)).is_some(),
        };
        turned_away += usize::from(owes || is_full);
    }
    Ok(Taken { taken: BATCH, turned_away, are_all: false })
}

/// How long no connection in `lines` can come in: until the first user has paid, or until there may
/// be room.
fn until_next<T>(lines: &Lines<T>, costs: &Costs) -> Duration {
    let soonest = lines.users().map(|uid| costs.free_in(uid)).min().unwrap_or_default();
    soonest.clamp(ROOM_PAUSE, DEBT_PAUSE)
}

/// A client that came while its user `owed`, and hung up before its turn, is not served, and costs
/// nothing more. (A client that hung up while the manager was stopped is served: it may have
/// announced itself.)
fn still_there(socket: &OwnedFd, owed: bool) -> SysResult<()> {
    match owed && process::is_hung_up(socket)? {
        true => Err(SysError::new("accept", Errno::ECONNABORTED as i32)),
        false => Ok(()),
    }
}

/// Finds out which process that is, and tells the scheduler.
async fn open(
    (socket, owed): (OwnedFd, bool),
    doorman: &Doorman,
    serial: u64,
    line: &Line,
    others: &Others,
    costs: &Costs,
) -> SysResult<Client> {
    still_there(&socket, owed)?;
    fdpass::set_nonblocking(&socket)?;
    // ESRCH: it connected and died.
    let PeerProcess { peer, pidfd, .. } = process::peer(&socket)?;
    let account = costs.of(peer.uid);
    account.charge(costs::CONNECTION);
    let (sender, mailbox) = mpsc::channel(MAILBOX);
    let of_admins = doorman.admins.get().filter(|group| is_of(&socket, peer.gid, *group));
    let welcome = doorman.public || peer.uid == doorman.owner || peer.uid == 0;
    let refusal = (!welcome).then(|| format!("this manager belongs to user {}", doorman.owner));
    let client = Client::new(
        serial,
        socket,
        mailbox,
        line.clone(),
        (others, others.enter(serial, peer.uid)),
        account,
        refusal,
    )?;
    line.call(serial, Call::Opened { peer, pidfd, mailbox: Mailbox(sender), of_admins }).await;
    Ok(client)
}

/// The process at the other end of `socket`, whose effective group is `gid`, is of `group`.
fn is_of(socket: &OwnedFd, gid: u32, group: u32) -> bool {
    gid == group
        || process::peer_groups(socket).map_or_else(
            |error| {
                tracing::debug!(%error, "the groups of a client are not known");
                false
            },
            |groups| groups.contains(&group),
        )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use platform::event::Doorbell;

    use super::super::Admins;
    use super::*;

    #[test]
    fn lines_are_served_in_turn_and_the_longest_one_loses_its_last() {
        let mut lines = Lines::new();
        for number in 0..3 {
            assert_eq!(lines.push(7, ("seven", number)), None);
        }
        assert_eq!((lines.push(0, ("root", 0)), lines.push(9, ("nine", 0))), (None, None));
        let mut served = Vec::new();
        while let Some((name, number)) = lines.next(|_| true) {
            served.push(format!("{name} {number}"));
        }
        assert_eq!(served, ["root 0", "seven 0", "nine 0", "seven 1", "seven 2"]);
        assert_eq!((lines.len(), lines.lines.len()), (0, 0));

        for number in 0..MAX_IN_LINES {
            assert_eq!(lines.push(7, ("seven", number)), None);
        }
        assert_eq!(lines.push(0, ("root", 1)), Some(("seven", MAX_IN_LINES - 1)));
        assert_eq!(lines.push(7, ("seven", MAX_IN_LINES)), Some(("seven", MAX_IN_LINES)));
        assert_eq!(lines.next(|uid| uid == 0), Some(("root", 1)));
        assert_eq!(lines.next(|uid| uid == 0), None, "there is no room for the others");
    }

    #[test]
    fn a_user_at_its_share_waits_for_its_own_and_others_come_in() {
        let others = Others::default();
        let here: Vec<_> = (0..SHARE as u64).map(|serial| others.enter(serial, 7)).collect();
        assert!(!others.has_room(7, SHARE) && others.has_room(0, SHARE));
        others.leave(3);
        assert!(others.has_room(7, SHARE));
        drop(here);
    }

    #[test]
    fn a_client_that_hung_up_in_line_is_not_served() {
        let (socket, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let socket = OwnedFd::from(socket);
        assert_eq!(still_there(&socket, true), Ok(()));
        drop(other);
        assert_eq!(still_there(&socket, false), Ok(()), "its user owed nothing");
        assert!(still_there(&socket, true).is_err());
    }

    #[test]
    fn a_connection_is_charged_to_its_user() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let owner = nix::unistd::geteuid().as_raw();
            // A clock that stands still pays nothing back.
            let (costs, others) = (Costs::new(owner, || 1 << 40), Others::default());
            let (sender, _calls) = mpsc::channel(1);
            let line = Line { calls: sender, bell: Arc::new(Doorbell::new().unwrap()) };
            let (socket, _other) = fdpass::pair().unwrap();
            // Nothing is left of the burst.
            costs.charge(owner, costs::OWN.burst);
            assert!(costs.is_free(owner));
            let doorman = Doorman { owner, public: false, admins: Admins::new(None) };
            open((socket, false), &doorman, 1, &line, &others, &costs).await.unwrap();
            assert!(!costs.is_free(owner), "it came in for nothing");
        });
    }

    #[test]
    fn a_user_that_owes_or_has_its_share_does_not_come_in_and_others_do() {
        let (costs, others) = (Costs::new(7, || 1 << 40), Others::default());
        costs.charge(9, costs::OTHERS.burst + 1);
        (0..SHARE as u64).for_each(|serial| drop(others.enter(serial, 8)));
        let may = [8, 9, 10].map(|uid| may_come_in(uid, SHARE, &costs, &others));
        assert_eq!(may, [false, false, true]);
    }
}
