//! What a program says of its workers' threads: names, hooks, a nice value.

use nanothreads::{BuildError, Team, builder, par_for, spawn};
use std::sync::Mutex;
use std::thread;

/// The nice value of the calling thread, by the system.
fn nice() -> i32 {
    // SAFETY: - takes numbers only. 0: the calling thread.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

#[test]
fn workers_have_the_programs_names_and_nice_values_and_call_its_hook_first() {
    own_process!();
    static STARTED: Mutex<Vec<(usize, thread::ThreadId)>> = Mutex::new(Vec::new());
    let refused = [-21, 20, i32::MAX].map(|asked| (builder().nice(asked).install(), asked));
    for (result, asked) in refused {
        assert_eq!(result, Err(BuildError::Nice { asked }));
    }
    assert_eq!(builder().thread_names("a\0b").install(), Err(BuildError::Name));
    let own = nice();
    let settings = builder()
        .threads(3)
        .thread_names("render")
        .on_thread_start(|number| {
            // Regions here have one thread.
            assert_eq!(par_for(0..10).reduce(0, |i| i, |a, b| a + b), 45);
            STARTED.lock().expect("whole").push((number, thread::current().id()));
            panic!("planted: a hook's panic costs no worker");
        })
        .nice(own + 1);
    assert_eq!(settings.install(), Ok(()));
    let team = Team::exact(3).expect("threads");
    let seen = team.map(|_| {
        let current = thread::current();
        (current.id(), current.name().map(String::from), nice())
    });
    let started = STARTED.lock().expect("whole").clone();
    assert_eq!(started.len(), 2, "the master is no worker");
    assert_eq!(nice(), own, "the program's thread keeps its own");
    for (number, (thread, name, nice)) in seen.into_iter().enumerate().skip(1) {
        let (started_as, _) =
            *started.iter().find(|(_, id)| *id == thread).expect("its hook was called on it");
        assert_eq!(name, Some(format!("render-{started_as}")), "member {number}");
        assert_eq!(nice, own + 1);
    }
    // The thread of detached tasks is number 0.
    spawn(|| ()).wait();
    let others = loop {
        let started = STARTED.lock().expect("whole").clone();
        if started.iter().any(|&(number, _)| number == 0) {
            break started.iter().filter(|&&(number, _)| number == 0).count();
        }
        thread::yield_now();
    };
    assert_eq!(others, 1);
}
