//! Fuzzing without a special compiler: mutates a small corpus, runs a target, and stops at the
//! first panic.
//!
//! `cargo run --release --manifest-path fuzz/Cargo.toml --target-dir target/fuzz -- TARGET [SECONDS] [--planted] [--seed N]`
//!
//! Targets: `messages` (packets to and from the manager), `arena` (what a program may write into
//! its area, and the manager's decisions upon it). A panic ends the run with the seed and the input
//! in hexadecimal, which `-- TARGET --input HEX` runs again. With `--planted` the target has a
//! defect that it must find.
//!
//! Inputs that make a target do something new (a target says what it saw as a number) are kept in
//! memory and mutated further. `corpus/TARGET/` holds where it begins.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

mod area;
mod messages;

/// Runs one input; returns what it saw, as one number for one kind of behaviour.
type Target = fn(&[u8], bool) -> u64;

/// xorshift64*: repeatable, and nothing depends on its quality.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

fn mutate(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut input = corpus[random.below(corpus.len())].clone();
    for _ in 0..1 + random.below(4) {
        let at = random.below(input.len() + 1);
        match random.below(7) {
            0 if !input.is_empty() => drop(input.remove(at.min(input.len() - 1))),
            1 => input.insert(at, random.next() as u8),
            2 if at < input.len() => input[at] ^= 1 << random.below(8),
            3 if at < input.len() => input[at] = [0, 1, 0x7f, 0x80, 0xff, b'0', b'"', b'{'][random.below(8)],
            4 => input.truncate(at),
            5 => {
                let other = &corpus[random.below(corpus.len())];
                let from = random.below(other.len() + 1);
                input.splice(at..at, other[from..].iter().take(64).copied().collect::<Vec<_>>());
            }
            _ => {
                let word = [0, 1, u64::MAX, 1 << 31, 1 << 63, random.next()][random.below(6)].to_le_bytes();
                for (index, byte) in word.into_iter().enumerate() {
                    if let Some(place) = input.get_mut(at + index) {
                        *place = byte;
                    }
                }
            }
        }
    }
    input.truncate(128 * 1024);
    input
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let (name, target): (_, Target) = match words.first().map(String::as_str) {
        Some("messages") => ("messages", messages::run),
        Some("arena") => ("arena", area::run),
        _ => {
            eprintln!("usage: nanos-fuzz messages|arena [SECONDS] [--planted] [--seed N] [--input \
                       HEX]");
            return ExitCode::from(2);
        }
    };
    let planted = words.iter().any(|word| word == "--planted");
    if let Some(input) = option("--input") {
        let Some(input) = unhex(input) else {
            eprintln!("--input is no hexadecimal text");
            return ExitCode::from(2);
        };
        println!("it saw {:#x}", target(&input, planted));
        return ExitCode::SUCCESS;
    }
    let seconds = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(60);
    let seed = option("--seed").and_then(|word| word.parse().ok()).unwrap_or(0x9e37_79b9);
    fuzz(name, target, planted, Duration::from_secs(seconds), seed)
}

fn fuzz(name: &str, target: Target, planted: bool, time: Duration, seed: u64) -> ExitCode {
    let begins = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut corpus: Vec<Vec<u8>> = vec![Vec::new()];
    let entries = std::fs::read_dir(&begins).into_iter().flatten().flatten();
    corpus.extend(entries.filter_map(|entry| std::fs::read(entry.path()).ok()));
    let (mut random, mut seen, mut runs) = (Random(seed | 1), BTreeSet::new(), 0_u64);
    let begin = Instant::now();
    std::panic::set_hook(Box::new(|_| {}));
    while begin.elapsed() < time {
        let input = mutate(&mut random, &corpus);
        match std::panic::catch_unwind(|| target(&input, planted)) {
            Ok(saw) => {
                if seen.insert(saw) && corpus.len() < 4096 {
                    corpus.push(input);
                }
            }
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                println!("{name}: after {runs} runs, seed {seed}: {}", text.unwrap_or_default());
                println!("--input {}", hex(&input));
                return ExitCode::FAILURE;
            }
        }
        runs += 1;
    }
    println!("{name}: {runs} runs, {} kinds of behaviour, no panic in \
              {:?}", seen.len(), begin.elapsed());
    ExitCode::SUCCESS
}
