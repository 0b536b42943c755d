//! Why a team cannot be had.

use engine::local::local;
use std::fmt;

/// Why a team could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TeamError {
    /// A team has at least its master.
    Empty,
    /// More threads than any team may have.
    TooLarge {
        /// What was asked for.
        asked: usize,
        /// [`Team::largest`](crate::Team::largest).
        largest: usize,
    },
    /// More than one thread where regions have one: in a method of a
    /// [`TeamSizer`](crate::TeamSizer), or in work that was offered to a worker
    /// ([`workers::on_each`](crate::workers::on_each)).
    Alone {
        /// What was asked for.
        asked: usize,
    },
    /// The system refused threads: too many of them, or no room for their stacks. What it said
    /// stands on stderr, once.
    Refused {
        /// What was asked for.
        asked: usize,
        /// What there is.
        got: usize,
    },
}

impl fmt::Display for TeamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a team of 0 threads: ask for at least 1, the caller"),
            Self::TooLarge { asked, largest } => {
                write!(
                    f,
                    "a team of {asked} threads: teams of this program have at most {largest} \
                     (Team::largest); ask for at most that, or for Team::available()"
                )
            }
            Self::Alone { asked } => write!(
                f,
                "a team of {asked} threads in a method of a TeamSizer, or in work that was offered \
                 to a worker (workers::on_each): regions there have one thread; ask for 1, or run \
                 the team outside"
            ),
            Self::Refused { asked, got } => write!(
                f,
                "a team of {asked} threads: the system refuses more than {got}; smaller stacks \
                 (builder().stack_size) or larger limits (ulimit -v, ulimit -u, the cgroup's \
                 pids.max) avoid that"
            ),
        }
    }
}

impl std::error::Error for TeamError {}

impl TeamError {
    /// Why there are `got` threads where `asked` were asked for.
    pub(super) fn missing(asked: usize, got: usize) -> Self {
        if local().forks_alone() { Self::Alone { asked } } else { Self::Refused { asked, got } }
    }
}
