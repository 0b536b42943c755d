#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use orx_parallel::{ParRunner, Runner, ThreadPool};
use std::fmt;
use std::num::NonZeroUsize;

/// The engine as a thread pool: no threads of its own, no state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Engine;

/// What runs a parallel iterator on the engine: give it to `.runner(..)`.
///
/// ```
/// use orx_parallel::*;
/// let words = vec!["map", "filter", "collect"];
/// let lengths: Vec<_> = words.par().runner(nanothreads_orx::runner()).map(|word| word.len()).collect();
/// assert_eq!(lengths, [3, 6, 7]);
/// ```
pub fn runner() -> impl ParRunner {
    #[cfg(feature = "adaptive")]
    let runner = Runner::adaptive_with_pool(Engine);
    #[cfg(not(feature = "adaptive"))]
    let runner = Runner::fixed_with_pool(Engine);
    runner
}

/// A scope of the engine, in which orx-parallel runs its tasks.
#[derive(Clone, Copy)]
pub struct Scope<'s, 'env>(&'s nanothreads::Scope<'env>);

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scope").field(self.0).finish()
    }
}

impl<'s, 'env, 'scope> orx_parallel::Scope<'s, 'env, 'scope> for Scope<'s, 'env> {
    fn run<W>(self, work: W)
    where
        'scope: 's,
        'env: 'scope + 's,
        W: FnOnce() + Send + 'scope + 'env,
    {
        self.0.spawn(|_| work());
    }
}

impl ThreadPool for Engine {
    type ScopeRef<'s, 'env, 'scope>
        = Scope<'s, 'env>
    where
        'scope: 's,
        'env: 'scope + 's;

    fn scope<'env, 'scope, F>(&'env self, f: F)
    where
        'env: 'scope,
        for<'s> F: FnOnce(Scope<'s, 'env>) + Send,
    {
        nanothreads::scope(|scope: &nanothreads::Scope<'env>| f(Scope(scope)));
    }

    fn max_num_threads(&self) -> NonZeroUsize {
        NonZeroUsize::new(nanothreads::Team::available().size()).unwrap_or(NonZeroUsize::MIN)
    }
}
