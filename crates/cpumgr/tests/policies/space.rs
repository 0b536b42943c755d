//! Policies that share out processors in space.

use std::collections::BTreeMap;

use platform::affinity::CpuSet;
use platform::topology::Topology;

use crate::story::{Moment, processor_time, spread};
use crate::support::{Program, eventually};
use crate::{pids, stage};

/// The processors of these programs, as numbers.
fn numbers(moment: &Moment, programs: &[Program]) -> Vec<usize> {
    pids(programs).iter().map(|pid| moment.own(*pid)).collect()
}

#[test]
fn equip_gives_equal_shares_and_to_none_what_one_does_not_take() {
    let Some(stage) = stage(&["equip"], "20ms") else { return };
    let p = stage.processors();
    // Both want all: P / 2 each.
    let mut programs = stage.programs(&[p, p]);
    let half = p as usize / 2;
    stage.until("two have equal shares", |now| numbers(now, &programs) == [half, half]);
    // The first wants one only: what it does not take of its share is left free.
    programs[0].ask("request 1");
    stage.until("the first has one", |now| numbers(now, &programs) == [1, half]);
    programs.remove(0).kill();
    stage.until("the survivor has all", |now| numbers(now, &programs) == [p as usize]);
}

#[test]
fn dss_shares_in_proportion_to_requests() {
    let Some(stage) = stage(&["dss"], "20ms") else { return };
    let p = stage.processors() as usize;
    // P + 1 are wanted: one each, and the rest is the first one's. 2: (1, 1); 8: (7, 1).
    let mut programs = stage.programs(&[p as u32, 1]);
    // A second one that sleeps would have its part only until that is found out (`unused`).
    assert_eq!(programs[1].ask("hogs 1"), "hogging");
    stage.until("one is left for the second", |now| numbers(now, &programs) == [p - 1, 1]);
    // 1 + 1 fits.
    programs[0].ask("request 1");
    stage.until("both have their requests", |now| numbers(now, &programs) == [1, 1]);
    programs[0].ask(&format!("request {p}"));
    programs.remove(1).kill();
    stage.until("the survivor has all", |now| numbers(now, &programs) == [p]);
}

#[test]
fn cluster_hands_out_clusters_that_lie_in_one_node() {
    let Some(stage) = stage(&["cluster", "size=2"], "20ms") else { return };
    let p = stage.processors() as usize;
    let one = stage.programs(&[p as u32]);
    stage.until("one alone has all", |now| numbers(now, &one) == [p]);
    let mut programs = one;
    programs.extend(stage.programs(&[p as u32]));
    let clusters = if p < 4 {
        // Masters come first, and nothing is left for a cluster.
        stage.until("both have a master's", |now| numbers(now, &programs) == [1, 1])
    } else {
        // Round after round a cluster for each while one is left, for two programs: P / 2 each, or
        // 2 more for the first.
        let second = p / 4 * 2;
        stage.until("both have clusters", |now| {
            let [a, b] = numbers(now, &programs)[..] else { return false };
            a + b == p && b >= second.min(p - second) && (!p.is_multiple_of(4) || a == b)
        })
    };
    // Where nodes have whole clusters, so have programs of each node.
    let Ok(topology) = Topology::read() else { return };
    let mut nodes: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for cpu in topology.cpus().iter().filter(|cpu| stage.cpus.contains(cpu.id)) {
        nodes.entry(cpu.node).or_default().insert(cpu.id);
    }
    if p < 4 || nodes.values().any(|node| !node.len().is_multiple_of(2)) {
        platform::skip!("alignment needs nodes of whole clusters, here are {nodes:?}");
        return;
    }
    for part in clusters.parts.values() {
        for node in nodes.values() {
            assert!(
                part.cpus.intersection(node).len().is_multiple_of(2),
                "a cluster spans nodes: {clusters:?} on {nodes:?}"
            );
        }
    }
}

#[test]
fn dss_ts_gives_more_programs_than_processors_the_same_time() {
    const QUANTUM_NS: u64 = 5_000_000;
    let Some(stage) = stage(&["dss-ts"], &format!("{QUANTUM_NS}ns")) else { return };
    let p = stage.processors() as usize;
    let mut programs = stage.programs(&vec![p as u32; p + 1]);
    stage.until("all share", |now| {
        now.parts.len() == p + 1 && now.parts.values().all(|part| part.shared)
    });
    // Each is on a crowded processor in turn: over P + 1 quanta all get the same. 12 such rounds.
    // A moment at which the machine stood still counts as a few quanta.
    let times = |moments: &[Moment]| processor_time(moments, 3 * QUANTUM_NS);
    let moments = stage.watch_until_even(12 * (p + 1), 0.25, times);
    assert!(moments.iter().all(|now| now.parts.values().all(|part| part.cpus.len() == 1)));
    let times = times(&moments);
    assert!(spread(&times) < 0.25, "{times:?}");
    // One less than that, and none shares.
    programs.pop().unwrap().kill();
    stage.until("each has its own", |now| numbers(now, &programs) == vec![1; p]);
}

#[test]
fn batch_runs_one_after_the_other() {
    let Some(stage) = stage(&["batch"], "20ms") else { return };
    let p = stage.processors() as usize;
    let mut programs = stage.programs(&[p as u32; 3]);
    // The program that came first runs until it ends, on all processors but one for the masters of
    // the others.
    while !programs.is_empty() {
        let left = if programs.len() == 1 { p } else { p - 1 };
        let now = stage.until("the first of the queue runs", |now| {
            now.parts.len() == programs.len() && numbers(now, &programs)[0] == left
        });
        assert_eq!(now.owners().len(), 1, "{now:?}");
        programs.remove(0).kill();
    }
}

#[test]
fn batch_with_backfill_starts_what_fits() {
    let Some(stage) = stage(&["batch"], "20ms") else { return };
    let p = stage.processors();
    // The first leaves room for the third, not for the second: 2: (1, 2, -); 8: (4, 8, 3).
    let first = p / 2;
    let third = (p - 1).saturating_sub(first);
    if third == 0 {
        platform::skip!("needs more processors than {p} for two beside the masters'");
        return;
    }
    let programs = stage.programs(&[first, p, third]);
    stage.until("the third waits after the second", |now| {
        now.parts.len() == 3 && numbers(now, &programs) == [first as usize, 0, 0]
    });
    stage.policy(&["backfill=true"]);
    stage.until("the third has started", |now| {
        numbers(now, &programs) == [first as usize, 0, third as usize]
    });
}

#[test]
fn pdpa_follows_what_programs_report() {
    let Some(stage) = stage(&["pdpa"], "20ms") else { return };
    let p = stage.processors();
    let half = p / 2;
    // The first allocation is half of the machine, a step the other half.
    stage.policy(&[&format!("base={half}"), &format!("step={}", p - half)]);
    // One second on one processor, and at efficiency E on P: 1 / (E P) seconds.
    let time = |efficiency: f64, processors: u32| (1e9 / efficiency / f64::from(processors)) as u64;
    let report = |program: &mut Program, efficiency: f64, processors: u32| {
        program.ask(&format!(
            "report {processors} {} {}",
            time(efficiency, processors),
            time(1.0, 1)
        ));
    };
    let mut good = stage.manager.program(p, p);
    good.ask("called good");
    assert_eq!(good.ask(&format!("register {p} {p}")), "registered");
    let of = |program: &Program| {
        let pid = program.pid();
        move |now: &Moment| now.own(pid) as u32
    };
    let has = of(&good);
    stage.until("it begins with the base", |now| has(now) == half);
    report(&mut good, 0.95, half);
    stage.until("a good report is answered with a step", |now| has(now) == p);
    report(&mut good, 0.95, p);
    good.kill();

    // A program of another name: what was measured is remembered by name.
    let mut bad = stage.manager.program(p, p);
    bad.ask("called bad");
    assert_eq!(bad.ask(&format!("register {p} {p}")), "registered");
    let has = of(&bad);
    stage.until("it begins with the base", |now| has(now) == half);
    report(&mut bad, 0.95, half);
    stage.until("a good report is answered with a step", |now| has(now) == p);
    report(&mut bad, 0.3, p);
    stage.until("a bad one with the last good allocation", |now| has(now) == half);
    let reported = stage.manager.status().programs[0].speedup;
    assert!(
        reported.is_some_and(|(speedup, on)| on == p && speedup < 0.7 * f64::from(p)),
        "{reported:?}"
    );
}

#[test]
fn none_binds_nothing_and_gives_what_is_asked_for() {
    let Some(stage) = stage(&["none"], "20ms") else { return };
    let p = stage.processors();
    let mut programs = stage.programs(&[p, 1, p]);
    for (program, request) in programs.iter_mut().zip([p, 1, p]) {
        program.until("it has its request, nowhere in particular", |seen| {
            seen.processors == request && seen.cpus.is_empty() && !seen.dedicated
        });
    }
    let granted: Vec<u32> = stage.manager.status().programs.iter().map(|it| it.granted).collect();
    assert_eq!(granted, [p, 1, p]);
    // Under another policy threads are bound; then again not.
    let masks = |program: &mut Program| program.ask("masks");
    let before = masks(&mut programs[0]);
    stage.policy(&["batch"]);
    eventually("threads of the last are where its processor is", || {
        let seen = programs[2].seen();
        let masks = masks(&mut programs[2]);
        let mut spinners = masks.split(' ').skip(1).map(|list| CpuSet::parse_list(list).unwrap());
        (spinners.all(|mask| mask == seen.cpus) && programs[2].seen() == seen).then_some(())
    });
    stage.policy(&["none"]);
    for program in &mut programs {
        program.until("it is bound to nothing", |seen| seen.cpus.is_empty());
    }
    assert_eq!(masks(&mut programs[0]), before, "the masks before another policy");
    let mut last = programs.pop().unwrap();
    drop(programs);
    last.until("alone it may stay hot", |seen| {
        seen.dedicated && !seen.shared && seen.processors == p
    });
}
