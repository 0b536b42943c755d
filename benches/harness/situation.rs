//! What else runs on the processors of a sample: nothing, a busy process, or the same program once
//! more.
//!
//! A second copy is a process that the sample starts with its own command line. Both set up and
//! warm up; then the sample says when to begin, so that their times overlap. Each goes on after its
//! time for as long as its longest call, so that neither's last call runs alone.

use super::sample::{Measure, Subject};
use super::{WRONG, median, place};
use platform::affinity::{CpuSet, Tid, set_affinity};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The copy's environment has this variable.
const COPY: &str = "NANOS_BENCH_COPY";
/// Time before what counts: threads are awake, engines learn, and the kernel's scheduler too.
const SETTLE: Duration = Duration::from_millis(20);

/// What else runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Situation {
    /// Nothing.
    Idle,
    /// A busy process that is bound to the last processor.
    Hog,
    /// The same program on the same engine, at the same time.
    Two,
}

impl Situation {
    pub(crate) const ALL: [Situation; 3] = [Situation::Idle, Situation::Hog, Situation::Two];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Situation::Idle => "idle",
            Situation::Hog => "hog",
            Situation::Two => "two",
        }
    }

    /// The time of a call: the median of those calls that are alone. Beside other programs the
    /// mean, so that every time slice for which a thread waits counts.
    pub(crate) fn measure(self) -> Measure {
        Box::new(move |subject| {
            let time = match self {
                Situation::Idle => {
                    settle(subject);
                    median(&mut timed(subject, Duration::from_millis(50)))
                }
                Situation::Hog => {
                    let _hog = Hog::start(place::PROCESSORS - 1);
                    settle(subject);
                    mean(&timed(subject, Duration::from_millis(80)))
                }
                Situation::Two if std::env::var_os(COPY).is_some() => as_copy(subject),
                Situation::Two => beside_copy(subject),
            };
            vec![time]
        })
    }
}

fn settle(subject: &mut Subject) {
    let begin = Instant::now();
    while begin.elapsed() < SETTLE {
        subject.time(1);
    }
}

/// The times of the calls that begin within `span`, at least one, in nanoseconds.
fn timed(subject: &mut Subject, span: Duration) -> Vec<f64> {
    let begin = Instant::now();
    let mut times = Vec::new();
    while times.is_empty() || begin.elapsed() < span {
        times.push(subject.time(1).as_secs_f64() * 1e9);
    }
    times
}

fn mean(times: &[f64]) -> f64 {
    times.iter().sum::<f64>() / times.len() as f64
}

/// As [`timed`] for at least 150 ms, and on for as long as the longest call took.
fn overlapping(subject: &mut Subject) -> f64 {
    let times = timed(subject, Duration::from_millis(150));
    let longest = times.iter().copied().fold(0.0, f64::max);
    let end = Instant::now();
    while end.elapsed().as_secs_f64() * 1e9 < longest {
        subject.time(1);
    }
    mean(&times)
}

/// The copy's side: ready, until told to begin.
fn as_copy(subject: &mut Subject) -> f64 {
    settle(subject);
    println!("ready");
    // A sample that died has closed the pipe: the copy ends by itself.
    let _ = io::stdin().read_line(&mut String::new());
    overlapping(subject)
}

/// The sample's side: the mean of both.
fn beside_copy(subject: &mut Subject) -> f64 {
    let me = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(me);
    command.args(std::env::args_os().skip(1)).env(COPY, "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    end_with_parent(&mut command);
    let mut copy = command.spawn().expect("this program can be started once more");
    let mut output = BufReader::new(copy.stdout.take().expect("it is a pipe"));
    let mut text = String::new();
    // While the copy sets up.
    settle(subject);
    let is_ready = output.read_line(&mut text).is_ok() && text == "ready\n";
    let begun = copy.stdin.take().expect("it is a pipe").write_all(b"begin\n");
    let own = overlapping(subject);
    let read = output.read_to_string(&mut text);
    let status = copy.wait().expect("the copy is waited for once");
    let value = text.lines().last().and_then(|line| line.split(',').next()?.parse::<f64>().ok());
    match value {
        Some(value) if is_ready && begun.is_ok() && read.is_ok() && status.success() => {
            f64::midpoint(own, value)
        }
        _ => {
            let why = text.lines().last().unwrap_or("no message");
            println!("the second copy ended with {status}: {why}");
            std::process::exit(WRONG);
        }
    }
}

/// Lets the kernel end the process when the one that started it dies.
fn end_with_parent(command: &mut Command) {
    let parent = std::process::id().cast_signed();
    // As the kernel reads it: a whole word.
    let signal = libc::SIGKILL as libc::c_ulong;
    // SAFETY: - prctl only sets a number in the new process, and getppid reads one; both allocate
    //           nothing and take no lock, and so do the errors, which are numbers.
    unsafe {
        command.pre_exec(move || match libc::prctl(libc::PR_SET_PDEATHSIG, signal) {
            0 if libc::getppid() == parent => Ok(()),
            // It has died before: there is no signal to come.
            0 => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            _ => Err(io::Error::last_os_error()),
        });
    }
}

/// A busy process; ended when this is dropped, and by the kernel when the sample dies.
pub(crate) struct Hog(Child);

impl Hog {
    /// On the processor of this number of the mask.
    pub(crate) fn start(at: usize) -> Self {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).stdout(Stdio::null());
        end_with_parent(&mut command);
        let child = command.spawn().expect("every system has /bin/sh");
        let hog = Tid(child.id().cast_signed());
        set_affinity(Some(hog), &CpuSet::single(place::processor(at)))
            .expect("the hog is ours, and runs");
        Self(child)
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        // It is there until it is waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
