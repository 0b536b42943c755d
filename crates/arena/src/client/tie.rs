//! What ties a program to its manager: areas, descriptors, and what has to be said again to the
//! next manager.

use platform::lock::{Mutex, Once};
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError};

use platform::affinity::Tid;
use platform::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use platform::{SysResult, event};

use super::hello::Hello;
use super::kept::{Descriptors, Socket};
use super::life::Life;
use crate::area::Area;
use crate::global::Global;
use crate::hook::{self, Step};
use crate::layout::{Down, Up};

/// The areas that the client pins.
pub(super) type SharedAreas = (Arc<Area<Down>>, Arc<Area<Up>>);

/// What else a registration brings.
#[derive(Debug)]
pub(super) struct RegistrationRest {
    pub(super) global: Area<Global>,
    pub(super) descriptors: Descriptors,
    pub(super) slot: u64,
}

/// Shared by the client and its watcher.
#[derive(Debug)]
pub(super) struct Tie {
    pub(super) down: Arc<Area<Down>>,
    pub(super) up: Arc<Area<Up>>,
    pub(super) global: Arc<Area<Global>>,
    pub(super) life: Life,
    pub(super) path: PathBuf,
    pub(super) hello: Hello,
    /// The present ones. While a thread holds the lock the areas are not replaced.
    link: Mutex<Arc<Descriptors>>,
    /// Where an answer is waited for.
    asked: Mutex<Option<Arc<Socket>>>,
    /// The number wanted now, where no new area can lose it.
    wanted: AtomicU32,
    slot: AtomicU64,
    registrations: AtomicU32,
    /// What the watcher calls when the manager is gone or silent.
    pub(super) on_loss: Once<fn()>,
    /// What it calls when another manager took the program in.
    pub(super) on_return: Once<fn()>,
    /// It is to be called again.
    again: AtomicBool,
}

impl Tie {
    pub(super) fn new(
        path: &Path,
        hello: &Hello,
        (down, up): SharedAreas,
        registered: RegistrationRest,
    ) -> Self {
        let RegistrationRest { global, descriptors, slot } = registered;
        Self {
            wanted: AtomicU32::new(up.request.read().requested),
            down,
            up,
            global: Arc::new(global),
            life: Life::new(),
            path: path.to_owned(),
            hello: hello.clone(),
            link: Mutex::new(Arc::new(descriptors)),
            asked: Mutex::new(None),
            slot: AtomicU64::new(slot),
            registrations: AtomicU32::new(1),
            on_loss: Once::new(),
            on_return: Once::new(),
            again: AtomicBool::new(false),
        }
    }

    /// Of a program that no manager has taken in yet; its areas are `blank`.
    pub(super) fn before_any(
        path: &Path,
        hello: &Hello,
        areas: SharedAreas,
        blank: RegistrationRest,
    ) -> Self {
        let registrations = AtomicU32::new(0);
        let wanted = AtomicU32::new(hello.request);
        Self {
            life: Life::before_any(),
            registrations,
            wanted,
            ..Self::new(path, hello, areas, blank)
        }
    }

    pub(super) fn link(&self) -> MutexGuard<'_, Arc<Descriptors>> {
        // What the lock protects is one pointer: a panic leaves it whole.
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn descriptors(&self) -> Arc<Descriptors> {
        Arc::clone(&self.link())
    }

    /// Notes the number wanted, before it is asked for.
    pub(super) fn want(&self, processors: u32) {
        // ORDERING: Relaxed - published by the swap of `request.ask`.
        if self.wanted.load(Ordering::Relaxed) != processors {
            self.wanted.store(processors, Ordering::Relaxed);
        }
    }

    /// The number wanted now.
    pub(super) fn wanted(&self) -> u32 {
        // ORDERING: Relaxed - after the Acquire of the swap that replaced the number of another
        // thread (`request.ask`).
        self.wanted.load(Ordering::Relaxed)
    }

    pub(super) fn slot(&self) -> u64 {
        // ORDERING: Relaxed - a number for people.
        self.slot.load(Ordering::Relaxed)
    }

    pub(super) fn registrations(&self) -> u32 {
        // ORDERING: Relaxed - a number for people.
        self.registrations.load(Ordering::Relaxed)
    }

    /// Another manager gave this number.
    pub(super) fn registered_again(&self, slot: u64) {
        // ORDERING: Relaxed, both - numbers for people.
        self.slot.store(slot, Ordering::Relaxed);
        self.registrations.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn publish_vp(&self, index: usize, tid: Tid) {
        // Under the lock, so that the watcher does not miss it while it fills new areas in.
        let _link = self.link();
        self.up.vps[index].set_tid(tid.0.unsigned_abs());
    }

    /// Tells the manager to look.
    pub(super) fn ring(&self) {
        if self.life.is_deaf() {
            return;
        }
        match self.descriptors().doorbell() {
            // It fails only when the descriptor went in this very moment; the next ring finds out.
            Some(doorbell) => {
                let _rung: SysResult<()> = event::ring(doorbell);
                hook::at(Step::Rung);
            }
            None => drop::<bool>(self.end()),
        }
    }

    /// Whether `on_return` is to be called again.
    pub(super) fn wants_again(&self) -> bool {
        // ORDERING: Relaxed - a wish on its own: a thread that misses it finds it at the next look.
        self.again.load(Ordering::Relaxed)
    }

    pub(super) fn set_again(&self, again: bool) {
        // ORDERING: Relaxed - as in `wants_again`.
        self.again.store(again, Ordering::Relaxed);
    }

    /// The program runs on without a manager: tells it so, and wakes all that sleep at a park word.
    /// Called after the state has changed: a virtual processor that looks then finds it.
    pub(super) fn go_on_alone(&self) {
        if let Some(call) = self.on_loss.get() {
            call();
        }
        for vp in &self.up.vps {
            vp.park.wake();
        }
    }

    /// Ends the registration for ever: the manager forgets the program, and the watcher ends. False
    /// when the socket's number is not ours any more.
    pub(super) fn end(&self) -> bool {
        self.life.end();
        // Under the lock: the watcher looks at `life` under it before it takes new descriptors.
        let link = self.link();
        // The watcher waits at one of them.
        match &*self.asked() {
            Some(socket) => socket.hang_up(),
            None => link.socket().hang_up(),
        }
    }

    /// The watcher waits for an answer at this socket from now on, or for none any more. It looks
    /// at `life` after this: [`Tie::end`], which ends the wait, writes there before it looks here.
    pub(super) fn wait_at(&self, socket: Option<&Arc<Socket>>) {
        *self.asked() = socket.map(Arc::clone);
    }

    fn asked(&self) -> MutexGuard<'_, Option<Arc<Socket>>> {
        // As in `link`.
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
