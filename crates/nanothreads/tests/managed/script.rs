//! A manager by script: it takes this process in, and then says and sees exactly what a test wants.
#![allow(dead_code, reason = "each test file uses a part of this")]

use arena::client::{Client, Hello};
use arena::domain::{Domain, DomainArea};
use arena::global::State;
use arena::manager::{CheckedRequest, GlobalPage, ProgramAreas};
use arena::message::{self, FromManager, MAX_MESSAGE, Registered, ToManager};
use engine::Managed;
use nanothreads::{Waiting, builder};
use platform::affinity::{CpuId, CpuSet, Tid, affinity};
use platform::clock::monotonic_ns;
use platform::event::Doorbell;
use platform::fdpass;
use platform::process::wait_readable;
use platform::{SysError, SysResult};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
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
    /// Of a script with a domain, in which this process has line 0.
    pub(crate) domain: Option<DomainArea>,
    /// Kept, so that the program's ring has a listener.
    _doorbell: Doorbell,
    beats: Arc<AtomicBool>,
    /// Where its socket was. It is gone when the process is in.
    path: PathBuf,
}

/// The settings of a process whose tests have a script.
#[derive(Clone, Copy, Default)]
pub(crate) struct Setup {
    pub(crate) waiting: Waiting,
    /// The script has a domain.
    pub(crate) domain: bool,
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
    /// Takes this process in, and makes it the source of team sizes. `None`, with a printed reason,
    /// where there are too few processors to tell anything.
    fn begin(setup: Setup) -> Option<Self> {
        let whole = affinity(None).expect("the own mask");
        let mut two = whole.iter();
        let (Some(first), Some(second)) = (two.next(), two.next()) else {
            platform::skip!("needs two processors, this process may use {whole}");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder for the socket");
        let path = folder.path().join("app.sock");
        let listener = fdpass::listen(&path, 0o600).expect("a socket");
        let program = {
            let path = path.clone();
            thread::spawn(move || take_part(&path, setup))
        };
        let script = Self::take_in(&listener, [first, second], whole, (setup.domain, 0), path);
        let managed = program.join().expect("the program is in");
        let settings = builder().sizer(managed).waiting(setup.waiting);
        settings.install().expect("nothing of the engine was used before");
        Some(script)
    }

    /// Answers the process, which registers and, where there is a domain, joins; `unanswered` times
    /// it gets no answer to that, and tries again.
    pub(crate) fn take_in(
        listener: &OwnedFd,
        cpus: [CpuId; 2],
        whole: CpuSet,
        (has_domain, unanswered): (bool, u32),
        path: PathBuf,
    ) -> Self {
        let (socket, ToManager::Register(register)) = hear(listener) else {
            panic!("the program says something else than `register`");
        };
        let stated = CheckedRequest::of_registration(&register);
        let epoch = register.held.as_ref().map_or(0, |held| held.epoch);
        let (mut areas, descriptors) =
            ProgramAreas::create(1, stated, 2_000_000, epoch).expect("areas");
        areas.publish(cpus.iter().copied(), true, false);
        let page = Arc::new(
            GlobalPage::create(monotonic_ns(), &whole, QUANTUM_NS, "script").expect("a page"),
        );
        page.set_state(State { domain: has_domain, ..State::default() });
        let doorbell = Doorbell::new().expect("a doorbell");
        let [down, up] = descriptors.in_order();
        let descriptors = [down, up, doorbell.as_fd(), page.as_fd()];
        answer(&socket, &FromManager::Registered(Registered { slot: 1 }), &descriptors);
        let beats = Arc::new(AtomicBool::new(true));
        begin_to_beat(&beats, &page);
        let mut left_waiting = Vec::new();
        let domain = has_domain.then(|| {
            for _ in 0..unanswered {
                left_waiting.push(hear(listener));
            }
            let area = DomainArea::create(monotonic_ns()).expect("an area");
            // The program comes anew where the answer took too long.
            eventually("the program hears that it joined", || {
                let (socket, ToManager::Join) = hear(listener) else {
                    panic!("the program says something else than `join`");
                };
                let joined = FromManager::Joined { line: 0 };
                let sent = try_answer(&socket, &joined, &[area.descriptor().as_fd()]);
                sent.and_then(|()| is_closed(&socket)).map_err(must_be_gone).is_ok()
            });
            area
        });
        Self {
            areas,
            page,
            cpus,
            whole,
            socket: Some(socket),
            domain,
            _doorbell: doorbell,
            beats,
            path,
        }
    }

    /// Grants these.
    pub(crate) fn grant(&mut self, cpus: &[CpuId], dedicated: bool) {
        self.areas.publish(cpus.iter().copied(), dedicated, false);
    }

    /// The manager dies.
    pub(crate) fn die(&mut self) {
        self.beats.store(false, Relaxed);
        self.socket = None;
    }

    /// The manager dies, and another one, which has a domain too if this one has, takes the process
    /// in as soon as that comes.
    pub(crate) fn is_followed_by_another(&mut self) {
        self.is_followed_by_a_slow_one(0);
    }

    /// The same; the other one does not answer the first `unanswered` attempts to join its domain.
    pub(crate) fn is_followed_by_a_slow_one(&mut self, unanswered: u32) {
        self.die();
        let folder = self.path.parent().expect("a folder").to_owned();
        std::fs::create_dir(&folder).expect("the folder of the first socket is gone");
        let listener = fdpass::listen(&self.path, 0o600).expect("a socket");
        let domain = (self.domain.is_some(), unanswered);
        *self = Self::take_in(&listener, self.cpus, self.whole.clone(), domain, self.path.clone());
        std::fs::remove_dir_all(&folder).expect("our folder");
    }
}

/// The manager's signs of life.
fn begin_to_beat(goes_on: &Arc<AtomicBool>, page: &Arc<GlobalPage>) {
    let (goes_on, page) = (Arc::clone(goes_on), Arc::clone(page));
    thread::spawn(move || {
        while goes_on.load(Relaxed) {
            page.beat(monotonic_ns());
            thread::park_timeout(Duration::from_millis(20));
        }
    });
}

/// The program's side of the beginning.
fn take_part(path: &Path, setup: Setup) -> Managed {
    let hello = Hello {
        max_processors: 8,
        request: 2,
        fixed_team: false,
        broker: false,
        library: "script".into(),
        within: None,
    };
    let client = Client::connect(path, &hello, PATIENCE).expect("the script takes all programs");
    let managed = Managed::new(client);
    if !setup.domain {
        return managed;
    }
    managed.in_domain(Domain::join(path, PATIENCE).expect("the script takes all programs"))
}

/// The next program that connects, and what it says first.
pub(crate) fn hear(listener: &OwnedFd) -> (OwnedFd, ToManager) {
    let comes = wait_readable(&[listener.as_fd()], Some(PATIENCE)).expect("a listener");
    assert!(!comes.is_empty(), "no program connects within {PATIENCE:?}");
    let socket = fdpass::accept(listener).expect("the program connects");
    let mut packet = vec![0; MAX_MESSAGE];
    let (length, _) =
        fdpass::recv(&socket, &mut packet, Some(PATIENCE)).expect("the program speaks");
    (socket, message::decode(&packet[..length]).expect("a message"))
}

fn answer(socket: &OwnedFd, message: &FromManager, descriptors: &[BorrowedFd<'_>]) {
    try_answer(socket, message, descriptors).expect("the program listens");
}

/// Fails where the program has given up, as [`must_be_gone`] says.
fn try_answer(
    socket: &OwnedFd,
    message: &FromManager,
    descriptors: &[BorrowedFd<'_>],
) -> SysResult<()> {
    let packet = message::encode(message).expect("an answer");
    fdpass::send(socket, &packet, descriptors)
}

/// Waits until the program closes a connection. Fails where it has not read the answer before.
fn is_closed(socket: &OwnedFd) -> SysResult<()> {
    let (length, _) = fdpass::recv(socket, &mut [0; 1], Some(PATIENCE))?;
    assert_eq!(length, 0, "the program has nothing more to say");
    Ok(())
}

/// The program hung up, without the answer.
fn must_be_gone(error: SysError) {
    assert!(error.is(libc::EPIPE) || error.is(libc::ECONNRESET), "{error}");
}

/// Runs a test with the process's script, alone, on a thread of its own, which is the program's
/// only master.
pub(crate) fn with_script(test: impl FnOnce(&mut Script) + Send + 'static) {
    with_script_as(Setup::default(), test);
}

/// The same in a process that is like that; all its tests must say the same.
pub(crate) fn with_script_as(setup: Setup, test: impl FnOnce(&mut Script) + Send + 'static) {
    static SCRIPT: OnceLock<Option<Mutex<Script>>> = OnceLock::new();
    let Some(script) = SCRIPT.get_or_init(|| Script::begin(setup).map(Mutex::new)) else { return };
    let mut script = script.lock().unwrap_or_else(PoisonError::into_inner);
    let cpus = script.cpus;
    script.grant(&cpus, true);
    script.areas.set_preempted(0);
    script.page.set_state(State::default());
    let script = &mut *script;
    // Its workers are given back when it ends.
    let outcome = thread::scope(|scope| scope.spawn(|| test(script)).join());
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}
