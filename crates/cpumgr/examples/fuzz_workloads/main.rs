//! Fuzzes workload files:
//! `cargo run --release -p cpumgr --example fuzz_workloads -- [SECONDS [SEED]]`, 60 s by default.
//!
//! Ends with 0 when nothing was found, with 1 and the text that shows the defect otherwise.

mod fuzz;

use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let (Ok(seconds), Ok(seed)) =
        (arguments.next().unwrap_or(Ok(60)), arguments.next().unwrap_or(Ok(1)))
    else {
        eprintln!("fuzz_workloads [SECONDS [SEED]]; both are whole numbers");
        return ExitCode::from(2);
    };
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut texts = 0_u64;
    let found = fuzz::search(seed, u64::MAX, false, || {
        texts += 1;
        Instant::now() < end
    });
    match found {
        Ok(ran) => {
            println!("{texts} texts, {ran} of them simulated, no defect");
            ExitCode::SUCCESS
        }
        Err((text, defect)) => {
            println!("{text}\n--- after {texts} texts of seed {seed}: {defect}");
            ExitCode::FAILURE
        }
    }
}
