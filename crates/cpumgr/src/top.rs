//! `cpumgr top`: the programs and their processors on a terminal, again and again.
//!
//! # Invariants
//! - S1 The terminal is as it was before when this ends: by `q`, by Ctrl-C, by an error, by a
//!   signal that ends it, or because the manager has gone for good.
//! - S2 What did not change is not drawn: a screen without news is one question to the manager in
//!   each interval, and a few bytes.
//! - S3 No name, however it is written, leaves its column or moves the cursor: names are escaped,
//!   and cut to the screen.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::{cursor, event, execute, queue, style, terminal};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::cli::TopArgs;
use crate::error::Error;
use crate::socket;
use crate::status::Report;

mod screen;

use screen::{Order, Screen};

/// How long keys are waited for at a time: a signal is heard after this.
const KEYS: Duration = Duration::from_millis(200);

/// `cpumgr top`.
///
/// # Errors
/// When there is no terminal, or no manager at the beginning.
pub fn run(args: &TopArgs) -> Result<(), Error> {
    let socket = socket::to_ask(args.socket.as_deref())?;
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Error::Usage(
            "top needs a terminal; `cpumgr status` and `cpumgr list --json` do without".into(),
        ));
    }
    // Before the terminal is touched: without a manager there is nothing to see.
    let first = Report::glance(&socket)?;
    let signals: SigSet = [Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
    let system = |call| move |errno: nix::errno::Errno| platform::SysError::new(call, errno as i32);
    signals.thread_block().map_err(system("pthread_sigmask"))?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    let signals = SignalFd::with_flags(&signals, flags).map_err(system("signalfd"))?;
    let terminal = Terminal::take().map_err(failed)?;
    let outcome = show(&socket, args.interval, first, &signals);
    drop(terminal);
    outcome.map_err(failed)
}

fn failed(source: io::Error) -> Error {
    Error::Io { what: "cannot use", path: "the terminal".into(), source }
}

/// A terminal in the state that a whole screen needs; as it was before when this goes.
struct Terminal;

impl Terminal {
    fn take() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        // From here on it is given back.
        let taken = Self;
        execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)?;
        Ok(taken)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Where the terminal has gone nothing is to be put back.
        let _gone = execute!(io::stdout(), cursor::Show, terminal::LeaveAlternateScreen);
        let _gone = terminal::disable_raw_mode();
    }
}

fn show(socket: &Path, interval: Duration, first: Report, signals: &SignalFd) -> io::Result<()> {
    let mut screen = Screen::new(Order::Arrival);
    let mut drawn: Vec<String> = Vec::new();
    let mut report: Result<Report, String> = Ok(first);
    let mut next = Instant::now() + interval;
    loop {
        let (columns, rows) = terminal::size()?;
        let lines = match &report {
            Ok(report) => screen.lines(report, columns.into(), rows.into()),
            Err(what) => screen.without_manager(what, columns.into(), rows.into()),
        };
        draw(&lines, &mut drawn)?;
        loop {
            if platform::process::wait_readable(&[signals.as_fd()], Some(Duration::ZERO))
                .is_ok_and(|ready| !ready.is_empty())
            {
                return Ok(());
            }
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() {
                report = Report::glance(socket).map_err(|error| error.to_string());
                next = Instant::now() + interval;
                break;
            }
            if !event::poll(left.min(KEYS))? {
                continue;
            }
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press => match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                        return Ok(());
                    }
                    KeyCode::Char('s') => screen.sort_otherwise(),
                    KeyCode::Down | KeyCode::Char('j') => screen.scroll(1),
                    KeyCode::Up | KeyCode::Char('k') => screen.scroll(-1),
                    KeyCode::Char(' ') => next = Instant::now(),
                    _ => continue,
                },
                // All is drawn anew.
                Event::Resize(..) => drawn.clear(),
                _ => continue,
            }
            break;
        }
    }
}

/// Writes the lines that are others than those that stand there.
fn draw(lines: &[String], drawn: &mut Vec<String>) -> io::Result<()> {
    let mut out = Vec::new();
    if drawn.is_empty() {
        queue!(out, terminal::Clear(terminal::ClearType::All))?;
    }
    for (row, line) in lines.iter().enumerate() {
        if drawn.get(row) != Some(line) {
            let at = u16::try_from(row).unwrap_or(u16::MAX);
            queue!(out, cursor::MoveTo(0, at), style::Print(line))?;
            queue!(out, terminal::Clear(terminal::ClearType::UntilNewLine))?;
        }
    }
    for row in lines.len()..drawn.len() {
        let at = u16::try_from(row).unwrap_or(u16::MAX);
        queue!(out, cursor::MoveTo(0, at), terminal::Clear(terminal::ClearType::CurrentLine))?;
    }
    *drawn = lines.to_vec();
    let mut terminal = io::stdout().lock();
    terminal.write_all(&out)?;
    terminal.flush()
}
