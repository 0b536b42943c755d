//! `omp_pause_resource`: what the runtime keeps between regions goes back to the system.
//!
//! The threads of the caller's teams end, and others take their places, so that threadprivate data
//! of all but the calling thread begin anew, as the standard says. In a forked child, and on an
//! older copy's engine, they stay: their stacks are given back.

use crate::frame::Frame;
use crate::settings::settings;
use engine::{Member, Recall};
use std::mem::MaybeUninit;

/// Bytes of a stack that stay below the caller's frame: what a sleeping thread uses, with room.
const KEPT: usize = 32 << 10;

/// Gives memory back; false inside a region, where it is in use.
pub(crate) fn give_back(frame: &Frame) -> bool {
    let team = frame.team();
    if team.level() > 0 {
        return false;
    }
    let threads = team.threads_of_last_child(frame.id);
    if threads > 1 {
        let team = settings().host.reserve(threads as usize, false);
        // SAFETY: - `trim_stack` takes nothing, and does not unwind.
        unsafe { team.run(trim_stack, std::ptr::null(), &Recall::new()) };
    }
    settings().host.renew_threads();
    team.forget_children(frame.id);
    // SAFETY: - takes a number.
    unsafe { libc::malloc_trim(0) };
    true
}

/// Gives the unused part of the calling thread's stack back. The initial thread's stack grows on
/// demand: its limits are not the memory that it has, and it is left alone.
///
/// # Safety
/// - None.
unsafe fn trim_stack(_data: *const (), member: Member) {
    if member.id == 0 {
        return;
    }
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut low, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: - a place for the attributes of the calling thread, destroyed below.
    if unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: - initialised above; places for an address and a size.
    let known =
        unsafe { libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut low, &raw mut size) }
            == 0;
    // SAFETY: - initialised above, used no more.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    let here = (&raw const low).addr();
    let end = here.saturating_sub(KEPT) & !0xffff;
    let begin = (low.addr() + 0xffff) & !0xffff;
    if known && size > 0 && (begin..low.addr() + size).contains(&end) {
        // SAFETY: - pages of the thread's own stack, well below all that its frames use. A failure
        // costs nothing but memory.
        unsafe { libc::madvise(low.with_addr(begin), end - begin, libc::MADV_DONTNEED) };
    }
}
