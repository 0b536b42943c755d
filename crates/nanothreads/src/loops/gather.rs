//! Results that members bring to the join: on their arrival lines where they fit, else in places of their own.
//!
//! A result of up to 48 bytes costs nothing that the join does not cost: it stands where the descriptor stood, or beside
//! the arrival number ([`crate::slot`], [`crate::arrival`]). It is moved by value; the master takes every one that was put
//! before it runs anything else, so that types with a destructor ride as well.

use super::per_member::Carried;
use crate::forked::UntilJoin;
use crate::local::local;
use crate::panics::FirstPanic;
use crate::team::{Concurrency, Member, Team};
use crate::vp::Line;
use platform::sync::{CachePadded, HandCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// Results up to this many members need no allocation.
const FEW: usize = 8;

/// Runs `body` on each member of `team` and returns what they return, in the order of the members.
///
/// # Panics
/// With the payload of the first member that panics, after all are done.
pub(super) fn gather<T, F>(team: &Team, body: F) -> impl Iterator<Item = T> + use<T, F>
where
    T: Send,
    F: Fn(Member) -> Option<T> + Sync,
{
    let gathered = if Line::carries::<Option<T>>() { on_lines(team, body) } else { in_places(team, body) };
    gathered.into_iter()
}

/// A region whose members return something. On lines of its own, as those of [`crate::region`].
#[repr(C, align(64))]
struct Returning<F, T> {
    body: F,
    /// The first panic of any member.
    panic: FirstPanic,
    /// What member 0 returned: it is at home. Written while the others may still be fetching what stands before.
    own: CachePadded<HandCell<Option<T>>>,
}

// SAFETY: - `own` is touched by member 0 and, after the join, by the same thread.
//         - `body` is called on many threads, hence `F: Sync`; values move between threads, hence `T: Send`.
unsafe impl<F: Sync, T: Send> Sync for Returning<F, T> {}

impl<F: Fn(Member) -> Option<T>, T> Returning<F, T> {
    fn new(body: F) -> Self {
        Self { body, panic: FirstPanic::default(), own: CachePadded::new(HandCell::new(None)) }
    }

    /// What `member` returns; `None` when it panics.
    fn run(&self, member: Member) -> Option<T> {
        // The closure's captures are seen again only through the caller, which gets the panic.
        catch_unwind(AssertUnwindSafe(|| (self.body)(member))).unwrap_or_else(|payload| {
            self.panic.keep(payload);
            None
        })
    }
}

fn on_lines<T: Send, F: Fn(Member) -> Option<T> + Sync>(team: &Team, body: F) -> Gathered<T> {
    /// # Safety
    /// - `data` points to a live `Returning<F, T>`.
    unsafe fn call<T: Send, F: Fn(Member) -> Option<T> + Sync>(data: *const (), member: Member) {
        // SAFETY: - caller's contract.
        let region = unsafe { &*data.cast::<Returning<F, T>>() };
        let value = region.run(member);
        match local().membership().carrier {
            // SAFETY: - the carrier is this member's, whose work this is.
            Some(carrier) => unsafe { carrier.put(value) },
            // SAFETY: - member 0 alone has no carrier.
            None => unsafe { region.own.with_mut(|own| *own = value) },
        }
    }

    let region = Returning::new(body);
    // SAFETY: - `call::<T, F>` gets the region, which outlives the join, and does not unwind.
    let joined = unsafe { team.run_in(Concurrency::Offered, call::<T, F>, ptr::from_ref(&region).cast()) };
    // SAFETY: - the region is joined.
    let own = unsafe { region.own.with_mut(|own| (*own).take()) };
    // In a child that the body forked there is no one else.
    let others = joined.as_ref().map_or(0, |joined| joined.count());
    let gathered = Gathered::new(others + 1, |id| match &joined {
        // SAFETY: - each member puts one `Option<T>`; they are all taken here, once, before anything else is supplied.
        Some(joined) if id > 0 => unsafe { joined.take(id) },
        _ => None,
    });
    region.panic.pass_on();
    gathered.with_first(own)
}

fn in_places<T: Send, F: Fn(Member) -> Option<T> + Sync>(team: &Team, body: F) -> Gathered<T> {
    let carried = UntilJoin::new(Carried::new(team.size()));
    let places: &Carried<_> = &carried;
    crate::region::run_team(team, move |member| {
        let value = body(member);
        // SAFETY: - called once for each member of this one region, with its own number.
        unsafe { places.put(member.id as usize, value) };
    });
    if carried.is_parents() {
        // In a child that the body forked there is no one else.
        // SAFETY: - its only thread is member 0.
        return Gathered::Many(vec![unsafe { carried.take(0) }]);
    }
    Gathered::Many(carried.after_join().into_iter().flat_map(Carried::into_values).map(Some).collect())
}

/// What came, by member.
enum Gathered<T> {
    Few([Option<T>; FEW]),
    Many(Vec<Option<T>>),
}

impl<T> Gathered<T> {
    fn new(size: usize, mut take: impl FnMut(usize) -> Option<T>) -> Self {
        if size <= FEW {
            Self::Few(std::array::from_fn(|id| if id < size { take(id) } else { None }))
        } else {
            Self::Many((0..size).map(take).collect())
        }
    }

    fn with_first(mut self, value: Option<T>) -> Self {
        match &mut self {
            Self::Few(values) => values[0] = value,
            Self::Many(values) => values[0] = value,
        }
        self
    }

    fn into_iter(self) -> impl Iterator<Item = T> {
        let (few, many) = match self {
            Self::Few(values) => (Some(values), None),
            Self::Many(values) => (None, Some(values)),
        };
        few.into_iter().flatten().chain(many.into_iter().flatten()).flatten()
    }
}
