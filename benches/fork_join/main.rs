//! What an empty region of two threads costs, beside the cache-line round trip that bounds it, for us and for peers.
//!
//! Question: does a fork and join of two virtual processors stay within two round trips of one cache line? It is refuted
//! when the median of `region / round trip` is above 2.
//!
//! # Method
//! Each sample is a process of its own (so that no peer's spinning threads disturb another), peers in turn, bound and
//! unbound in turn. A sample measures the round trip of one line between two bound threads, then batches of regions, then
//! the round trip again. Samples whose two round trips differ by more than 1.5x are dropped: the processors moved
//! meanwhile. What is left is sorted into *near* and *far* by its round trip.
//!
//! `cargo bench --bench fork_join` prints the table and writes each sample to `target/bench/fork_join.csv`
//! (`-- --rounds N` for more samples, default 9).

mod peers;
mod round_trip;

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// Regions in a batch; a sample is the median of its batches.
const REGIONS: u32 = 1000;
const BATCHES: usize = 21;
/// Regions before the first batch: threads are created, awake, and predicted.
const WARM_UP: u32 = 2000;
/// Time that a sample may take; slow peers get fewer batches.
const SAMPLE_SECONDS: f64 = 0.25;
/// Round trips above this are called far (ns).
const FAR_NS: f64 = 150.0;
/// Largest ratio of the round trips before and after a sample that counts.
const AGREE: f64 = 1.5;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = args.iter().position(|arg| arg == "--sample") {
        let (peer, bound) = (args[at + 1].as_str(), args[at + 2] == "bound");
        return sample(peer, bound);
    }
    // `cargo test` builds and runs benches with --test: nothing to measure then.
    if args.iter().any(|arg| arg == "--test") {
        return ExitCode::SUCCESS;
    }
    let rounds =
        args.iter().position(|arg| arg == "--rounds").and_then(|at| args.get(at + 1)?.parse().ok()).unwrap_or(9);
    compare(rounds)
}

/// The child: one sample of one peer, as a line of CSV without the leading columns.
fn sample(name: &str, bound: bool) -> ExitCode {
    let Some(mut region) = peers::make(name, bound) else {
        return ExitCode::FAILURE;
    };
    for _ in 0..WARM_UP / 20 {
        region();
    }
    if bound {
        // Threads that the peer created without asking us.
        peers::bind_all_threads();
    }
    let before = round_trip::nanoseconds();
    for _ in 0..WARM_UP {
        region();
    }
    let begin = Instant::now();
    let mut batches = Vec::new();
    while batches.len() < BATCHES && (batches.is_empty() || begin.elapsed().as_secs_f64() < SAMPLE_SECONDS) {
        let start = Instant::now();
        let mut done = 0;
        while done < REGIONS && (done < 10 || start.elapsed().as_secs_f64() < SAMPLE_SECONDS) {
            (0..10).for_each(|_| region());
            done += 10;
        }
        batches.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(done));
    }
    drop(region);
    let after = round_trip::nanoseconds();
    println!("{before:.1},{after:.1},{:.1}", median(&mut batches));
    ExitCode::SUCCESS
}

/// One row of the raw record.
struct Sample {
    round_trip: f64,
    region: f64,
}

fn compare(rounds: usize) -> ExitCode {
    let me = std::env::current_exe().expect("the path of this program");
    let mut raw = String::from("peer,row,round,rtt_before_ns,rtt_after_ns,region_ns\n");
    // (peer, row, distance) -> samples that count.
    let mut kept: BTreeMap<(usize, &str, &str), Vec<Sample>> = BTreeMap::new();
    let mut dropped = 0;
    let mut failed = Vec::new();
    for round in 0..rounds {
        for (index, peer) in peers::NAMES.iter().enumerate() {
            for row in ["bound", "unbound"] {
                let output =
                    Command::new(&me).args(["--sample", peer, row]).envs(peers::environment(row == "bound")).output();
                let text = match &output {
                    Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
                    _ => {
                        failed.push(format!("{peer} ({row})"));
                        continue;
                    }
                };
                let numbers: Vec<f64> = text.trim().split(',').filter_map(|n| n.parse().ok()).collect();
                let [before, after, region] = numbers[..] else {
                    failed.push(format!("{peer} ({row}): {text}"));
                    continue;
                };
                raw.push_str(&format!("{peer},{row},{round},{}\n", text.trim()));
                if before.max(after) > AGREE * before.min(after) {
                    dropped += 1;
                    continue;
                }
                let round_trip = f64::midpoint(before, after);
                let distance = if round_trip > FAR_NS { "far" } else { "near" };
                kept.entry((index, row, distance)).or_default().push(Sample { round_trip, region });
            }
        }
    }
    println!("empty region, 2 threads; medians; region/rtt is the median of the samples' own ratios");
    println!(
        "{:<20} {:<8} {:<5} {:>3} {:>9} {:>11} {:>11}",
        "engine", "row", "rtt", "n", "rtt ns", "region ns", "region/rtt"
    );
    for ((index, row, distance), samples) in &kept {
        let mut ratios: Vec<f64> = samples.iter().map(|s| s.region / s.round_trip).collect();
        let mut trips: Vec<f64> = samples.iter().map(|s| s.round_trip).collect();
        let mut regions: Vec<f64> = samples.iter().map(|s| s.region).collect();
        println!(
            "{:<20} {row:<8} {distance:<5} {:>3} {:>9.1} {:>11.1} {:>11.2}",
            peers::NAMES[*index],
            samples.len(),
            median(&mut trips),
            median(&mut regions),
            median(&mut ratios)
        );
    }
    failed.sort();
    failed.dedup();
    println!("{dropped} samples dropped (round trips before and after disagree); could not run: {failed:?}");
    let path = "target/bench/fork_join.csv";
    if let Err(error) = fs::create_dir_all("target/bench").and_then(|()| fs::write(path, raw)) {
        eprintln!("{path}: {error}");
        return ExitCode::FAILURE;
    }
    println!("raw record: {path}");
    ExitCode::SUCCESS
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
