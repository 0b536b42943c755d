//! Loop schedules, as values and as text. How long their chunks are says [`chunk`](super::chunk).

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

/// How a loop's iterations are dealt.
///
/// ```
/// use nanothreads::{Alpha, Schedule, par_for};
/// let work = |n: usize| (1..n as u64).sum::<u64>() % 7;
/// let expected: u64 = (0..500).map(work).sum();
/// let schedules = [
///     Schedule::Static,       // equal iterations
///     Schedule::Affinity,     // the same data again and again, on members of unequal speed
///     Schedule::Guided(4.try_into()?), // unequal iterations
///     Schedule::PURE,         // few long ones
///     Schedule::Safe(Alpha::HALF),
///     Schedule::Auto,         // unknown, perhaps too short to be shared
/// ];
/// for schedule in schedules {
///     assert_eq!(par_for(0..500).schedule(schedule).reduce(0, work, |a, b| a + b), expected);
/// }
/// # Ok::<(), std::num::TryFromIntError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Schedule {
    /// One contiguous block for each member, computed without shared state.
    #[default]
    Static,
    /// Chunks of this size, round robin, computed without shared state.
    StaticChunks(NonZeroUsize),
    /// Chunks of this size, to the member that is ready. Cost: one atomic add for each chunk.
    Dynamic(NonZeroUsize),
    /// Each time a P-th of what is left, at least this much, to the member that is ready. Cost: one
    /// atomic exchange for each chunk.
    Guided(NonZeroUsize),
    /// Chunks that shrink linearly from N / 2P to 1, to the member that is ready. Cost: one atomic
    /// add for each of about 4P chunks.
    Trapezoid,
    /// As [`Schedule::Trapezoid`], with the lengths of the first and the last chunk given. A `last`
    /// longer than `first` counts as `first`.
    TrapezoidFrom {
        /// Length of the first chunk.
        first: NonZeroUsize,
        /// Length of the last chunk.
        last: NonZeroUsize,
    },
    /// Each member's chunks shrink geometrically, however fast the others are; alpha is the share
    /// of the loop that is dealt in first chunks. Cost: one atomic exchange for each chunk.
    Safe(Alpha),
    /// Batches of P equal chunks, each batch half of what is left. Cost: one atomic add for each
    /// chunk.
    Factoring,
    /// Each member has the block of [`Schedule::Static`] and takes a P-th of its own rest each
    /// time, from a word of its own; a member that has none left takes a P-th of the fullest
    /// member's rest. Loops over the same data find it in the caches of the same members. Cost: one
    /// exchange of an own word for each chunk.
    Affinity,
    /// Each member has the block of [`Schedule::Static`] and times itself: chunks grow until one
    /// takes a microsecond. A member that has none left takes half of the fullest member's rest. A
    /// loop of many iterations that is over within about a microsecond runs on the caller alone.
    Auto,
}

impl Schedule {
    /// Pure self-scheduling (PSS): one iteration at a time, to the member that is ready.
    pub const PURE: Self = Self::Dynamic(NonZeroUsize::MIN);

    /// [`Schedule::StaticChunks`] of this size; 0 counts as 1.
    pub const fn static_chunks(size: usize) -> Self {
        Self::StaticChunks(at_least_one(size))
    }

    /// [`Schedule::Dynamic`] with chunks of this size; 0 counts as 1.
    ///
    /// ```
    /// nanothreads::par_for(0..100).schedule(nanothreads::Schedule::dynamic(16)).run(|_| ());
    /// ```
    pub const fn dynamic(size: usize) -> Self {
        Self::Dynamic(at_least_one(size))
    }

    /// [`Schedule::Guided`] with at least this size; 0 counts as 1.
    pub const fn guided(least: usize) -> Self {
        Self::Guided(at_least_one(least))
    }

    /// The distance between the beginnings of chunks of a loop of `length` iterations, about; 1
    /// where it varies.
    pub(super) fn stride(self, length: usize, size: usize) -> NonZeroUsize {
        match self {
            Self::Static => NonZeroUsize::new(length / size).unwrap_or(NonZeroUsize::MIN),
            Self::StaticChunks(chunk) | Self::Dynamic(chunk) => chunk,
            _ => NonZeroUsize::MIN,
        }
    }
}

const fn at_least_one(size: usize) -> NonZeroUsize {
    match NonZeroUsize::new(size) {
        Some(size) => size,
        None => NonZeroUsize::MIN,
    }
}

/// As [`FromStr`] reads it: `static`, `static,4`, `dynamic,16`, `guided,4`, `trapezoid`,
/// `trapezoid,100,10`, `safe,0.5`, `factoring`, `affinity`, `auto`.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static => f.write_str("static"),
            Self::StaticChunks(size) => write!(f, "static,{size}"),
            Self::Dynamic(size) => write!(f, "dynamic,{size}"),
            Self::Guided(least) => write!(f, "guided,{least}"),
            Self::Trapezoid => f.write_str("trapezoid"),
            Self::TrapezoidFrom { first, last } => write!(f, "trapezoid,{first},{last}"),
            Self::Safe(alpha) => write!(f, "safe,{}", alpha.get()),
            Self::Factoring => f.write_str("factoring"),
            Self::Affinity => f.write_str("affinity"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

/// As in OpenMP's `OMP_SCHEDULE`, with the names of this crate's schedules; sizes that are left out
/// are 1.
///
/// ```
/// use nanothreads::Schedule;
/// assert_eq!("dynamic, 16".parse(), Ok(Schedule::dynamic(16)));
/// assert!("dynamic,x".parse::<Schedule>().is_err());
/// ```
impl FromStr for Schedule {
    type Err = InvalidSchedule;

    fn from_str(text: &str) -> Result<Self, InvalidSchedule> {
        let invalid = || InvalidSchedule(text.to_owned());
        let mut parts = text.split(',').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let numbers: Vec<&str> = parts.collect();
        let size = |text: &&str| text.parse::<NonZeroUsize>().map_err(|_| invalid());
        match (name.as_str(), &numbers[..]) {
            ("static", []) => Ok(Self::Static),
            ("static", [chunk]) => Ok(Self::StaticChunks(size(chunk)?)),
            ("dynamic", []) => Ok(Self::PURE),
            ("dynamic", [chunk]) => Ok(Self::Dynamic(size(chunk)?)),
            ("guided", []) => Ok(Self::guided(1)),
            ("guided", [least]) => Ok(Self::Guided(size(least)?)),
            ("trapezoid", []) => Ok(Self::Trapezoid),
            ("trapezoid", [first, last]) => {
                Ok(Self::TrapezoidFrom { first: size(first)?, last: size(last)? })
            }
            ("safe", []) => Ok(Self::Safe(Alpha::HALF)),
            ("safe", [alpha]) => {
                let alpha = alpha.parse().map_err(|_| invalid())?;
                Alpha::new(alpha).map(Self::Safe).map_err(|_| invalid())
            }
            ("factoring", []) => Ok(Self::Factoring),
            ("affinity", []) => Ok(Self::Affinity),
            ("auto", []) => Ok(Self::Auto),
            _ => Err(invalid()),
        }
    }
}

/// A text that names no schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSchedule(String);

impl fmt::Display for InvalidSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` names no schedule: give static, dynamic or guided with or without a size \
             (`dynamic,16`), trapezoid, safe, factoring, affinity or auto",
            self.0
        )
    }
}

impl std::error::Error for InvalidSchedule {}

/// The share alpha of [`Schedule::Safe`]: above 0, at most 1. The published default is one half.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Alpha {
    /// A finite positive number has one representation, so that shares can be compared.
    bits: u64,
}

impl Alpha {
    /// The published default.
    pub const HALF: Self = Self { bits: 0.5_f64.to_bits() };

    /// A share of `alpha`.
    ///
    /// # Errors
    /// When `alpha` is not above 0 and at most 1.
    pub fn new(alpha: f64) -> Result<Self, InvalidAlpha> {
        if alpha > 0.0 && alpha <= 1.0 {
            Ok(Self { bits: alpha.to_bits() })
        } else {
            Err(InvalidAlpha(alpha))
        }
    }

    /// The number.
    pub fn get(self) -> f64 {
        f64::from_bits(self.bits)
    }
}

impl Default for Alpha {
    fn default() -> Self {
        Self::HALF
    }
}

impl fmt::Debug for Alpha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Alpha").field(&self.get()).finish()
    }
}

/// A number that is no share; see [`Alpha::new`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InvalidAlpha(pub f64);

impl fmt::Display for InvalidAlpha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "alpha of safe self-scheduling is {}: give a number above 0 and at most 1",
            self.0
        )
    }
}

impl std::error::Error for InvalidAlpha {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_no_share_are_refused_with_what_to_do() {
        for wrong in [0.0, -0.5, 1.1, f64::NAN, f64::INFINITY] {
            let error = Alpha::new(wrong).unwrap_err();
            assert!(error.to_string().contains("above 0 and at most 1"), "{error}");
        }
        assert_eq!(Alpha::new(0.5), Ok(Alpha::default()));
    }
}
