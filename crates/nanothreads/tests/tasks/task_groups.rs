//! Settings of all tasks of a group: stacks, priorities, names; inherited by theirs, and by nothing
//! outside.

use nanothreads::{Scope, builder, scope};
use std::hint::black_box;
use std::sync::Mutex;

/// Bytes of stack that are left below the caller, as the system's map of the process says.
fn room() -> usize {
    let here = 0_u8;
    let address = std::ptr::from_ref(black_box(&here)).addr();
    let maps = std::fs::read_to_string("/proc/self/maps").expect("a process has a map");
    let number = |text: &str| usize::from_str_radix(text, 16).expect("a hexadecimal address");
    maps.lines()
        .filter_map(|line| line.split(' ').next()?.split_once('-'))
        .map(|(low, high)| number(low)..number(high))
        .find(|range| range.contains(&address))
        .map(|range| address - range.start)
        .expect("the stack is mapped")
}

/// Spawns tasks in each way that there is; all must have about this much.
fn assert_room(s: &Scope<'_>, least: usize, most: usize) {
    let check = move || {
        let room = room();
        assert!((least..most).contains(&room), "{room} bytes, not {least} to {most}");
    };
    s.spawn(move |s| {
        check();
        s.spawn(move |s| {
            check();
            s.group(|s| s.spawn(move |_| check()));
        });
    });
    s.task().priority(1).spawn(move |_| check());
    let spawner = s.spawner();
    spawner.spawn(move |s| {
        check();
        s.spawn(move |_| check());
    });
}

#[test]
fn tasks_of_a_group_and_theirs_have_its_stacks_and_those_outside_have_not() {
    own_process!(alone);
    assert!(builder().threads(3).install().is_ok());
    const USUAL: (usize, usize) = (1 << 19, 1 << 21);
    scope(|s| {
        assert_room(s, USUAL.0, USUAL.1);
        s.task_group().stack_size(16 << 20).run(|s| {
            assert_room(s, 15 << 20, 17 << 20);
            // A group inside has what it does not say from the one around.
            s.task_group().name("inner").run(|s| assert_room(s, 15 << 20, 17 << 20));
            s.task_group().stack_size(4 << 20).run(|s| assert_room(s, 3 << 20, 5 << 20));
            s.task().stack_size(8 << 20).spawn(|_| assert!(room() < 9 << 20));
            // A scope of its own is no part of the group.
            s.spawn(|_| scope(|s| s.group(|s| assert_room(s, USUAL.0, USUAL.1))));
        });
        assert_room(s, USUAL.0, USUAL.1);
    });
}

#[test]
fn the_priority_of_a_group_is_that_of_its_tasks() {
    own_process!(alone);
    let order = Mutex::new(Vec::new());
    nanothreads::Team::exact(1).expect("the caller").install(|| {
        scope(|s| {
            let order = &order;
            for i in 0..3 {
                s.spawn(move |_| order.lock().expect("whole").push(i));
            }
            s.task_group().priority(5).run(|s| {
                for i in 10..13 {
                    s.spawn(move |_| order.lock().expect("whole").push(i));
                }
            });
        });
    });
    let order = order.into_inner().expect("whole");
    assert_eq!(order.len(), 6);
    assert!(order[..3].iter().all(|&i| i >= 10), "{order:?}");
}
