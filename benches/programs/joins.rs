//! Recursion by joins: two ways to sort, and calls without a cut-off.

use crate::harness::Case;
use crate::partition::{SHORT, input, split};
use crate::program::{Form, Program, cases, equal};
use std::hint::black_box;

/// Calls two closures, at the same time or not. chili's joins pass a scope on: it has functions of
/// its own.
trait Join {
    fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send)
    -> (A, B);
}

struct One;
struct Ours;
struct Rayon;

impl Join for One {
    fn join<A: Send, B: Send>(
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        (a(), b())
    }
}

impl Join for Ours {
    fn join<A: Send, B: Send>(
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        nanothreads::join(a, b)
    }
}

impl Join for Rayon {
    fn join<A: Send, B: Send>(
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        rayon::join(a, b)
    }
}

const NUMBERS: u64 = 400_000;

pub(crate) fn quicksort() -> [Case; 3] {
    fn sorted<J: Join>(mut data: Vec<u64>) -> Vec<u64> {
        sort::<J>(&mut data);
        data
    }
    fn sort<J: Join>(data: &mut [u64]) {
        if data.len() <= SHORT {
            return data.sort_unstable();
        }
        let (low, high) = split(data);
        J::join(|| sort::<J>(low), || sort::<J>(high));
    }
    fn chili(scope: &mut chili::Scope<'_>, data: &mut [u64]) {
        if data.len() <= SHORT {
            return data.sort_unstable();
        }
        let (low, high) = split(data);
        scope.join(|scope| chili(scope, low), |scope| chili(scope, high));
    }
    cases(Program {
        name: "quicksort",
        input: || input(NUMBERS),
        one: sorted::<One>,
        is_right: equal,
        forms: vec![
            ("nanothreads", Form::Ours(sorted::<Ours>)),
            ("rayon", Form::Rayon(sorted::<Rayon>)),
            (
                "chili",
                Form::Chili(|scope, mut data| {
                    chili(scope, &mut data);
                    data
                }),
            ),
        ],
    })
}

/// Merges two sorted slices.
fn merge(a: &[u64], b: &[u64], to: &mut [u64]) {
    let (mut i, mut j) = (0, 0);
    for slot in to {
        let takes_a = j == b.len() || (i < a.len() && a[i] <= b[j]);
        *slot = if takes_a { a[i] } else { b[j] };
        i += usize::from(takes_a);
        j += usize::from(!takes_a);
    }
}

pub(crate) fn merge_sort() -> [Case; 3] {
    /// Sorts `data`; its two halves first, in place, then both through `buffer`.
    fn sort<J: Join>(data: &mut [u64], buffer: &mut [u64]) {
        if data.len() <= SHORT {
            return data.sort();
        }
        let middle = data.len() / 2;
        let (low, high) = data.split_at_mut(middle);
        let (low_buffer, high_buffer) = buffer.split_at_mut(middle);
        J::join(|| sort::<J>(low, low_buffer), || sort::<J>(high, high_buffer));
        merge(low, high, buffer);
        data.copy_from_slice(buffer);
    }
    fn sorted<J: Join>((mut data, mut buffer): (Vec<u64>, Vec<u64>)) -> Vec<u64> {
        sort::<J>(&mut data, &mut buffer);
        data
    }
    fn chili(scope: &mut chili::Scope<'_>, data: &mut [u64], buffer: &mut [u64]) {
        if data.len() <= SHORT {
            return data.sort();
        }
        let middle = data.len() / 2;
        let (low, high) = data.split_at_mut(middle);
        let (low_buffer, high_buffer) = buffer.split_at_mut(middle);
        scope.join(|scope| chili(scope, low, low_buffer), |scope| chili(scope, high, high_buffer));
        merge(low, high, buffer);
        data.copy_from_slice(buffer);
    }
    cases(Program {
        name: "merge sort",
        input: || (input(NUMBERS / 2), vec![0; NUMBERS as usize / 2]),
        one: sorted::<One>,
        is_right: equal,
        forms: vec![
            ("nanothreads", Form::Ours(sorted::<Ours>)),
            ("rayon", Form::Rayon(sorted::<Rayon>)),
            (
                "chili",
                Form::Chili(|scope, (mut data, mut buffer)| {
                    chili(scope, &mut data, &mut buffer);
                    data
                }),
            ),
        ],
    })
}

pub(crate) fn fibonacci() -> [Case; 3] {
    fn sequential(n: u64) -> u64 {
        if n < 2 { n } else { black_box(sequential(n - 1)) + sequential(n - 2) }
    }
    fn calls<J: Join>(n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (a, b) = J::join(|| calls::<J>(n - 1), || calls::<J>(n - 2));
        a + b
    }
    fn chili(scope: &mut chili::Scope<'_>, n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (a, b) = scope.join(|scope| chili(scope, n - 1), |scope| chili(scope, n - 2));
        a + b
    }
    cases(Program {
        name: "fib",
        input: || 30,
        one: sequential,
        is_right: equal,
        forms: vec![
            ("nanothreads", Form::Ours(calls::<Ours>)),
            ("rayon", Form::Rayon(calls::<Rayon>)),
            ("chili", Form::Chili(|scope, n| chili(scope, n))),
        ],
    })
}
