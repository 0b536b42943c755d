//! A manager that answers, and knows that this process is going to be a program.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use arena::client::{ConnectError, Connection, SYSTEM_SOCKET};
use arena::message::{Control, FromManager, Narrow, Submit, ToManager};
use platform::process;

use super::{Start, Turn};
use crate::cli::{IdleExit, RunArgs, Team};
use crate::config::BY_RULES;
use crate::config::Sources;
use crate::daemon::{BACKGROUND_IDLE, Options, background, fresh};
use crate::error::{CANCELLED, Error, RUNNING, is_absent};
use crate::instance::{Holder, InstanceError};
use crate::patience::patience;
use crate::{administration, instance, machine, status};

/// How long an answer of the manager may take: a manager that lives and is silent for longer counts
/// as hung (D5). Its quantum, which could make that longer, is not known before it answers.
const USUAL_ANSWER: Duration = Duration::from_secs(1);
/// The interval at which a program in the queue looks whether the manager still answers.
const QUIET: Duration = Duration::from_secs(if cfg!(debug_assertions) { 1 } else { 10 });
/// How long a manager may take to be there.
const START: Duration = Duration::from_secs(15);
/// How long a manager may be about to end or to begin: to have its lock while no process answers at
/// its socket.
const BETWEEN: Duration = Duration::from_secs(1);
/// The first pause between two attempts; each one is four times as long as the one before.
const PAUSE: Duration = Duration::from_millis(2);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

fn answer_time() -> Duration {
    patience(USUAL_ANSWER)
}

/// Sees to it that a manager answers at `socket` and knows that this process is going to be a
/// program.
pub(crate) fn ensure_manager(
    socket: &Path,
    args: &RunArgs,
    when: Start<'_>,
    warn: &impl Fn(&str),
) -> Result<(), Error> {
    let policy = args.policy.as_deref();
    let mut begin = Instant::now();
    let mut pause = PAUSE;
    let mut hidden = None;
    let mut farewell: Option<Instant> = None;
    let mut is_replaced = false;
    let mut alone: Option<Instant> = None;
    let mut is_silent = false;
    loop {
        // Of one that has waited a beginning manager may take its time: without it all would begin.
        let between = if when.has_waited() { START } else { BETWEEN };
        let said = match when {
            Start::Now => announce(socket, args, warn),
            Start::InTurn(turn) => submit(socket, args, turn, &mut begin, warn),
        };
        match said {
            Ok(lacks) => {
                // One that serves no other program makes room for one that is started from here. A
                // program that has waited in the queue does not replace a manager.
                let replaces = matches!(when, Start::Now) && !lacks.are_none();
                if replaces
                    && !std::mem::replace(&mut is_replaced, true)
                    && administration::change(socket, Control::Stop { if_idle: true }).is_ok()
                {
                    continue;
                }
                lacks.tell(socket, warn);
                weigh(socket, args, warn);
                form_teams(socket, args, warn);
                return Ok(());
            }
            // It waited in the queue of a manager that another user starts again, or does not:
            // without one all that wait would begin.
            Err(ConnectError::Unreachable { source, .. })
                if is_absent(source) && when.has_waited() && is_of_other(socket) =>
            {
                let since = *alone.get_or_insert_with(|| {
                    warn(&format!(
                        "the manager at {} has ended; still waiting for the next one there",
                        socket.display()
                    ));
                    Instant::now()
                });
                give_up_in_time(socket, when, since)?;
                begin = Instant::now();
            }
            // The next manager is there, and has no time yet.
            Err(error) if when.has_waited() && error.may_pass() && !is_farewell(&error) => {
                if !std::mem::replace(&mut is_silent, true) {
                    warn(&format!("{}; still waiting for its queue", Error::from(error)));
                }
                give_up_in_time(socket, when, *alone.get_or_insert_with(Instant::now))?;
                begin = Instant::now();
            }
            Err(ConnectError::Unreachable { source, .. }) if is_absent(source) => {
                // Another starter may have been faster: look again under the lock. No process keeps
                // the lock while it waits in a queue.
                let _lock = instance::lock_start(socket, START)?;
                if Connection::open(socket, answer_time()).is_err()
                    && start(socket, policy)? == Started::AnotherRuns
                    && hidden.get_or_insert_with(Instant::now).elapsed() >= between
                {
                    return Err(InstanceError::Hidden {
                        socket: socket.to_owned(),
                        holder: Holder::of(socket),
                    }
                    .into());
                }
            }
            // It ended, or is about to, between our hello and its answer: the next round finds out.
            Err(error) if is_farewell(&error) => {
                // What takes connections and closes them for longer than that is no manager. A wait
                // in the queue begins anew.
                let since = farewell.filter(|since| *since >= begin).unwrap_or_else(Instant::now);
                if since.elapsed() >= between {
                    return Err(error.into());
                }
                farewell = Some(since);
            }
            Err(error) => return Err(error.into()),
        }
        if begin.elapsed() >= START {
            return Err(Error::NoManager {
                looked: format!("none came to {} within {START:?}", socket.display()),
            });
        }
        std::thread::sleep(pause);
        pause = (4 * pause).min(LONGEST_PAUSE);
    }
}

/// One that waits for a manager since then does not begin after its time, as by the manager's own
/// word.
fn give_up_in_time(socket: &Path, when: Start<'_>, since: Instant) -> Result<(), Error> {
    if when.within().is_none_or(|within| since.elapsed() < within) {
        return Ok(());
    }
    let message =
        format!("it could not begin in its time: no manager answers at {}", socket.display());
    Err(Error::Apart { message, code: CANCELLED })
}

/// What came of starting a manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Started {
    /// It answers.
    Answers,
    /// Another one has the lock.
    AnotherRuns,
}

fn start(socket: &Path, policy: Option<&str>) -> Result<Started, Error> {
    let options = Options {
        socket: socket.to_owned(),
        policy: policy.map(str::to_owned),
        quantum: None,
        grace: None,
        fair_share: None,
        smt: None,
        cpus: None,
        idle_exit: Some(IdleExit::After(BACKGROUND_IDLE)),
        level: None,
        trace: None,
        trace_size: None,
        history: None,
        // `taskset ... cpumgr run` restricts the program, not the manager that all programs find
        // afterwards.
        widen: true,
        starter: Some(process::current_pid().0),
        parameters: BTreeMap::new(),
        continues: false,
        system: false,
        domain: false,
        fence: None,
        strangers: None,
        listen: None,
        config: Sources::named_by_environment(),
        given: None,
    };
    match background::start_apart(&options) {
        // The one before is about to end, or one was started by hand: the next round finds out.
        Err(Error::Apart { code: RUNNING, .. }) => Ok(Started::AnotherRuns),
        outcome => outcome.map(|()| Started::Answers),
    }
}

/// Tells the manager that this process is going to be a program: it stays until we register or end,
/// however long the program takes to its first region. The kernel knows us by the process, which
/// exec does not change.
fn announce(socket: &Path, args: &RunArgs, warn: &impl Fn(&str)) -> Result<Lacks, ConnectError> {
    let connection = Connection::open(socket, answer_time())?;
    connection.send(&ToManager::Announce { attach: !args.no_attach })?;
    let lacks = match connection.receive()?.0 {
        FromManager::Announced { narrow, kept } => Lacks::of(narrow, kept),
        FromManager::Refused(refused) => {
            return Err(ConnectError::Refused { path: socket.to_owned(), refused });
        }
        other => {
            return Err(connection.broken(format!("it answered an announcement with {other:?}")));
        }
    };
    mention_policy(&connection, socket, args, warn).map(|()| lacks)
}

/// What a manager that another program had started lacks, and one that is started from here would
/// have.
#[derive(Debug)]
struct Lacks {
    /// Processors.
    narrow: Option<Narrow>,
    /// What it kept of its starter, a phrase each.
    kept: Vec<String>,
}

impl Lacks {
    fn of(narrow: Option<Narrow>, mut kept: Vec<String>) -> Self {
        let narrow =
            narrow.filter(|it| machine::to_be_had().is_some_and(|own| own > it.count as usize));
        if !kept.is_empty() {
            let own = fresh::would_keep();
            kept.retain(|it| !own.contains(it));
        }
        Self { narrow, kept }
    }

    fn are_none(&self) -> bool {
        self.narrow.is_none() && self.kept.is_empty()
    }

    /// Says so, a line each.
    fn tell(&self, socket: &Path, warn: &impl Fn(&str)) {
        let there = socket.display();
        let remedy = format!(
            "End it (cpumgr stop --socket {there}) and start it from here, when its programs can \
             do without one for a moment"
        );
        if let Some(Narrow { processors, of, why, .. }) = &self.narrow {
            warn(&format!(
                "the manager at {there} manages {processors} of {of}: {why}; the program has no \
                 others. {remedy}"
            ));
        }
        if !self.kept.is_empty() {
            warn(&format!(
                "the manager at {there} kept of its starter, which it may end or fail by: {}. \
                 {remedy}",
                self.kept.join(", ")
            ));
        }
    }
}

/// Says so when the manager runs another policy than was asked for.
fn mention_policy(
    connection: &Connection,
    socket: &Path,
    args: &RunArgs,
    warn: &impl Fn(&str),
) -> Result<(), ConnectError> {
    let Some(wanted) = args.policy.as_deref() else { return Ok(()) };
    connection.send(&ToManager::Status)?;
    if let (FromManager::Status(status), _) = connection.receive()?
        && status.policy != wanted
    {
        let there = socket.display();
        warn(&format!(
            "the manager at {there} runs policy {}; --policy {wanted} is only for a new one",
            status.policy
        ));
    }
    Ok(())
}

/// Waits in the queue until this process may be a program. A manager that ends meanwhile, `begin`
/// being the time from which on another one is waited for, is an error; the place in its queue is
/// lost.
fn submit(
    socket: &Path,
    args: &RunArgs,
    turn: &Turn,
    begin: &mut Instant,
    warn: &impl Fn(&str),
) -> Result<Lacks, ConnectError> {
    let connection = Connection::open(socket, answer_time())?;
    let request = std::thread::available_parallelism()
        .map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
    let words = args.command.iter().map(|word| word.to_string_lossy());
    let label = words.collect::<Vec<_>>().join(" ").chars().take(64).collect();
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    connection.send(&ToManager::Submit(Submit {
        request,
        label,
        attach: !args.no_attach,
        after: turn.after.clone(),
        within_ns: turn.within.map(ns),
        reported: turn.reported,
        limit_ns: turn.limit.map(ns),
        processors: turn.processors,
        class: args.class.clone().filter(|class| class != BY_RULES),
        purpose: args.label.clone(),
    }))?;
    let mut answer = connection.receive()?.0;
    if let FromManager::Queued { id, ahead } = answer {
        turn.tells(id);
        let (mut is_silent, mut is_told) = (false, false);
        let waited = connection.receive_patiently(QUIET, || {
            if !std::mem::replace(&mut is_told, true) {
                warn(&format!(
                    "waiting as number {id}, {ahead} were before it; `cpumgr queue` lists those \
                     that wait, `cpumgr cancel {id}` ends it"
                ));
            }
            // A program that waits in a queue hears nothing for hours; waiting does not show that
            // the manager hangs (D5).
            let silence =
                answers(socket).err().filter(|error| matches!(error, ConnectError::Silent { .. }));
            let was_silent = std::mem::replace(&mut is_silent, silence.is_some());
            if let Some(error) = silence.filter(|_| !was_silent) {
                warn(&format!("{}; still waiting in its queue", Error::from(error)));
            }
        });
        *begin = Instant::now();
        answer = waited?.0;
    }
    match answer {
        FromManager::Admitted => {
            // It begins, also when the manager says nothing more: its place in the queue is over.
            let there = mention_policy(&connection, socket, args, warn)
                .and_then(|()| status::of_manager(socket));
            let nothing = Lacks { narrow: None, kept: Vec::new() };
            Ok(there.map_or(nothing, |there| Lacks::of(there.narrow, there.kept)))
        }
        FromManager::Refused(refused) => {
            Err(ConnectError::Refused { path: socket.to_owned(), refused })
        }
        other => Err(connection.broken(format!("it answered a submission with {other:?}"))),
    }
}

/// Whether the manager answers a question.
fn answers(socket: &Path) -> Result<(), ConnectError> {
    let connection = Connection::open(socket, answer_time())?;
    connection.send(&ToManager::Status)?;
    connection.receive().map(drop)
}

/// Tells the manager the weight of this process, if it is given one.
fn weigh(socket: &Path, args: &RunArgs, warn: &impl Fn(&str)) {
    let Some(weight) = args.weight else { return };
    let control = Control::Weight { pid: 0, thousandths: weight.thousandths() };
    if let Err(error) = administration::change(socket, control) {
        warn(&format!("{error}; the program runs with the usual weight"));
    }
}

/// Tells the manager how the teams of this process behave, if it is given one.
fn form_teams(socket: &Path, args: &RunArgs, warn: &impl Fn(&str)) {
    let Some(team) = args.team else { return };
    let fixed_team = team == Team::Fixed;
    let control = Control::Team { pid: 0, fixed_team };
    if let Err(error) = administration::change(socket, control) {
        warn(&format!("{error}; the program runs with the usual teams"));
    }
}

/// Whether only another user can start a manager there.
fn is_of_other(socket: &Path) -> bool {
    let me = nix::unistd::geteuid();
    let owner = socket.parent().and_then(|dir| fs::metadata(dir).ok()).map(|data| data.uid());
    let is_system = socket == Path::new(SYSTEM_SOCKET);
    owner.map_or(is_system && !me.is_root(), |owner| owner != me.as_raw())
}

/// The manager closed the connection, or said goodbye.
pub(super) fn is_farewell(error: &ConnectError) -> bool {
    matches!(error, ConnectError::System { .. } | ConnectError::Protocol { .. })
}
