//! Sections: different pieces of work that run at the same time.

use super::{ParFor, Schedule, par_for};
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Work of one section, until it is taken.
type Section<'a> = Mutex<Option<Box<dyn FnOnce() + Send + 'a>>>;

/// A list of sections to be run in parallel; made by [`sections`].
#[must_use = "sections do nothing until they are run"]
pub struct Sections<'a> {
    list: Vec<Section<'a>>,
}

impl fmt::Debug for Sections<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sections").field("count", &self.list.len()).finish()
    }
}

/// An empty list of sections.
///
/// Loops inside a section run on an equal share of the processors that the sections leave (two-level parallelism).
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
    Sections { list: Vec::new() }
}

impl<'a> Sections<'a> {
    /// Adds a section. They are begun in the order in which they were added, each by whoever is ready: with more sections
    /// than members, some run after others. A section must not wait for another one.
    #[expect(clippy::should_implement_trait, reason = "nothing is summed")]
    pub fn add(mut self, section: impl FnOnce() + Send + 'a) -> Self {
        self.list.push(Mutex::new(Some(Box::new(section))));
        self
    }

    /// Runs all sections and returns when they are done.
    ///
    /// # Panics
    /// With the payload of the first section that panics; sections not begun by then are skipped.
    pub fn run(self) {
        // Taken as single iterations: one section on each member, as long as there are enough.
        let loop_over_sections: ParFor = par_for(0..self.list.len()).schedule(Schedule::PURE);
        loop_over_sections.run(|number| {
            let section = self.list[number].lock().unwrap_or_else(PoisonError::into_inner).take();
            let section = section.expect("the loop runs each number once");
            section();
        });
    }
}
