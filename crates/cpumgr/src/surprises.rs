//! What went wrong and was said: the log names each surprise once, with its reason, and again when
//! it comes back after it was well.
//!
//! What fails again and again, every few milliseconds perhaps, is one surprise and not a thousand.

use std::collections::BTreeSet;

/// Surprises that are kept in mind at a time.
const MOST: usize = 256;

/// What can surprise again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Surprise {
    /// An attached process cannot be looked at.
    Look,
    /// An attached process has more threads than are looked at.
    Threads,
    /// A program cannot be fenced in.
    Fence,
    /// How busy processors are is not known.
    Busy,
    /// The masks of attached processes cannot be written down.
    Masks,
    /// A thread's mask cannot be read.
    Mask,
    /// A thread cannot be bound.
    Squeeze,
    /// Connections cannot be taken.
    Accept,
}

/// Those that are not over.
#[derive(Debug, Default)]
pub(crate) struct Surprises {
    said: BTreeSet<(Surprise, u64)>,
    /// There were more than are kept in mind, and that was said.
    is_full: bool,
}

impl Surprises {
    /// It happened to `subject`: a process, a thread, 0 for the manager itself. True when it is to
    /// be said: it was not said since it was well last.
    pub(crate) fn comes(&mut self, what: Surprise, subject: u64) -> bool {
        if self.said.len() >= MOST && !self.said.contains(&(what, subject)) {
            if !std::mem::replace(&mut self.is_full, true) {
                tracing::warn!(
                    "more than {MOST} things go wrong at a time: others are not named until some \
                     of these are well"
                );
            }
            return false;
        }
        self.said.insert((what, subject))
    }

    /// It did not happen to `subject` this time.
    pub(crate) fn is_over(&mut self, what: Surprise, subject: u64) {
        if self.said.remove(&(what, subject)) {
            self.is_full = false;
        }
    }

    /// `subject` is gone.
    pub(crate) fn forget(&mut self, subject: u64) {
        if self.said.is_empty() {
            return;
        }
        self.said.retain(|(_, of)| *of != subject);
        self.is_full = self.said.len() >= MOST;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// The lines that this thread logs meanwhile.
    pub(crate) fn logged(what: impl FnOnce()) -> Vec<String> {
        #[derive(Clone, Default)]
        struct Lines(Arc<Mutex<Vec<u8>>>);
        impl Write for Lines {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let lines = Lines::default();
        let into = lines.clone();
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || into.clone());
        tracing::subscriber::with_default(log.finish(), what);
        let bytes = lines.0.lock().unwrap();
        String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_is_said_once_and_again_after_it_was_well_or_its_subject_has_gone() {
        let mut surprises = Surprises::default();
        let mut comes = |subject| surprises.comes(Surprise::Look, subject);
        assert!(comes(7) && !comes(7) && comes(8) && !comes(7));
        assert!(surprises.comes(Surprise::Fence, 7), "it is another one");
        surprises.is_over(Surprise::Look, 7);
        assert!(surprises.comes(Surprise::Look, 7) && !surprises.comes(Surprise::Look, 8));
        assert!(!surprises.comes(Surprise::Fence, 7));
        surprises.forget(7);
        assert!(surprises.comes(Surprise::Look, 7) && surprises.comes(Surprise::Fence, 7));
        assert!(!surprises.comes(Surprise::Look, 8));
    }

    #[test]
    fn more_than_are_kept_in_mind_are_one_line() {
        let mut surprises = Surprises::default();
        let mut said = 0;
        let lines = logged(|| {
            for subject in 0..3 * MOST as u64 {
                said += usize::from(surprises.comes(Surprise::Squeeze, subject));
            }
        });
        assert_eq!((said, lines.len(), surprises.said.len()), (MOST, 1, MOST), "{lines:?}");
        assert!(!surprises.comes(Surprise::Squeeze, 7), "it was said");
        surprises.forget(7);
        assert!(surprises.comes(Surprise::Squeeze, 4711));
    }
}
