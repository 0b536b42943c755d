//! What forking and joining cost, for us and for peers, in terms of the cache-line round trip that
//! bounds them.
//!
//! # Questions, and what refutes the claims
//! - *Empty region*: two threads within 1.4 round trips of one line near, 1.35 far. Refuted when
//!   the median of `region / round trip` is above.
//! - *Barrier* of two: within 1.6 round trips.
//! - *Nested*: 2x1 within 3.5 round trips; an inner region of one thread within 20 ns; 2x2 without
//!   an inner barrier on two processors, in safe Rust, within 4 us.
//! - *Gap*: a region after 1 ms without one costs at most half of what it costs rayon, and the idle
//!   threads used no processor meanwhile. Refuted by the time, or by `cpu late` (use of the other
//!   threads from 200 us on) above 0.
//! - *Sizes*: a team whose size changes at each region costs at most one more round trip.
//!
//! `cargo bench --bench fork_join` prints a table for each case; `-- --quick` takes one sample of
//! each. How samples are taken: `benches/README.md`.

mod bare;
mod barrier;
mod gap;
#[path = "../harness/mod.rs"]
mod harness;
mod nested;
mod sizes;
mod variants;

use engine::{Dispatch, Member, Team};
use harness::place::Row;
use harness::sample::Subject;
use harness::{Bar, Bench, Case, Engine, Runtime, regions, sample};
use std::process::ExitCode;
use variants::{NAMES, Pool};

fn main() -> ExitCode {
    let mut engines = regions::engines(regions::count, || regions::counted(2, 1));
    // A closure that captures nothing.
    let bare = Engine::new("nanothreads broadcast bare", Runtime::Ours, |row| {
        regions::configure(row);
        let run = || nanothreads::broadcast(|member| regions::count(member.id));
        Ok(Subject::new(run, regions::counted(2, 1)))
    });
    engines.insert(2, bare);
    engines.insert(3, supplied("nanothreads lwd", Dispatch::Lines));
    engines.insert(4, supplied("nanothreads gwd", Dispatch::Broadcast));
    engines.extend(NAMES.map(published));
    let empty = Case {
        name: "empty region".into(),
        measure: regions::with_share(sample::back_to_back()),
        extras: &["parallel %"],
        engines,
        bar: Some(Bar::RoundTrips { near: 1.4, far: 1.35 }),
    };
    let mut cases = vec![empty, barrier::case()];
    cases.extend(nested::cases());
    cases.extend(sizes::cases());
    cases.extend(gap::cases());
    harness::run(Bench { name: "fork_join", cases, seconds: 220.0, programs: false })
}

/// Our forms of both work descriptors; each names its dispatch.
fn supplied(name: &'static str, dispatch: Dispatch) -> Engine {
    Engine::new(name, Runtime::Ours, move |row| {
        regions::configure(row);
        /// # Safety
        /// - None: it does nothing with its data.
        unsafe fn work(_: *const (), member: Member) {
            regions::count(member.id);
        }
        let run = move || {
            let team = Team::reserve(2).dispatched(dispatch);
            // SAFETY: - `work` ignores its data and does not unwind.
            unsafe { team.run(work, std::ptr::null()) };
        };
        Ok(Subject::new(run, regions::counted(2, 1)))
    })
}

/// A scheme as it was published.
fn published(name: &'static str) -> Engine {
    Engine::new(name, Runtime::Crate, move |row| {
        /// # Safety
        /// - None: it does nothing with its data.
        unsafe fn work(_: *const (), id: usize) {
            regions::count(u32::try_from(id).unwrap_or(u32::MAX));
        }
        let bind = if row == Row::Bound { harness::place::bind_to } else { |_| () };
        let mut pool = Pool::new(name, 2, bind).ok_or("no such scheme")?;
        // SAFETY: - `work` ignores its data and does not unwind.
        let run = move || unsafe { pool.region(work, std::ptr::null()) };
        Ok(Subject::new(run, regions::counted(2, 1)))
    })
}
