//! What the thread of a worker does as long as it lives: it looks for work, runs it, says that it
//! is done, and waits.

use crate::manager::source::{self, source};
use crate::process::forked;
use crate::process::panics::NoUnwinding;
use crate::program::config::Waiting;
use crate::program::program;
use crate::protocols::wait_point::{Look, SHORT};
use crate::regions::fork_join::WAKE;
use crate::thread::membership::{Membership, ResultPlace};
use crate::thread::{Local, current};
use crate::waits::spin_policy::{self, Wait};
use crate::work::{Offered, Region, Work, WorkDescriptor};
use crate::workers::worker::{Worker, WorkerProgress};
use heir::Heir;
use platform::clock::Ticks;
use std::cell::Cell;

mod heir;
mod leaver;

pub(crate) use heir::renew_members;
pub use leaver::on_leaver;

/// The life of a worker's first thread. Returns when another one has taken its place, or the thread
/// has left.
pub(crate) fn live(worker: &'static Worker) {
    leaver::until_it_leaves(worker, || main(worker, None));
}

fn main(worker: &'static Worker, heir: Option<Heir>) {
    // Its master waits for it.
    let guard = NoUnwinding::enter();
    let (local, mut progress) = begin(worker, heir);
    // The own line, the team's ring and the open ring, in this order (F5). Cost when nothing is
    // new: a load for each, of a line in the own cache. The less there is to do between the arrival
    // of a line and the start of its work, the shorter the region.
    loop {
        // SAFETY: - the worker's thread, which is done with what it found before.
        if let Some((number, descriptor)) = unsafe { worker.look_at_line(&mut progress) } {
            run_line(worker, local, &descriptor);
            // SAFETY: - polled above by this thread, the slot's worker, and run.
            unsafe { worker.finish(number) };
            continue;
        }
        // SAFETY: - as above.
        if let Some(region) = unsafe { worker.look_at_ring() } {
            run_broadcast(worker, local, &region, &mut progress);
            continue;
        }
        // SAFETY: - as above.
        let Some(offered) = (unsafe { worker.look_at_offers(&progress) }) else {
            if let Some(region) = wait_for_news(worker, local, &progress) {
                run_broadcast(worker, local, &region, &mut progress);
            }
            continue;
        };
        // What its supplier had seen supplied may have come since the looks above, and goes
        // first: the offer may last until that is done (`recall`, I2). It stays in its ring until
        // it is finished.
        if worker.has_line(&progress) {
            continue;
        }
        // SAFETY: - as above.
        if let Some(region) = unsafe { worker.look_at_ring() } {
            run_broadcast(worker, local, &region, &mut progress);
            continue;
        }
        if run_offer(worker, local, offered, &mut progress) {
            program().config().threads.end(worker.number());
            guard.leave();
            return;
        }
    }
}

#[inline]
fn run_line(worker: &'static Worker, local: &Local, descriptor: &WorkDescriptor) {
    worker.settle();
    let membership = descriptor.membership(Some(ResultPlace::Line(worker)));
    run_part(local, membership, descriptor.work, worker.data_of(descriptor));
}

/// The thread is the worker from now on.
#[inline(never)]
fn begin(worker: &'static Worker, heir: Option<Heir>) -> (&'static Local, WorkerProgress) {
    let is_heir = heir.is_some();
    let (local, mut progress) = match heir {
        Some(heir) => heir.take_over(),
        None => (current::adopt(worker), WorkerProgress::NONE),
    };
    let tid = worker.station().runs();
    local.runs_on(tid);
    source().enlist(worker.seat(), tid);
    program().config().threads.begin(worker.number());
    if is_heir {
        // SAFETY: - polled by the thread that this one takes the place of, and run.
        unsafe { worker.finish_offer(&mut progress) };
    }
    (local, progress)
}

/// True when another thread goes on, and this one is to end.
#[inline(never)]
fn run_offer(
    worker: &'static Worker,
    local: &'static Local,
    offered: Offered,
    progress: &mut WorkerProgress,
) -> bool {
    worker.settle();
    run_part(local, Membership::OUTSIDE, offered.work, offered.data);
    let go_on = move |heir| leaver::until_it_leaves(worker, || main(worker, Some(heir)));
    if local.is_to_be_renewed() && heir::hand_on(worker, local, progress, go_on) {
        return true;
    }
    // SAFETY: - polled by this thread, and run.
    unsafe { worker.finish_offer(progress) };
    false
}

fn run_broadcast(
    worker: &'static Worker,
    local: &Local,
    region: &Region,
    progress: &mut WorkerProgress,
) {
    worker.settle();
    progress.threads = region.threads;
    // SAFETY: - found by this thread; given back before the work runs.
    let id = unsafe { worker.attached() }.id();
    let membership = region.membership(id, Some(ResultPlace::Arrival(worker)));
    run_part(local, membership, region.work, region.data);
    // SAFETY: - as above; while this thread gathers it neither looks nor runs work.
    unsafe { worker.attached() }.gather_cluster(local, region.size, region.threads);
    // SAFETY: - this thread is the line's worker; it ran its part, and gathered its cluster.
    unsafe { worker.arrive() };
}

/// Runs `work` on a worker. One that is none afterwards is the child of a fork that `work` did.
#[inline]
fn run_part(local: &Local, membership: Membership, work: Work, data: *const ()) {
    local.run(membership, work, data);
    if local.worker().is_none() {
        forked::end_child_of_worker();
    }
}

/// Returns when there is something; what it is, if it was broadcast. While nothing is there, it
/// only looks whether anything is.
#[inline(never)]
fn wait_for_news(worker: &Worker, local: &Local, progress: &WorkerProgress) -> Option<Region> {
    local.waiter().safe_point();
    let mut broadcast = None;
    let look = || {
        if worker.has_news(progress) {
            return Look::Ready;
        }
        // SAFETY: - the worker's thread, which is done with what it found before.
        broadcast = unsafe { worker.look_at_ring() };
        broadcast.is_some().into()
    };
    let lingers_since = Cell::new(None);
    let linger = || {
        source().refresh();
        lingers_since.set(Some(Ticks::now()));
    };
    // A thread that never spins has not been idle for long when it sleeps.
    let spins = program().config().waiting != Waiting::Passive;
    let sleep = |look| sleep(worker, look, lingers_since.get().filter(|_| spins));
    spin_policy::wait_by(sleep, local.waiter(), (progress.threads, Wait::Idle), linger, look);
    broadcast
}

/// Sleeps until `look` says `Ready`. `lingers_since`: it spun for [`SHORT`] before that.
fn sleep(worker: &Worker, mut look: impl FnMut() -> Look, lingers_since: Option<Ticks>) {
    let sleeper = worker.own_sleeper();
    let Some(managed) = source::managed() else {
        return sleeper.sleep_until(look, WAKE);
    };
    // A thread that spun has had nothing to do for so long already.
    let (since, before) = match lingers_since {
        Some(since) => (since, Ticks::about_us(SHORT)),
        None => (Ticks::now(), 0),
    };
    let mut is_told = false;
    let mut says_so_again = true;
    let alarm = Cell::new(None);
    let tell = || {
        let seen = look();
        if seen == Look::Pending && says_so_again {
            if !is_told {
                is_told = true;
                managed.falls_asleep(worker);
            }
            alarm.set(managed.idles(worker, before + since.elapsed_ticks()));
            says_so_again = alarm.get().is_some();
        }
        seen
    };
    sleeper.sleep_with_alarm(tell, || alarm.get(), WAKE);
    if is_told {
        managed.is_awake(worker);
    }
}
