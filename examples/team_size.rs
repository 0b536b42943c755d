//! Shows how a program's teams follow what it has: one line whenever the size of its regions
//! changes.
//!
//! Start it twice under a manager and watch both:
//! ```text
//! $ target/release/cpumgr run -- cargo run --release --example team_size 10 &
//! $ target/release/cpumgr run -- cargo run --release --example team_size 5
//!    0.00 s: 2 threads
//!    1.37 s: 1 threads
//!    6.41 s: 2 threads
//! ```

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

fn main() {
    let argument = std::env::args().nth(1);
    let seconds = match argument.as_deref().map(str::parse) {
        None => 2,
        Some(Ok(seconds)) => seconds,
        Some(Err(error)) => {
            eprintln!("usage: team_size [SECONDS]: {:?}: {error}", argument.unwrap_or_default());
            std::process::exit(2);
        }
    };
    let begin = Instant::now();
    let mut last = 0;
    while begin.elapsed() < Duration::from_secs(seconds) {
        let size = AtomicU32::new(0);
        nanothreads::broadcast(|member| {
            size.store(member.size, Relaxed);
            // Some work: a millisecond on each processor.
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(1) {
                std::hint::spin_loop();
            }
        });
        let size = size.into_inner();
        if size != last {
            println!("{:7.2} s: {size} threads", begin.elapsed().as_secs_f64());
            last = size;
        }
    }
}
