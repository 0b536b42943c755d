//! The mask that others inherit from a thread of the engine: the one that the program was started with (D2).
//!
//! A virtual processor may be bound to one processor, and the kernel hands a thread's mask on to whatever that thread creates.
//! - What it forks gets the program's mask by `pthread_atfork`.
//! - What it starts by `posix_spawn`, `vfork` or `clone`, and threads that it makes, inherit its processor: the C library tells
//!   nobody of those. A library that puts itself in front of them would have to do so for `system` and `popen` too, which
//!   call the C library's own spawn inside it, and for `vfork`, which cannot be wrapped, since it returns twice. So this is
//!   left to who starts them: [`unbound`].

use crate::engine_state::engine;
use crate::local::local;
use crate::vp::Vp;
use platform::affinity::{self, CpuSet};

/// Runs `body` with the affinity mask that the program was started with: for a member of a region that starts a program or a
/// thread, which would else inherit the one processor that the member is bound to under a processor manager.
///
/// Where the calling thread is not bound by this crate, that is just `body()`. Cost: none there, else three system calls. A
/// child by `fork` alone needs no such thing.
///
/// ```
/// nanothreads::par_for(0..2).run(|_| {
///     let status = nanothreads::unbound(|| std::process::Command::new("true").status());
///     assert!(status.is_ok_and(|status| status.success()));
/// });
/// ```
pub fn unbound<R>(body: impl FnOnce() -> R) -> R {
    let _unbound = local().vp().filter(|vp| vp.is_bound()).and_then(Unbound::begin);
    body()
}

/// The thread's processors while it has those of the program.
struct Unbound {
    vp: &'static Vp,
    before: CpuSet,
}

impl Unbound {
    fn begin(vp: &'static Vp) -> Option<Self> {
        let before = affinity::affinity(None).ok()?;
        // Refused where the processors of the start went offline: the children have what there is.
        affinity::set_affinity(None, engine().mask()).ok()?;
        Some(Self { vp, before })
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        if local().vp().is_none() {
            // A child that the body forked: it keeps the program's mask.
            return;
        }
        // A grant that came meanwhile, or the end of the manager, is found at the next safe point: wherever the thread was put
        // since then, nobody knows where it is now.
        self.vp.following().put_elsewhere(|| {
            // Refused if the processor went offline: the thread then has all.
            let _ = affinity::set_affinity(None, &self.before);
        });
        local().worked_under().set(0);
    }
}
