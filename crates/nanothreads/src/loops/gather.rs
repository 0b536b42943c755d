//! Results that members bring to the join: on their arrival lines where they fit, else in places of
//! their own.
//!
//! A result of up to 48 bytes costs nothing that the join does not cost: it stands where the
//! descriptor stood, or beside the arrival number ([`engine::slot`], [`engine::arrival`]). It is
//! moved by value; the master takes every one that was put before it runs anything else, so that
//! types with a destructor ride as well.

use crate::parts::{self, TeamOrParts};
use crate::per_member::Contributions;
use engine::forked::UntilJoin;
use engine::local::{Local, local};
use engine::panics::FirstPanic;
use engine::team::{self, Concurrency};
use engine::work::{Member, SupplyLine};
use platform::sync::{CachePadded, HandCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// Results up to this many members need no allocation.
const FEW: usize = 8;

/// Runs `body` on each member of `team` and returns what they return, in the order of the members.
///
/// # Panics
/// With the payload of the first member that panics, after all are done.
pub(super) fn gather<T, F>(team: &TeamOrParts, body: F) -> impl Iterator<Item = T> + use<T, F>
where
    T: Send,
    F: Fn(Member) -> Option<T> + Sync,
{
    let gathered = match team.own() {
        Some(own) if SupplyLine::carries::<Option<T>>() => on_lines(own, body),
        _ => in_places(team, body),
    };
    gathered.into_iter()
}

/// A region whose members return something. On lines of its own, as those of [`crate::region`].
#[repr(C, align(64))]
struct Returning<F, T> {
    body: F,
    /// By its state.
    master: *const Local,
    /// The first panic of any member.
    panic: FirstPanic,
    /// What the master's own thread returned. Written while the others may still be fetching what
    /// stands before.
    home: CachePadded<HandCell<MasterResults<T>>>,
}

/// What stays with the master: in a child that it forks all else is its parent's.
struct MasterResults<T> {
    /// Of its part as member 0.
    own: Option<T>,
    /// Of parts that others had not begun, by member.
    others: Vec<(u32, T)>,
}

// SAFETY: - `home` is touched by the master's thread alone; `master` is only compared.
//         - `body` is called on many threads, hence `F: Sync`; values move between threads, hence
//           `T: Send`.
unsafe impl<F: Sync, T: Send> Sync for Returning<F, T> {}

impl<F: Fn(Member) -> Option<T>, T> Returning<F, T> {
    fn new(body: F) -> Self {
        let home = MasterResults { own: None, others: Vec::new() };
        Self {
            body,
            master: local(),
            panic: FirstPanic::default(),
            home: CachePadded::new(HandCell::new(home)),
        }
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

fn on_lines<T: Send, F: Fn(Member) -> Option<T> + Sync>(team: &team::Team, body: F) -> Gathered<T> {
    /// # Safety
    /// - `data` points to a live `Returning<F, T>`.
    unsafe fn call<T: Send, F: Fn(Member) -> Option<T> + Sync>(data: *const (), member: Member) {
        // SAFETY: - caller's contract.
        let region = unsafe { &*data.cast::<Returning<F, T>>() };
        let mut value = region.run(member);
        let local = local();
        let result_place = local.membership().result_place;
        if ptr::eq(region.master, local) {
            // SAFETY: - by the master.
            unsafe { region.home.with_mut(|home| (*home).put(member.id, value.take())) };
        }
        if let Some(result_place) = result_place {
            // SAFETY: - the place is this member's, and this is its work.
            unsafe { result_place.put(value) };
        }
    }

    let region = Returning::new(body);
    // SAFETY: - `call::<T, F>` gets the region, which outlives the join, and does not unwind.
    let joined =
        unsafe { team.run_in(Concurrency::Offered, call::<T, F>, ptr::from_ref(&region).cast()) };
    let mut gathered = Gathered::new(team.size(), |id| match &joined {
        // SAFETY: - each member puts one `Option<T>`; they are all taken here, once, before
        // anything else is supplied.
        Some(joined) if id > 0 => unsafe { joined.take(id) },
        // In a child that the body forked there is no one else.
        _ => None,
    });
    // SAFETY: - by the master.
    unsafe {
        region.home.with_mut(|home| {
            let home = &mut *home;
            gathered.set(0, home.own.take());
            home.others.drain(..).for_each(|(id, value)| gathered.set(id as usize, Some(value)));
        });
    }
    region.panic.pass_on();
    gathered
}

impl<T> MasterResults<T> {
    fn put(&mut self, id: u32, value: Option<T>) {
        match (id, value) {
            (0, value) => self.own = value,
            (id, Some(value)) => self.others.push((id, value)),
            (_, None) => {}
        }
    }
}

fn in_places<T: Send, F: Fn(Member) -> Option<T> + Sync>(
    team: &TeamOrParts,
    body: F,
) -> Gathered<T> {
    let contributions = UntilJoin::new(Contributions::new(team.size()));
    let places: &Contributions<_> = &contributions;
    parts::run(team, move |member| {
        let value = body(member);
        // SAFETY: - called once for each member of this one region, with its own number.
        unsafe { places.put(member.id as usize, value) };
    });
    Gathered::Many(crate::per_member::values(contributions).into_iter().map(Some).collect())
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

    fn set(&mut self, id: usize, value: Option<T>) {
        match self {
            Self::Few(values) => values[id] = value,
            Self::Many(values) => values[id] = value,
        }
    }

    fn into_iter(self) -> Values<T> {
        match self {
            Self::Few(values) => Values::Few(values.into_iter()),
            Self::Many(values) => Values::Many(values.into_iter()),
        }
    }
}

/// The values that there are. A type of its own: made of the standard library's adapters it was
/// half of what the compiler has to do for a program's reduction.
enum Values<T> {
    Few(std::array::IntoIter<Option<T>, FEW>),
    Many(std::vec::IntoIter<Option<T>>),
}

impl<T> Iterator for Values<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        loop {
            let place = match self {
                Self::Few(values) => values.next(),
                Self::Many(values) => values.next(),
            };
            if let Some(value) = place? {
                return Some(value);
            }
        }
    }
}
