//! The controller, alone and with what the default version adds to it, against tables that were
//! written from the text, in all states of small programs; and what holds whatever happens.

mod controller;
mod course;
mod evidence;

use asat::{Counts, Rules, Verdict};
use proptest::prelude::*;

const BAD: Verdict = Verdict::Bad { missing: 1 };

/// Both counts, with and without `several`, and small triggers.
fn all_rules() -> impl Iterator<Item = Rules> {
    let triggers = (1..=3).flat_map(|bad| (1..=3).map(move |good| (bad, good)));
    triggers.flat_map(|(bad_trigger, good_trigger)| {
        [Counts::Kept, Counts::Reset].into_iter().flat_map(move |counts| {
            [false, true].map(|several| Rules { counts, bad_trigger, good_trigger, several })
        })
    })
}

fn any_rules() -> impl Strategy<Value = Rules> {
    (any::<bool>(), 0_u32..5, 0_u32..5, any::<bool>()).prop_map(
        |(is_kept, bad_trigger, good_trigger, several)| {
            let counts = if is_kept { Counts::Kept } else { Counts::Reset };
            Rules { counts, bad_trigger, good_trigger, several }
        },
    )
}
