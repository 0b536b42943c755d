//! Regions in two calls, as gcc before 4.9 made them: the caller runs the body itself between start and end.
//!
//! The engine runs a region in one call, so a proxy thread is the engine's master here: it holds the place of member 0
//! while the caller works as member 0 of ours. Slow (a thread for each region), and only for old programs.

use crate::frame::Frame;
use crate::icv::settings;
use crate::region::{self, Ask};
use crate::team::{Body, Team};
use crate::tls;
use nanothreads::engine::{self, Member, WaitPoint};
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

/// A region that is started and not ended.
struct Open {
    /// The caller's frame. Declared first: dropped before the team.
    frame: Frame,
    outer: *const Frame,
    shared: Box<Shared>,
    proxy: Option<JoinHandle<()>>,
}

/// What the caller and its proxy share.
struct Shared {
    team: Team,
    ended: AtomicBool,
    point: WaitPoint,
}

thread_local! {
    #[expect(clippy::vec_box, reason = "frames must not move: the thread's word points to one")]
    static OPEN: RefCell<Vec<Box<Open>>> = const { RefCell::new(Vec::new()) };
}

/// What goes from the caller to its proxy.
struct Go(*const Shared);

// SAFETY: - `Shared` is Sync, and the caller keeps it until it has joined the proxy.
unsafe impl Send for Go {}

/// `GOMP_parallel_start`.
pub(crate) fn start(body: Body, data: *mut c_void, asked: u32, prepare: impl FnOnce(&Frame, &Team)) {
    let parent = crate::frame::current();
    let icvs = parent.icvs();
    let size = region::size(parent, Ask { threads: asked, bind: 0 });
    let (go, started) = mpsc::channel();
    let (got, proxy) = if size > 1 { reserve(size, started) } else { (1, None) };
    let shared =
        Box::new(Shared { team: Team::initial(icvs, 0, 1), ended: AtomicBool::new(false), point: WaitPoint::new() });
    shared.team.open(parent, got, body, data, &icvs, 0);
    prepare(parent, &shared.team);
    let frame = Frame::new(&shared.team, 0, shared.team.member_icvs());
    let open = Box::new(Open { frame, outer: ptr::from_ref(parent), shared, proxy });
    open.frame.settle();
    region::join_laid_out(&open.frame);
    tls::set(&raw const open.frame);
    // Fails only when there is no proxy.
    let _ = go.send(Go(&raw const *open.shared));
    OPEN.with_borrow_mut(|stack| stack.push(open));
}

/// Starts a proxy that reserves a team of `size` and waits for the region; returns the size that it got.
fn reserve(size: u32, started: mpsc::Receiver<Go>) -> (u32, Option<JoinHandle<()>>) {
    let (report, size_got) = mpsc::channel();
    let main = move || {
        let team = settings().host.reserve(size as usize, true);
        // The caller waits for this.
        let _ = report.send(u32::try_from(team.size()).unwrap_or(1));
        if let Ok(Go(shared)) = started.recv() {
            // SAFETY: - `proxy` takes a `Shared`, which lives until the caller has joined this thread.
            unsafe { team.run(proxy, shared.cast()) };
        }
    };
    match thread::Builder::new().name("nanos-proxy".into()).spawn(main) {
        Ok(thread) => (size_got.recv().unwrap_or(1), Some(thread)),
        Err(_) => (1, None),
    }
}

/// A member's part: the proxy waits in the place of member 0, the others run the body.
///
/// # Safety
/// - `data` points to a [`Shared`] whose team is open.
unsafe fn proxy(data: *const (), member: Member) {
    // SAFETY: caller's contract.
    let shared = unsafe { &*data.cast::<Shared>() };
    if member.id == 0 {
        // ORDERING: Acquire - pairs with `end`.
        engine::wait(&shared.point, || shared.ended.load(Acquire));
    } else {
        // SAFETY: caller's contract.
        unsafe { region::member(ptr::from_ref(&shared.team).cast(), member) };
    }
}

/// `GOMP_parallel_end`; false when the thread has started none.
pub(crate) fn end() -> bool {
    let Some(mut open) = OPEN.with_borrow_mut(Vec::pop) else { return false };
    region::finish(&open.frame);
    tls::set(open.outer);
    // ORDERING: Release - pairs with `proxy`.
    open.shared.ended.store(true, Release);
    open.shared.point.notify_all();
    if let Some(proxy) = open.proxy.take() {
        // The proxy does not panic: the library aborts instead.
        let _ = proxy.join();
    }
    true
}
