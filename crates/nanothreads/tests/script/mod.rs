//! A manager by script: it takes this process in, and then says and sees exactly what a test wants.
#![allow(dead_code, reason = "each test file uses a part of this")]

use arena::client::{Client, Hello};
use arena::global::State;
use arena::manager::{CheckedRequest, GlobalPage, ProgramAreas};
use arena::message::{self, FromManager, MAX_MESSAGE, Registered, ToManager};
use nanothreads::builder;
use nanothreads::sizer::Managed;
use platform::affinity::{CpuId, CpuSet, Tid, affinity};
use platform::clock::monotonic_ns;
use platform::event::Doorbell;
use platform::fdpass;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Longer than any test.
const QUANTUM_NS: u64 = 100_000_000;

/// See the module head.
pub(crate) struct Script {
    pub(crate) areas: ProgramAreas,
    /// The page of all programs.
    pub(crate) page: Arc<GlobalPage>,
    /// Two processors that this process may use.
    pub(crate) cpus: [CpuId; 2],
    /// What it may use.
    pub(crate) whole: CpuSet,
    socket: Option<OwnedFd>,
    /// Kept, so that the program's ring has a listener.
    _doorbell: Doorbell,
    beats: Arc<AtomicBool>,
}

/// Looks until something is so.
pub(crate) fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !look() {
        assert!(begin.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::yield_now();
    }
}

/// The mask of a thread.
pub(crate) fn mask_of(tid: Tid) -> CpuSet {
    affinity(Some(tid)).expect("the thread lives")
}

impl Script {
    /// Takes this process in, and makes it the source of team sizes. `None`, with a printed reason, where there are too few
    /// processors to tell anything.
    fn begin() -> Option<Self> {
        let whole = affinity(None).expect("the own mask");
        let mut two = whole.iter();
        let (Some(first), Some(second)) = (two.next(), two.next()) else {
            println!("skipped: needs two processors, this process may use {whole}");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder for the socket");
        let path = folder.path().join("app.sock");
        let listener = fdpass::listen(&path, 0o600).expect("a socket");
        let program = thread::spawn(move || {
            let hello = Hello { max_processors: 8, request: 2, fixed_team: false, library: "script".into() };
            Client::connect(&path, &hello, PATIENCE).expect("the script takes everybody")
        });
        let socket = fdpass::accept(&listener).expect("the program connects");
        let mut packet = vec![0; MAX_MESSAGE];
        let (length, _) = fdpass::recv(&socket, &mut packet, Some(PATIENCE)).expect("the program speaks");
        let Ok(ToManager::Register(register)) = message::decode(&packet[..length]) else {
            panic!("the program says something else than `register`");
        };
        let stated = CheckedRequest::of_registration(&register);
        let (mut areas, descriptors) = ProgramAreas::create(1, stated, 2_000_000, 0).expect("areas");
        areas.publish(&[first, second], true, false);
        let global = GlobalPage::create(monotonic_ns(), &whole, QUANTUM_NS, "script").expect("a page");
        let page = Arc::new(global);
        let global = Arc::clone(&page);
        let doorbell = Doorbell::new().expect("a doorbell");
        let [down, up] = descriptors.in_order();
        let answer = message::encode(&FromManager::Registered(Registered { slot: 1 })).expect("an answer");
        fdpass::send(&socket, &answer, &[down, up, doorbell.as_fd(), global.as_fd()]).expect("the program listens");
        let client = program.join().expect("the program is in");
        builder().sizer(Managed::new(client)).install().expect("nothing of the engine was used before");
        let beats = Arc::new(AtomicBool::new(true));
        let goes_on = Arc::clone(&beats);
        thread::spawn(move || {
            while goes_on.load(Relaxed) {
                global.beat(monotonic_ns());
                thread::park_timeout(Duration::from_millis(20));
            }
        });
        let cpus = [first, second];
        Some(Self { areas, page, cpus, whole, socket: Some(socket), _doorbell: doorbell, beats })
    }

    /// Grants these.
    pub(crate) fn grant(&mut self, cpus: &[CpuId], dedicated: bool) {
        self.areas.publish(cpus, dedicated, false);
    }

    /// The manager dies.
    pub(crate) fn die(&mut self) {
        self.beats.store(false, Relaxed);
        self.socket = None;
    }
}

/// Runs a test with the process's script, alone, on a thread of its own, which is the program's only master.
pub(crate) fn with_script(test: impl FnOnce(&mut Script) + Send + 'static) {
    static SCRIPT: OnceLock<Option<Mutex<Script>>> = OnceLock::new();
    let Some(script) = SCRIPT.get_or_init(|| Script::begin().map(Mutex::new)) else { return };
    let mut script = script.lock().unwrap_or_else(PoisonError::into_inner);
    let cpus = script.cpus;
    script.grant(&cpus, true);
    script.areas.set_preempted(0);
    script.page.set_state(State::default());
    let script = &mut *script;
    // Its virtual processors are given back when it ends.
    let outcome = thread::scope(|scope| scope.spawn(|| test(script)).join());
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}
