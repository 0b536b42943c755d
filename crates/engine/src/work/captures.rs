//! What a closure captured, as it rides in a supply line.
//!
//! A worker that reads a closure on its master's stack fetches one line more, which the master has
//! to take back for the next region: nearly two round trips. A small closure is therefore *moved*
//! into the supply line of a team's only worker, where both call it by reference. It is not copied:
//! two copies of a captured atomic would be two atomics.

use std::mem::MaybeUninit;

/// Words in the line that nothing else needs.
const WORDS: usize = 3;

/// Room for a closure, or for the address of one.
#[derive(Clone, Copy, Debug)]
pub struct Captures([MaybeUninit<u64>; WORDS]);

impl Captures {
    /// Nothing.
    pub(crate) const NONE: Self = Self([MaybeUninit::uninit(); WORDS]);

    /// True when an `F` fits.
    pub const fn hold<F>() -> bool {
        size_of::<F>() <= size_of::<Self>() && align_of::<F>() <= align_of::<Self>()
    }

    /// Moves `value` in. It is dropped only when it was taken out again.
    #[inline]
    pub fn of<F>(value: F) -> Self {
        assert!(Self::hold::<F>(), "the closure is larger than the room for captures");
        let mut own = Self::NONE;
        // SAFETY: - large enough and aligned (checked above), and this function's alone.
        unsafe { own.0.as_mut_ptr().cast::<F>().write(value) };
        own
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn three_references_fit_and_four_or_a_wide_alignment_do_not() {
        assert!(Captures::hold::<[&u8; 3]>() && Captures::hold::<()>());
        assert!(!Captures::hold::<[&u8; 4]>() && !Captures::hold::<u128>());
    }

    #[test]
    fn what_was_moved_in_is_found_where_it_is_copied_to() {
        let copy = Captures::of(Box::new(7));
        // SAFETY: a `Box<i32>` was moved in, and is taken out once.
        assert_eq!(*unsafe { (&raw const copy).cast::<Box<i32>>().read() }, 7);
    }
}
