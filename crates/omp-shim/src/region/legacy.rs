//! Regions in two calls, as gcc before 4.9 made them: the caller runs the body itself between start
//! and end.
//!
//! The engine runs a region in one call, so a proxy thread is the engine's master here: it sleeps
//! in the place of member 0 while the caller works as member 0 of ours. Slow (a thread for each
//! region), and only for old programs. Its caller waits by the rules of a thread outside teams: it
//! does not hand its processor over where the team is larger than the machine.
//!
//! # Protocol
//! 1. The caller starts the proxy, which reserves the team, says its size (L1), and sleeps.
//! 2. The caller sees the size (L2), opens the team, lets the proxy go (L3, L4), and runs its own
//!    part.
//! 3. The proxy runs the region; its own part is to sleep until the caller has ended its part (L5,
//!    L6).
//! 4. The caller joins the proxy, which has joined the others.

use crate::body::Body;
use crate::frame::{self, Frame};
use crate::region::{self, Size};
use crate::settings::settings;
use crate::team::Team;
use engine::{Member, WaitPoint};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Release},
};
use std::thread::{self, JoinHandle};

/// A region that is started and not ended.
pub(crate) struct Open {
    /// The caller's frame. Declared first: dropped before the team.
    frame: Frame,
    outer: *const Frame,
    size: Size,
    shared: Box<ProxyShared>,
    proxy: Option<JoinHandle<()>>,
}

/// What the caller and its proxy share.
struct ProxyShared {
    team: Box<Team>,
    /// Threads of the team; 0 = not known yet.
    size: AtomicU32,
    started: AtomicBool,
    ended: AtomicBool,
    /// Where the caller sleeps, and where the proxy does.
    caller: WaitPoint,
    proxy: WaitPoint,
}

/// What goes from the caller to its proxy.
struct Go(*const ProxyShared);

// SAFETY: - `ProxyShared` is Sync, and the caller keeps it until it has joined the proxy.
unsafe impl Send for Go {}

/// `GOMP_parallel_start`.
pub(crate) fn start(
    body: Body,
    data: *mut c_void,
    asked: u32,
    prepare: impl FnOnce(&Frame, &Team),
) {
    let parent = frame::current();
    let icvs = parent.icvs();
    settings().host.identify_region(body as usize);
    let size = Size::of(parent, &icvs, asked);
    let shared = Box::new(ProxyShared {
        team: Team::initial(icvs, 0, 1),
        size: AtomicU32::new(0),
        started: AtomicBool::new(false),
        ended: AtomicBool::new(false),
        caller: WaitPoint::new(),
        proxy: WaitPoint::new(),
    });
    let (got, proxy) = if size.threads > 1 { reserve(size, &shared) } else { (1, None) };
    let team: &Team = &shared.team;
    parent.open(team, got, body, data, &icvs, 0);
    size.settle(parent, team, got);
    prepare(parent, team);
    let frame = Frame::new(team, 0, team.member_icvs());
    let open =
        Box::into_raw(Box::new(Open { frame, outer: ptr::from_ref(parent), size, shared, proxy }));
    // SAFETY: - just leaked; `end` takes it back.
    let Open { frame, shared, .. } = unsafe { &*open };
    frame.opened.set(open.cast());
    frame.settle();
    frame::switch(ptr::from_ref(frame));
    // ORDERING: Release (L3) - the open team; pairs with L4.
    shared.started.store(true, Release);
    shared.proxy.notify_all();
    region::begin(frame);
}

/// Starts a proxy that reserves a team of `size` and waits for the region; returns the size that it
/// got.
fn reserve(size: Size, shared: &ProxyShared) -> (u32, Option<JoinHandle<()>>) {
    let go = Go(shared);
    let main = move || {
        let Go(place) = { go };
        // SAFETY: - the caller keeps it until it has joined this thread.
        let shared = unsafe { &*place };
        let team = settings().host.reserve(size.threads as usize, size.is_exact);
        // ORDERING: Release (L1) - pairs with L2.
        shared.size.store(u32::try_from(team.size()).unwrap_or(1), Release);
        shared.caller.notify_all();
        // ORDERING: Acquire (L4) - pairs with L3.
        shared.proxy.sleep_until(|| shared.started.load(Acquire).into());
        // SAFETY: - `proxy` takes a `ProxyShared`, which outlives the region (above).
        unsafe { team.run(proxy, place.cast(), shared.team.recall()) };
    };
    let Ok(thread) = thread::Builder::new().name("nanos-proxy".into()).spawn(main) else {
        return (1, None);
    };
    // ORDERING: Acquire (L2) - pairs with L1.
    shared.caller.sleep_until(|| (shared.size.load(Acquire) != 0).into());
    (shared.size.load(Acquire), Some(thread))
}

/// A member's part: the proxy waits in the place of member 0, the others run the body.
///
/// # Safety
/// - `data` points to a [`ProxyShared`] whose team is open.
unsafe fn proxy(data: *const (), member: Member) {
    // SAFETY: caller's contract.
    let shared = unsafe { &*data.cast::<ProxyShared>() };
    if member.id == 0 {
        // No spinning: its processor is the caller's.
        // ORDERING: Acquire (L6) - pairs with L5.
        shared.proxy.sleep_until(|| shared.ended.load(Acquire).into());
    } else {
        // SAFETY: caller's contract.
        unsafe { region::member(ptr::from_ref::<Team>(&shared.team).cast(), member) };
    }
}

/// `GOMP_parallel_end`; false when the region that the thread is in was not started by [`start`].
pub(crate) fn end() -> bool {
    let open = frame::current().opened.get();
    if open.is_null() {
        return false;
    }
    // SAFETY: - leaked by `start` for this very frame, which ends here.
    let mut open = unsafe { Box::from_raw(open.cast::<Open>()) };
    region::finish(&open.frame);
    frame::switch(open.outer);
    // ORDERING: Release (L5) - pairs with L6.
    open.shared.ended.store(true, Release);
    open.shared.proxy.notify_all();
    if let Some(proxy) = open.proxy.take() {
        // The proxy does not panic: the library aborts instead.
        let _ = proxy.join();
    }
    // SAFETY: - the frame in which the region was started, on this thread: it is not left before
    // the region is ended.
    open.size.give_back(unsafe { &*open.outer });
    true
}
