//! The daemon: from options to a running scheduler.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arena::message::Narrow;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use platform::SysError;
use platform::affinity::CpuSet;
use platform::clock::monotonic_ns;

use crate::api::MAX_WAITING;
use crate::cli::{
    DaemonArgs, FairShare, HISTORY_AGE, HISTORY_SIZE, IdleExit, Level, Listen, Strangers,
    TRACE_SIZE, Threads,
};
use crate::config::{Config, Rules, Sources};
use crate::error::{Error, RUNNING};
use crate::fence::Fences;
use crate::guarded::Guarded;
use crate::history::{Bounds, History, Keep};
use crate::instance::{Instance, InstanceError};
use crate::kernel::Linux;
use crate::ledger::Ledger;
use crate::limits;
use crate::reactor::Reactor;
use crate::reload::Reload;
use crate::server::{Ended, MAX_PLACES, MAX_PROGRAMS, Server, Setup};
use crate::service::notify::Notifier;
use crate::service::passed::{Listener, Passed};
use crate::settings::LastEnd;
use crate::trace::Trace;
use crate::{history, machine, masks, settings};

pub mod background;
pub(crate) mod fresh;
mod given;

/// Descriptors of a program: its socket, its process (once more if it was announced), its doorbell,
/// and its areas until they are sent.
const DESCRIPTORS_PER_PROGRAM: u64 = 6;
/// Of a process that waits in the queue: its socket and itself.
const DESCRIPTORS_PER_PLACE: u64 = 2;
/// Descriptors besides those of programs, of the queue, and of connections that wait at the door.
const OTHER_DESCRIPTORS: u64 = 256;
/// The time between turns, unless another one is set.
pub const QUANTUM: Duration = Duration::from_millis(100);
/// The time between asking for a processor and squeezing, unless another one is set.
pub const GRACE: Duration = Duration::from_millis(2);
/// How long a manager that was not started by hand stays without programs.
pub const BACKGROUND_IDLE: Duration = Duration::from_secs(10);

/// What a manager is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its socket.
    pub socket: PathBuf,
    /// Its policy; this one and the next three, where `None`: as a killed manager left them, or as
    /// usual.
    pub policy: Option<String>,
    /// Its quantum.
    pub quantum: Option<Duration>,
    /// The time between asking for a processor and squeezing.
    pub grace: Option<Duration>,
    /// How many programs may run at once.
    pub level: Option<Level>,
    /// In which order the programs of several users wait.
    pub fair_share: Option<FairShare>,
    /// In which order the hardware threads of a core are filled.
    pub smt: Option<Threads>,
    /// The processors that it manages; `None`: all that it may use.
    pub cpus: Option<CpuSet>,
    /// How long it stays without programs.
    pub idle_exit: Option<IdleExit>,
    /// Where its trace goes.
    pub trace: Option<PathBuf>,
    /// How many bytes each of its two files takes at most.
    pub trace_size: Option<u64>,
    /// Where it keeps what programs were granted and used.
    pub history: Option<Keep>,
    /// It serves all programs, and not only its starter: what it inherited of that is not its own
    /// (`fresh`).
    pub widen: bool,
    /// The process that had it started on the way.
    pub starter: Option<i32>,
    /// Values of its policy's parameters.
    pub parameters: BTreeMap<String, String>,
    /// It goes on with the trace of the one before it.
    pub continues: bool,
    /// It serves every user of the machine.
    pub system: bool,
    /// Programs may pass processors to each other.
    pub domain: bool,
    /// The control group below which programs that do not obey are fenced in.
    pub fence: Option<PathBuf>,
    /// What happens to processors on which others run.
    pub strangers: Option<Strangers>,
    /// Where it listens for browsers and Prometheus.
    pub listen: Option<Listen>,
    /// The configuration file in place of the usual ones.
    pub config: Option<PathBuf>,
    /// Of one that begins anew: what the command line gave at first, in place of policy, quantum,
    /// grace and level, which say what was in force.
    pub given: Option<String>,
}

impl Options {
    /// The options that a command line means; paths become absolute.
    ///
    /// # Errors
    /// When there is no current directory for a relative path.
    pub fn of(args: &DaemonArgs, socket: &Path) -> Result<Self, Error> {
        let of_background = args.background.then_some(IdleExit::After(BACKGROUND_IDLE));
        let idle_exit = args.idle_exit.or(of_background);
        let config = args.config.clone().or_else(Sources::named_by_environment);
        Ok(Self {
            socket: absolute(socket)?,
            policy: args.policy.clone(),
            quantum: args.quantum,
            grace: args.grace,
            level: args.mpl,
            fair_share: args.fair_share,
            smt: args.smt,
            cpus: args.cpus.clone(),
            idle_exit,
            trace: args.trace.as_deref().map(absolute).transpose()?,
            trace_size: args.trace_size,
            history: args.history.clone(),
            widen: args.widen,
            starter: args.starter,
            parameters: args.parameters.iter().cloned().collect(),
            continues: args.continues,
            system: args.system,
            domain: args.domain,
            fence: args.fence.as_deref().map(absolute).transpose()?,
            strangers: args.strangers,
            listen: args.listen,
            config: match config.as_deref() {
                Some(path) if path != Path::new("none") => Some(absolute(path)?),
                other => other.map(Path::to_owned),
            },
            given: args.given.clone(),
        })
    }
}

/// What the starter gave this process besides its options.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// Descriptors.
    pub passed: Passed,
    /// The service manager that wants to hear of it.
    pub service: Option<Notifier>,
}

/// An absolute form of a path.
///
/// # Errors
/// When the path is empty or there is no current directory.
pub fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(|source| Error::Io {
        what: "no absolute path for",
        path: path.to_owned(),
        source,
    })
}

/// Is the manager until a signal or idleness ends it, or the loss of its socket file, which is an
/// error. `ready` is called when it answers. Call it from the only thread.
///
/// # Errors
/// Anything that keeps it from starting.
pub fn serve(
    options: &Options,
    surroundings: Surroundings,
    ready: impl FnOnce(),
) -> Result<Ended, Error> {
    let left = settings::glance_at(&options.socket);
    let is_relieved = left.as_ref().is_some_and(|left| left.handover.end == LastEnd::Relieved);
    let is_left =
        options.policy.is_some() && left.is_some_and(|left| left.handover.ends_with_idleness());
    let mut began = false;
    let outcome = serve_after(options, surroundings, is_left, || {
        began = true;
        ready();
    });
    // The one before left what is attached bound, for this one, which does not come.
    if (is_left || is_relieved)
        && !began
        && outcome.as_ref().is_err_and(|error| error.code() != RUNNING)
    {
        masks::let_go(&options.socket, &Linux);
    }
    outcome
}

/// The policy that is named, with its parameters. What the one before had in force when it was told
/// to begin anew (`is_left`), and a newer program does not have, is left out with a warning.
fn named_policy(options: &Options, is_left: bool) -> Result<Option<Guarded>, Error> {
    let Some(name) = options.policy.as_deref() else { return Ok(None) };
    let left_out = |what: String| {
        if !is_left {
            return Err(Error::Usage(what));
        }
        tracing::warn!(policy = name, "{what}; it is left out");
        Ok(())
    };
    let mut policy = match Guarded::make(|| limits::policy(name)) {
        Ok(policy) => policy,
        Err(what) => return left_out(what).map(|()| None),
    };
    for (key, text) in &options.parameters {
        let set = policy.configure_text(key, text).map(drop);
        set.or_else(|error| left_out(format!("--parameter {key}={text}: {error}")))?;
    }
    Ok(Some(policy))
}

/// [`serve`], after one that was told to begin anew (`is_left`), or not.
fn serve_after(
    options: &Options,
    surroundings: Surroundings,
    is_left: bool,
    ready: impl FnOnce(),
) -> Result<Ended, Error> {
    let named = named_policy(options, is_left)?;
    let sources = Sources::usual(options.system, options.config.as_deref());
    let files = sources.load()?;
    // What concerns this start alone: a killed manager's settings do not come before it.
    let environment = Config::of_environment()?;
    for warning in Config::misspelt_variables() {
        tracing::warn!("{warning}");
    }
    let named = match (named, &environment.policy) {
        (None, Some(policy)) => {
            Some(Guarded::make(|| limits::policy(policy)).map_err(Error::Usage)?)
        }
        (named, _) => named,
    };
    let above = environment.clone().then(options.above()?);
    let whole = files.clone().then(above.clone());
    let rules = Rules::of_manager(&whole, options.system);
    let reload = Reload::new(sources, above, whole, options.system);
    let (of_files, both) = (files.clone(), files.then(environment.clone()));
    let cpus = options.cpus.clone().or_else(|| both.cpus.clone().flatten());
    let is_named = |path: &PathBuf| !path.as_os_str().is_empty();
    let fence = options.fence.clone().or_else(|| both.fence.clone().filter(is_named));
    let trace = options.trace.clone().or_else(|| both.trace.clone().filter(is_named));
    let trace_size = options.trace_size.or(both.trace_size).unwrap_or(TRACE_SIZE);
    let keep = options.history.clone().or(both.history.clone()).unwrap_or_default();
    let kept_in = history::place(&keep, options.system, history::is_usual(&options.socket));
    let history_bounds = Bounds {
        size: both.history_size.unwrap_or(HISTORY_SIZE),
        age: both.history_age.unwrap_or(HISTORY_AGE),
    };
    let fair_share = options.fair_share.or(both.fair_share).and_then(FairShare::half_life);
    let smt = options.smt.or(both.smt).unwrap_or(Threads::Spread);
    let strangers = options.strangers.or(both.strangers).unwrap_or(Strangers::Leave);
    let idle_exit = match options.idle_exit.or(both.idle_exit) {
        Some(IdleExit::After(time)) => Some(time),
        Some(IdleExit::Never) | None => None,
    };
    let mut kept = if options.widen { fresh::begin() } else { Vec::new() };
    let (machine, cpus) = machine::managed(cpus.as_ref())?;
    let narrow = if options.widen { machine::narrowed(&cpus, options.starter) } else { None };
    if let Some(Narrow { processors, of, why, .. }) = &narrow {
        tracing::warn!(
            "manages {processors} of {of}: {why}; end it (cpumgr stop) and start one elsewhere"
        );
    }
    kept.extend(raise_descriptor_limit());
    let mut reactor = Reactor::new()?;
    let Surroundings { passed, service } = surroundings;
    let passed = passed.listener_at(&options.socket, options.system);
    let mut instance = Instance::claim_with(&options.socket, passed.is_some())?;
    if options.system {
        instance.open_to_everybody()?;
    }
    // The socket is claimed: no other manager on it has attached processes now.
    let left = masks::put_back(&options.socket, &Linux);
    let inherited = settings::left_at(&options.socket);
    // As above: no other manager on this socket has fences now.
    let fences = fence.as_deref().map(Fences::below).transpose()?;
    let trace = match &trace {
        Some(path) => {
            Some(Trace::create(path, trace_size, options.continues).map_err(|source| {
                Error::Io { what: "cannot write the trace", path: path.clone(), source }
            })?)
        }
        None => None,
    };
    let begin = |path| {
        let begun = History::begin(path, history_bounds);
        begun.inspect_err(|error| tracing::error!(%error, "no history is kept")).ok()
    };
    let history = kept_in.and_then(begin);
    let is_new = passed.is_none();
    let listener = match passed {
        Some(passed) => {
            instance.adopt(passed.is_ours)?;
            passed
        }
        None => Listener { fd: instance.listen()?, is_ours: true },
    };
    let copy = listener.fd.try_clone();
    let copy = copy.map_err(|error| SysError::new("fcntl", error.raw_os_error().unwrap_or(0)))?;
    if let Err(error) = reactor.add_files(instance.directory()) {
        tracing::warn!(%error, "the system does not say when the socket file is removed: remove it \
                                only after this manager's end");
    }
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let left_to = inherited.as_ref();
    let quantum = options.quantum.or(environment.quantum).map(nanos).or_else(|| left_to?.quantum());
    let quantum = quantum.unwrap_or_else(|| nanos(of_files.quantum.unwrap_or(QUANTUM)));
    let grace = options.grace.or(environment.grace);
    let grace = grace.or_else(|| left_to?.grace().map(Duration::from_nanos));
    let grace = grace.or(of_files.grace).unwrap_or(GRACE);
    // The programs that wait are handed on, and what was told to hold them back goes with them.
    let level = options.level.or(environment.mpl).map(Level::number);
    let level = level.or_else(|| left_to?.level());
    let level = level.unwrap_or_else(|| of_files.mpl.and_then(Level::number));
    // Of one that begins anew the options say what was in force, be it told or not.
    let level_from = left_to.filter(|left| left.level == level).map(|left| left.handover.level);
    let level_from = level_from.unwrap_or_default();
    let usual = || of_files.make_policy().map_err(Error::Usage);
    let policy = named.or_else(|| left_to?.policy()).map_or_else(usual, Ok)?;
    let socket = instance.socket().to_owned();
    tracing::info!(
        socket = %socket.display(),
        policy = policy.name(),
        quantum,
        ?grace,
        ?level,
        %cpus,
        ?smt,
        ?strangers,
        ?idle_exit,
        "the manager begins"
    );
    let mut ledger = Ledger::new(machine, quantum, policy);
    ledger.set_smt(smt.smt());
    ledger.set_maker(|name| limits::policy(name).ok());
    let mut server = Server::new(Setup {
        instance,
        listener: copy,
        reactor,
        ledger,
        cpus,
        trace,
        history,
        idle_exit,
        grace,
        kernel: Box::new(Linux),
        level,
        level_from,
        fair_share,
        public: options.system,
        domain: options.domain,
        fences,
        heeds_strangers: strangers == Strangers::Leave,
        narrow,
        kept,
        rules,
        reload: Some(reload),
        service,
    })?;
    if let Some(inherited) = &inherited {
        server.take_over(inherited, monotonic_ns());
    }
    server.attach_again(&left, monotonic_ns());
    server.keep_settings();
    if shares_its_session() {
        tracing::info!(
            "programs of this session have one share of the machine with the manager \
             (sched_autogroup): hundreds that start at once leave it no time; --background, setsid \
             or a service give it a share of its own"
        );
    }
    ready();
    server.say_ready((is_new && listener.is_ours).then_some(&listener.fd));
    match server.run()? {
        Ended::Displaced => Err(InstanceError::Displaced { socket }.into()),
        Ended::Restarts(settings) => Err(background::begin_anew(options, *settings, listener)),
        ended => Ok(ended),
    }
}

/// As many descriptors as the most programs need, if the hard limit lets us. Returns what is left
/// of a limit that is too low, for `status`.
fn raise_descriptor_limit() -> Option<String> {
    let wanted = wanted_descriptors();
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        // Only the superuser makes the hard one wider.
        if hard < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, wanted).is_ok() {
            return Ok(wanted);
        }
        let limit = soft.max(wanted.min(hard));
        setrlimit(Resource::RLIMIT_NOFILE, limit, hard).map(|()| limit)
    });
    match raised {
        // Programs that do not fit are refused one by one.
        Ok(limit) => {
            let few = few_descriptors(limit);
            if few.is_some() {
                tracing::warn!(
                    limit,
                    wanted,
                    "fewer descriptors than {MAX_PROGRAMS} programs need"
                );
            }
            few
        }
        Err(error) => {
            tracing::warn!(%error, "the limit of descriptors stays as it is");
            None
        }
    }
}

/// Descriptors of a manager with as many programs and places as there can be.
fn wanted_descriptors() -> u64 {
    let waiting = MAX_PLACES as u64 * DESCRIPTORS_PER_PLACE + MAX_WAITING as u64;
    MAX_PROGRAMS as u64 * DESCRIPTORS_PER_PROGRAM + waiting + OTHER_DESCRIPTORS
}

/// A phrase for a limit of descriptors that is too low for that.
fn few_descriptors(limit: u64) -> Option<String> {
    let wanted = wanted_descriptors();
    (limit < wanted)
        .then(|| format!("a limit of {limit} descriptors ({MAX_PROGRAMS} programs need {wanted})"))
}

/// Whether the kernel counts this process with others of its session (`sched_autogroup`, of
/// sched(7)).
fn shares_its_session() -> bool {
    let is_on = std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled");
    let leads = nix::unistd::getsid(None).is_ok_and(|session| session == nix::unistd::getpid());
    is_on.is_ok_and(|text| text.trim() == "1") && !leads
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn a_parameter_that_a_newer_program_does_not_have_keeps_no_manager_from_beginning_anew() {
        let words = [
            "cpumgr",
            "daemon",
            "--policy",
            "pdpa",
            "--parameter",
            "colour=4",
            "--parameter",
            "step=4",
        ];
        let Command::Daemon(args) = Cli::try_parse_from(words).unwrap().command else {
            panic!("not daemon")
        };
        let mut options = Options::of(&args, Path::new("/s")).unwrap();
        assert!(matches!(named_policy(&options, false), Err(Error::Usage(_))));
        let policy = named_policy(&options, true).unwrap().unwrap();
        assert!(
            policy.parameters().iter().any(|it| it.key == "step" && it.value.to_string() == "4")
        );
        options.policy = Some("colour".into());
        assert!(named_policy(&options, false).is_err());
        assert!(named_policy(&options, true).unwrap().is_none());
    }
}
