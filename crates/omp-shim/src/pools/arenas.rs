//! The arenas of oneTBB in this process, and of whatever else asks for permits by the interface of
//! its Thread Composability Manager (`abi::tcm`): they have as many workers as the program has
//! processors now, less one for the thread that waits for them.
//!
//! # Protocol
//! 1. A client connects, before it makes threads. It is refused where there is nothing to follow,
//!    and then shares by itself, as ever.
//! 2. It asks for a permit for each arena, and again whenever the arena has other work. It reads
//!    what it got.
//! 3. When a permit has more or fewer workers than its owner knows, the owner is called back, and
//!    reads again: in the call of another owner that made the change, or in the thread
//!    `nanos-pools` when the grant is another one ([`follow`]).
//!
//! # Invariants
//! - Owners are called back by one thread at a time, which holds no lock but that of the calls.
//! - After a permit was released no call for it is under way or will be: its owner frees what the
//!   call would use.
//! - In the child of a fork nothing is called and nothing granted: the client there has the
//!   parent's arenas and none of its workers.
//!
//! # Limits
//! - Which of the program's threads are in which arena is not looked at, nor which processors a
//!   client would like: teams of the engine and arenas that work at the same time share the
//!   processors by turns.

use super::follower;
use super::permits::{Permits, State, Wish};
use crate::process::copies::Host;
use crate::settings::{Settings, settings};
use engine::process::{Born, Owner};
use platform::affinity::{affinity, current_tid};
use platform::lock::Mutex;
use std::ffi::c_void;
use std::sync::atomic::{
    AtomicBool, AtomicI32,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{MutexGuard, PoisonError};

/// What is called for a permit: its number, the owner's word, whether the number of workers is
/// another one, whether the state is.
pub(crate) type PermitCallback = unsafe extern "C" fn(*mut c_void, *mut c_void, u32) -> i32;

struct PermitClient {
    id: u64,
    callback: PermitCallback,
}

struct Arenas {
    clients: Vec<PermitClient>,
    last: u64,
    permits: Permits,
}

static ARENAS: Mutex<Arenas> =
    Mutex::new(Arenas { clients: Vec::new(), last: 0, permits: Permits::new() });
/// The process that has them.
static OWNER: Owner = Owner::none();
/// A permit is active.
static IS_ACTIVE: AtomicBool = AtomicBool::new(false);

/// Held while owners are called.
static CALLS: Mutex<()> = Mutex::new(());
/// The thread that calls; 0: none.
static CALLER: AtomicI32 = AtomicI32::new(0);

fn arenas() -> MutexGuard<'static, Arenas> {
    // Nothing under the lock can panic half way.
    ARENAS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// False in the child of a fork.
fn is_here() -> bool {
    // ORDERING: Relaxed - a number on its own; the fork orders what a child sees.
    OWNER.is_here(Relaxed)
}

/// A client comes; `None` where there is nothing that it could follow.
pub(crate) fn connect(callback: PermitCallback) -> Option<u64> {
    let Settings { environment, host, .. } = settings();
    if !matches!(host, Host::Own) {
        return None;
    }
    let is_managed = environment.follows_manager() && host.is_managed();
    let mask = affinity(None).map_or(0, |mask| mask.len());
    if !is_managed && mask <= host.processors() {
        return None;
    }
    // ORDERING: Relaxed, both - as in `is_here`.
    let taken = OWNER.take_from(Born::NOWHERE, Relaxed, Relaxed);
    if taken.is_err_and(Born::is_parents) {
        return None;
    }
    let mut arenas = arenas();
    arenas.last += 1;
    let id = arenas.last;
    arenas.clients.push(PermitClient { id, callback });
    drop(arenas);
    follower::begin();
    Some(id)
}

/// Where code of the clients stands that came.
pub(super) fn callbacks() -> Vec<usize> {
    // In a child a thread of the parent may hold the lock for ever.
    if !is_here() {
        return Vec::new();
    }
    arenas().clients.iter().map(|client| client.callback as usize).collect()
}

/// A client goes, and its permits with it. False: it is not there.
pub(crate) fn disconnect(id: u64) -> bool {
    if !is_here() {
        return true;
    }
    let no_calls = without_calls();
    let mut arenas = arenas();
    let before = arenas.clients.len();
    arenas.clients.retain(|client| client.id != id);
    let was_there = arenas.clients.len() < before;
    arenas.permits.remove_client(id);
    drop(no_calls);
    share(arenas, None);
    was_there
}

/// A client asks for a permit, for another one than it has if it names one; returns its number.
/// `None`: client or permit are not there.
pub(crate) fn request(
    client: u64,
    permit: usize,
    argument: usize,
    wish: Wish,
    state: State,
) -> Option<usize> {
    if !is_here() {
        return Some(permit.max(1));
    }
    let mut arenas = arenas();
    arenas.clients.iter().find(|it| it.id == client)?;
    let id = if permit == 0 {
        arenas.permits.add(client, argument, wish)
    } else {
        arenas.permits.wish(permit, argument, wish).then_some(permit)?
    };
    arenas.permits.set_state(id, state);
    share(arenas, Some(id));
    Some(id)
}

/// The permit is to be in this state. False: it is not there.
pub(crate) fn set_state(permit: usize, state: State) -> bool {
    if !is_here() {
        return true;
    }
    let mut arenas = arenas();
    if !arenas.permits.set_state(permit, state) {
        return false;
    }
    share(arenas, Some(permit));
    true
}

/// Gives a permit back. False: it is not there.
pub(crate) fn release(permit: usize) -> bool {
    if !is_here() {
        return true;
    }
    let no_calls = without_calls();
    let mut arenas = arenas();
    let was_there = arenas.permits.remove(permit);
    drop(no_calls);
    if was_there {
        share(arenas, None);
    }
    was_there
}

/// What a permit has: workers of each part, and its state.
pub(crate) fn read(permit: usize) -> Option<(Vec<u32>, State)> {
    if !is_here() {
        return Some((Vec::new(), State::Active));
    }
    let arenas = arenas();
    arenas.permits.get(permit).map(|it| (it.parts(), it.state))
}

/// Whether there is such a permit.
pub(crate) fn is_there(permit: usize) -> bool {
    !is_here() || arenas().permits.get(permit).is_some()
}

/// Whether the thread `nanos-pools` has something to look at.
pub(super) fn are_active() -> bool {
    // ORDERING: SeqCst - see `follower::hurry`.
    IS_ACTIVE.load(SeqCst)
}

/// The program has `granted` processors now.
pub(super) fn follow(granted: usize) {
    if !are_active() || !is_here() {
        return;
    }
    let arenas = arenas();
    if arenas.permits.want_more() {
        settings().host.ask_again();
    }
    share_among(arenas, granted, None);
}

/// Shares out anew what there is now; `known` reads by itself what it has.
fn share(arenas: MutexGuard<'_, Arenas>, known: Option<usize>) {
    let host = settings().host;
    if arenas.permits.are_active() {
        host.ask_again();
    }
    share_among(arenas, host.limit(), known);
}

fn share_among(mut arenas: MutexGuard<'_, Arenas>, granted: usize, known: Option<usize>) {
    let workers = u32::try_from(granted.saturating_sub(1)).unwrap_or(u32::MAX);
    arenas.permits.set_budget(workers);
    arenas.permits.share();
    if let Some(known) = known {
        arenas.permits.told(known);
    }
    let is_active = arenas.permits.are_active();
    // ORDERING: SeqCst - as in `are_active`.
    let was_active = IS_ACTIVE.swap(is_active, SeqCst);
    drop(arenas);
    if is_active && !was_active {
        follower::hurry();
    }
    tell();
}

/// Calls the owners that have to hear of a change.
fn tell() {
    let own = current_tid().0;
    // ORDERING: Relaxed, all of `CALLER` - only the thread itself wrote its own number.
    if CALLER.load(Relaxed) == own {
        // Called in a call: what is new is told after it.
        return;
    }
    let has_news = || {
        let mut arenas = arenas();
        let Arenas { clients, permits, .. } = &mut *arenas;
        let (permit, is_number, is_state) = permits.next_to_tell()?;
        let client = clients.iter().find(|it| it.id == permit.client)?;
        let flags = u32::from(is_number) | u32::from(is_state) << 1;
        Some((client.callback, permit.id, permit.argument, flags))
    };
    let calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    CALLER.store(own, Relaxed);
    while let Some((callback, id, argument, flags)) = has_news() {
        let pointer = std::ptr::with_exposed_provenance_mut;
        // SAFETY: - the client's function with what it said for this permit, which was there just
        // now: one that is released meanwhile waits for the lock that this thread has.
        unsafe { callback(pointer(id), pointer(argument), flags) };
    }
    CALLER.store(0, Relaxed);
    drop(calls);
}

/// While this lives no owner is called but by the caller itself, in a call.
fn without_calls() -> Option<MutexGuard<'static, ()>> {
    // ORDERING: Relaxed - as in `tell`.
    (CALLER.load(Relaxed) != current_tid().0)
        .then(|| CALLS.lock().unwrap_or_else(PoisonError::into_inner))
}
