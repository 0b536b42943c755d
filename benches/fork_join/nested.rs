//! Regions inside regions: outer x inner parts, on two processors.

use crate::harness::native::entry;
use crate::harness::regions::{self, Body, count, counted};
use crate::harness::sample::{Subject, back_to_back, back_to_back_with_switches};
use crate::harness::{Bar, Case, Engine, Runtime};
use engine::{self, Barrier, Member};
use nanothreads::{groups, par_for};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::ptr;

/// Outer and inner parts, and whether the members of an inner region meet at a barrier.
#[derive(Clone, Copy)]
struct Shape {
    outer: u32,
    inner: u32,
    barrier: bool,
}

/// Regions in a call, where one thread forks a team of itself.
const INNER_OF_ONE: u32 = 1000;
const FORK_UNION: &str = "no nesting: a pool runs one region at a time";

pub(super) fn cases() -> Vec<Case> {
    let trips = |limit| Some(Bar::RoundTrips { near: limit, far: limit });
    let shape = |outer, inner, barrier| Shape { outer, inner, barrier };
    vec![
        case("nested 2x1", shape(2, 1, false), trips(3.5)),
        case("nested 2x2", shape(2, 2, false), Some(Bar::Nanoseconds(4000.0))),
        case("nested 2x2, inner barrier", shape(2, 2, true), None),
        case("nested 4x2", shape(4, 2, false), None),
        case("nested 4x2, inner barrier", shape(4, 2, true), None),
        inner_of_one(),
    ]
}

fn case(name: &str, shape: Shape, bar: Option<Bar>) -> Case {
    let Shape { outer, inner, barrier } = shape;
    let mut engines = Vec::new();
    // In safe Rust two closures that run in any order: no thread of its own for each.
    if inner == 2 && !barrier {
        engines.push(Engine::new("nanothreads join", Runtime::Ours, move |row| {
            regions::configure(row);
            Ok(subject(shape, move || {
                joins(outer, &|group| {
                    nanothreads::join(|| count(group * 2), || count(group * 2 + 1))
                })
            }))
        }));
    }
    engines.push(Engine::new("nanothreads", Runtime::Ours, move |row| {
        regions::configure(row);
        let outer = Outer {
            shape,
            barriers: (0..shape.outer).map(|_| Barrier::new(shape.inner as usize)).collect(),
        };
        Ok(subject(shape, move || outer.fork()))
    }));
    if !barrier {
        engines.push(Engine::new("nanothreads groups", Runtime::Ours, move |row| {
            regions::configure(row);
            let parts = move |group: usize| {
                par_for(0..inner as usize).run(|part| count(group as u32 * inner + part as u32));
            };
            Ok(subject(shape, move || {
                groups().equal(outer as usize).run(|group| parts(group.index()))
            }))
        }));
    }
    for (name, runtime) in [("libgomp", Runtime::Libgomp), ("libomp", Runtime::Libomp)] {
        engines.push(Engine::new(name, runtime, move |_| {
            let nested = entry(runtime, "nested")?;
            let run = move || {
                nested.call(
                    count as Body as usize,
                    (outer * 1000 + inner) as usize,
                    usize::from(barrier),
                )
            };
            Ok(subject(shape, run))
        }));
    }
    if barrier {
        const NONE: &str = "it has no barrier";
        engines.extend(
            ["rayon", "chili", "orx-parallel", "oneTBB"].map(|name| Engine::absent(name, NONE)),
        );
    } else {
        engines.extend(without_barrier(shape));
    }
    engines.push(Engine::absent("fork_union", FORK_UNION));
    Case {
        name: name.into(),
        measure: back_to_back_with_switches(),
        extras: &["switches"],
        engines,
        bar,
    }
}

fn without_barrier(shape: Shape) -> Vec<Engine> {
    let Shape { outer, inner, .. } = shape;
    vec![
        Engine::new("rayon par_iter", Runtime::Crate, move |_| {
            let pool = regions::rayon_inside()?;
            let group = move |group| {
                (0..inner).into_par_iter().for_each(|part| count(group * inner + part))
            };
            Ok(subject(shape, move || pool.install(|| (0..outer).into_par_iter().for_each(group))))
        }),
        Engine::new("chili join", Runtime::Crate, move |_| {
            let mut scope = regions::chili();
            Ok(subject(shape, move || chili_parts(&mut scope, 0, outer * inner)))
        }),
        Engine::absent(
            "orx-parallel",
            "no nesting: with 4.1.1 a computation inside another one waits for ever",
        ),
        Engine::new("oneTBB parallel_for", Runtime::Tbb, move |_| {
            let nested = entry(Runtime::Tbb, "nested")?;
            Ok(subject(shape, move || {
                nested.call(count as Body as usize, (outer * 1000 + inner) as usize, 0)
            }))
        }),
    ]
}

fn subject<R>(shape: Shape, run: impl FnMut() -> R + 'static) -> Subject {
    Subject::new(run, counted((shape.outer * shape.inner) as usize, 1))
}

/// `group` for each number below `groups`, by joins of joins.
fn joins<R>(groups: u32, group: &(impl Fn(u32) -> R + Sync)) {
    fn between<R>(begin: u32, end: u32, group: &(impl Fn(u32) -> R + Sync)) {
        let middle = u32::midpoint(begin, end);
        if middle == begin {
            group(begin);
        } else {
            nanothreads::join(|| between(begin, middle, group), || between(middle, end, group));
        }
    }
    between(0, groups, group);
}

fn chili_parts(scope: &mut chili::Scope<'_>, begin: u32, end: u32) {
    let middle = u32::midpoint(begin, end);
    if middle == begin {
        count(begin);
    } else {
        scope.join(
            |scope| chili_parts(scope, begin, middle),
            |scope| chili_parts(scope, middle, end),
        );
    }
}

/// Exact teams of kernel threads, as an OpenMP program has them.
struct Outer {
    shape: Shape,
    /// One for each inner team.
    barriers: Vec<Barrier>,
}

impl Outer {
    fn fork(&self) {
        // SAFETY: - `fork_inner` takes an `Outer`, shared; it does not unwind.
        unsafe {
            engine::reserve(self.shape.outer as usize)
                .run(Self::fork_inner, ptr::from_ref(self).cast())
        }
    }

    /// # Safety
    /// - `data` points to an `Outer`.
    unsafe fn fork_inner(data: *const (), member: Member) {
        // SAFETY: - caller's contract.
        let outer = unsafe { &*data.cast::<Self>() };
        let inner = Inner { outer, group: member.id };
        // SAFETY: - `part` takes an `Inner`, shared; it does not unwind.
        unsafe {
            engine::reserve(outer.shape.inner as usize)
                .run(Inner::part, ptr::from_ref(&inner).cast())
        }
    }
}

struct Inner<'a> {
    outer: &'a Outer,
    group: u32,
}

impl Inner<'_> {
    /// # Safety
    /// - `data` points to an `Inner`.
    unsafe fn part(data: *const (), member: Member) {
        // SAFETY: - caller's contract.
        let inner = unsafe { &*data.cast::<Inner<'_>>() };
        let shape = inner.outer.shape;
        count(inner.group * shape.inner + member.id);
        if shape.barrier {
            inner.outer.barriers[inner.group as usize].wait(member.id as usize);
        }
    }
}

/// Inside a region of two, each member forks teams of itself.
fn inner_of_one() -> Case {
    fn subject<R>(run: impl FnMut() -> R + 'static) -> Subject {
        Subject::new(run, counted(2, INNER_OF_ONE.into())).of(INNER_OF_ONE)
    }
    let ours = Engine::new("nanothreads", Runtime::Ours, move |row| {
        /// # Safety
        /// - None: it ignores its data.
        unsafe fn inner(_: *const (), outer: Member) {
            for _ in 0..INNER_OF_ONE {
                // SAFETY: - `part` takes a number, which outlives the region; it does not unwind.
                unsafe { engine::reserve(1).run(part, ptr::from_ref(&outer.id).cast()) }
            }
        }
        /// # Safety
        /// - `data` points to a number.
        unsafe fn part(data: *const (), _: Member) {
            // SAFETY: - caller's contract.
            count(unsafe { *data.cast::<u32>() });
        }
        regions::configure(row);
        // SAFETY: - `inner` ignores its data; it does not unwind.
        Ok(subject(|| unsafe { engine::reserve(2).run(inner, ptr::null()) }))
    });
    let native = |name: &str, runtime| {
        Engine::new(name, runtime, move |_| {
            let region = entry(runtime, "inner_of_one")?;
            Ok(subject(move || region.call(count as Body as usize, INNER_OF_ONE as usize, 0)))
        })
    };
    const NONE: &str = "no teams: what it splits runs on any free thread";
    let engines = vec![
        ours,
        native("libgomp", Runtime::Libgomp),
        native("libomp", Runtime::Libomp),
        native("oneTBB parallel_for", Runtime::Tbb),
        Engine::absent("rayon", NONE),
        Engine::absent("chili", NONE),
        Engine::absent("orx-parallel", NONE),
        Engine::absent("fork_union", FORK_UNION),
    ];
    let bar = Some(Bar::Nanoseconds(20.0));
    Case {
        name: "inner region of one thread".into(),
        measure: back_to_back(),
        extras: &[],
        engines,
        bar,
    }
}
