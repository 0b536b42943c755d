//! The host of detached tasks: the thread that is the master of those that run them.
//!
//! # Protocol
//! One thread of the process, started by the first task. It sleeps while there are none; else it
//! opens a scope, on all processors that the program has then, for all tasks that wait.
//! - H1 A task that comes while the scope is open is spawned into it; else it waits in the queue,
//!   and the host is woken.
//! - H2 Tasks are counted when they come, and when they have ended. The last one closes the scope
//!   for others: the next task waits for the next scope, of which the size is read anew.
//!
//! All of that is under one lock, which no task runs under.
//!
//! A forked child has a host of its own: its parent's is left alone.

use super::{Runnable, run_for_host};
use crate::tasks::completion::Spawner;
use crate::tasks::scope::scope;
use engine::process::{self, Born};
use engine::program::program;
use engine::wait_point::WaitPoint;
use platform::lock::Mutex;
use platform::message::say;
use platform::pthread::{self, Pthread};
use platform::sync::CachePadded;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicPtr,
    Ordering::{AcqRel, Acquire, Relaxed},
};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread;

/// Its thread's name.
const NAME: &str = "nanos-spawn";

/// Its stack: it runs tasks' waits, not tasks.
const STACK: usize = 8 << 20;

/// See the module head.
pub(super) struct Host {
    intake: CachePadded<Mutex<Intake>>,
    /// Where the thread sleeps.
    point: WaitPoint,
    born: Born,
}

#[derive(Default)]
struct Intake {
    /// Tasks for the next scope.
    queue: Vec<Arc<dyn Runnable>>,
    /// The way into the scope that is open.
    open: Option<Spawner<'static>>,
    /// Tasks that have come and not ended.
    count: usize,
    has_thread: bool,
}

/// The host of this process.
pub(super) fn host() -> &'static Host {
    static HOST: AtomicPtr<Host> = AtomicPtr::new(ptr::null_mut());
    // ORDERING: Acquire - pairs with the exchange below.
    let mut now = HOST.load(Acquire);
    loop {
        // SAFETY: - leaked.
        if let Some(host) = unsafe { now.as_ref() }.filter(|host| !host.born.is_parents()) {
            return host;
        }
        let fresh = Box::into_raw(Box::new(Host {
            intake: CachePadded::new(Mutex::new(Intake::default())),
            point: WaitPoint::new(),
            born: Born::now(),
        }));
        // ORDERING: AcqRel - publishes the host, and sees the one that was first.
        match HOST.compare_exchange(now, fresh, AcqRel, Acquire) {
            // SAFETY: - leaked just now.
            Ok(_) => return unsafe { &*fresh },
            Err(first) => {
                // SAFETY: - no other thread has seen it.
                drop(unsafe { Box::from_raw(fresh) });
                now = first;
            }
        }
    }
}

impl Host {
    fn intake(&self) -> MutexGuard<'_, Intake> {
        // Nothing of the program's runs under the lock.
        self.intake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// H1.
    pub(super) fn take_in(&'static self, job: Arc<dyn Runnable>) {
        let mut intake = self.intake();
        if !intake.has_thread {
            if !self.start() {
                drop(intake);
                return run_for_host(job);
            }
            intake.has_thread = true;
        }
        intake.count += 1;
        let Some(spawner) = &intake.open else {
            intake.queue.push(job);
            drop(intake);
            return self.point.notify_all();
        };
        spawner.spawn(move |_| self.run(job));
    }

    /// Runs a job; H2.
    fn run(&self, job: Arc<dyn Runnable>) {
        run_for_host(job);
        let mut intake = self.intake();
        intake.count -= 1;
        let closed = if intake.count == 0 { intake.open.take() } else { None };
        drop(intake);
        drop(closed);
    }

    /// Starts its thread; false where the system refuses.
    #[cold]
    fn start(&'static self) -> bool {
        // A thread inherits the processors of the one that starts it, which may be a worker's.
        let error = engine::unbound(|| {
            if process::is_child() {
                // The standard library's threads may wait for ever there.
                let life = |host: &'static Self| -> ! {
                    pthread::set_name(NAME);
                    host.live()
                };
                return Pthread::start(STACK, self, life).err().map(|error| error.to_string());
            }
            let builder = thread::Builder::new().name(NAME.into()).stack_size(STACK);
            builder.spawn(|| self.live()).err().map(|error| error.to_string())
        });
        if let Some(error) = &error {
            say_refused(error);
        }
        error.is_none()
    }

    fn live(&'static self) -> ! {
        program().config().threads.begin(0);
        loop {
            engine::wait(&self.point, || !self.intake().queue.is_empty());
            self.serve();
        }
    }

    /// One scope.
    fn serve(&'static self) {
        scope(|s| {
            let spawner = s.spawner();
            let mut intake = self.intake();
            let jobs = std::mem::take(&mut intake.queue);
            // Those that wait are counted: none can close the scope before this.
            intake.open = Some(spawner);
            drop(intake);
            for job in jobs {
                s.spawn(move |_| self.run(job));
            }
        });
    }
}

#[cold]
fn say_refused(error: &str) {
    static SAID: AtomicBool = AtomicBool::new(false);
    // ORDERING: Relaxed - a flag on its own.
    if !SAID.swap(true, Relaxed) {
        say(format_args!(
            "nanos: the system refuses the thread of detached tasks ({error}): they run in the \
             call of spawn. Larger limits (ulimit -v, ulimit -u, the cgroup's pids.max) avoid that"
        ));
    }
}
