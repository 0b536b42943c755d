//! A master that runs the other one's parts in its stead: two threads on one processor, with barriers.

#[cfg(loom)]
fn main() {}

#[cfg(not(loom))]
fn main() {
    test::parts_that_a_master_runs_in_anothers_stead_are_that_threads();
}

#[cfg(not(loom))]
mod test {
    use nanothreads::engine::{self, Barrier, Member, Team};
    use nanothreads::{Config, configure};
    use platform::affinity::{CpuSet, affinity, current_tid, set_affinity};
    use platform::guise;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::thread::{self, ThreadId};

    const REGIONS: u32 = 1000;

    thread_local! {
        static PARTS: Cell<u32> = const { Cell::new(0) };
    }

    /// What the members share.
    struct Shared {
        master: i32,
        barrier: Barrier,
        barriers: u32,
        /// Parts of member 1 on the master's thread.
        stood_in: AtomicU32,
        /// How far each has come.
        steps: [AtomicU32; 2],
        slave: std::sync::Mutex<Option<ThreadId>>,
    }

    /// # Safety
    /// - `data` points to a [`Shared`].
    unsafe fn part(data: *const (), member: Member) {
        // SAFETY: - caller's contract.
        let shared = unsafe { &*data.cast::<Shared>() };
        let id = member.id as usize;
        if id == 1 {
            PARTS.set(PARTS.get() + 1);
            shared.stood_in.fetch_add(u32::from(current_tid().0 == shared.master), Relaxed);
            assert_ne!(engine::thread().0, shared.master, "it is another thread, whoever runs it");
            let mut slave = shared.slave.lock().expect("nobody panics");
            assert_eq!(*slave.get_or_insert(thread::current().id()), thread::current().id());
        }
        for _ in 0..shared.barriers {
            let step = shared.steps[id].fetch_add(1, Relaxed) + 1;
            shared.barrier.wait(id);
            let other = shared.steps[1 - id].load(Relaxed);
            assert!(other == step || other == step + 1, "{other} beside {step}");
            shared.barrier.wait(id);
        }
    }

    /// The engine has the processors of the process's first thread, and its settings are the process's: one test, in that thread.
    pub(super) fn parts_that_a_master_runs_in_anothers_stead_are_that_threads() {
        let here = affinity(None).expect("it has a mask").first().expect("it runs somewhere");
        set_affinity(None, &CpuSet::single(here)).expect("a thread may stay where it is");
        assert!(configure(Config { adapt: false, stand_in: true, ..Config::default() }));
        for barriers in 0..4 {
            let shared = Shared {
                master: current_tid().0,
                barrier: Barrier::new(2),
                barriers,
                stood_in: AtomicU32::new(0),
                steps: Default::default(),
                slave: None.into(),
            };
            let data = std::ptr::from_ref(&shared).cast();
            for _ in 0..REGIONS {
                // SAFETY: - `part` takes what it gets, on two threads at once; a failed assertion ends the process.
                unsafe { Team::reserve(2).run(part, data) };
            }
            assert_eq!(PARTS.get(), 0, "the master's own");
            let stood_in = shared.stood_in.into_inner();
            if guise::is_possible() {
                assert!(stood_in > REGIONS / 2, "{stood_in} of {REGIONS} with {barriers} barriers");
            } else {
                platform::skip!("that a master stands in; no thread of this process can take another's guise");
                assert_eq!(stood_in, 0);
            }
        }
    }
}
