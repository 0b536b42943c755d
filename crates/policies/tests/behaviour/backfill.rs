//! EASY backfilling: worked cases, and what it guarantees for any jobs that keep their limits.

use policies::Nanos;
use policies::backfill::{Cap, Job, Part, Plan, Reservation, Running, most_ever, plan, plan_below};
use proptest::prelude::*;

fn rigid(processors: u32, limit: Nanos) -> Job {
    Job { least: processors, most: processors, limit: Some(limit), class: None, owner: None }
}

fn runs(processors: u32, until: Nanos) -> Running {
    Running { processors, until: Some(until), class: None }
}

#[test]
fn a_job_that_is_over_before_the_head_begins_passes_it() {
    // 8 processors, 5 in use until 100: the head wants 6, and has them then.
    let running = [runs(5, 100)];
    let plan = |second: Job| plan(0, 8, &[], &running, &[rigid(6, 50), second]);
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
    let with = |limit| Job { least: 1, most: 8, limit: Some(limit), class: None, owner: None };
    let starts = |job: Job| plan(0, 8, &[], &running, &[rigid(6, 50), job]).starts;
    assert_eq!(starts(with(100)), [(1, 3)]);
    assert_eq!(starts(with(101)), [(1, 2)]);
    // In front it takes all that is free.
    assert_eq!(plan(0, 8, &[], &running, &[with(7)]).starts, [(0, 3)]);
    // One of more than there are waits, and the others pass.
    assert_eq!(plan(0, 8, &[], &[], &[rigid(99, 7), rigid(8, 7)]).starts, [(1, 8)]);
    assert_eq!(plan(0, 8, &[], &[], &[Job { least: 2, ..rigid(99, 7) }]).starts, [(0, 8)]);
}

#[test]
fn without_a_limit_of_what_runs_no_job_passes_the_head() {
    let running = [Running { until: None, ..runs(5, 0) }];
    let queue = [rigid(6, 50), rigid(1, 1)];
    assert_eq!(plan(0, 8, &[], &running, &queue), Plan::default());
    // Unless the head need not wait for that one.
    let running = [Running { until: None, ..runs(2, 0) }, runs(3, 40)];
    let both = plan(0, 8, &[], &running, &queue);
    assert_eq!((both.starts, both.reserved), (vec![(1, 1)], Some(Reservation { job: 0, at: 40 })));
}

#[test]
fn a_job_that_its_class_has_no_room_for_waits_for_its_class_alone() {
    let of = |class, job: Job| Job { class: Some(class), ..job };
    let parts = [Part::new(3, 0), Part::new(8, 0)];
    // 2 of 3 run: the first one does not fit its class, and a smaller one of it does not pass.
    let running = [Running { class: Some(0), until: None, ..runs(2, 0) }];
    let queue = [of(0, rigid(2, 9)), of(0, rigid(1, 9)), of(1, rigid(4, 9)), rigid(2, 9)];
    let decided = plan(0, 8, &parts, &running, &queue);
    assert_eq!((decided.starts, decided.reserved), (vec![(2, 4), (3, 2)], None));
    // One of more than the maximum never begins, and nothing waits for it.
    let queue = [of(0, rigid(5, 9)), of(0, rigid(3, 9))];
    assert_eq!(plan(0, 8, &parts, &[], &queue).starts, [(1, 3)]);
}

#[test]
fn what_a_class_keeps_is_no_other_jobs() {
    let parts = [Part::new(8, 3)];
    let own = Job { class: Some(0), ..rigid(4, 10) };
    // Five are left to others; its own may have all.
    assert_eq!(plan(0, 8, &parts, &[], &[rigid(5, 9), rigid(1, 9)]).starts, [(0, 5)]);
    assert_eq!(plan(0, 8, &parts, &[], &[rigid(2, 9), own]).starts, [(0, 2), (1, 4)]);
    // One of others waits for what its own do not keep, and they pass it within what they keep.
    let running = [runs(4, 100)];
    let decided = plan(0, 8, &parts, &running, &[rigid(2, 9), Job { limit: None, ..own }]);
    assert_eq!(decided.reserved, Some(Reservation { job: 0, at: 100 }));
    assert_eq!(decided.starts, [(1, 4)], "at 100 there are two beside its four");
    // All that there is is kept: one is left.
    let all = [Part::new(8, 8)];
    assert_eq!(plan(0, 8, &all, &[], &[rigid(2, 9), rigid(1, 9)]).starts, [(1, 1)]);
    assert_eq!(most_ever(8, &all, None), 1);
}

#[test]
fn a_job_passes_a_head_without_a_reservation_on_what_its_own_class_keeps() {
    let parts = [Part::new(8, 3)];
    let running = [Running { until: None, ..runs(4, 0) }];
    let own = |processors| Job { class: Some(0), limit: None, ..rigid(processors, 0) };
    // One of eight is free for the head, and three are kept.
    let queue = [rigid(2, 9), rigid(1, 1), own(2), own(2), own(1)];
    let decided = plan(0, 8, &parts, &running, &queue);
    assert_eq!((decided.starts, decided.reserved), (vec![(2, 2), (4, 1)], None));
}

#[test]
fn masters_of_programs_make_a_reserve_smaller_now_and_promise_later_jobs_nothing() {
    // Four processors, of which two classes keep two each; two programs of other classes run.
    let parts = [Part::new(4, 2), Part { kept_now: 0, ..Part::new(4, 2) }];
    let running = [Running { until: None, ..runs(1, 0) }, runs(1, 50)];
    let of = |class, processors| Job { class: Some(class), ..rigid(processors, 9) };
    assert_eq!(plan(0, 4, &parts, &running, &[of(0, 2)]).starts, [(0, 2)], "it is kept for it");
    // The other class keeps nothing now, and the first one's is not for it.
    let decided = plan(0, 4, &parts, &running, &[of(1, 1)]);
    assert_eq!((decided.starts, decided.reserved), (vec![], Some(Reservation { job: 0, at: 50 })));
    // One of no class begins when both are gone, since both reserves are whole then.
    let running = [runs(1, 90), runs(1, 50)];
    let decided = plan(0, 4, &parts, &running, &[rigid(1, 9)]);
    assert_eq!((decided.starts, decided.reserved), (vec![], Some(Reservation { job: 0, at: 90 })));
}

#[test]
fn a_job_waits_below_its_owners_cap_and_only_its_owners_jobs_wait_for_it() {
    let of = |owner, job: Job| Job { owner: Some(owner), ..job };
    let caps = |left| [Cap { most: 4, left }, Cap { most: 8, left: 8 }];
    let starts = |left, queue: &[Job]| plan_below(0, 8, &[], &caps(left), &[], queue).starts;
    let queue = [of(0, rigid(4, 9)), of(0, rigid(1, 9)), of(1, rigid(2, 9)), rigid(1, 9)];
    assert_eq!(starts(3, &queue), [(2, 2), (3, 1)], "the owner's job of one waits, too");
    assert_eq!(starts(4, &queue), [(0, 4), (2, 2), (3, 1)]);
    // One that is above its cap at any time is passed by all, as is one of more than there is.
    assert_eq!(starts(3, &[of(0, rigid(5, 9)), of(0, rigid(3, 9))]), [(1, 3)]);
    assert_eq!(starts(3, &[of(1, rigid(9, 9)), of(1, rigid(8, 9))]), [(1, 8)]);
    // A moldable one has the rest below its cap, and counts with that.
    let most = |job: Job| Job { most: 8, ..job };
    assert_eq!(starts(3, &[of(0, most(rigid(1, 9))), rigid(5, 9)]), [(0, 3), (1, 5)]);
    assert_eq!(starts(3, &[of(0, rigid(2, 9)), of(0, most(rigid(1, 9)))]), [(0, 2), (1, 1)]);
}

#[test]
fn a_job_that_waits_for_its_class_leaves_its_owners_cap_and_the_head_counts_with_its_least() {
    let caps = [Cap { most: 4, left: 4 }];
    let own = |job: Job| Job { owner: Some(0), ..job };
    // It cannot be said for how long its class is full.
    let running = [Running { class: Some(0), ..Running { until: None, ..runs(2, 0) } }];
    let of_class = |job: Job| Job { class: Some(0), ..own(job) };
    let queue = [of_class(rigid(3, 9)), own(rigid(4, 9)), rigid(1, 9)];
    let decided = plan_below(0, 8, &[Part::new(3, 0)], &caps, &running, &queue);
    assert_eq!(decided.starts, [(1, 4), (2, 1)]);
    // The head wants three of four at 50. What would outlast that leaves it its cap.
    let running = [runs(6, 50)];
    let head = own(Job { most: 4, ..rigid(3, 9) });
    for (second, starts) in [(rigid(1, 99), &[(1, 1)][..]), (rigid(2, 99), &[])] {
        let decided = plan_below(0, 8, &[], &caps, &running, &[head, own(second)]);
        assert_eq!(decided.reserved, Some(Reservation { job: 0, at: 50 }));
        assert_eq!(decided.starts, starts);
    }
}

/// A job of a simulated queue: when it comes, what it says, and what it takes in truth.
#[derive(Debug, Clone)]
struct Submitted {
    comes: Nanos,
    job: Job,
    takes: Nanos,
}

fn submitted() -> impl Strategy<Value = Submitted> {
    let class = prop::option::of(0_usize..2);
    // One of eight does not say how long it takes.
    let limit = (0_u32..8, 1_u64..200).prop_map(|(says, limit)| (says > 0).then_some(limit));
    (0_u64..400, 1_u32..9, 0_u32..6, limit, 1_u64..200, class).prop_map(
        |(comes, least, more, limit, takes, class)| Submitted {
            comes,
            job: Job { least, most: least + more, limit, class, owner: None },
            takes: takes.min(limit.unwrap_or(u64::MAX)),
        },
    )
}

/// A job that runs, and when it ends in truth.
type Run = (Running, Nanos);

proptest! {
    #[test]
    fn the_head_starts_at_its_first_reservation_at_the_latest(
        jobs in prop::collection::vec(submitted(), 1..25),
        processors in 8_u32..12,
        parts in prop::array::uniform2((1_u32..12, 0_u32..6)),
        are_classes: bool,
    ) {
        let mut jobs = jobs;
        jobs.sort_by_key(|it| it.comes);
        let parts = parts.map(|(most, kept)| Part::new(most, kept.min(most)));
        let parts = if are_classes { &parts[..] } else { &[] };
        let most = |class: Option<usize>| most_ever(processors, parts, class);
        // The others wait for ever, by the rule.
        jobs.retain(|it| it.job.least <= most(it.job.class));
        let have_limits = jobs.iter().all(|it| it.job.limit.is_some());
        let (mut now, mut running) = (0, Vec::<Run>::new());
        let mut queue: Vec<usize> = Vec::new();
        let (mut next, mut promised) = (0, vec![None; jobs.len()]);
        let mut started = 0;
        while started < jobs.len() {
            running.retain(|(_, ends)| *ends > now);
            while next < jobs.len() && jobs[next].comes <= now {
                queue.push(next);
                next += 1;
            }
            let views: Vec<Running> = running.iter().map(|it| it.0).collect();
            let waiting: Vec<Job> = queue.iter().map(|job| jobs[*job].job).collect();
            let decided = plan(now, processors, parts, &views, &waiting);
            if let Some(Reservation { job, at }) = decided.reserved {
                let first = promised[queue[job]].get_or_insert(at);
                // One that waited for its class, without a reservation, may have come first.
                let is_kept = at <= *first || (are_classes && !have_limits);
                prop_assert!(is_kept, "a reservation moved from {first} to {at}");
            }
            let begins: Vec<usize> = decided.starts.iter().map(|(at, _)| queue[*at]).collect();
            for (job, (_, number)) in begins.iter().zip(&decided.starts) {
                let Submitted { job: said, takes, .. } = jobs[*job];
                let Job { least, most, limit, class, .. } = said;
                prop_assert!((least..=most).contains(number));
                let is_late = promised[*job].is_some_and(|at| now > at);
                prop_assert!(!is_late || (are_classes && !have_limits), "it starts too late");
                let until = limit.map(|limit| now + limit);
                running.push((Running { processors: *number, until, class }, now + takes));
                started += 1;
            }
            let used = |class: Option<usize>| -> u32 {
                let of_class = running.iter().filter(|it| class.is_none() || it.0.class == class);
                of_class.map(|it| it.0.processors).sum()
            };
            prop_assert!(used(None) <= processors);
            for (class, part) in parts.iter().enumerate() {
                prop_assert!(used(Some(class)) <= part.most);
            }
            // What is kept is free, but for one that is left to others.
            let kept = |class: usize| parts[class].kept.saturating_sub(used(Some(class)));
            let of_others = running.iter().filter(|it| it.0.class.is_none());
            if of_others.map(|it| it.0.processors).sum::<u32>() > 1 {
                let kept: u32 = (0..parts.len()).map(kept).sum();
                prop_assert!(used(None) + kept <= processors, "{running:?}");
            }
            queue.retain(|job| !begins.contains(job));
            // What there is for a job of the class, as its own arithmetic has it.
            let room = |class: Option<usize>| {
                let kept: u32 = (0..parts.len())
                    .filter(|it| Some(*it) != class)
                    .map(|it| parts[it].kept.saturating_sub(used(Some(it))))
                    .sum();
                let free = (processors - kept.min(processors - 1)).saturating_sub(used(None));
                let below = class.and_then(|class| Some((parts.get(class)?, used(Some(class)))));
                below.map_or(free, |(part, used)| free.min(part.most - used))
            };
            if let Some(first) = queue.first() {
                let Job { least, class, .. } = jobs[*first].job;
                prop_assert!(least > room(class), "the first one fits and waits");
            }
            let ends = running.iter().map(|it| it.1).filter(|end| *end > now);
            let comes = jobs.get(next).map(|it| it.comes);
            let then = ends.chain(comes).min();
            prop_assert!(then.is_some() || queue.is_empty(), "nothing runs, and {queue:?} waits");
            now = then.unwrap_or(now + 1);
        }
    }

    #[test]
    fn jobs_of_owners_with_caps_all_begin_and_stay_below_them(
        jobs in prop::collection::vec((submitted(), prop::option::of(0_usize..2)), 1..25),
        most in prop::array::uniform2(1_u32..9),
        processors in 8_u32..12,
    ) {
        let owned = jobs.into_iter().map(|(it, owner)| Submitted {
            job: Job { class: None, owner, ..it.job },
            ..it
        });
        // The others wait for ever, by the rule.
        let fits = |it: &Submitted| {
            it.job.least <= it.job.owner.map_or(processors, |owner| most[owner])
        };
        let mut queue: Vec<Submitted> = owned.filter(fits).collect();
        queue.sort_by_key(|it| it.comes);
        let (mut now, mut running) = (0, Vec::<(Run, Option<usize>)>::new());
        while !queue.is_empty() {
            running.retain(|((_, ends), _)| *ends > now);
            let used = |running: &[(Run, Option<usize>)], owner: usize| -> u32 {
                let own = running.iter().filter(|it| it.1 == Some(owner));
                own.map(|it| it.0.0.processors).sum()
            };
            let caps = [0, 1].map(|owner| {
                let most = most[owner];
                Cap { most, left: most - used(&running, owner) }
            });
            let views: Vec<Running> = running.iter().map(|it| it.0.0).collect();
            let here = queue.iter().take_while(|it| it.comes <= now);
            let waiting: Vec<Job> = here.map(|it| it.job).collect();
            let decided = plan_below(now, processors, &[], &caps, &views, &waiting);
            // No job passes one of its owner that waits below their cap.
            for (owner, Cap { mut left, .. }) in caps.into_iter().enumerate() {
                for (at, job) in waiting.iter().enumerate().filter(|it| it.1.owner == Some(owner)) {
                    let start = decided.starts.iter().find(|start| start.0 == at);
                    prop_assert!(start.is_none_or(|start| start.1 <= left), "{decided:?}");
                    left = if job.least > left { 0 } else { left - start.map_or(0, |it| it.1) };
                }
            }
            for (at, number) in decided.starts.iter().rev() {
                let Submitted { job: Job { limit, owner, .. }, takes, .. } = queue.remove(*at);
                let until = limit.map(|limit| now + limit);
                let run = Running { processors: *number, until, class: None };
                running.push(((run, now + takes), owner));
            }
            let ends = running.iter().map(|it| it.0.1);
            let comes = queue.iter().map(|it| it.comes).find(|comes| *comes > now);
            let then = ends.chain(comes).min();
            prop_assert!(then.is_some() || queue.is_empty(), "nothing runs, and {queue:?} waits");
            now = then.unwrap_or(now);
        }
    }
}
