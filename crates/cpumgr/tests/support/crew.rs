//! The threads of a program of the tests.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use arena::Grant;
use arena::client::Client;
use platform::affinity::{CpuSet, Tid, affinity, current_tid, set_affinity};

/// Looks at the grant of a member of a gang come this often: after this many steps of its work.
const STEPS: u32 = 1_000;

/// Threads that were started.
#[derive(Default)]
pub(super) struct Crew {
    spinners: Vec<Tid>,
    sleeper: Option<JoinHandle<String>>,
}

impl Crew {
    /// Virtual processors 1..`count`.
    pub(super) fn spin(&mut self, client: &Arc<Client>, count: usize) {
        for index in 1..count {
            let tied = Arc::clone(client);
            let (said, hear) = channel();
            std::thread::spawn(move || {
                let cpus = tied.vp(index).0.map_or_else(|| tied.cpus(), CpuSet::single);
                if !cpus.is_empty() {
                    set_affinity(None, &cpus).unwrap();
                }
                tied.enlist_vp(index, current_tid());
                drop(tied);
                said.send(current_tid()).unwrap();
                spin()
            });
            self.spinners.push(hear.recv().unwrap());
        }
    }

    /// The masks of the initial thread and of the spinners.
    pub(super) fn masks(&self) -> String {
        let own = Tid(std::process::id().cast_signed());
        let masks = std::iter::once(&own).chain(&self.spinners);
        masks.map(|tid| affinity(Some(*tid)).unwrap().to_string()).collect::<Vec<_>>().join(" ")
    }

    /// Binds spinner `index`, from 1; false when the kernel refuses.
    pub(super) fn bind(&self, index: usize, cpus: &CpuSet) -> bool {
        set_affinity(Some(self.spinners[index - 1]), cpus).is_ok()
    }

    /// Virtual processor 1 sleeps until there are two processors.
    pub(super) fn park(&mut self, client: &Arc<Client>) {
        let tied = Arc::clone(client);
        let (said, hear) = channel();
        self.sleeper = Some(std::thread::spawn(move || {
            tied.publish_vp(1, current_tid());
            let mut said = Some(said);
            let granted = tied.park(1, || {
                if let Some(said) = said.take() {
                    said.send(()).unwrap();
                }
                tied.grant().processors > 1
            });
            if granted {
                format!("with {}", tied.grant().processors)
            } else {
                "without a manager".into()
            }
        }));
        hear.recv().unwrap();
    }

    /// Waits for it, and says what it woke with.
    pub(super) fn unparked(&mut self) -> String {
        self.sleeper.take().unwrap().join().unwrap()
    }
}

/// Members 0..`count` of a gang: each computes while the program has a processor for it that is not
/// shared, and sleeps at its park word otherwise. Returns their threads.
pub(super) fn gang(client: &Arc<Client>, count: usize) -> String {
    let member = |index: usize| {
        let tied = Arc::clone(client);
        let (said, hear) = channel();
        std::thread::spawn(move || {
            tied.publish_vp(index, current_tid());
            said.send(current_tid()).unwrap();
            let is_in = |grant: Grant| !grant.shared && index < grant.processors as usize;
            let mut place = None;
            loop {
                if !is_in(tied.grant()) {
                    tied.park(index, || is_in(tied.grant()));
                }
                // It may be another program's by now: the next look is soon.
                if let Some(cpu) = tied.vp(index).0.filter(|cpu| place != Some(*cpu)) {
                    set_affinity(None, &CpuSet::single(cpu)).unwrap();
                    place = Some(cpu);
                }
                (0..STEPS).for_each(|_| std::hint::spin_loop());
            }
        });
        hear.recv().unwrap().to_string()
    };
    (0..count).map(member).collect::<Vec<_>>().join(" ")
}

/// A thread that spins for ever.
pub(super) fn hog() {
    std::thread::spawn(|| spin());
}

fn spin() -> ! {
    loop {
        std::hint::spin_loop();
    }
}
