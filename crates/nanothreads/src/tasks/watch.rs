//! The report of a scope that waits long, and for nothing but its own spawners and completions.
//!
//! # Protocol
//! - L1 A scope whose body has ended, and that has open [`doors`](super::doors), goes into the
//!   list; it leaves it, under the list's lock, before its node ends.
//! - L2 A thread looks at the list now and then: at scopes that have waited for [`limit`], and of
//!   whose node no share is left but those of the doors. Then no task is left that could drop one.
//!   It may still be that a thread of the program does so later; hence a report, and no panic.
//!
//! The thread is started when the list gets its first scope, and ends when there was none for a
//! while. In a forked child there is none: what is waited for there is most likely the parent's.

use crate::builder::longest_wait;
use crate::tasks::doors::Doors;
use crate::tasks::node::Node;
use engine::process;
use platform::lock::Mutex;
use platform::message::say;
use std::panic::Location;
use std::sync::{MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Unless the program says otherwise.
const LIMIT: Duration = Duration::from_secs(10);

fn limit() -> Duration {
    longest_wait().unwrap_or(LIMIT)
}

/// Scopes that wait, and whether a thread looks at them.
struct List {
    waits: Vec<WatchedWait>,
    has_thread: bool,
}

struct WatchedWait {
    node: *const Node,
    doors: *const Doors,
    place: &'static Location<'static>,
    /// The thread that waits, as the program or the system calls it.
    thread: Option<String>,
    since: Instant,
    is_told: bool,
}

// SAFETY: - nodes and doors are made for looks by any thread, and live as long as they are in
//           the list (L1).
unsafe impl Send for WatchedWait {}

static LIST: Mutex<List> = Mutex::new(List { waits: Vec::new(), has_thread: false });

fn list() -> MutexGuard<'static, List> {
    // Nothing panics under the lock.
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A scope in the list; dropped when its wait is over.
pub(super) struct Watched(*const Node);

impl Drop for Watched {
    fn drop(&mut self) {
        list().waits.retain(|wait| !std::ptr::eq(wait.node, self.0));
    }
}

/// L1: the scope of `node`, made at `place`, waits from now on, most likely. `None`: it is not
/// looked at.
#[cold]
pub(super) fn begin(
    node: &Node,
    doors: &Doors,
    place: &'static Location<'static>,
) -> Option<Watched> {
    if process::is_child() || limit() == Duration::MAX {
        return None;
    }
    let thread = thread::current().name().map(String::from);
    let (node, doors) = (std::ptr::from_ref(node), std::ptr::from_ref(doors));
    let since = Instant::now();
    let mut list = list();
    list.waits.push(WatchedWait { node, doors, place, thread, since, is_told: false });
    if !list.has_thread {
        let start = || thread::Builder::new().name("nanos-scopes".into()).spawn(look);
        // Refused: no report, which is all that is lost.
        list.has_thread = engine::unbound(start).is_ok();
    }
    Some(Watched(node))
}

/// L2.
fn look() {
    let mut idle_since = Instant::now();
    loop {
        let pause = (limit() / 8).clamp(Duration::from_millis(5), Duration::from_secs(1));
        thread::sleep(pause);
        let mut list = list();
        if !list.waits.is_empty() {
            idle_since = Instant::now();
        } else if idle_since.elapsed() > 8 * pause {
            list.has_thread = false;
            return;
        }
        let reports: Vec<String> = list.waits.iter_mut().filter_map(WatchedWait::report).collect();
        drop(list);
        for report in reports {
            say(format_args!("nanos: {report}"));
        }
    }
}

impl WatchedWait {
    fn report(&mut self) -> Option<String> {
        if self.is_told || self.since.elapsed() < limit() {
            return None;
        }
        // SAFETY: - L1: in the list, whose lock the caller holds.
        let (node, doors) = unsafe { (&*self.node, &*self.doors) };
        let open = doors.open();
        if open == 0 || !node.inputs.is_only(open) {
            return None;
        }
        self.is_told = true;
        let last = doors.last().map_or_else(String::new, |place| format!(", made at {place}"));
        let thread = self.thread.as_deref().unwrap_or("without a name");
        Some(format!(
            "the scope at {} (thread `{thread}`) has waited for {:.1} s, and nothing is left to \
             wait for but {open} of its spawners and completions{last}. One that the scope's body \
             has returned, or left in a place that outlives the scope, is waited for for ever: \
             drop it in the body, or give it to the thread that drops it",
            self.place,
            self.since.elapsed().as_secs_f64(),
        ))
    }
}
