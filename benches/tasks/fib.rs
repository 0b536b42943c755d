//! Fibonacci numbers by the naive recursion: one task for each call but one of two.

use crate::harness::native::entry;
use crate::harness::sample::{Subject, back_to_back};
use crate::harness::{Bar, Case, Engine, Runtime, regions};
use nanothreads::Scope;
use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;

const N: u64 = 30;
const FIB: u64 = 832_040;

pub(super) fn case() -> Case {
    let native = |name: &str, runtime| {
        Engine::new(name, runtime, move |_| {
            let fibonacci = entry(runtime, "fibonacci")?;
            Ok(subject(move || fibonacci.call(black_box(N as usize), 0, 0) as u64))
        })
    };
    let engines = vec![
        Engine::new("nanothreads join", Runtime::Ours, |row| {
            regions::configure(row);
            Ok(subject(|| joins(black_box(N))))
        }),
        Engine::new("nanothreads tasks", Runtime::Ours, |row| {
            regions::configure(row);
            Ok(subject(|| nanothreads::scope(|s| tasks(s, black_box(N)))))
        }),
        Engine::new("sequential", Runtime::Crate, |_| Ok(subject(|| sequential(black_box(N))))),
        Engine::new("rayon join", Runtime::Crate, |_| {
            let pool = regions::rayon_inside()?;
            Ok(subject(move || pool.install(|| rayon_joins(black_box(N)))))
        }),
        Engine::new("chili join", Runtime::Crate, |_| {
            let mut scope = regions::chili();
            Ok(subject(move || chili_joins(&mut scope, black_box(N))))
        }),
        native("oneTBB parallel_invoke", Runtime::Tbb),
        native("libgomp", Runtime::Libgomp),
        native("libomp", Runtime::Libomp),
        Engine::absent(
            "orx-parallel",
            "no recursion: it has iterators, and scopes that do not nest",
        ),
        Engine::absent("fork_union", "no tasks"),
    ];
    let bar = Some(Bar::TimesOf { engines: &["rayon", "chili"], row: None, factor: 1.0 });
    Case { name: "fib(30)".into(), measure: back_to_back(), extras: &[], engines, bar }
}

fn subject(mut run: impl FnMut() -> u64 + 'static) -> Subject {
    let wrong = Rc::new(Cell::new(None));
    let seen = Rc::clone(&wrong);
    let run = move || {
        let result = run();
        if result != FIB {
            seen.set(Some(result));
        }
    };
    Subject::new(run, move |_| match wrong.get() {
        None => Ok(()),
        Some(result) => Err(format!("fib({N}) is {FIB}, not {result}")),
    })
}

fn sequential(n: u64) -> u64 {
    if n < 2 { n } else { black_box(sequential(n - 1)) + sequential(n - 2) }
}

fn joins(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = nanothreads::join(|| joins(n - 1), || joins(n - 2));
    a + b
}

fn tasks(s: &Scope<'_>, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let mut a = 0;
    let b = s.group(|s| {
        s.spawn(|s| a = tasks(s, n - 1));
        tasks(s, n - 2)
    });
    a + b
}

fn rayon_joins(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = rayon::join(|| rayon_joins(n - 1), || rayon_joins(n - 2));
    a + b
}

fn chili_joins(scope: &mut chili::Scope<'_>, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = scope.join(|scope| chili_joins(scope, n - 1), |scope| chili_joins(scope, n - 2));
    a + b
}
