//! Criterion, freezing, self-deactivation and replay against naive forms of their rules.

#![allow(clippy::unwrap_used, reason = "a test that has no value fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use proptest::prelude::*;
use upm::mover::{Fault, FaultyMover, TableMover};
use upm::{
    Counters, Criterion, GainTest, Judge, Migrator, Node, Off, Parameters, Phases, Refusal, Stay,
    TableTopology, Verdict,
};

const PAGE: usize = 4096;
const BASE: usize = 100 * PAGE;

fn topology(nodes: usize, with_distances: bool) -> TableTopology {
    // A ring: 10, then 6 more for each hop.
    let hops = |from: usize, to: usize| from.abs_diff(to).min(nodes - from.abs_diff(to));
    let pairs = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
    let rows: Vec<u32> =
        pairs.map(|(from, to)| 10 + 6 * u32::try_from(hops(from, to)).unwrap()).collect();
    TableTopology::new(nodes, if with_distances { &rows } else { &[] }).unwrap()
}

/// The rule, written down as it is told.
fn naive(counts: &[u64], home: usize, topology: &TableTopology, rule: Criterion) -> Option<usize> {
    use upm::Topology;
    let far = |from: usize, to: usize| topology.distance(Node::at(from), Node::at(to));
    let mut best = None;
    if far(0, 0).is_some() {
        // All homes with the smallest of the largest latencies.
        let latency = |at: usize| {
            let all =
                (0..counts.len()).map(|from| counts[from] * u64::from(far(from, at).unwrap()));
            all.max().unwrap()
        };
        let smallest = (0..counts.len()).map(latency).min().unwrap();
        let equal: Vec<usize> = (0..counts.len()).filter(|at| latency(*at) == smallest).collect();
        if !equal.contains(&home) {
            let most = equal.iter().map(|at| counts[*at]).max().unwrap();
            best = equal.into_iter().find(|at| counts[*at] == most);
        }
    } else {
        let others: Vec<usize> = (0..counts.len()).filter(|node| *node != home).collect();
        let most = others.iter().map(|node| counts[*node]).max().unwrap();
        best = others.into_iter().find(|node| counts[*node] == most).filter(|_| most > 0);
    }
    let best = best?;
    let above = if counts[home] == 0 {
        counts[best] > 0
    } else {
        counts[best] as f64 / counts[home] as f64 > rule.threshold
    };
    (above && counts[best] >= rule.floor).then_some(best)
}

fn table(homes: &[usize]) -> TableMover {
    let mut mover = TableMover::default();
    for (page, home) in homes.iter().enumerate() {
        mover.place(BASE + page * PAGE, Node::at(*home));
    }
    mover
}

fn counters(rows: &[Vec<u64>], nodes: usize) -> Counters {
    let mut counters = Counters::new(rows.len(), nodes);
    for (page, row) in rows.iter().enumerate() {
        for (node, count) in row.iter().enumerate() {
            counters.add(page, Node::at(node), *count);
        }
    }
    counters
}

fn exact() -> Parameters {
    Parameters { criterion: Criterion::EXACT, ..Parameters::default() }
}

/// Nodes, homes of pages, and for each iteration the counters of each page.
fn programs() -> impl Strategy<Value = (usize, Vec<usize>, Vec<Vec<Vec<u64>>>)> {
    (2usize..6, 1usize..12, 1usize..12).prop_flat_map(|(nodes, pages, iterations)| {
        let row = proptest::collection::vec(prop_oneof![2 => Just(0u64), 3 => 0u64..12], nodes);
        let rows = proptest::collection::vec(row, pages);
        let homes = proptest::collection::vec(0..nodes, pages);
        (Just(nodes), homes, proptest::collection::vec(rows, iterations))
    })
}

proptest! {
    #[test]
    fn the_criterion_is_the_rule_as_told(
        nodes in 2usize..7,
        counts in proptest::collection::vec(0u64..30, 7),
        home in 0usize..7,
        with_distances: bool,
        floor in 1u64..6,
        threshold in 1.0f64..3.0,
    ) {
        let (counts, home) = (&counts[..nodes], home % nodes);
        let topology = topology(nodes, with_distances);
        let rule = Criterion { threshold, floor };
        let judged = Judge::new(rule, &topology).judge(counts, Node::at(home));
        let moves = match judged {
            Verdict::Move { to, references, .. } => {
                prop_assert_eq!(references, counts[to.index()]);
                Some(to.index())
            }
            Verdict::Stay(_) => None,
        };
        prop_assert_eq!(moves, naive(counts, home, &topology, rule), "{:?}", judged);
    }

    #[test]
    fn iterations_move_freeze_and_stop_as_a_naive_engine(
        (nodes, homes, iterations) in programs(),
        with_distances: bool,
    ) {
        let topology = topology(nodes, with_distances);
        let mut migrator = Migrator::new(topology.clone(), table(&homes), exact(), PAGE);
        migrator.add(BASE, homes.len() * PAGE).unwrap();
        // The naive engine: for each page the list of its homes, one for each call.
        let mut past: Vec<Vec<usize>> = homes.iter().map(|home| vec![*home]).collect();
        let mut frozen = BTreeSet::new();
        let mut is_on = true;
        for rows in &iterations {
            let mut moved = 0;
            if is_on {
                for (page, row) in rows.iter().enumerate() {
                    let home = *past[page].last().unwrap();
                    let wanted = naive(row, home, &topology, Criterion::EXACT);
                    // The homes that it left in the calls right before this one.
                    let mut left = BTreeSet::new();
                    for pair in past[page].windows(2).rev() {
                        if pair[0] == pair[1] { break }
                        left.insert(pair[0]);
                    }
                    let next = match wanted {
                        Some(to) if frozen.contains(&page) || left.contains(&to) => {
                            frozen.insert(page);
                            home
                        }
                        Some(to) => { moved += 1; to }
                        None => home,
                    };
                    past[page].push(next);
                }
                is_on = moved > 0;
            }
            prop_assert_eq!(migrator.migrate(&counters(rows, nodes)), moved);
            prop_assert_eq!(migrator.is_on(), is_on);
            prop_assert_eq!(migrator.statistics().frozen, frozen.len());
            for (page, past) in past.iter().enumerate() {
                let home = migrator.mover().home(BASE + page * PAGE);
                prop_assert_eq!(home, past.last().map(|home| Node::at(*home)));
            }
        }
    }

    #[test]
    fn whatever_the_mover_does_each_page_is_counted_once_and_the_engine_ends(
        (nodes, homes, iterations) in programs(),
        faults in proptest::collection::vec(0u8..7, 0..60),
        hidden in proptest::collection::vec(proptest::bool::weighted(0.2), 0..60),
    ) {
        let faults = faults.into_iter().map(|fault| match fault {
            0 => Fault::Refuse(Refusal::Busy),
            1 => Fault::Refuse(Refusal::NodeFull),
            2 => Fault::Divert,
            3 => Fault::Hide(5),
            4 => Fault::Refuse(Refusal::Forbidden),
            _ => Fault::None,
        });
        let hidden = hidden.into_iter().map(|is| if is { Fault::Hide(5) } else { Fault::None });
        let mover = FaultyMover::new(table(&homes), u8::try_from(nodes).unwrap(), faults, hidden);
        let mut migrator = Migrator::new(topology(nodes, true), mover, exact(), PAGE);
        migrator.add(BASE, homes.len() * PAGE).unwrap();
        for rows in iterations.iter().cycle().take(60) {
            let was_on = migrator.is_on();
            let before = migrator.statistics().calls.len();
            let moved = migrator.migrate(&counters(rows, nodes));
            if !was_on {
                prop_assert_eq!((moved, migrator.statistics().calls.len()), (0, before));
                break;
            }
            let call = migrator.statistics().calls.last().unwrap();
            let stayed: usize = call.stayed.values().sum();
            prop_assert_eq!(stayed + call.migrations() + call.refusals(), homes.len());
            prop_assert_eq!(call.migrations(), moved);
            prop_assert_eq!(migrator.is_on(), moved > 0);
        }
        // Every page is somewhere still.
        for page in 0..homes.len() {
            prop_assert!(migrator.mover().inner().home(BASE + page * PAGE).is_some());
        }
        let moved: usize = migrator.statistics().migrations();
        prop_assert_eq!(u64::try_from(moved).unwrap(), migrator.mover().inner().migrations());
    }

    #[test]
    fn replay_moves_the_most_critical_pages_of_each_phase_and_undo_returns_them(
        (nodes, homes, phases) in programs(),
        critical in 0usize..6,
        faults in proptest::collection::vec(0u8..12, 0..20),
    ) {
        let topology = topology(nodes, false);
        let parameters = Parameters { critical_pages: critical, ..exact() };
        let mover = FaultyMover::new(table(&homes), u8::try_from(nodes).unwrap(), [], []);
        let mut migrator = Migrator::new(topology.clone(), mover, parameters, PAGE);
        migrator.add(BASE, homes.len() * PAGE).unwrap();
        let mut recorder = Phases::new(GainTest { trials: 0 });
        let mut sum = Counters::new(homes.len(), nodes);
        recorder.record(&sum);
        let mut plans = Vec::new();
        for rows in &phases {
            for (page, row) in rows.iter().enumerate() {
                for (node, count) in row.iter().enumerate() {
                    sum.add(page, Node::at(node), *count);
                }
            }
            recorder.record(&sum);
            let mut plan: Vec<(f64, u64, usize, usize)> = Vec::new();
            for (page, row) in rows.iter().enumerate() {
                if let Some(to) = naive(row, homes[page], &topology, Criterion::EXACT) {
                    plan.push((row[to] as f64 / row[homes[page]] as f64, row[to], page, to));
                }
            }
            // Repeatedly the best of what is left.
            let mut chosen = Vec::new();
            while chosen.len() < critical && !plan.is_empty() {
                let better = |one: &(f64, u64, usize, usize), other: &(f64, u64, usize, usize)| {
                    one.0 > other.0 || one.0 == other.0 && (one.1 > other.1
                        || one.1 == other.1 && one.2 < other.2)
                };
                let best = (0..plan.len())
                    .find(|at| plan.iter().all(|other| !better(other, &plan[*at]))).unwrap();
                let (.., page, to) = plan.remove(best);
                chosen.push((page, Node::at(to)));
            }
            plans.push(chosen);
        }
        prop_assert_eq!(recorder.compare(&mut migrator), plans.iter().map(Vec::len).sum::<usize>());
        for (phase, plan) in plans.iter().enumerate() {
            prop_assert_eq!(recorder.plan(phase), plan.as_slice());
        }
        // An iteration in which all goes well: each page is where the last plan that names it says.
        let mut now: BTreeMap<usize, Node> =
            homes.iter().map(|home| Node::at(*home)).enumerate().collect();
        for plan in &plans {
            recorder.replay(&mut migrator);
            now.extend(plan.iter().copied());
            for (page, home) in &now {
                prop_assert_eq!(migrator.mover().inner().home(BASE + page * PAGE), Some(*home));
            }
        }
        recorder.undo(&mut migrator);
        let is_home = |migrator: &mut Migrator<TableTopology, FaultyMover<TableMover>>| {
            (0..homes.len()).all(|page| {
                migrator.mover().inner().home(BASE + page * PAGE) == Some(Node::at(homes[page]))
            })
        };
        prop_assert!(is_home(&mut migrator));
        // One in which the mover fails: what could not return returns later.
        let faults = faults.into_iter().map(|fault| match fault {
            0 => Fault::Refuse(Refusal::Busy),
            1 => Fault::Divert,
            _ => Fault::None,
        });
        let inner = migrator.mover().inner().clone();
        *migrator.mover() = FaultyMover::new(inner, u8::try_from(nodes).unwrap(), faults, []);
        for _ in &plans {
            recorder.replay(&mut migrator);
        }
        for _ in 0..25 {
            recorder.undo(&mut migrator);
        }
        prop_assert!(is_home(&mut migrator));
    }
}

/// Two pages whose phase is run from node 1; the clock is the test's.
fn recorded(trials: usize) -> (Migrator<TableTopology, TableMover>, Phases, Arc<AtomicU64>) {
    let clock = Arc::new(AtomicU64::new(0));
    let read = clock.clone();
    let mut migrator = Migrator::new(topology(2, false), table(&[0, 0]), exact(), PAGE)
        .with_clock(move || read.load(Relaxed));
    migrator.add(BASE, 2 * PAGE).unwrap();
    let mut phases = Phases::new(GainTest { trials });
    phases.record(&Counters::new(2, 2));
    phases.record(&counters(&[vec![0, 8], vec![0, 9]], 2));
    assert_eq!(phases.compare(&mut migrator), 2);
    (migrator, phases, clock)
}

#[test]
fn replay_that_gains_stays_on_until_it_loses() {
    let (mut migrator, mut phases, clock) = recorded(2);
    let mut iteration = |phases: &mut Phases, time: u64| {
        let moved = phases.replay(&mut migrator);
        clock.fetch_add(time, Relaxed);
        (moved, phases.undo(&mut migrator))
    };
    assert_eq!([iteration(&mut phases, 100), iteration(&mut phases, 100)], [(0, 0), (0, 0)]);
    for _ in 0..5 {
        assert_eq!(iteration(&mut phases, 90), (2, 2));
    }
    // 90 + 110 is not less than 100 + 100.
    assert_eq!(iteration(&mut phases, 110), (2, 2));
    assert!(phases.is_off());
    assert_eq!(iteration(&mut phases, 90), (0, 0));
    assert_eq!((migrator.statistics().replayed, migrator.statistics().undone), (12, 12));
    assert_eq!(migrator.statistics().phase_nanoseconds, 0);
}

#[test]
fn without_a_page_to_move_replay_is_off() {
    let (mut migrator, mut phases, _) = recorded(1);
    phases.record(&Counters::new(2, 2));
    assert_eq!((phases.compare(&mut migrator), phases.is_off()), (0, true));
    let mut none = Phases::new(GainTest::default());
    assert_eq!((none.compare(&mut migrator), none.replay(&mut migrator)), (0, 0));
}

#[test]
fn on_one_node_nothing_is_done_and_the_report_says_so() {
    let mut migrator = Migrator::new(topology(1, true), table(&[0]), exact(), PAGE);
    migrator.add(BASE, PAGE).unwrap();
    assert_eq!(migrator.migrate(&counters(&[vec![9]], 1)), 0);
    migrator.rearm();
    assert!(!migrator.is_on());
    let text = migrator.statistics().to_string();
    assert!(text.contains("off: one node has memory"), "{text}");
}

#[test]
fn the_report_says_why_each_page_moved_or_stayed() {
    let mut mover = table(&[0, 0, 0, 0]);
    mover.limit(Node(1), 1);
    let parameters = Parameters { keep_all_decisions: true, ..exact() };
    let mut migrator = Migrator::new(topology(2, false), mover, parameters, PAGE);
    migrator.add(BASE, 5 * PAGE).unwrap();
    let rows = [vec![1, 9], vec![2, 9], vec![5, 4], vec![0, 0], vec![9, 9]];
    assert_eq!(migrator.migrate(&counters(&rows, 2)), 1);
    let text = migrator.statistics().to_string();
    for line in [
        "upm: 5 hot pages, 1 migrations in 1 calls, 100 % in the first",
        "call 1: 5 pages, 1 moved, 0 moved elsewhere, 1 refused",
        "refused 1: the node is full",
        "0x64000 on node 0, counters [1, 9]: to node 1, ratio 9.0: moved",
        "0x65000 on node 0, counters [2, 9]: to node 1, ratio 4.5: refused: the node is full",
        "0x66000 on node 0, counters [5, 4]: stays: no other node has enough more references",
        "0x67000 on node 0, counters [0, 0]: stays: no node referred to it",
        "0x68000 on no node, counters [9, 9]: stays: not touched yet",
    ] {
        assert!(text.contains(line), "no `{line}` in\n{text}");
    }
    // Nothing is left but what is refused.
    assert!(text.contains("decisions of call 1:"), "{text}");
    assert_eq!(migrator.migrate(&counters(&rows, 2)), 0);
    assert_eq!(migrator.statistics().off, Some(Off::Refused));
    migrator.rearm();
    assert!(migrator.is_on());
}

#[test]
fn the_decisions_of_the_last_call_that_moved_are_in_the_report_when_the_engine_is_off() {
    let mut migrator = Migrator::new(topology(2, false), table(&[0, 0]), exact(), PAGE);
    migrator.add(BASE, 2 * PAGE).unwrap();
    let rows = [vec![1, 9], vec![9, 1]];
    assert_eq!(migrator.migrate(&counters(&rows, 2)), 1);
    assert_eq!(migrator.migrate(&counters(&rows, 2)), 0);
    assert_eq!(migrator.statistics().off, Some(Off::Settled));
    let text = migrator.statistics().to_string();
    let line = "of call 1:\n  0x64000 on node 0, counters [1, 9]: to node 1, ratio 9.0: moved";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_system_that_does_not_say_where_pages_are_is_named_with_its_answer() {
    for (errno, line) in [(libc::EPERM, "pages are: move_pages: "), (0, "pages are\n")] {
        let hidden = [Fault::Hide(errno), Fault::Hide(errno)];
        let mover = FaultyMover::new(table(&[0, 0]), 2, [], hidden);
        let mut migrator = Migrator::new(topology(2, false), mover, exact(), PAGE);
        migrator.add(BASE, 2 * PAGE).unwrap();
        assert_eq!(migrator.migrate(&counters(&[vec![1, 9], vec![1, 9]], 2)), 0);
        let text = migrator.statistics().to_string();
        assert!(text.contains(line) && text.contains("stayed 2: its node could not"), "{text}");
    }
}

#[test]
fn pages_that_are_decided_together_have_one_sum_and_move_together() {
    let mut migrator = Migrator::new(topology(2, false), table(&[0, 0, 1, 0]), exact(), PAGE);
    let area = migrator.add(BASE, 4 * PAGE).unwrap();
    migrator.set_unit(area, 4);
    let rows = [vec![0, 2], vec![3, 0], vec![0, 5], vec![0, 0]];
    assert_eq!(migrator.migrate(&counters(&rows, 2)), 3);
    let homes: Vec<_> = (0..4).map(|page| migrator.mover().home(BASE + page * PAGE)).collect();
    assert_eq!(homes, [Some(Node(1)); 4]);
    let call = &migrator.statistics().calls[0];
    assert_eq!((call.moved, call.stayed.get(&Stay::BestIsHome)), (3, Some(&1)));
}
