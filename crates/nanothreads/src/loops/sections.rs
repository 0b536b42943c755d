//! Sections: different pieces of work that run at the same time, each on a group of the caller's
//! processors.

use crate::groups::divide;
use engine::team::Concurrency;
use platform::lock::Mutex;
use std::fmt;
use std::sync::PoisonError;

/// Work of one section, until it is taken.
type Section<'a> = Mutex<Option<Box<dyn FnOnce() + Send + 'a>>>;

/// A list of sections to be run in parallel; made by [`sections`].
#[must_use = "sections do nothing until they are run"]
pub struct Sections<'a> {
    list: Vec<Section<'a>>,
    weights: Vec<usize>,
}

impl fmt::Debug for Sections<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sections").field("weights", &self.weights).finish_non_exhaustive()
    }
}

/// An empty list of sections.
///
/// The processors are divided among the sections ([`groups`](fn@crate::groups)): loops inside a
/// section run on the neighbours that it got (two-level parallelism).
///
/// ```
/// use nanothreads::{par_for, sections};
/// let (mut sum, mut product) = (0, 0);
/// sections()
///     .add(|| sum = par_for(1..11).reduce(0, |i| i, |a, b| a + b))
///     .add(|| product = par_for(1..11).reduce(1, |i| i, |a, b| a * b))
///     .run();
/// assert_eq!((sum, product), (55, 3_628_800));
/// ```
pub fn sections<'a>() -> Sections<'a> {
    Sections { list: Vec::new(), weights: Vec::new() }
}

impl<'a> Sections<'a> {
    /// Adds a section. With more sections than processors, some run after others, begun in the
    /// order in which they were added, each by the next thread that is ready. A section must not
    /// wait for another one.
    #[expect(clippy::should_implement_trait, reason = "nothing is summed")]
    pub fn add(self, section: impl FnOnce() + Send + 'a) -> Self {
        self.add_weighted(1, section)
    }

    /// Adds a section that gets processors in proportion to `weight`, at least one; those of
    /// [`Sections::add`] weigh 1.
    ///
    /// ```
    /// use nanothreads::{par_for, sections};
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// let (small, large) = (AtomicU32::new(0), AtomicU32::new(0));
    /// sections()
    ///     .add(|| par_for(0..100).run(|_| { small.fetch_add(1, Relaxed); }))
    ///     .add_weighted(3, || par_for(0..300).run(|_| { large.fetch_add(1, Relaxed); }))
    ///     .run();
    /// assert_eq!((small.into_inner(), large.into_inner()), (100, 300));
    /// ```
    pub fn add_weighted(mut self, weight: usize, section: impl FnOnce() + Send + 'a) -> Self {
        self.list.push(Mutex::new(Some(Box::new(section))));
        self.weights.push(weight);
        self
    }

    /// Runs all sections and returns when they are done. Cost: as
    /// [`Groups::run`](crate::Groups::run), and one more allocation.
    ///
    /// # Panics
    /// With the payload of the first section that panics; sections not begun by then are skipped.
    pub fn run(self) {
        let Self { list, weights } = self;
        divide(Concurrency::Offered, &weights, |group| {
            let section = list[group.index()].lock().unwrap_or_else(PoisonError::into_inner).take();
            let section = section.expect("each group runs once");
            section();
        });
    }
}
