//! Letters of several pushers in one inbox.

use super::Data;
use crate::tasks::ready::inbox::{Inbox, Item};
use loom::sync::Arc;
use loom::thread;
use platform::model::{RACE, explore, is_needed, is_refuted};
use platform::sync::HandCell;
use std::ptr;

/// A nano-thread in an inbox, with something that its pusher hands over.
struct Letter {
    link: HandCell<*const Letter>,
    content: Data,
}

// SAFETY: loom checks what the protocols under test promise.
unsafe impl Sync for Letter {}
// SAFETY: as above.
unsafe impl Send for Letter {}

// SAFETY: - the link is the inbox's alone.
unsafe impl Item for Letter {
    fn link(&self) -> &HandCell<*const Self> {
        &self.link
    }
}

fn two_pushers(touch_after_the_push: bool) {
    let letter = || Letter { link: HandCell::new(ptr::null()), content: Data::default() };
    let shared = Arc::new((Inbox::new(), [letter(), letter()]));
    let threads: Vec<_> = (0..2)
        .map(|number| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (inbox, letters) = &*shared;
                let letter: &Letter = &letters[number];
                letter.content.set(number as u32 + 1);
                // SAFETY: - pushed once; alive until the end of the model.
                unsafe { inbox.push(letter) };
                if touch_after_the_push {
                    letter.content.set(9);
                }
            })
        })
        .collect();
    let mut sum = 0;
    let mut count = 0;
    while count < 2 {
        // SAFETY: - this thread is the owner.
        let any = unsafe {
            shared.0.drain(|letter| {
                count += 1;
                // SAFETY: - alive until the end of the model.
                sum += (*letter).content.get();
            })
        };
        if !any {
            thread::yield_now();
        }
    }
    assert_eq!((count, sum), (2, 3));
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn letters_of_two_pushers_arrive_once_each() {
    explore(|| two_pushers(false));
}

#[test]
fn each_ordering_of_an_inbox_is_needed() {
    let tags = [("B1", RACE), ("B2", RACE)];
    is_needed("letters_of_two_pushers_arrive_once_each", "src/tasks/ready/inbox.rs", &tags);
    is_needed("a_creator_goes_on_when_its_child_is_done", "src/tasks/ready/inbox.rs", &tags);
}

#[test]
fn a_pusher_that_keeps_writing_is_caught() {
    is_refuted("a_pusher_that_keeps_writing_is_caught", RACE, || two_pushers(true));
}
