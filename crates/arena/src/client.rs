//! The program's side: registration, the grant, requests and releases, where virtual processors
//! sleep, and whether the manager is there.
//!
//! # Invariants
//! - C1 Nothing here waits for the manager after [`Client::connect`] but [`Client::park`], which is
//!   timed: a dead or silent manager costs a program nothing but the answer of
//!   [`Client::is_alive`].
//! - C2 A child made by `fork` has no areas (they are not inherited): it must never use its
//!   parent's client, and must not drop it either (`mem::forget`), since the doorbell and the
//!   socket are the parent's.
//! - C3 A program may close our descriptors and use their numbers for its own files. Nothing is
//!   written to, read from or closed at a number before it was compared with what it was at
//!   registration; when it is something else the registration is lost.
//! - C4 The areas stay where they are for the client's whole life: what another manager sends is
//!   put in their place (`reconnect`).

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use platform::SysError;
use platform::affinity::{CpuId, CpuSet, Tid};
use platform::clock::monotonic_ns;

use crate::area::{Area, Pinned};
use crate::grant::{Grant, MAX_CPUS, Turn};
use crate::hook::{self, Step};
use crate::layout::{Down, MAX_VPS, Up, Verdict, VpState};

mod asked;
mod connection;
mod error;
mod hello;
mod kept;
mod life;
mod pass;
mod reconnect;
mod registration;
mod starved;
mod tie;
mod watch;

pub use crate::socket::{
    InTheWay, SOCKET_VARIABLE, SYSTEM_SOCKET, SocketChoice, find_socket, in_the_way, user_socket,
};
pub use connection::Connection;
pub use error::ConnectError;
pub use hello::Hello;
use kept::Descriptors;
use registration::Registration;
use tie::{RegistrationRest, Tie};

/// Quanta for which a parked virtual processor sleeps before it looks by itself (D5).
const PARK_QUANTA: u32 = 3;

/// A registered program's end of the connection.
#[derive(Debug)]
pub struct Client {
    down: Pinned<Down>,
    up: Pinned<Up>,
    // The socket is shut down when the client is dropped, which ends the watcher.
    tie: Arc<Tie>,
    watcher: Option<JoinHandle<()>>,
}

impl Client {
    /// Registers this process with the manager at `path`.
    ///
    /// When this returns the manager knows the program and has published its first grant. Starts
    /// one small thread, `nanos-watch`, with all signals blocked. When the manager ends, that
    /// thread registers anew as soon as there is one at `path` again; until then
    /// [`Client::is_alive`] is false.
    ///
    /// # Errors
    /// When there is no manager, or it refuses, or what answers is none. Each message names `path`.
    pub fn connect(path: &Path, hello: &Hello, timeout: Duration) -> Result<Self, ConnectError> {
        let Registration { down, up, global, descriptors, slot } =
            Registration::make(path, hello, None, timeout)?;
        let (down, up) = (Pinned::new(down), Pinned::new(up));
        let tie = Tie::new(
            path,
            hello,
            (down.share(), up.share()),
            RegistrationRest { global, descriptors, slot },
        );
        Self::watched(down, up, tie)
    }

    /// A client of the manager at `path` that has not answered in time
    /// ([`ConnectError::may_pass`]): it is as after a manager's end ([`Client::is_alive`] is
    /// false), and the watcher goes on trying.
    ///
    /// # Errors
    /// When the system has no memory, descriptors or thread for it.
    pub fn expect(path: &Path, hello: &Hello) -> Result<Self, ConnectError> {
        let failed = |source: SysError| ConnectError::System {
            path: path.to_owned(),
            source: source.into(),
        };
        let down = Pinned::new(Area::<Down>::blank().map_err(failed)?);
        let up = Pinned::new(Area::<Up>::blank().map_err(failed)?);
        let global = Area::blank().map_err(failed)?;
        let descriptors = Descriptors::of_nobody().map_err(failed)?;
        let tie = Tie::before_any(
            path,
            hello,
            (down.share(), up.share()),
            RegistrationRest { global, descriptors, slot: 0 },
        );
        Self::watched(down, up, tie)
    }

    fn watched(down: Pinned<Down>, up: Pinned<Up>, tie: Tie) -> Result<Self, ConnectError> {
        let tie = Arc::new(tie);
        let watcher = watch::start(Arc::clone(&tie))
            .map_err(|source| ConnectError::System { path: tie.path.clone(), source })?;
        Ok(Self { down, up, tie, watcher: Some(watcher) })
    }

    /// What this program may use now. One load; to be read at every fork.
    #[inline]
    pub fn grant(&self) -> Grant {
        self.down.grant.read()
    }

    /// Whether programs take turns, and when this one's comes. To be read after the grant. One
    /// load, of the grant's line.
    #[inline]
    pub fn turn(&self) -> Turn {
        self.down.grant.turn()
    }

    /// The processors of the current grant; none when it binds nothing.
    pub fn cpus(&self) -> CpuSet {
        self.grant_with_cpus().1
    }

    /// The current grant together with its processors.
    pub fn grant_with_cpus(&self) -> (Grant, CpuSet) {
        self.down.grant.read_with_cpus()
    }

    /// The processor that the manager means for virtual processor `index`, and what it says of
    /// that. To be read after the grant whose epoch is new. A virtual processor without a processor
    /// shares those of the others.
    pub fn vp(&self, index: usize) -> (Option<CpuId>, Verdict) {
        self.down.vps.get(index).map_or((None, Verdict::None), |word| word.get())
    }

    /// Processors that were taken from the grant and shall be left at the next safe point (M10).
    /// One load.
    #[inline]
    pub fn asked(&self) -> u32 {
        self.down.notice.asked()
    }

    /// Virtual processors that were squeezed: work that wants help (M5). One load.
    #[inline]
    pub fn preempted(&self) -> u32 {
        self.down.notice.preempted()
    }

    /// The time between asking and squeezing.
    pub fn grace(&self) -> Duration {
        Duration::from_nanos(self.down.notice.grace_ns())
    }

    /// Whether some program wants a processor that it does not have (D7). One load.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.tie.global.state.waiting() > 0
    }

    /// Whether the policy decides by what programs report of their speedups ([`Client::report`]).
    /// One load.
    #[inline]
    pub fn wants_reports(&self) -> bool {
        self.tie.global.state.reports()
    }

    /// Whether programs may pass processors to each other here:
    /// [`Domain::join`](crate::domain::Domain::join). One load.
    pub fn has_domain(&self) -> bool {
        self.tie.global.state.domain()
    }

    /// Says how many processors this program wants now. Rings the manager (some system calls) only
    /// when the number changes; the answer is a later grant.
    pub fn request(&self, processors: u32) {
        self.up.request.set_serial(false);
        self.ask(processors);
    }

    /// Says that this number of processors is enough for now, in a serial phase, after which
    /// [`Client::request`] comes again. Other programs that want the rest have them; as long as
    /// none does they stay in the grant.
    pub fn request_for_now(&self, processors: u32) {
        self.up.request.set_serial(true);
        self.ask(processors);
    }

    fn ask(&self, processors: u32) {
        let processors = processors.clamp(1, MAX_CPUS);
        self.tie.want(processors);
        if self.up.request.ask(processors) {
            hook::at(Step::Asked);
            self.tie.ring();
        }
    }

    /// Says below how many processors this program gains nothing from running. Rings when that is
    /// new.
    pub fn set_lowest(&self, processors: u32) {
        if self.up.request.set_lowest(processors.clamp(1, MAX_CPUS)) {
            self.tie.ring();
        }
    }

    /// Threads of a team of `threads`, which are more than this program has processors, waited
    /// `turns` times more: a manager that leaves processors to strangers does not leave those that
    /// such teams need. A read-modify-write of a line that the program's threads share.
    pub fn note_turns(&self, turns: u32, threads: u32) {
        self.up.request.note_turns(turns, threads);
    }

    /// Gives `cpu` back, to the program that wants it first, and keeps the request: the grant that
    /// follows has one processor less, until [`Client::resume`]. The virtual processor that used it
    /// has left it, or leaves it at once.
    pub fn release(&self, cpu: CpuId) {
        if self.up.released.add(cpu) {
            self.up.request.note_release(monotonic_ns());
            hook::at(Step::Released);
            self.tie.ring();
        }
    }

    /// Wants all of its request again. One load for each 64 processors, and a ring if something was
    /// given back.
    pub fn resume(&self) {
        if self.up.released.clear() {
            hook::at(Step::Resumed);
            self.tie.ring();
        }
    }

    /// The kernel thread of virtual processor `index`: the manager binds it when the program does
    /// not follow. Beyond the layout's 1024 nothing happens.
    pub fn publish_vp(&self, index: usize, tid: Tid) {
        if index < MAX_VPS {
            self.tie.publish_vp(index, tid);
        }
    }

    /// As [`Client::publish_vp`], of a thread that begins. Rings where the grant has a processor
    /// for it: the manager looks whether strangers run there, which it could not before (a program
    /// may have its threads long after its processors).
    pub fn enlist_vp(&self, index: usize, tid: Tid) {
        self.publish_vp(index, tid);
        if index < self.grant().processors as usize {
            self.tie.ring();
        }
    }

    /// What virtual processor `index` does, for reports. One store.
    pub fn set_vp_state(&self, index: usize, state: VpState) {
        if let Some(vp) = self.up.vps.get(index) {
            vp.set_state(state);
        }
    }

    /// Virtual processor `index` sleeps until `may_run` is true or it is woken; `may_run` is
    /// asked again at least every three quanta. It returns at once when the manager is not alive
    /// (the program runs on without one), and false then, or when `index` is beyond the layout.
    ///
    /// `may_run` is what a waker makes true before it calls [`Client::wake`], or the manager before
    /// it publishes.
    pub fn park(&self, index: usize, may_run: impl FnMut() -> bool) -> bool {
        self.park_until(index, u64::MAX, may_run)
    }

    /// As [`Client::park`], until `until_ns` of the monotonic clock at most: false then.
    pub fn park_until(
        &self,
        index: usize,
        until_ns: u64,
        mut may_run: impl FnMut() -> bool,
    ) -> bool {
        let Some(vp) = self.up.vps.get(index) else {
            return false;
        };
        vp.set_state(VpState::Parked);
        let outcome = loop {
            vp.park.prepare();
            hook::at(Step::ParkPrepared);
            if may_run() {
                vp.park.cancel();
                break true;
            }
            if !self.is_alive() {
                vp.park.cancel();
                break false;
            }
            let left = until_ns.saturating_sub(monotonic_ns());
            if left == 0 {
                vp.park.cancel();
                break false;
            }
            let timeout = self
                .quantum()
                .saturating_mul(PARK_QUANTA)
                .clamp(Duration::from_millis(3), MAX_PARK);
            vp.park.sleep(Some(timeout.min(Duration::from_nanos(left))));
        };
        vp.set_state(VpState::Running);
        outcome
    }

    /// Wakes virtual processor `index` if it sleeps; true when it did. A fence and a load
    /// otherwise.
    pub fn wake(&self, index: usize) -> bool {
        self.up.vps.get(index).is_some_and(|vp| vp.park.wake())
    }

    /// Reports how long an iteration of the program's outer loop took on `processors`, and how long
    /// one takes on `base_processors` (M15). One thread at a time.
    pub fn report(
        &self,
        processors: u32,
        time: Duration,
        base_processors: u32,
        base_time: Duration,
    ) {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.up.report.write(processors, base_processors, ns(base_time), ns(time));
        hook::at(Step::Reported);
        self.tie.ring();
    }

    /// False while there is no manager, or the program has closed the connection under us, and
    /// while the manager is silent for longer than `max(1 s, 10 quanta)`. One relaxed load.
    #[inline]
    pub fn is_alive(&self) -> bool {
        self.tie.life.is_alive()
    }

    /// `call` is made by the watcher's thread whenever [`Client::is_alive`] has become false
    /// because the manager ended or is silent, so that threads that look for nothing now are seen
    /// to. Only the first one given counts. It must not wait.
    pub fn on_loss(&self, call: fn()) {
        // A second one is refused, as documented.
        let _first: Result<(), fn()> = self.tie.on_loss.set(call);
    }

    /// `call` is made by the watcher's thread whenever another manager has taken the program in,
    /// before it watches that one. Only the first one given counts. It may speak to the manager,
    /// with a timeout of less than a second.
    pub fn on_return(&self, call: fn()) {
        // A second one is refused, as documented.
        let _first: Result<(), fn()> = self.tie.on_return.set(call);
    }

    /// What was to be said to the manager could not be said in time: the call of
    /// [`Client::on_return`] is made again, after some of the watcher's looks (a third of a second
    /// each, or longer quanta), of which there are twice as many each time, and at most six times
    /// for one manager.
    pub fn return_again(&self) {
        self.tie.set_again(true);
    }

    /// The manager's quantum.
    pub fn quantum(&self) -> Duration {
        Duration::from_nanos(self.tie.global.life.quantum_ns())
    }

    /// The manager's number for this program.
    pub fn slot(&self) -> u64 {
        self.tie.slot()
    }

    /// How many managers took this program in, one after the other; none of a client that still
    /// waits ([`Client::expect`]).
    pub fn registrations(&self) -> u32 {
        self.tie.registrations()
    }
}

/// The longest time for which a parked virtual processor does not look.
const MAX_PARK: Duration = Duration::from_secs(1);

impl Drop for Client {
    fn drop(&mut self) {
        let hung_up = self.tie.end();
        let Some(watcher) = self.watcher.take() else { return };
        watcher.thread().unpark();
        // Without the socket nothing ends the watcher's wait before its next look, up to seconds
        // from now. It has all that it uses for itself, and ends then.
        if hung_up {
            // A panic of the watcher (an invariant of the standard library) has been printed
            // already.
            let _ended: std::thread::Result<()> = watcher.join();
        }
    }
}
