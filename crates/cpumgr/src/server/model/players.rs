//! The players beside the scheduler: programs, a tool, a process in the queue.

use std::collections::BTreeMap;

use arena::header::VERSION;
use arena::layout::VpState;
use arena::message::{Control, FromManager, Register, Submit, ToManager};
use shuttle::rand::{Rng, thread_rng};

use super::{PROCESSORS, PROGRAMS, View, World, lock, others_run};
use crate::api::{Answer, Call};

/// A program's whole life.
pub(super) fn program(world: &World, player: usize) {
    let mut line = world.open(player);
    let all = (0..PROCESSORS).collect();
    let (request, held) = (thread_rng().gen_range(1..=PROCESSORS), None);
    let library = String::new();
    line.call(Call::Said(ToManager::Register(Register {
        layout: VERSION,
        max_processors: PROCESSORS,
        request,
        fixed_team: false,
        broker: false,
        library,
        held,
        within: Some(all),
    })));
    let Some(Answer::Areas(areas)) = line.answer() else { panic!("a program was not taken in") };
    let view = std::sync::Arc::new(View::new(*areas));
    assert_ne!(view.down().grant.read().epoch, 0, "a program has its areas and no grant in them");
    lock(&world.views).insert(line.serial, std::sync::Arc::clone(&view));
    let (down, up) = (view.down(), view.up());
    let ring = || {
        others_run();
        view.doorbell.ring().unwrap();
        world.happened.add();
    };
    up.vps[0].set_tid(world.processes[player].0.0.unsigned_abs());
    up.vps[1].set_tid(world.processes[player].1.0.unsigned_abs());
    for _ in 0..4 {
        match thread_rng().gen_range(0..6) {
            0 | 1 => {
                if up.request.ask(thread_rng().gen_range(1..=PROCESSORS)) {
                    ring();
                }
            }
            2 => {
                let last = down.grant.read_with_cpus().1.last();
                if last.is_some_and(|cpu| up.released.add(cpu)) {
                    ring();
                }
                if up.released.clear() {
                    ring();
                }
            }
            // Too often, and then with something to say.
            3 => {
                (0..6).for_each(|_| ring());
                if up.request.ask(1 + up.request.read().requested % PROCESSORS) {
                    ring();
                }
            }
            _ => sleep(world, &view),
        }
    }
    match thread_rng().gen_range(0..4) {
        0 => line.call(Call::Closed),
        1 => line.die(),
        _ => {
            // It lives on, until the manager says goodbye.
            world.rests(true);
            let mut farewell = line.answer();
            while !matches!(&farewell, Some(Answer::Messages(said)) if said.contains(&FromManager::Leaving))
            {
                assert!(farewell.is_some(), "a program was let go");
                farewell = line.answer();
            }
            return;
        }
    }
    lock(&world.views).remove(&line.serial);
    lock(&world.dead).insert(line.serial);
    world.rests(true);
}

/// The second virtual processor sleeps until the program has a processor for it, as `arena::client`
/// does it, but for the timeout, which would hide a wake that is lost.
fn sleep(world: &World, view: &View) {
    let (park, state) = (&view.up().vps[1].park, |state| view.up().vps[1].set_state(state));
    state(VpState::Parked);
    park.prepare();
    others_run();
    if view.down().grant.read().processors > 1 {
        park.cancel();
        return state(VpState::Running);
    }
    *lock(&view.sleeps) = true;
    world.rests(true);
    loop {
        let seen = world.passes.now();
        if !park.is_parked() || world.is_over() {
            break;
        }
        world.passes.wait(seen);
    }
    // In this order: until it is counted as at work it is known to have been woken.
    world.rests(false);
    *lock(&view.sleeps) = false;
    park.cancel();
    state(VpState::Running);
}

/// A tool, which asks and changes things.
pub(super) fn tool(world: &World) {
    let mut line = world.open(PROGRAMS);
    for _ in 0..3 {
        let control = match thread_rng().gen_range(0..5) {
            0 => {
                let report = line.ask(ToManager::Status);
                let Some(FromManager::Status(head)) = report.first() else { panic!("{report:?}") };
                let named = report[1..].iter().map(|part| match part {
                    FromManager::Programs(part) => part.programs.len(),
                    other => panic!("{other:?}"),
                });
                assert_eq!(head.program_count as usize, named.sum::<usize>());
                continue;
            }
            1 => Control::Quantum { quantum_ns: thread_rng().gen_range(1..=50) * 1_000_000 },
            2 => Control::Grace { grace_ns: thread_rng().gen_range(0..=3) * 1_000_000 },
            3 => Control::Level { level: Some(thread_rng().gen_range(0..=2)) },
            _ => {
                let name = ["dss-ts", "equip", "rr", "none"][thread_rng().gen_range(0..4_usize)];
                Control::Policy { name: Some(name.to_owned()), settings: BTreeMap::new() }
            }
        };
        assert_eq!(line.ask(ToManager::Control(control)), [FromManager::Done]);
    }
    assert_eq!(line.ask(ToManager::Control(Control::Level { level: None })), [FromManager::Done]);
    line.call(Call::Closed);
    world.rests(true);
}

/// A process that waits to be started, and ends.
pub(super) fn submitter(world: &World) {
    let mut line = world.open(PROGRAMS);
    let answer = line.ask(ToManager::Submit(Submit::plain(1, "later", true)));
    assert!(matches!(answer[..], [FromManager::Queued { .. }]), "{answer:?}");
    world.rests(true);
    match line.answer() {
        Some(Answer::Messages(said)) => assert_eq!(said, [FromManager::Admitted]),
        other => panic!("it waits for a place, and hears {other:?}"),
    }
    // By exec; its process ends later.
    line.call(Call::Closed);
    line.die();
}
