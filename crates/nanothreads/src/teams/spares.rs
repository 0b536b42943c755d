//! Meetings that a thread keeps for its next regions on kept teams.
//!
//! They are the thread's, not the team's: so a [`Team`](super::Team) holds nothing that a region
//! changes, several threads may run the same one at once, and what is kept is found without a
//! read-modify-write.

use super::Meeting;
use std::cell::RefCell;

/// Meetings that a thread keeps: nested teams have different sizes.
const KEPT: usize = 4;

/// They come and go whole, without a copy of their lines.
type Spares = Vec<Box<Meeting>>;

thread_local! {
    static SPARE: RefCell<Spares> = const { RefCell::new(Vec::new()) };
}

/// A meeting of `size` members that the calling thread used before, or a new one.
#[inline]
pub(super) fn take(size: usize) -> Box<Meeting> {
    // The store is gone while the thread's destructors run.
    let spare = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        let at = spare.iter().rposition(|meeting| meeting.barrier.size() == size)?;
        Some(spare.swap_remove(at))
    });
    spare.ok().flatten().unwrap_or_else(|| Box::new(Meeting::new(size)))
}

/// Keeps `meeting`, whose region is over, for the calling thread's next one.
#[inline]
pub(super) fn give_back(meeting: Box<Meeting>) {
    let _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() == KEPT {
            spare.remove(0);
        }
        spare.push(meeting);
    });
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_the_meetings_of_its_last_few_team_sizes() {
        let addresses = |sizes: &[usize]| -> Vec<*const Meeting> {
            let taken: Vec<_> = sizes.iter().map(|&size| take(size)).collect();
            let addresses = taken.iter().map(|meeting| std::ptr::from_ref(&**meeting)).collect();
            taken.into_iter().for_each(give_back);
            addresses
        };
        let first = addresses(&[2, 3, 4, 5]);
        assert_eq!(addresses(&[2, 3, 4, 5]), first, "each is found again by its size");
        addresses(&[6]);
        SPARE.with_borrow(|spare| assert_eq!(spare.len(), KEPT));
    }
}
