//! What each command does.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use crate::cli::{CheckConfigArgs, Command, DaemonArgs, Listen, StatusArgs, named};
use crate::config::{self, Config, Sources};
use crate::daemon::{self, Options, Surroundings, background};
use crate::error::{Error, FAILED};
use crate::escape::printable;
use crate::output::{complain, print};
use crate::run::{Start, run as start};
use crate::service::notify::Notifier;
use crate::service::passed::Passed;
use crate::status::Report;
use crate::web::Web;
use crate::{
    accounts, administration, doctor, jobserver, json, log, metrics, numa, papers, replay,
    simulate, socket, submit, top, views,
};

/// Does what the command line says. `run` returns only when it fails.
///
/// # Errors
/// What failed; its code is the exit code.
pub fn execute(command: Command) -> Result<(), Error> {
    match command {
        Command::Daemon(args) => serve(&args),
        Command::Run(args) => {
            args.check().map_err(Error::Usage)?;
            Err(start(&args, Start::Now, complain))
        }
        Command::Submit(args) => {
            args.run.check().map_err(Error::Usage)?;
            Err(submit::submit(args, complain))
        }
        Command::Jobserver(args) => {
            named(&args.command[0]).map_err(Error::Usage)?;
            Err(jobserver::run(&args, complain))
        }
        Command::Attach(args) => administration::attach(&args),
        Command::Detach(args) => administration::detach(&args),
        Command::Mpl(args) => administration::level(&args),
        Command::Queue(args) => administration::queue(&args),
        Command::Cancel(args) => administration::cancel(&args),
        Command::Stop(args) => administration::stop(&args),
        Command::Restart(args) => administration::restart(&args),
        Command::Status(args) => status(&args),
        Command::List(args) => views::list(&args),
        Command::Show(args) => views::show(&args),
        Command::Top(args) => top::run(&args),
        Command::Cpus(args) => views::cpus(&args),
        Command::History(args) => accounts::run(&args),
        Command::Trace(args) => replay::run(args.socket.as_deref(), &args.command),
        Command::Metrics(args) => metrics::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Drain(args) => administration::drain(&args),
        Command::Undrain(args) => administration::undrain(&args),
        Command::Completions(args) => papers::completions(&args),
        Command::Man(args) => papers::manual(&args),
        Command::Policy(args) => administration::policy(&args),
        Command::Set(args) => administration::set(&args),
        Command::Reload(args) => administration::reload(&args),
        Command::Release(args) => administration::release(&args),
        Command::CheckConfig(args) => check_config(&args),
        Command::Numa(args) => print(&numa::run(&args)?),
        Command::Simulate(args) => print(&simulate::run(&args)?),
    }
}

/// Whether a command line, which is not read yet, is that of a process that becomes a manager: one
/// that starts another process as the manager obeys signals, and so does what it starts.
pub(crate) fn becomes_manager(words: impl IntoIterator<Item = OsString>) -> bool {
    let mut words = words.into_iter().skip(1);
    words.next().is_some_and(|command| command == "daemon")
        && !words.any(|word| word == "--background")
}

fn serve(args: &DaemonArgs) -> Result<(), Error> {
    // Before anything else opens descriptors.
    let passed = Passed::take();
    let options = Options::of(args, &socket::to_serve(args.socket.as_deref(), args.system)?)?;
    socket::refuse_file(&options.socket)?;
    if let Some(remark) =
        socket::remark(args.socket.as_deref(), &options.socket).filter(|_| !args.system)
    {
        complain(&remark);
    }
    if args.background {
        return background::start(&options);
    }
    log::start();
    let listen = listener(&options)?;
    let mut web = None;
    let mut open = || web = listen.and_then(|address| open_web(address, &options));
    if !args.detached {
        let surroundings = Surroundings { passed, service: Notifier::of_environment() };
        return daemon::serve(&options, surroundings, open).map(drop);
    }
    let ready = || {
        open();
        background::say_ready();
    };
    // The service manager waits for the process that it started itself.
    let alone = Surroundings::default();
    let outcome =
        background::detach().and_then(|()| daemon::serve(&options, alone, ready).map(drop));
    if let Err(error) = &outcome {
        background::say_failed(error);
    }
    outcome
}

/// Where a manager listens for browsers and Prometheus, by its options and its configuration.
fn listener(options: &Options) -> Result<Option<SocketAddr>, Error> {
    let files = Sources::usual(options.system, options.config.as_deref()).load()?;
    let configured = files.then(Config::of_environment()?).listen;
    Ok(options.listen.or(configured).and_then(Listen::address))
}

/// Without its page a manager is one all the same.
fn open_web(address: SocketAddr, options: &Options) -> Option<Web> {
    let opened = Web::listen(address, &options.socket);
    opened.inspect_err(|error| tracing::error!(%error, "no page and no metrics are served")).ok()
}

/// What `cpumgr check-config --json` shows: files that can be used. Others are an error.
#[derive(Debug, Serialize)]
pub(crate) struct Checked {
    /// In the order in which they are read, escaped.
    pub(crate) files: Vec<String>,
    /// A manager reads them without being told their names.
    pub(crate) read: bool,
    /// What stands among drop-ins under a name that no manager reads, escaped.
    pub(crate) unread: Vec<String>,
}

impl Checked {
    pub(crate) fn of(files: &[PathBuf], read: bool, unread: &[PathBuf]) -> Self {
        let all = |files: &[PathBuf]| files.iter().map(|path| shown(path)).collect();
        Self { files: all(files), read, unread: all(unread) }
    }
}

fn shown(path: &Path) -> String {
    printable(&path.display().to_string())
}

fn check_config(args: &CheckConfigArgs) -> Result<(), Error> {
    let named = Sources::named_by_environment();
    let sources = Sources::usual(args.system, named.as_deref());
    if let Some(path) = &args.file {
        Config::of_file(path)?;
        let read = sources.have(path);
        if args.json {
            let checked = Checked::of(std::slice::from_ref(path), read, &[]);
            return print(&json::line("check-config", &checked)?);
        }
        let (file, places) = (shown(path), printable(&sources.places()));
        let why = config::misnamed(path).map_or(String::new(), |why| format!(" ({why})"));
        return print(&match read {
            true => format!("{file}: well\n"),
            false => format!(
                "{file}: well formed, but a manager of this user reads it only where `--config` or \
                 CPUMGR_CONFIG names it{why}; what it reads: {places}\n"
            ),
        });
    }
    sources.load()?;
    Config::of_environment()?;
    Config::misspelt_variables().iter().for_each(|warning| complain(warning));
    let (files, unread) = (sources.files()?, sources.unread()?);
    if args.json {
        return print(&json::line("check-config", &Checked::of(&files, true, &unread))?);
    }
    let mut text: String = match files.is_empty() {
        true => "no configuration file is there: all is as built in\n".to_owned(),
        false => files.iter().map(|path| format!("{}: well\n", shown(path))).collect(),
    };
    for path in unread {
        let why = config::misnamed(&path).unwrap_or("its name is none of a drop-in");
        text.push_str(&format!("{}: not read: {why}\n", shown(&path)));
    }
    print(&text)
}

fn status(args: &StatusArgs) -> Result<(), Error> {
    let report = Report::ask(&socket::to_ask(args.socket.as_deref())?)?;
    let text = if args.json {
        json::line("status", &report)?
    } else {
        report.table().lines().map(|line| printable(line) + "\n").collect()
    };
    print(&text)
}

/// Shows what the parser of the command line says: a mistake, or the help that was asked for. A
/// help that cannot be written is a failure, as any other output is.
pub(crate) fn refuse(said: &clap::Error) -> ExitCode {
    let code = ExitCode::from(u8::try_from(said.exit_code()).unwrap_or(FAILED));
    match said.print() {
        Err(error) if !said.use_stderr() && error.kind() != io::ErrorKind::BrokenPipe => {
            complain(&format!("cannot write to standard output: {error}"));
            ExitCode::from(FAILED)
        }
        _ => code,
    }
}
