//! Loom's atomics, with a switch that takes the ordering from one access: for models that show what
//! an ordering is for.
//!
//! An access is named by its place in the source: the file and the lines after the comment that
//! says why its ordering is enough. What is weakened is [`Ordering::Relaxed`] there; a fence is
//! left out. All else is loom's.

use loom::sync::atomic as of_loom;
use std::fmt;
use std::panic::Location;
use std::sync::OnceLock;

pub use of_loom::Ordering;

/// Accesses that order nothing.
#[derive(Debug)]
pub struct Weakened {
    /// How the path of the file ends.
    pub file: String,
    /// First and last lines.
    pub lines: Vec<(u32, u32)>,
}

static WEAKENED: OnceLock<Weakened> = OnceLock::new();

/// Weakens the accesses there, in this process, for good; before the first model.
///
/// # Panics
/// When something is weakened already.
pub fn weaken(place: Weakened) {
    WEAKENED.set(place).expect("one place in a process");
}

fn is_weakened(caller: &Location<'_>) -> bool {
    WEAKENED.get().is_some_and(|place| {
        let mut lines = place.lines.iter();
        lines.any(|&(first, last)| (first..=last).contains(&caller.line()))
            && caller.file().ends_with(&place.file)
    })
}

#[track_caller]
fn ordered(ordering: Ordering) -> Ordering {
    if is_weakened(Location::caller()) { Ordering::Relaxed } else { ordering }
}

/// A fence.
#[track_caller]
pub fn fence(ordering: Ordering) {
    if !is_weakened(Location::caller()) {
        of_loom::fence(ordering);
    }
}

macro_rules! atomic {
    ($name:ident $(<$type:ident>)?, $value:ty) => {
        /// As the standard library's.
        pub struct $name $(<$type>)? (of_loom::$name $(<$type>)?);

        impl $(<$type>)? fmt::Debug for $name $(<$type>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl $(<$type>)? $name $(<$type>)? {
            /// As the standard library's.
            #[track_caller]
            pub fn new(value: $value) -> Self {
                Self(of_loom::$name::new(value))
            }

            /// As the standard library's.
            #[track_caller]
            pub fn load(&self, ordering: Ordering) -> $value {
                self.0.load(ordered(ordering))
            }

            /// As the standard library's.
            #[track_caller]
            pub fn store(&self, value: $value, ordering: Ordering) {
                self.0.store(value, ordered(ordering));
            }

            /// As the standard library's.
            #[track_caller]
            pub fn swap(&self, value: $value, ordering: Ordering) -> $value {
                self.0.swap(value, ordered(ordering))
            }

            /// As the standard library's.
            ///
            /// # Errors
            /// With what it holds, if that is not `current`.
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.0.compare_exchange(current, new, ordered(success), ordered(failure))
            }

            /// As the standard library's.
            ///
            /// # Errors
            /// As [`Self::compare_exchange`].
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.0.compare_exchange_weak(current, new, ordered(success), ordered(failure))
            }

            /// As the standard library's.
            ///
            /// # Errors
            /// With what it holds, if `update` has nothing for that.
            #[track_caller]
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                update: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                self.0.fetch_update(ordered(success), ordered(failure), update)
            }
        }
    };
}

macro_rules! number {
    ($name:ident, $value:ty, $($change:ident)*) => {
        atomic!($name, $value);

        impl Default for $name {
            fn default() -> Self {
                Self::new(<$value>::default())
            }
        }

        impl $name {
            $(
                /// As the standard library's.
                #[track_caller]
                pub fn $change(&self, value: $value, ordering: Ordering) -> $value {
                    self.0.$change(value, ordered(ordering))
                }
            )*
        }
    };
}

number!(AtomicBool, bool, fetch_and fetch_or fetch_xor);
number!(AtomicI32, i32, fetch_add fetch_sub);
number!(AtomicU8, u8, fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);
number!(AtomicU32, u32, fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);
number!(AtomicU64, u64, fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);
number!(AtomicUsize, usize, fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);
atomic!(AtomicPtr<T>, *mut T);
