//! Policies that let programs take turns.

use std::collections::{BTreeMap, BTreeSet};

use crate::story::{Moment, Stage, processor_time, spread, turns};
use crate::support::Program;
use crate::{pids, stage};

/// A quantum, long enough for the emulated processors of the guest.
const TURN: &str = "50ms";
/// What is over sooner is no turn: processors that are young (M4) are kept for a while into the
/// next one.
const HALF_A_TURN: u64 = 25_000_000;

/// Programs that have all arrived before the policy, so that their turns are in order of arrival,
/// and moments from then on.
fn watch(
    stage: &Stage,
    policy: &[&str],
    requests: &[u32],
    number: usize,
) -> (Vec<Program>, Vec<Moment>) {
    let programs = stage.programs(requests);
    stage.policy(policy);
    // At first some keep for a while what they had under the policy before.
    let moments = stage.watch(number + 6);
    let lasts =
        |pair: &[Moment]| (pair[1].t_ns - pair[0].t_ns > HALF_A_TURN).then(|| pair[0].clone());
    (programs, moments.windows(2).skip(6).filter_map(lasts).collect())
}

/// Groups of these programs, by their places.
fn groups(programs: &[Program], places: &[Vec<usize>]) -> Vec<BTreeSet<u32>> {
    let pids = pids(programs);
    places.iter().map(|group| group.iter().map(|place| pids[*place]).collect()).collect()
}

/// How long a turn of each program usually is: the median of its turns that have begun and ended.
/// Timers of an emulated machine whose own processors are busy come late by whole turns, now and
/// then.
fn usual_turns(moments: &[Moment]) -> BTreeMap<u32, f64> {
    let is_new = |at: &usize| *at == 0 || moments[*at].owners() != moments[*at - 1].owners();
    let begins: Vec<usize> = (0..moments.len()).filter(is_new).collect();
    let mut turns: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for pair in begins.windows(2) {
        let [begin, end] = [pair[0], pair[1]].map(|at| &moments[at]);
        begin
            .owners()
            .into_iter()
            .for_each(|pid| turns.entry(pid).or_default().push(end.t_ns - begin.t_ns));
    }
    turns.values_mut().for_each(|lengths| lengths.sort_unstable());
    turns.into_iter().map(|(pid, lengths)| (pid, lengths[lengths.len() / 2] as f64)).collect()
}

/// The turns go round through these groups, from any of them on.
fn assert_round(moments: &[Moment], groups: &[BTreeSet<u32>]) {
    let turns = turns(moments);
    let first = groups.iter().position(|group| *group == turns[0]);
    let first = first.unwrap_or_else(|| panic!("{:?} is none of {groups:?}", turns[0]));
    for (number, turn) in turns.iter().enumerate() {
        assert_eq!(
            *turn,
            groups[(first + number) % groups.len()],
            "turn {number} of {turns:?}, round {groups:?}"
        );
    }
    assert!(turns.len() > 2 * groups.len(), "too few turns: {turns:?}");
}

#[test]
fn rr_passes_the_machine_from_one_to_the_next() {
    let Some(stage) = stage(&["equip"], TURN) else { return };
    let p = stage.processors();
    // One at a time, besides a processor for the masters of the others. Enough turns of each, so
    // that half of them are not late where everything is now and then.
    let (programs, moments) = watch(&stage, &["rr"], &[p, p, p], 24);
    assert_round(&moments, &groups(&programs, &[vec![0], vec![1], vec![2]]));
    for now in &moments {
        for pid in now.owners() {
            assert_eq!(now.own(pid) as u32, p - 1, "{now:?}");
        }
    }
    let usual = usual_turns(&moments);
    assert!(usual.len() == 3 && spread(&usual) < 0.5, "{usual:?} in {moments:#?}");
}

#[test]
fn gang_lets_rows_alternate_in_which_requests_are_whole() {
    let Some(stage) = stage(&["equip"], TURN) else { return };
    let p = stage.processors();
    // Rows of P - 1. 2: three rows of one; 8: (3, 3) in a row, (7) in the next.
    let half = ((p - 1) / 2).max(1);
    let requests = [half, half, p - 1];
    let (programs, moments) = watch(&stage, &["gang"], &requests, 12);
    let rows =
        if 2 * half < p { vec![vec![0, 1], vec![2]] } else { vec![vec![0], vec![1], vec![2]] };
    assert_round(&moments, &groups(&programs, &rows));
    for now in &moments {
        for (pid, request) in pids(&programs).iter().zip(requests) {
            let own = now.own(*pid) as u32;
            assert!(own == 0 || own == request, "not its whole request: {now:?}");
        }
    }
}

/// What each of four programs asks for under the sliding policies, just above half of the machine,
/// and how many of them a window has: their requests are at most 1.5 times P, and each has a
/// processor besides the masters' one. 2: (2, 1); 8: (5, 2).
fn window(p: u32) -> (u32, usize) {
    let request = p / 2 + 1;
    (request, (p * 3 / 2 / request).min(p - 1) as usize)
}

#[test]
fn sw_dss_moves_its_window_to_the_neighbouring_gang() {
    let Some(stage) = stage(&["equip"], TURN) else { return };
    let p = stage.processors();
    let (request, width) = window(p);
    let (programs, moments) = watch(&stage, &["sw-dss"], &[request; 4], 16);
    if 4 % width != 0 {
        platform::skip!("windows of {width} do not divide four programs");
        return;
    }
    let windows: Vec<Vec<usize>> =
        (0..4 / width).map(|gang| (gang * width..(gang + 1) * width).collect()).collect();
    assert_round(&moments, &groups(&programs, &windows));
    // dss inside: all that is there besides the masters' processor, as far as it is wanted.
    let wanted = (width as u32 * request).min(p - 1) as usize;
    for now in &moments {
        let own: usize = pids(&programs).iter().map(|pid| now.own(*pid)).sum();
        assert_eq!(own, wanted, "{now:?}");
    }
}

#[test]
fn ssw_dss_moves_its_window_by_one_program() {
    let Some(stage) = stage(&["equip"], TURN) else { return };
    let p = stage.processors();
    let (request, width) = window(p);
    let (programs, moments) = watch(&stage, &["ssw-dss"], &[request; 4], 16);
    let windows: Vec<Vec<usize>> =
        (0..4).map(|first| (first..first + width).map(|place| place % 4).collect()).collect();
    assert_round(&moments, &groups(&programs, &windows));
}

#[test]
fn vtq_dss_gives_unequal_requests_the_same_processor_time() {
    let Some(stage) = stage(&["vtq-dss", "shortest=2ms"], "10ms") else { return };
    let p = stage.processors();
    // All want more than their share: 2: (2, 2, 2); 8: (8, 6, 5). Cycles are of some 20 ms; after
    // 100 turns of each the times differ by less than 10 %.
    let requests = [p, (p * 3 / 4).max(2), (p * 2 / 3).max(2)];
    let programs = stage.programs(&requests);
    let times = |moments: &[Moment]| processor_time(moments, u64::MAX);
    let moments = stage.watch_until_even(400, 0.1, times);
    let times = times(&moments);
    assert_eq!(times.len(), programs.len());
    assert!(spread(&times) < 0.1, "{times:?}");
    for pid in pids(&programs) {
        let had = turns(&moments).iter().filter(|turn| turn.contains(&pid)).count();
        assert!(had > 20, "{had} turns only");
    }
}
