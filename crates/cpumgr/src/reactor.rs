//! What the scheduler thread waits for: descriptors, one timer, signals, files that disappear.
//!
//! # Signals
//! These signals end the manager, in the one way in which the socket file is removed: SIGTERM,
//! SIGINT, SIGQUIT, SIGXCPU (its limit of processor time), and SIGHUP where the manager has a
//! terminal, which has gone then. Without a terminal SIGHUP tells a service to read its
//! configuration anew. SIGUSR2 ends the manager for the next one, which comes at once: programs,
//! places in the queue and what is attached are left for it (`RestartKillSignal=` of a service).
//! Other signals do nothing if they can be caught and neither tell of a defect nor stop the
//! process: SIGUSR1, SIGALRM, SIGPIPE, SIGIO, those of real time...
//!
//! Those that a service manager sends (`EARLY`) wait from the first moment of a manager's process
//! (`hold_early`) until the reactor reads them: their usual action would end it without a word.

use std::os::fd::AsFd;
use std::path::Path;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use platform::{SysError, SysResult, fault};

/// Events taken from the kernel at once.
const BATCH: usize = 64;

/// Signals that do what they do everywhere.
const LEFT_ALONE: [Signal; 12] = [
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGTRAP,
    Signal::SIGABRT,
    Signal::SIGSYS,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
    Signal::SIGCONT,
    Signal::SIGCHLD,
];

/// What a manager may be told before it can listen. Ctrl-C, say, is none of these: a start that
/// takes long is given up at once.
const EARLY: [Signal; 3] = [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGUSR2];

/// Which of a client's descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Its process.
    Process = 4,
    /// Its doorbell.
    Doorbell = 5,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The API thread has calls.
    Calls,
    /// A signal asks the manager to end.
    Signal,
    /// A signal asks it to make room for the next one.
    Relief,
    /// SIGHUP asks it to read its configuration anew.
    Hangup,
    /// The timer.
    Timer,
    /// Files of the watched directory went, or others took their place.
    Files,
    /// A client's descriptor can be read. The client may be gone by now.
    Client {
        /// Its number.
        serial: u64,
        /// Which descriptor.
        role: Role,
    },
}

/// What a descriptor is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Nothing.
    Muted,
    /// Something to read, as long as it is there.
    Read,
    /// Each time that something comes, read or not (`EPOLLET`): an event counter need not be read
    /// for the next event, and must not, since what comes between an event and the read goes with
    /// it.
    Each,
}

const CALLS: u64 = 0;
const TIMER: u64 = 1;
const SIGNAL: u64 = 2;
const FILES: u64 = 3;
const ROLE_BITS: u32 = 3;

/// Lets what a manager is told before it has a reactor wait for that. To be called by the only
/// thread, in a process that becomes a manager and starts no program before.
///
/// # Errors
/// None that the kernel has for this.
pub(crate) fn hold_early() -> SysResult<()> {
    named("pthread_sigmask", EARLY.into_iter().collect::<SigSet>().thread_block())
}

/// The scheduler's epoll with its timer and signals.
#[derive(Debug)]
pub struct Reactor {
    epoll: Epoll,
    timer: TimerFd,
    signals: SignalFd,
    /// It has a terminal, whose end is its own.
    has_terminal: bool,
    files: Option<Inotify>,
    armed: Option<u64>,
    /// What the kernel fills in; kept, so that a wait writes no more of it than what happened.
    ready: Vec<EpollEvent>,
}

impl Reactor {
    /// Waits for signals from now on instead of dying of them; threads started later inherit that.
    ///
    /// # Errors
    /// When descriptors are used up.
    pub fn new() -> SysResult<Self> {
        let mut mask = SigSet::all();
        // What tells of a defect, what stops and continues, and what is ignored in any case.
        for signal in LEFT_ALONE {
            mask.remove(signal);
        }
        named("pthread_sigmask", mask.thread_block())?;
        let signals = named(
            "signalfd",
            SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK),
        )?;
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = named("timerfd_create", TimerFd::new(ClockId::CLOCK_MONOTONIC, flags))?;
        let epoll = named("epoll_create1", Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC))?;
        let ready = vec![EpollEvent::empty(); BATCH];
        let has_terminal = std::fs::File::open("/dev/tty").is_ok();
        let reactor = Self { epoll, timer, signals, has_terminal, files: None, armed: None, ready };
        reactor.add_token(&reactor.timer, TIMER, Interest::Each)?;
        reactor.add_token(&reactor.signals, SIGNAL, Interest::Read)?;
        Ok(reactor)
    }

    /// Waits for files of `directory` that go, too, and for the directory's own end. Costs nothing
    /// until then.
    ///
    /// # Errors
    /// `EMFILE`, `ENOSPC` when the user has too many such watches; what keeps the directory from
    /// being looked at.
    pub fn add_files(&mut self, directory: &Path) -> SysResult<()> {
        let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
        let files = named("inotify_init1", Inotify::init(flags))?;
        let gone = AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVE;
        let itself = AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF;
        named(
            "inotify_add_watch",
            files.add_watch(directory, gone | itself | AddWatchFlags::IN_ONLYDIR),
        )?;
        self.add_token(&files, FILES, Interest::Read)?;
        self.files = Some(files);
        Ok(())
    }

    /// Waits for the API thread's bell too.
    ///
    /// # Errors
    /// `ENOSPC`, `ENOMEM`.
    pub fn add_calls(&self, bell: impl AsFd) -> SysResult<()> {
        self.add_token(bell, CALLS, Interest::Read)
    }

    /// Waits for a client's descriptor too.
    ///
    /// # Errors
    /// `ENOSPC`, `ENOMEM`.
    pub fn add(&self, fd: impl AsFd, serial: u64, role: Role) -> SysResult<()> {
        let interest = match role {
            Role::Process => Interest::Read,
            Role::Doorbell => Interest::Each,
        };
        self.add_token(fd, token(serial, role), interest)
    }

    /// Changes what a client's descriptor is waited for. What is there already comes as an event.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn set(&self, fd: impl AsFd, serial: u64, role: Role, interest: Interest) -> SysResult<()> {
        named("epoll_ctl", self.epoll.modify(fd, &mut event(token(serial, role), interest)))
    }

    /// Does not wait for a descriptor any more. To be called before it is closed: a copy of it in
    /// another process would keep it in the set.
    ///
    /// # Errors
    /// `ENOENT` when it was not in the set.
    pub fn remove(&self, fd: impl AsFd) -> SysResult<()> {
        named("epoll_ctl", self.epoll.delete(fd))
    }

    /// Waits for `events`, which are none before, at most until the monotonic clock shows
    /// `deadline`; `None` waits for ever.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL`: never for a reactor that lives.
    pub fn wait(&mut self, deadline: Option<u64>, events: &mut Vec<Event>) -> SysResult<()> {
        self.arm(deadline)?;
        self.collect(EpollTimeout::NONE, events)
    }

    /// What has happened, without waiting for anything: a model has a time of its own.
    #[cfg(test)]
    pub(crate) fn poll(&mut self) -> SysResult<Vec<Event>> {
        let mut events = Vec::new();
        self.collect(EpollTimeout::ZERO, &mut events)?;
        Ok(events)
    }

    fn collect(&mut self, longest: EpollTimeout, events: &mut Vec<Event>) -> SysResult<()> {
        let count = match named("epoll_wait", self.epoll.wait(&mut self.ready, longest)) {
            Ok(count) => count,
            Err(error) if error.is(nix::libc::EINTR) => 0,
            Err(error) => return Err(error),
        };
        for event in &self.ready[..count] {
            let what = match event.data() {
                CALLS => Event::Calls,
                TIMER => {
                    // One shot: it is armed again by the next wait, which takes away what it
                    // counted.
                    self.armed = None;
                    Event::Timer
                }
                SIGNAL => {
                    let Some(signal) = named("read(signalfd)", self.signals.read_signal())? else {
                        continue;
                    };
                    match self.meaning(signal.ssi_signo) {
                        Some(event) => event,
                        None => {
                            let signal = signal.ssi_signo;
                            tracing::debug!(signal, "a signal that means nothing here");
                            continue;
                        }
                    }
                }
                FILES => {
                    if let Some(files) = &self.files {
                        // Which ones does not matter: the receiver of the event looks. There may be
                        // more than one read takes.
                        named("read(inotify)", files.read_events())?;
                    }
                    Event::Files
                }
                token => {
                    let role = match token & ((1 << ROLE_BITS) - 1) {
                        4 => Role::Process,
                        _ => Role::Doorbell,
                    };
                    Event::Client { serial: token >> ROLE_BITS, role }
                }
            };
            events.push(what);
        }
        Ok(())
    }

    /// What a signal of this number asks for.
    fn meaning(&self, number: u32) -> Option<Event> {
        match number.try_into().ok().and_then(|number: i32| Signal::try_from(number).ok()) {
            Some(Signal::SIGTERM | Signal::SIGINT | Signal::SIGQUIT | Signal::SIGXCPU) => {
                Some(Event::Signal)
            }
            Some(Signal::SIGHUP) if self.has_terminal => Some(Event::Signal),
            Some(Signal::SIGHUP) => Some(Event::Hangup),
            Some(Signal::SIGUSR2) => Some(Event::Relief),
            // Those of real time have no names.
            _ => None,
        }
    }

    /// Sets the timer to a time of the monotonic clock, or off; a system call only when that
    /// changes.
    fn arm(&mut self, deadline: Option<u64>) -> SysResult<()> {
        if self.armed == deadline {
            return Ok(());
        }
        let result = match deadline {
            // A time of zero would disarm the timer.
            Some(deadline) => {
                let time =
                    TimeSpec::from_duration(std::time::Duration::from_nanos(deadline.max(1)));
                self.timer.set(Expiration::OneShot(time), TimerSetTimeFlags::TFD_TIMER_ABSTIME)
            }
            None => self.timer.unset(),
        };
        named("timerfd_settime", result)?;
        self.armed = deadline;
        Ok(())
    }

    fn add_token(&self, fd: impl AsFd, token: u64, interest: Interest) -> SysResult<()> {
        named("epoll_ctl", self.epoll.add(fd, event(token, interest)))
    }
}

fn token(serial: u64, role: Role) -> u64 {
    serial << ROLE_BITS | role as u64
}

fn event(token: u64, interest: Interest) -> EpollEvent {
    let flags = match interest {
        // An event counter that overflowed is an error for ever, and errors come unasked for.
        Interest::Muted => EpollFlags::EPOLLET,
        Interest::Read => EpollFlags::EPOLLIN,
        Interest::Each => EpollFlags::EPOLLIN | EpollFlags::EPOLLET,
    };
    EpollEvent::new(flags, token)
}

fn named<T>(call: &'static str, result: nix::Result<T>) -> SysResult<T> {
    fault::or(call, result.map_err(|errno| SysError::new(call, errno as i32)))
}
