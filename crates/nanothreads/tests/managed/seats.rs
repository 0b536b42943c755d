//! What workers do when a manager changes its mind: where they sit, what they give back, which
//! threads they help.
#![expect(
    clippy::unwrap_used,
    reason = "a step of a test that fails is a failed test, in the helpers, too"
)]

use crate::script::{Script, eventually, mask_of, with_script};
use arena::global::State;
use arena::layout::{Verdict, VpState};
use nanothreads::{Member, Schedule, Team, broadcast, par_for};
use platform::affinity::{CpuId, CpuSet, Tid, current_cpu, current_tid, set_affinity};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

/// Runs a region of `size` threads; their threads in the order of the members.
pub(crate) fn threads_of(size: usize) -> Vec<Tid> {
    Team::exact(size).unwrap().map(|_| current_tid())
}

fn on(cpu: CpuId) -> CpuSet {
    CpuSet::single(cpu)
}

fn both(cpus: [CpuId; 2]) -> CpuSet {
    cpus.into_iter().collect()
}

/// The processors of the team's second thread at the next forks, until they are `expected`: one
/// that is awake when a grant comes follows it where it waits.
fn second_thread_comes_to(expected: &CpuSet) -> Tid {
    let mut second = None;
    eventually(&format!("the second thread is on {expected}"), || {
        let tid = threads_of(2)[1];
        second = Some(tid);
        mask_of(tid) == *expected
    });
    second.unwrap()
}

/// With a script, and a team of two whose second thread is on the second processor.
fn with_two_seated(test: impl FnOnce(&mut Script, Team) + Send + 'static) {
    with_script(|script| {
        second_thread_comes_to(&on(script.cpus[1]));
        test(script, Team::exact(2).unwrap());
    });
}

#[test]
fn thread_i_sits_on_the_processor_of_virtual_processor_i_and_stays_itself() {
    own_process!();
    with_script(|script| {
        let [a, b] = script.cpus;
        let before = second_thread_comes_to(&on(b));
        script.grant(&[b, a], true);
        assert_eq!(second_thread_comes_to(&on(a)), before);
        // One processor: the team keeps its threads, together on what is left.
        script.grant(&[b], false);
        assert_eq!(second_thread_comes_to(&on(b)), before);
        script.grant(&[a, b], true);
        assert_eq!(second_thread_comes_to(&on(b)), before);
        assert_eq!(mask_of(current_tid()), script.whole, "the master is bound nowhere");
    });
}

/// A thread (`None`: the caller) is elsewhere then, as after the kernel's balance of load, and
/// bound nowhere.
fn move_to(thread: Option<Tid>, cpu: CpuId, whole: &CpuSet) {
    set_affinity(thread, &on(cpu)).unwrap();
    set_affinity(thread, whole).unwrap();
}

/// With a script that grants one processor to a team of two; the other one is not granted.
fn with_two_on_one(test: impl FnOnce(&Script, Team) + Send + 'static) {
    with_two_seated(|script, team| {
        let [a, _] = script.cpus;
        script.grant(&[a], false);
        second_thread_comes_to(&on(a));
        test(script, team);
    });
}

#[test]
fn a_master_that_is_moved_while_it_lets_its_team_have_a_turn_goes_back() {
    own_process!();
    with_two_on_one(|script, team| {
        // It does not go back more often than in a millisecond.
        const ROUNDS: u32 = 100;
        const PAUSE: Duration = Duration::from_millis(2);
        let [a, b] = script.cpus;
        let master = current_tid();
        let whole = &script.whole;
        // Rounds in which it went back, and in which it slept: then it had no turn to come back
        // from.
        let tried = || {
            let (back, slept) = (AtomicU32::new(0), AtomicU32::new(0));
            team.run(|member| {
                for _ in 0..ROUNDS {
                    if member.id() == 0 {
                        move_to(None, a, whole);
                        let begin = Instant::now();
                        while begin.elapsed() < PAUSE {
                            std::hint::spin_loop();
                        }
                    }
                    member.barrier();
                    let parks = engine::statistics().parks;
                    if member.id() == 1 {
                        move_to(Some(master), b, whole);
                    }
                    member.barrier();
                    if member.id() == 0 {
                        back.fetch_add(u32::from(current_cpu() == a), Relaxed);
                        slept.fetch_add(u32::from(engine::statistics().parks > parks), Relaxed);
                    }
                }
            });
            (back.into_inner(), slept.into_inner())
        };
        // On a busy machine, and on emulated processors, it often sleeps by then, or is not there
        // yet: one try of a few shows it.
        let mut tries = Vec::new();
        while tries.len() < 5 && tries.last().is_none_or(|(back, _)| *back <= ROUNDS / 20) {
            tries.push(tried());
        }
        if tries.last().is_some_and(|(back, _)| *back <= ROUNDS / 20) {
            let slept = tries.iter().all(|(_, slept)| *slept > ROUNDS / 2);
            assert!(slept, "{tries:?} times, and slept, each of {ROUNDS}");
            platform::skip!(busy: "it slept instead of taking turns: {tries:?} of {ROUNDS}");
        }
        assert_eq!(mask_of(master), *whole, "it is bound nowhere");
    });
}

#[test]
fn a_master_that_was_moved_while_it_computed_stays_there() {
    own_process!();
    with_two_on_one(|script, team| {
        const ROUNDS: usize = 20;
        let [_, b] = script.cpus;
        let stayed = (0..ROUNDS).filter(|_| {
            move_to(None, b, &script.whole);
            team.map(|_| current_cpu())[0] == b
        });
        let stayed = stayed.count();
        assert!(stayed > ROUNDS / 2, "{stayed} of {ROUNDS} times");
    });
}

#[test]
fn a_thread_that_waits_inside_a_region_follows_a_new_grant() {
    own_process!();
    with_two_seated(|script, team| {
        let [a, b] = script.cpus;
        let script = Mutex::new(script);
        // It looks only while it spins: a wait in which it fell asleep before it saw the grant says
        // nothing.
        let mut target = a;
        eventually("it moves while it waits", || {
            let moved = AtomicBool::new(false);
            let second = AtomicU32::new(0);
            team.run(|member| {
                if member.id() == 1 {
                    second.store(current_tid().0.unsigned_abs(), Relaxed);
                    member.barrier();
                    return;
                }
                while second.load(Relaxed) == 0 {
                    std::thread::yield_now();
                }
                let other = if target == a { b } else { a };
                script.lock().unwrap().grant(&[other, target], true);
                let tid = Tid(second.load(Relaxed).cast_signed());
                for _ in 0..1_000 {
                    std::thread::yield_now();
                    if mask_of(tid) == on(target) {
                        moved.store(true, Relaxed);
                        break;
                    }
                }
                member.barrier();
            });
            target = if target == a { b } else { a };
            moved.into_inner()
        });
    });
}

/// What the second thread of a region does with each piece of its work: sees where it is, and lets
/// the script grant something else, until it has moved there and back, without a wait: the others
/// wait for that, so there is always a next piece.
struct Mover<'a> {
    script: Mutex<&'a mut Script>,
    /// Where it shall be at its next piece.
    expected: Mutex<Option<CpuSet>>,
    moves: AtomicU32,
}

impl<'a> Mover<'a> {
    fn new(script: &'a mut Script) -> Self {
        Self { script: Mutex::new(script), expected: Mutex::new(None), moves: AtomicU32::new(0) }
    }

    fn piece(&self) {
        if Member::current().id != 1 {
            return eventually("the second thread has moved there and back", || {
                self.moves.load(Relaxed) >= 2
            });
        }
        if self.moves.load(Relaxed) >= 2 {
            return;
        }
        let mut script = self.script.lock().unwrap();
        let [a, b] = script.cpus;
        let here = mask_of(current_tid());
        let mut expected = self.expected.lock().unwrap();
        match expected.take() {
            // A chunk may be several pieces.
            Some(place) if here != place => return *expected = Some(place),
            Some(_) => _ = self.moves.fetch_add(1, Relaxed),
            None => {}
        }
        if here == on(b) {
            script.grant(&[a], false);
            *expected = Some(on(a));
        } else {
            script.grant(&[a, b], false);
            *expected = Some(on(b));
        }
    }
}

#[test]
fn a_thread_at_work_in_a_loop_follows_a_new_grant_between_two_chunks() {
    own_process!();
    let one = NonZeroUsize::MIN;
    for schedule in [
        Schedule::StaticChunks(one),
        Schedule::Dynamic(one),
        Schedule::Guided(one),
        Schedule::Trapezoid,
        Schedule::Factoring,
        Schedule::Affinity,
        Schedule::Auto,
    ] {
        with_two_seated(move |script, team| {
            let mover = Mover::new(script);
            // Few enough for `Auto` not to begin on the master alone.
            team.install(|| par_for(0..60).schedule(schedule).run(|_| mover.piece()));
            assert!(mover.moves.into_inner() >= 2, "{schedule:?}");
        });
    }
}

#[test]
fn a_thread_at_work_on_tasks_follows_a_new_grant_between_two_of_them() {
    own_process!();
    with_two_seated(|script, team| {
        let mover = Mover::new(script);
        team.install(|| {
            nanothreads::scope(|scope| {
                for _ in 0..400 {
                    scope.spawn(|_| mover.piece());
                }
            });
        });
        assert!(mover.moves.into_inner() >= 2);
    });
}

#[test]
fn a_thread_that_steals_halves_follows_a_new_grant_between_two_of_them() {
    own_process!();
    fn halves(mover: &Mover<'_>, depth: u32) {
        if depth == 0 {
            return mover.piece();
        }
        nanothreads::join(|| halves(mover, depth - 1), || mover.piece());
    }
    with_two_seated(|script, team| {
        let mover = Mover::new(script);
        // The first half is the master's, and waits; each half that it offered on the way there is
        // stolen.
        team.install(|| halves(&mover, 20));
        assert!(mover.moves.into_inner() >= 2);
    });
}

#[test]
fn an_idle_virtual_processor_gives_its_processor_back_where_others_want_it_and_the_next_fork_takes_it_again()
 {
    own_process!();
    with_script(|script| {
        let [a, b] = script.cpus;
        second_thread_comes_to(&on(b));
        script.grant(&[a, b], false);
        threads_of(2);
        eventually("it gives its processor back", || script.areas.released().contains(b));
        assert!(!script.areas.released().contains(a), "the master's is not given back");
        eventually("it says that it sleeps", || state(script, 1) == Some(VpState::Parked));
        // As a manager answers.
        script.grant(&[a], false);
        let released = Team::exact(2).unwrap().map(|_| script_released(script));
        assert!(released.iter().all(CpuSet::is_empty), "the fork wants it again: {released:?}");
    });
}

fn state(script: &Script, index: usize) -> Option<VpState> {
    script.areas.vps().find(|worker| worker.index == index).map(|worker| worker.state)
}

fn script_released(script: &Script) -> CpuSet {
    script.areas.released()
}

/// The mask of a child, started without `fork`'s handlers, as it sees it.
fn mask_of_a_child() -> String {
    let output = std::process::Command::new("grep")
        .args(["Cpus_allowed_list", "/proc/self/status"])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().last().unwrap().to_owned()
}

#[test]
fn what_a_bound_thread_starts_unbound_has_the_mask_of_the_program_and_the_thread_goes_back() {
    own_process!();
    with_two_seated(|script, team| {
        let seen = team.map(|_| {
            let mask = nanothreads::process::unbound(mask_of_a_child);
            let own = nanothreads::process::unbound(|| mask_of(current_tid()));
            (mask, own, mask_of(current_tid()))
        });
        let whole = script.whole.clone();
        let of_program = mask_of_a_child();
        assert_eq!(seen[0], (of_program.clone(), whole.clone(), whole.clone()));
        assert_eq!(seen[1], (of_program, whole, on(script.cpus[1])));
    });
}

#[test]
fn a_bound_thread_whose_exec_failed_goes_back_at_the_next_safe_point() {
    own_process!();
    with_two_seated(|script, team| {
        let seen = team.map(|_| {
            let needed_it = engine::needs_unbound();
            engine::before_exec();
            (needed_it, mask_of(current_tid()))
        });
        assert_eq!(seen, [(false, script.whole.clone()), (true, script.whole.clone())]);
        second_thread_comes_to(&on(script.cpus[1]));
    });
}

#[test]
fn a_bound_thread_that_is_unbound_while_the_grant_changes_follows_it_afterwards() {
    own_process!();
    with_two_seated(|script, team| {
        let [a, b] = script.cpus;
        let script = Mutex::new(script);
        team.run(|member| {
            if member.id() == 1 {
                nanothreads::process::unbound(|| script.lock().unwrap().grant(&[b, a], true));
            }
        });
        second_thread_comes_to(&on(a));
    });
}

#[test]
fn a_waiting_thread_hands_its_processor_to_one_that_was_squeezed() {
    own_process!();
    with_script(|script| {
        let [a, b] = script.cpus;
        second_thread_comes_to(&on(b));
        let script = Mutex::new(script);
        let begun = Barrier::new(3);
        let was_helped = AtomicBool::new(false);
        Team::exact(3).unwrap().run(|member| match member.id() {
            0 => {
                begun.wait();
                // At work, which is no safe point.
                eventually("the second thread helps", || was_helped.load(Relaxed));
            }
            1 => {
                // Has nothing to do from here on.
                begun.wait();
            }
            _ => {
                let own = current_tid();
                // As the manager does it: bound, judged, counted.
                set_affinity(None, &on(a)).unwrap();
                {
                    let mut script = script.lock().unwrap();
                    script.areas.judge(2, Verdict::Squeezed);
                    script.areas.set_preempted(1);
                }
                begun.wait();
                eventually("one of them helps", || mask_of(own) == on(b));
                was_helped.store(true, Relaxed);
            }
        });
        assert!(was_helped.into_inner());
        script.lock().unwrap().areas.set_preempted(0);
    });
}

#[test]
fn with_several_masters_every_virtual_processor_may_use_the_whole_grant() {
    own_process!();
    with_script(|script| {
        let [a, b] = script.cpus;
        second_thread_comes_to(&on(b));
        let (is_in, may_end) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                threads_of(2);
                is_in.wait();
                may_end.wait();
            });
            is_in.wait();
            second_thread_comes_to(&both([a, b]));
            may_end.wait();
        });
        // The other one may need a moment to end.
        second_thread_comes_to(&on(b));
    });
}

/// What an iteration takes, most of it.
const ITERATION: Duration = Duration::from_micros(200);

/// Threads of the next iteration's regions, of which each takes a moment.
fn sizes_of_an_iteration() -> [u32; 2] {
    let region = || {
        let size = AtomicU32::new(0);
        broadcast(|member| {
            let begin = Instant::now();
            while begin.elapsed() < ITERATION / 2 {}
            size.store(member.size, Relaxed);
        });
        size.into_inner()
    };
    [region(), region()]
}

#[test]
fn speedups_are_measured_where_the_policy_asks_for_them_only() {
    own_process!();
    with_script(|script| {
        eventually("regions of two threads", || sizes_of_an_iteration() == [2, 2]);
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(300) {
            assert_eq!(sizes_of_an_iteration(), [2, 2], "no measurement was asked for");
        }
        let before = script.areas.report();
        script.page.set_state(State { reports: true, ..State::default() });
        eventually("a region on one processor", || sizes_of_an_iteration() == [1, 1]);
        // Of all iterations those that were held up. Samples of 2 ms that agree are rare where
        // others run in between; that an emulated processor is kept waiting its kernel does not
        // see.
        let (begin, mut all, mut late) = (Instant::now(), 0_u32, 0_u32);
        while script.areas.report() == before {
            let iteration = Instant::now();
            sizes_of_an_iteration();
            all += 1;
            late += u32::from(iteration.elapsed() > ITERATION * 3 / 2);
            if begin.elapsed() < Duration::from_secs(10) {
                continue;
            }
            assert!(late > all / 20, "no report in {:?}, {late} of {all} late", begin.elapsed());
            return platform::skip!(busy: "{late} of {all} iterations were held up by others");
        }
        let report = script.areas.report().unwrap();
        assert_eq!((report.processors, report.base_processors), (2, 1));
    });
}
