//! Which cache lines does an empty region move between processors? Run under a counting plugin, by
//! `cargo xtask vm smp --count`: on a real machine the marks do nothing and nothing is counted.
//!
//! Claim: a region of P threads moves at most 2 (P - 1) + 1 lines, one out to each worker and one
//! back; a tree of tasks on two threads moves at most one line for two tasks. `--list` prints the
//! variants, `--variant NAME --threads P --regions N` runs one: a few regions to warm up, a mark
//! that begins the phase, then N regions with a mark before the first, between any two and after
//! the last.
//!
//! # Modules, from the bottom up
//! 1. `variants`: the published schemes, as in `benches/fork_join`.
//! 2. `variant`: those, ours and peers' by name.

mod variant;
#[allow(dead_code, reason = "the names are this bench's own list")]
#[path = "../fork_join/variants/mod.rs"]
mod variants;

use variant::VARIANTS;

/// A mark between two regions: a long no-operation that no compiler emits (`xtask/vm/count.c`).
fn mark() {
    // SAFETY: - changes nothing: the address is not accessed.
    unsafe { std::arch::asm!(r#".ascii "\x0f\x1f\x80REGN""#, options(nostack, preserves_flags)) };
}

/// A mark that begins the phase.
fn begin() {
    // SAFETY: - as above.
    unsafe { std::arch::asm!(r#".ascii "\x0f\x1f\x80PHAS""#, options(nostack, preserves_flags)) };
}

const USAGE: &str = "usage: transfers --list | --variant NAME --threads P --regions N; counted by \
                     cargo xtask vm smp --count";

fn usage() -> ! {
    eprintln!("{USAGE}");
    std::process::exit(2);
}

/// Regions before the first mark: threads are created, lines find their places.
const WARM_UP: u32 = 30;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["--list"] => VARIANTS.iter().for_each(|(name, _)| println!("{name}")),
        ["--variant", name, "--threads", threads, "--regions", regions] => {
            let (Ok(threads), Ok(regions)) = (threads.parse::<usize>(), regions.parse::<u32>())
            else {
                usage()
            };
            let Some((_, run)) = VARIANTS.iter().find(|variant| variant.0 == name) else {
                eprintln!("there is no variant `{name}`; --list prints them");
                std::process::exit(2);
            };
            let mut done = 0;
            let mut before = || {
                match done {
                    0..WARM_UP => {}
                    WARM_UP => {
                        begin();
                        mark();
                    }
                    _ => mark(),
                }
                done += 1;
            };
            run(threads, WARM_UP + regions, &mut before);
        }
        _ => usage(),
    }
}
