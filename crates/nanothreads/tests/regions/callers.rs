//! Panics about what the caller did name the caller's line, not one of the library's.

use nanothreads::{
    PerThread, Team, broadcast, doacross, par_chunks_mut, par_for, par_for_2d, par_for_3d, workers,
};
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

/// File and line of each panic since the last look.
static PLACES: Mutex<Vec<(String, u32)>> = Mutex::new(Vec::new());

fn places() -> Vec<(String, u32)> {
    std::mem::take(&mut *PLACES.lock().unwrap_or_else(PoisonError::into_inner))
}

fn note_places() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().expect("std knows it");
        let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
        places.push((place.file().to_owned(), place.line()));
    }));
}

/// Checks that `$call` panics, and that each of its panics is said to be at a line of `$call`.
macro_rules! panics_here {
    ($call:expr) => {{
        let first = line!();
        let caught = catch_unwind(AssertUnwindSafe(|| _ = $call));
        let places = places();
        let what = stringify!($call);
        assert!(caught.is_err() && !places.is_empty(), "{what}: no panic");
        let lines = first..=first + 12;
        for (file, line) in &places {
            assert!(file == file!() && lines.contains(line), "{what}: at {file}:{line}");
        }
    }};
}

#[test]
fn loops_and_teams_name_the_callers_line() {
    own_process!(2);
    note_places();
    let (mut a, mut b) = ([0; 4], [0; 3]);
    panics_here!(par_chunks_mut(&mut a, 0));
    panics_here!(par_chunks_mut(&mut a, 1).zip(&mut b, 1));
    panics_here!(par_chunks_mut(&mut a, 1).zip(&mut b, 0));
    panics_here!(par_for_2d(0..usize::MAX, 0..2));
    panics_here!(par_for_3d(0..usize::MAX, 0..2, 0..1));
    panics_here!(doacross(0..4).run(|_, cross| cross.wait_back(0)));
    panics_here!(Team::available().run_on_two(&mut a, &mut b[..2], |_, _| ()));
    panics_here!(broadcast(|_| _ = workers::on_each(|_| ())));
    let storage = PerThread::new(|| 0);
    panics_here!(storage.with(|_| storage.with(|own| *own += 1)));
    panics_here!(storage.with(|_| par_for(0..4).run_with(&storage, |own, _| *own += 1)));
}

#[test]
fn a_team_that_cannot_be_had_names_the_callers_line() {
    own_process!(2);
    note_places();
    let two = Team::exact(2).expect("two threads");
    two.run(|_| ());
    // Regions of what is offered to a worker have one thread.
    let refused: [fn(&Team); 5] = [
        |two| panics_here!(two.run(|_| ())),
        |two| panics_here!(two.map(|_| ())),
        |two| panics_here!(two.size()),
        |two| panics_here!(two.install(|| ())),
        |two| panics_here!(two.run_on(&mut [0; 8], |_, _| ())),
    ];
    for refused in refused {
        assert_eq!(workers::on_each(|_| refused(&two)), 1);
    }
}

#[cfg(feature = "tasks")]
#[test]
fn tasks_name_the_callers_line() {
    use nanothreads::{Scope, scope, spawn};
    use std::future::Future;
    use std::pin::Pin;
    use std::ptr;
    use std::sync::mpsc::channel;
    use std::task::{Context, Waker};
    use std::thread;

    own_process!(2);
    note_places();
    scope(|outer| {
        let (go, gone) = channel::<()>();
        let waits = outer.task().spawn(move |_| _ = gone.recv());
        panics_here!(scope(|inner| _ = inner.task().depends_on(&waits)));
        drop(go);
    });
    let ended = || {
        let mut task = spawn(|| 1);
        let context = &mut Context::from_waker(Waker::noop());
        while Pin::new(&mut task).poll(context).is_pending() {
            thread::yield_now();
        }
        task
    };
    panics_here!(ended().wait());
    panics_here!(ended().wait_unless_cancelled());
    let waits = |s: &Scope<'_>| {
        let handle = ptr::from_ref(s).expose_provenance();
        s.spawn(move |_| {
            // SAFETY: - the handle's owner waits for this task; the use is as wrong as what is
            // tested.
            let handle: &Scope<'_> = unsafe { &*ptr::with_exposed_provenance(handle) };
            panics_here!(handle.suspend(drop));
        });
        s.wait();
    };
    Team::exact(1).expect("the caller").install(|| scope(waits));
}
