//! EASY backfilling: worked cases, and what it guarantees for any jobs that keep their limits.

use policies::Nanos;
use policies::backfill::{Job, Plan, Reservation, Running, plan};
use proptest::prelude::*;

fn rigid(processors: u32, limit: Nanos) -> Job {
    Job { least: processors, most: processors, limit: Some(limit) }
}

fn runs(processors: u32, until: Nanos) -> Running {
    Running { processors, until: Some(until) }
}

#[test]
fn a_job_that_is_over_before_the_head_begins_passes_it() {
    // 8 processors, 5 in use until 100: the head wants 6, and has them then.
    let running = [runs(5, 100)];
    let plan = |second: Job| plan(0, 8, &running, &[rigid(6, 50), second]);
    let reserved = Some(Reservation { job: 0, at: 100 });
    let starts = |starts: &[(usize, u32)]| Plan { starts: starts.to_vec(), reserved };
    assert_eq!(plan(rigid(3, 100)), starts(&[(1, 3)]));
    assert_eq!(plan(rigid(3, 101)), starts(&[]), "it would take one of the head's");
    assert_eq!(plan(rigid(2, 9_999)), starts(&[(1, 2)]), "the head leaves two");
    assert_eq!(plan(Job { limit: None, ..rigid(2, 0) }), starts(&[(1, 2)]));
    assert_eq!(plan(Job { limit: None, ..rigid(3, 0) }), starts(&[]));
}

#[test]
fn a_moldable_job_has_the_most_that_delays_nothing() {
    let running = [runs(5, 100)];
    let with = |limit| Job { least: 1, most: 8, limit: Some(limit) };
    let starts = |job: Job| plan(0, 8, &running, &[rigid(6, 50), job]).starts;
    assert_eq!(starts(with(100)), [(1, 3)]);
    assert_eq!(starts(with(101)), [(1, 2)]);
    // In front it takes all that is free.
    assert_eq!(plan(0, 8, &running, &[with(7)]).starts, [(0, 3)]);
    assert_eq!(plan(0, 8, &[], &[rigid(99, 7)]).starts, [(0, 8)], "all there are");
}

#[test]
fn without_a_limit_of_what_runs_no_job_passes_the_head() {
    let running = [Running { processors: 5, until: None }];
    let queue = [rigid(6, 50), rigid(1, 1)];
    assert_eq!(plan(0, 8, &running, &queue), Plan::default());
    // Unless the head need not wait for that one.
    let running = [Running { processors: 2, until: None }, runs(3, 40)];
    let both = plan(0, 8, &running, &queue);
    assert_eq!((both.starts, both.reserved), (vec![(1, 1)], Some(Reservation { job: 0, at: 40 })));
}

/// A job of a simulated queue: when it comes, what it says, and what it takes in truth.
#[derive(Debug, Clone)]
struct Submitted {
    comes: Nanos,
    job: Job,
    takes: Nanos,
}

fn submitted() -> impl Strategy<Value = Submitted> {
    (0_u64..400, 1_u32..9, 0_u32..6, 1_u64..200, 1_u64..200).prop_map(
        |(comes, least, more, limit, takes)| Submitted {
            comes,
            job: Job { least, most: least + more, limit: Some(limit) },
            takes: takes.min(limit),
        },
    )
}

/// A job that runs: its processors, when it ends by its limit and in truth.
type Run = (u32, Nanos, Nanos);

proptest! {
    #[test]
    fn the_head_starts_at_its_first_reservation_at_the_latest(
        jobs in prop::collection::vec(submitted(), 1..25),
        processors in 8_u32..12,
    ) {
        let mut jobs = jobs;
        jobs.sort_by_key(|it| it.comes);
        let (mut now, mut running) = (0, Vec::<Run>::new());
        let mut queue: Vec<usize> = Vec::new();
        let (mut next, mut promised) = (0, vec![None; jobs.len()]);
        let mut started = 0;
        while started < jobs.len() {
            running.retain(|(_, _, ends)| *ends > now);
            while next < jobs.len() && jobs[next].comes <= now {
                queue.push(next);
                next += 1;
            }
            let views: Vec<Running> =
                running.iter().map(|(number, until, _)| runs(*number, *until)).collect();
            let waiting: Vec<Job> = queue.iter().map(|job| jobs[*job].job).collect();
            let decided = plan(now, processors, &views, &waiting);
            if let Some(Reservation { job, at }) = decided.reserved {
                let first = promised[queue[job]].get_or_insert(at);
                prop_assert!(at <= *first, "a reservation moved from {first} to {at}");
            }
            let used: u32 = running.iter().map(|it| it.0).sum();
            let new: u32 = decided.starts.iter().map(|it| it.1).sum();
            prop_assert!(used + new <= processors);
            let begins: Vec<usize> = decided.starts.iter().map(|(at, _)| queue[*at]).collect();
            for (job, (_, number)) in begins.iter().zip(&decided.starts) {
                let Submitted { job: Job { least, most, limit }, takes, .. } = jobs[*job];
                prop_assert!((least..=most).contains(number));
                prop_assert!(promised[*job].is_none_or(|at| now <= at), "it starts too late");
                running.push((*number, now + limit.unwrap_or(0), now + takes));
                started += 1;
            }
            queue.retain(|job| !begins.contains(job));
            if let Some(first) = queue.first() {
                let free = processors - used - new;
                prop_assert!(jobs[*first].job.least > free, "the first one fits and waits");
            }
            let ends = running.iter().map(|it| it.2).filter(|end| *end > now);
            let comes = jobs.get(next).map(|it| it.comes);
            now = ends.chain(comes).min().unwrap_or(now + 1);
        }
    }
}
