//! The manager's latencies and its cost, compared with a bare chain of eventfd and futex in the
//! same run.
//!
//! `cargo bench -p cpumgr --bench manager --profile release [-- [--record] NAME...]` with names of
//! `read`, `requests`, `releases`, `pass`, `flood`, `squeeze`, `kill`, `steady`, `idle`, `many`,
//! `pairs`, `speedups`. (Without the profile the manager is not linked as a whole, as it is where
//! it is used.) Each value that has a bar is printed with it. Needs two processors and a quiet
//! machine. What is printed is also written as a table, with `--record` into `benches/records`, as
//! the other benches do.
#![allow(clippy::unwrap_used, reason = "a bench that cannot go on fails")]

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use platform::affinity::{CpuId, CpuSet, affinity};
use platform::clock::monotonic_ns;

#[path = "../../../benches/harness/about.rs"]
mod about;
#[path = "../tests/support/mod.rs"]
mod support;

use support::{
    Before, Compiled, End, Manager, Program, Releases, Times, bare_squeeze, chain, two_processors,
};

/// A part of the bench, for some processors.
type Part = fn(&str);

fn main() {
    if std::env::var_os("CPUMGR_TEST_PROGRAM").is_some() {
        return support::act_as_a_program();
    }
    let Some(cpus) = two_processors() else { return };
    let named: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wanted = |name: &str| named.is_empty() || named.iter().any(|it| it == name);
    let parts: [(&str, Part); 12] = [
        ("read", read),
        ("requests", requests),
        ("releases", releases),
        ("pass", pass),
        ("flood", flood),
        ("squeeze", squeeze),
        ("kill", kill),
        ("steady", steady),
        ("idle", idle),
        ("many", many),
        ("pairs", pairs),
        ("speedups", speedups),
    ];
    for (name, part) in parts.into_iter().filter(|(name, _)| wanted(name)) {
        println!("## {name}");
        part(&cpus);
        ROWS.lock()
            .unwrap()
            .iter_mut()
            .filter(|row| row[0].is_empty())
            .for_each(|row| row[0] = name.to_owned());
    }
    let is_kept = std::env::args().any(|word| word == "--record");
    let folder = (!is_kept).then(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")));
    let rows = std::mem::take(&mut *ROWS.lock().unwrap());
    let heads = ["part", "condition", "what", "p50_ns", "p99_ns", "max_ns", "n", "value", "bar"]
        .map(str::to_owned);
    println!(
        "raw record: {}",
        about::record(folder, "manager", &heads, rows.into_iter()).unwrap().display()
    );
}

/// What was measured: the part's name comes when it has ended.
static ROWS: Mutex<Vec<Vec<String>>> = Mutex::new(Vec::new());

/// Under what the next values are measured.
static CONDITION: Mutex<String> = Mutex::new(String::new());

/// Takes `[what, p50, p99, max, n, value, bar]` down.
fn keep(row: [String; 7]) {
    let condition = CONDITION.lock().unwrap().clone();
    ROWS.lock().unwrap().push([String::new(), condition].into_iter().chain(row).collect());
}

fn line(what: &str, times: Vec<u64>) -> Times {
    let count = times.len().to_string();
    let times = Times::new(times);
    println!("{}", times.line(what));
    let [half, most, all] = [50, 99, 100].map(|part| times.at(part).as_nanos().to_string());
    keep([what.to_owned(), half, most, all, count, String::new(), String::new()]);
    times
}

/// A value with its bar.
fn bar<T: PartialOrd + std::fmt::Debug>(what: &str, value: T, bar: T) {
    let verdict = if value <= bar { "reached" } else { "MISSED" };
    println!("{what:44} {value:>14.3?}  bar {bar:.3?}: {verdict}");
    let [value, bar] = [value, bar].map(|number| format!("{number:.3?}"));
    keep([what.to_owned(), String::new(), String::new(), String::new(), String::new(), value, bar]);
}

fn numbers(answer: &str) -> Vec<u64> {
    answer.split(' ').map(|number| number.parse().unwrap()).collect()
}

/// What a way through the manager has to reach, measured in the same run as a bare chain. Where
/// idle processors are halted, the chain itself takes from 29 to more than 200 us here, by the
/// hour; the ratio says what of it is the manager's.
fn latency_bars(what: &str, times: &Times, chain: &Times) {
    bar(&format!("{what}, p50"), times.at(50), Duration::from_micros(80));
    println!(
        "{:44} {:>14.2}",
        "  that to the chain's",
        times.at(50).as_secs_f64() / chain.at(50).as_secs_f64()
    );
    bar(&format!("{what}, p99 (bar: 3 x the chain's)"), times.at(99), chain.at(99) * 3);
}

/// What idle processors do meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Idle {
    /// What the machine has them do. A virtual one halts, and to wake it takes the hypervisor 45 us
    /// and more on a busy host.
    Default,
    /// They look for work without rest, as on machines that are set up for short answers.
    Awake,
}

/// By the kernel's interface for that (`PM QoS`), which is root's: idle processors rest in no state
/// that takes longer than 0 us to leave, as long as the file is open.
fn stay_awake() -> std::io::Result<std::fs::File> {
    let mut latency = std::fs::File::options().write(true).open("/dev/cpu_dma_latency")?;
    latency.write_all(&0_i32.to_ne_bytes())?;
    Ok(latency)
}

/// Calls `part` for each way in which a thread asks.
fn in_each_way(mut part: impl FnMut(Before)) {
    for idle in [Idle::Default, Idle::Awake] {
        let held = (idle == Idle::Awake).then(stay_awake).transpose();
        let what = match (idle, &held) {
            (Idle::Default, _) => "do as always",
            (Idle::Awake, Ok(_)) => "stay awake (/dev/cpu_dma_latency: 0)",
            (Idle::Awake, Err(error)) => {
                println!(
                    "# skipped: idle processors cannot be kept awake, /dev/cpu_dma_latency: {error}"
                );
                continue;
            }
        };
        for before in Before::ALL {
            println!("# idle processors {what}; by a thread that {before}");
            *CONDITION.lock().unwrap() =
                format!("idle processors {what}; by a thread that {before}");
            part(before);
        }
    }
    CONDITION.lock().unwrap().clear();
}

fn requests(cpus: &str) {
    let manager = Manager::start(&["--cpus", cpus]);
    let mut program = manager.program(1, 2);
    let both = CpuSet::parse_list(cpus).unwrap();
    in_each_way(|before| {
        let mut times: (Vec<u64>, Vec<u64>) = Default::default();
        // In turn, so that both see the same machine.
        for _ in 0..5 {
            times.0.extend(chain(&both, 40, before, End::Elsewhere));
            times.1.extend(numbers(&program.ask(&format!("time-requests 40 {before}"))));
        }
        let chain = line("bare chain: eventfd to futex", times.0);
        let granted = line("request to granted virtual processor running", times.1);
        latency_bars("request to running", &granted, &chain);
    });
}

/// From a release to a virtual processor of another program that runs on what was released: the
/// head of `tests/support/latency.rs` says which, and how two processors are enough. On four or
/// more both ways are measured.
fn releases(_: &str) {
    let all = affinity(None).unwrap();
    for width in [2, 4].into_iter().filter(|width| *width <= all.len()) {
        let cpus: CpuSet = all.iter().take(width).collect();
        let mut programs = Releases::begin(&cpus);
        in_each_way(|before| {
            let mut times: (Vec<u64>, Vec<u64>) = Default::default();
            programs.late = 0;
            // In turn, so that both see the same machine.
            for _ in 0..5 {
                times.0.extend(chain(&cpus, 40, before, End::There));
                times.1.extend(
                    (0..40).filter_map(|_| programs.time(Duration::from_millis(5), before)),
                );
            }
            let chain = line("bare chain: eventfd to futex", times.0);
            println!("{:44} {} of 200", "releases that say nothing: late", programs.late);
            if times.1.is_empty() {
                return println!("release to running: MISSED, none came in time");
            }
            let released = line(programs.what(), times.1);
            latency_bars("release to running", &released, &chain);
        });
    }
}

/// What a region pays to know its grant.
fn read(cpus: &str) {
    use arena::client::{Client, Hello};
    let manager = Manager::start(&["--cpus", cpus]);
    let hello = Hello {
        max_processors: 2,
        request: 2,
        fixed_team: false,
        broker: false,
        library: "bench".into(),
        within: None,
    };
    let client = Client::connect(&manager.socket(), &hello, support::PATIENCE).unwrap();
    const READS: u32 = 10_000_000;
    let rounds = (0..5).map(|_| {
        let begin = Instant::now();
        for _ in 0..READS {
            std::hint::black_box(client.grant());
        }
        begin.elapsed().as_secs_f64() * 1e9 / f64::from(READS)
    });
    bar("reading the grant, ns", rounds.fold(f64::MAX, f64::min), 5.0);
}

/// Domain mode: from a pass to another program's virtual processor running, without the manager.
fn pass(cpus: &str) {
    let manager = Manager::start(&["--cpus", cpus, "--domain", "--quantum", "5ms"]);
    let mut times = Vec::new();
    let (mut giver, mut taker) = (manager.program(2, 2), manager.program(2, 2));
    let last = giver
        .until("it has one", |seen| seen.processors == 1 && !seen.shared)
        .cpus
        .first()
        .unwrap();
    assert_eq!((giver.ask("join"), taker.ask("join")), ("joined".into(), "joined".into()));
    for _ in 0..100 {
        let waiter = std::thread::spawn(move || {
            let at = numbers(&taker.ask("time-taken"))[0];
            (taker, at)
        });
        // From the thread to the sleep.
        std::thread::sleep(Duration::from_millis(8));
        let begin = numbers(&giver.ask(&format!("time-pass {}", last.0)))[0];
        let (back, at) = waiter.join().unwrap();
        taker = back;
        times.push(at.saturating_sub(begin));
    }
    let times = line("pass to another program's thread running", times);
    bar("handoff, p50", times.at(50), Duration::from_micros(40));
}

/// A program that rings as fast as it can, and one that works at the same time: is that slower than
/// with one that only computes?
fn flood(cpus: &str) {
    let manager = Manager::start(&["--cpus", cpus]);
    let (mut other, mut flooder) = (manager.program(1, 1), manager.program(1, 2));
    let (mut beside, mut shares): ([Vec<u64>; 2], _) = (Default::default(), Vec::new());
    // In turn, so that both see the same machine.
    for round in 0..10 {
        let word = ["compute", "flood"][round % 2];
        let asked = std::thread::spawn(move || {
            let answer = flooder.ask(&format!("{word} 1500"));
            (flooder, answer)
        });
        std::thread::sleep(Duration::from_millis(100));
        let working = std::thread::spawn(move || {
            let times = numbers(&other.ask("time-work 1200"));
            (other, times)
        });
        let (percent, turns) = cost(&manager, Duration::from_millis(1200));
        let (times, answer);
        (other, times) = working.join().unwrap();
        (flooder, answer) = asked.join().unwrap();
        beside[round % 2].extend(times);
        if word == "flood" {
            println!(
                "{:44} {percent:.4} % of a processor, {turns} wakeups in 1.2s, {answer}",
                "a doorbell flood"
            );
            shares.push(percent);
        }
    }
    shares.sort_by(f64::total_cmp);
    bar("doorbell flood, % of a processor", shares[shares.len() / 2], 1.0);
    let [quiet, loud] = beside;
    let (quiet, loud) =
        (line("work beside one that computes", quiet), line("work beside a flood", loud));
    let ratio = |one: Duration, other: Duration| one.as_secs_f64() / other.as_secs_f64();
    let noise = ratio(quiet.at(84), quiet.at(50));
    bar(
        "beside a flood, of the other (bar: its noise)",
        ratio(loud.at(50), quiet.at(50)),
        noise.max(1.01),
    );
}

fn squeeze(cpus: &str) {
    let manager = Manager::start(&["--cpus", cpus]);
    let (mut times, mut bare) = (Vec::new(), Vec::new());
    let pair: Vec<CpuId> = CpuSet::parse_list(cpus).unwrap().iter().collect();
    for _ in 0..300 {
        let mut program = manager.program(2, 2);
        program.until("it has both", |seen| seen.processors == 2);
        let socket = manager.socket();
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(45));
            Program::start(&socket, 2, 2)
        });
        times.extend(numbers(&program.ask("time-squeeze")));
        drop(other.join().unwrap());
        program.kill();
        // On a thread of its own: what it starts has not its turns.
        let pair = [pair[1], pair[0]];
        bare.push(
            std::thread::spawn(move || bare_squeeze(pair, Duration::from_millis(2)))
                .join()
                .unwrap(),
        );
    }
    line("bare: a timer of 2 ms binds a spinner", bare);
    let times = line("smaller grant to squeezed (grace 2 ms)", times);
    bar("squeezed within grace + 1 ms, p99", times.at(99), Duration::from_millis(3));
}

fn kill(cpus: &str) {
    let manager = Manager::start(&["--cpus", cpus]);
    let mut program = manager.program(2, 2);
    let mut times = Vec::new();
    for _ in 0..50 {
        let victim = manager.program(2, 2);
        program.until("it has one", |seen| seen.processors == 1);
        std::thread::sleep(Duration::from_millis(12));
        let killed = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(10));
            let at = monotonic_ns();
            victim.kill();
            at
        });
        let woken = numbers(&program.ask("time-wake 2"))[0];
        times.push(woken.saturating_sub(killed.join().unwrap()));
    }
    let times = line("SIGKILL to the survivor's thread running", times);
    bar("killed program's processors reused, p99", times.at(99), Duration::from_millis(10));
}

/// What all threads of the manager use of a processor, in percent, and how often they were given
/// one.
fn cost(manager: &Manager, time: Duration) -> (f64, u64) {
    let used = || {
        let mut sum = (0, 0);
        for thread in std::fs::read_dir(format!("/proc/{}/task", manager.pid())).unwrap() {
            let stat = std::fs::read_to_string(thread.unwrap().path().join("schedstat")).unwrap();
            let mut words = stat.split_whitespace().map(|word| word.parse::<u64>().unwrap());
            sum = (sum.0 + words.next().unwrap(), sum.1 + words.nth(1).unwrap());
        }
        sum
    };
    let (begin, before) = (Instant::now(), used());
    std::thread::sleep(time);
    let after = used();
    ((after.0 - before.0) as f64 / begin.elapsed().as_nanos() as f64 * 100.0, after.1 - before.1)
}

fn crowd(manager: &Manager, programs: u32, vps: u32, request: u32) -> Vec<Program> {
    let start = |_| {
        let mut program = manager.program(request, 2);
        for index in 1..vps {
            program.ask(&format!("publish {index} {}", program.pid()));
        }
        program
    };
    (0..programs).map(start).collect()
}

fn steady(cpus: &str) {
    let time = Duration::from_secs(10);
    for (what, request) in
        [("16 programs x 64, all share, in turns", 2), ("16 programs x 64, each wants one", 1)]
    {
        let manager = Manager::start(&["--cpus", cpus]);
        let programs = crowd(&manager, 16, 64, request);
        std::thread::sleep(Duration::from_millis(500));
        let (percent, turns) = cost(&manager, time);
        println!("{what:44} {percent:.4} % of a processor, {turns} wakeups in {time:?}");
        bar("steady, % of a processor", percent, 0.1);
        drop(programs);
    }
    let manager = Manager::start(&["--cpus", cpus]);
    let programs = crowd(&manager, 2, 64, 1);
    std::thread::sleep(Duration::from_millis(500));
    let (percent, turns) = cost(&manager, time);
    println!(
        "{:44} {percent:.4} % of a processor, {turns} wakeups in {time:?}",
        "2 programs x 64, each has enough"
    );
    drop(programs);
}

fn idle(cpus: &str) {
    let manager = Manager::start(&["--cpus", cpus]);
    std::thread::sleep(Duration::from_millis(300));
    let (percent, turns) = cost(&manager, Duration::from_secs(3));
    println!("{:44} {percent:.4} % of a processor, {turns} wakeups in 3s", "no programs");
    bar("wakeups without a program", turns, 0);
}

fn many(cpus: &str) {
    let manager = Manager::start(&["--cpus", cpus]);
    let begin = Instant::now();
    let programs: Vec<Program> = (0..512).map(|_| manager.program(2, 2)).collect();
    println!("512 programs registered in {:?}", begin.elapsed());
    assert_eq!(manager.status().programs.len(), 512);
    std::thread::sleep(Duration::from_secs(1));
    let (percent, turns) = cost(&manager, Duration::from_secs(5));
    println!(
        "{:44} {percent:.4} % of a processor, {turns} wakeups in 5s",
        "512 programs, all share"
    );
    drop(programs);
}

/// Without a manager: libgomp.
fn command(compiled: &Compiled, manager: Option<&Manager>, arguments: &[String]) -> Command {
    let mut command = manager.map_or_else(|| compiled.bare(), |manager| compiled.command(manager));
    command.args(arguments);
    command
}

/// Seconds that copies take, each its own, all at once.
fn seconds(
    compiled: &Compiled,
    manager: Option<&Manager>,
    copies: usize,
    arguments: &[String],
) -> Vec<f64> {
    let children: Vec<_> =
        (0..copies).map(|_| command(compiled, manager, arguments).spawn().unwrap()).collect();
    let said = |child: std::process::Child| {
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    children.into_iter().map(|child| said(child).trim().parse().unwrap()).collect()
}

/// Speedups that programs report by themselves, compared with those that a clock finds: programs
/// that compute, of which a part is known to be serial, without any call.
fn speedups(cpus: &str) {
    const ITERATIONS: usize = 300;
    let manager = Manager::start(&["--cpus", cpus, "--policy", "pdpa"]);
    let Some(shares) = Compiled::new(&manager, "shares") else {
        return println!("bar unmet: see above");
    };
    for percent in [0, 10, 50] {
        let arguments = [percent.to_string(), ITERATIONS.to_string()];
        let on = |threads: &str| {
            let child =
                command(&shares, None, &arguments).env("OMP_NUM_THREADS", threads).spawn().unwrap();
            let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
            said.trim().parse::<f64>().unwrap()
        };
        let right = on("1") / on("2");
        let mut child = command(&shares, Some(&manager), &arguments).spawn().unwrap();
        let pid = child.id().cast_signed();
        let mut reported = None;
        while child.try_wait().unwrap().is_none() {
            let program = manager.status().programs.into_iter().find(|program| program.pid == pid);
            reported = program.and_then(|program| program.speedup).or(reported);
            std::thread::sleep(Duration::from_millis(20));
        }
        let what = format!("speedup on 2, {percent} % serial");
        let Some((speedup, 2)) = reported else {
            println!("{what:44} bar unmet: it reported {reported:?}");
            continue;
        };
        println!("{what:44} {speedup:.3}, by the clock {right:.3}");
        bar("error, %", (speedup / right - 1.0).abs() * 100.0, 10.0);
    }
}

/// Programs whose regions all say `num_threads(2)`, compared with as many that do the same on one
/// thread.
fn pairs(cpus: &str) {
    const REGIONS: usize = 40_000;
    const ROUNDS: usize = 5;
    const ROUNDS_ALONE: usize = 15;
    let manager = Manager::start(&["--cpus", cpus]);
    let Some(pairs) = Compiled::new(&manager, "pairs") else {
        return println!("bar unmet: see above");
    };
    let steps = seconds(&pairs, None, 1, &["calibrate".into()])[0];
    let arguments = |threads: usize| [threads.to_string(), REGIONS.to_string(), steps.to_string()];
    let mean = |times: Vec<f64>| times.iter().sum::<f64>() / times.len() as f64;
    let median = |mut ratios: Vec<f64>| {
        ratios.sort_by(f64::total_cmp);
        let rounds = ratios.len();
        println!("{:44} {:.3} to {:.3}, n {rounds}", "", ratios[0], ratios[rounds - 1]);
        ratios[rounds / 2]
    };
    for copies in [2, 4] {
        let ratio = |_| {
            let of = |threads| mean(seconds(&pairs, Some(&manager), copies, &arguments(threads)));
            of(2) / of(1)
        };
        bar(
            &format!("num_threads(2), {copies} copies, to one thread"),
            median((0..ROUNDS).map(ratio).collect()),
            1.25,
        );
    }
    // No program shares a processor here, and what is compared is some percent: more rounds, in
    // which the two begin in turn.
    let alone = |round: usize| {
        let of = |managed: bool| {
            mean(seconds(&pairs, Some(&manager).filter(|_| managed), 1, &arguments(2)))
        };
        let first = of(round.is_multiple_of(2));
        let second = of(!round.is_multiple_of(2));
        if round.is_multiple_of(2) { first / second } else { second / first }
    };
    bar("num_threads(2), alone, to libgomp", median((0..ROUNDS_ALONE).map(alone).collect()), 1.0);
}
