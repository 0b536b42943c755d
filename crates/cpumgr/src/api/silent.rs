//! Connections that have said nothing yet: they wait at the door, and take no place of those that
//! have.
//!
//! # Protocol
//! 1. A connection is here from when it is taken out of the listener's queue until there is
//!    something to read from it: a message, or its end.
//! 2. Where its user has [`SHARE`] of them, or all users have [`MAX_SILENT`], one goes: the oldest
//!    of its user, or of the user that has most.
//!
//! # Invariants
//! - S1 A client that speaks waits for no client that does not, its own user's included.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use tokio::task::{AbortHandle, JoinSet};

use super::wait_for;

/// Connections of all users.
pub(super) const MAX_SILENT: usize = 512;
/// Those of one.
pub(super) const SHARE: usize = MAX_SILENT / 2;

/// A connection's wait, by its number.
type Wait = (u64, io::Result<OwnedFd>);

/// All of them. Dropping it closes them.
#[derive(Debug, Default)]
pub(super) struct Silent {
    waits: JoinSet<Wait>,
    crowd: Crowd<AbortHandle>,
}

impl Silent {
    pub(super) fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    /// Step 1. True: another one had to go for it. To be called in a `LocalSet`.
    pub(super) fn enter(&mut self, uid: u32, socket: OwnedFd) -> bool {
        let gone = self.crowd.make_room(uid);
        let is_full = gone.is_some();
        if let Some(wait) = gone {
            wait.abort();
        }
        let number = self.crowd.next;
        let wait = self.waits.spawn_local(async move { (number, until_spoken(socket).await) });
        self.crowd.enter(uid, wait);
        is_full
    }

    /// Descriptors are used up: the oldest of the user that has most goes. False: there is none.
    pub(super) fn shed(&mut self) -> bool {
        let gone = self.crowd.oldest_of_most();
        let is_there = gone.is_some();
        if let Some(wait) = gone {
            wait.abort();
        }
        is_there
    }

    /// The next one that has said something, and its user; `None`: one has gone, or there is none.
    pub(super) async fn next(&mut self) -> Option<(u32, OwnedFd)> {
        // An error is the end of a wait that was aborted.
        let (number, outcome) = self.waits.join_next().await?.ok()?;
        let uid = self.crowd.leave(number)?;
        match outcome {
            Ok(socket) => Some((uid, socket)),
            Err(error) => {
                tracing::debug!(%error, "a connection cannot be waited for");
                None
            }
        }
    }
}

/// Waits until there is something to read.
async fn until_spoken(socket: OwnedFd) -> io::Result<OwnedFd> {
    let socket = wait_for(socket)?;
    // What is there stays there.
    socket.readable().await?.retain_ready();
    Ok(socket.into_inner())
}

/// Step 2, of whatever stands for a connection.
#[derive(Debug)]
struct Crowd<T> {
    /// By their numbers, hence the oldest first.
    here: BTreeMap<u64, (u32, T)>,
    next: u64,
}

impl<T> Default for Crowd<T> {
    fn default() -> Self {
        Self { here: BTreeMap::new(), next: 0 }
    }
}

impl<T> Crowd<T> {
    /// What has to go before one more of user `uid` comes.
    fn make_room(&mut self, uid: u32) -> Option<T> {
        if self.here.values().filter(|(of, _)| *of == uid).count() >= SHARE {
            return self.oldest_of(uid);
        }
        if self.here.len() >= MAX_SILENT { self.oldest_of_most() } else { None }
    }

    fn enter(&mut self, uid: u32, one: T) {
        self.here.insert(self.next, (uid, one));
        self.next += 1;
    }

    /// The user of the one that leaves; `None`: it had to go before.
    fn leave(&mut self, number: u64) -> Option<u32> {
        self.here.remove(&number).map(|(uid, _)| uid)
    }

    fn oldest_of(&mut self, uid: u32) -> Option<T> {
        let number = self.here.iter().find(|(_, (of, _))| *of == uid).map(|(number, _)| *number)?;
        self.here.remove(&number).map(|(_, one)| one)
    }

    fn oldest_of_most(&mut self) -> Option<T> {
        let mut counts = BTreeMap::<u32, usize>::new();
        for (uid, _) in self.here.values() {
            *counts.entry(*uid).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count)?.0;
        self.oldest_of(most)
    }
}

#[cfg(test)]
mod tests {
    use platform::fdpass;
    use tokio::task::LocalSet;

    use super::*;

    #[test]
    fn a_user_at_its_share_loses_its_own_oldest_and_no_other_user_does() {
        let mut crowd = Crowd::default();
        for number in 0..SHARE {
            assert_eq!(crowd.make_room(7), None);
            crowd.enter(7, ("seven", number));
        }
        crowd.enter(0, ("root", 0));
        for number in 0..3 {
            assert_eq!(crowd.make_room(7), Some(("seven", number)));
            crowd.enter(7, ("seven", SHARE + number));
        }
        assert_eq!(crowd.make_room(0), None);
    }

    #[test]
    fn where_all_places_are_taken_the_user_that_has_most_loses_its_oldest() {
        let mut crowd = Crowd::default();
        let users = MAX_SILENT / SHARE + 1;
        for at in 0..MAX_SILENT {
            let uid = u32::try_from(at % users).unwrap();
            assert_eq!(crowd.make_room(uid), None);
            crowd.enter(uid, at);
        }
        // User 1 came second, and has one more than user 2.
        let most: Vec<usize> =
            (0..users).map(|uid| (0..MAX_SILENT).filter(|at| at % users == uid).count()).collect();
        assert!(most[1] > most[2], "{most:?}");
        assert_eq!(crowd.make_room(99), Some(1));
        crowd.enter(99, MAX_SILENT);
        assert_eq!(crowd.here.len(), MAX_SILENT);
    }

    #[test]
    fn one_that_speaks_is_given_out_and_those_that_do_not_stay() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let mut silent = Silent::default();
            let pairs: Vec<_> = (0..3).map(|_| fdpass::pair().unwrap()).collect();
            let mut others = Vec::new();
            for (uid, (socket, other)) in (7..).zip(pairs) {
                assert!(!silent.enter(uid, socket));
                others.push(other);
            }
            fdpass::send(&others[1], b"hello", &[]).unwrap();
            let (uid, socket) = silent.next().await.unwrap();
            assert_eq!(uid, 8);
            let mut packet = [0; 16];
            let heard = fdpass::recv_without_descriptors(&socket, &mut packet).unwrap();
            assert_eq!(&packet[..heard.length], b"hello", "it is still there");
            // A client that hangs up has ended its silence.
            drop(others.remove(0));
            assert_eq!(silent.next().await.unwrap().0, 7);
            // The last one has to go.
            assert!(silent.shed() && !silent.shed());
            assert!(silent.next().await.is_none() && silent.is_empty());
            assert!(platform::process::is_hung_up(&others[1]).unwrap());
        });
    }
}
