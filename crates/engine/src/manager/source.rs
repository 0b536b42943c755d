//! The process's source of team sizes, as the engine asks it.
//!
//! A [`TeamSizer`] may be code of the program, and the engine asks it wherever it has to know: in
//! the middle of a fork, and while a master waits for members that work. So what such code forks
//! has one thread ([`Around`]), and what it answers is not trusted. Those of this crate fork
//! nothing, and are called as they are.

use crate::manager::{Managed, register};
use crate::process::panics::NoUnwinding;
use crate::process::per_process::{PerProcess, State};
use crate::program::mask_and_quota::MaskAndQuota;
use crate::program::program;
use crate::sizer::{Lease, Moment, Seal, TeamSizer};
use crate::work::LARGEST;
use platform::affinity::{CpuSet, Tid};
use platform::aside::Aside;
use platform::lock::Once;
use std::any::Any;
use std::ptr;
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Release},
};

/// Asks the program's code a question, unless the calling thread is asking one already; given by
/// the layer that knows what the thread forks, which is above this one.
pub(crate) type Around = fn(question: &mut dyn FnMut());

/// See the module head.
#[derive(Clone, Copy)]
pub struct Source {
    sizer: &'static dyn TeamSizer,
    /// What is around each question to the sizer; `None`: it forks nothing.
    around: Option<Around>,
    managed: Option<&'static Managed>,
    origin: Origin,
}

/// Where a source comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// The program said so.
    Settings,
    /// A manager was found at start.
    Manager,
    /// No manager was found.
    Alone,
    /// No manager was found, and the runtime says what sizes teams then ([`set_lone`]).
    Lone,
}

impl Source {
    fn new(sizer: &'static dyn TeamSizer, origin: Origin, around: Option<Around>) -> Self {
        let managed: Option<&Managed> = sizer.managed(Seal).and_then(<dyn Any>::downcast_ref);
        if let Some(managed) = managed {
            managed.on_return(come_back);
        }
        Self { sizer, around: around.filter(|_| !sizer.forks_nothing(Seal)), managed, origin }
    }

    /// One of this crate, which no other code knows of.
    fn of_own(sizer: impl TeamSizer + 'static, origin: Origin) -> Self {
        Self::new(Box::leak(Box::new(sizer)), origin, None)
    }

    /// True when its limit is one of processors that are there: of the mask and quota as they are
    /// now, or granted.
    #[inline]
    pub(crate) fn knows_processors(&self) -> bool {
        self.origin != Origin::Settings || self.managed.is_some()
    }

    /// The manager that the program follows, or followed.
    #[inline]
    pub(crate) fn managed(&self) -> Option<&'static Managed> {
        self.managed
    }

    /// Whether a forked child may go on with the sizer. The child has no state of the engine then.
    fn survives_fork(&self) -> bool {
        self.sizer.survives_fork()
    }

    #[inline]
    fn ask<R>(&self, otherwise: R, question: impl FnOnce(&dyn TeamSizer) -> R) -> R {
        match self.around {
            None => question(self.sizer),
            Some(around) => self.ask_around(around, otherwise, question),
        }
    }

    #[cold]
    fn ask_around<R>(
        &self,
        around: Around,
        otherwise: R,
        question: impl FnOnce(&dyn TeamSizer) -> R,
    ) -> R {
        let (mut question, mut answer) = (Some(question), None);
        around(&mut || answer = question.take().map(|question| question(self.sizer)));
        answer.unwrap_or(otherwise)
    }

    /// Processors that a region may use now: at least 1 and no more than any team can have,
    /// whatever the sizer says.
    #[inline]
    pub(crate) fn limit(&self) -> usize {
        self.ask(1, |sizer| sizer.limit()).clamp(1, LARGEST)
    }

    pub(crate) fn request(&self, wanted: usize) {
        self.ask((), |sizer| sizer.request(wanted));
    }

    #[inline]
    pub(crate) fn lease(&self) -> Lease {
        self.ask(Lease::Unmanaged, |sizer| sizer.lease())
    }

    #[inline]
    pub(crate) fn epoch(&self) -> u32 {
        self.ask(0, |sizer| sizer.epoch())
    }

    /// Which processors these are, if they were assigned.
    pub fn processors(&self) -> Option<CpuSet> {
        self.ask(None, |sizer| sizer.processors())
    }

    pub(crate) fn enlist(&self, index: usize, tid: Tid) {
        self.ask((), |sizer| sizer.enlist(index, tid));
    }

    #[inline]
    pub(crate) fn refresh(&self) {
        self.ask((), |sizer| sizer.refresh());
    }

    /// Threads that have a processor each: see [`TeamSizer::room`].
    #[inline]
    fn room(&self) -> usize {
        self.ask(1, |sizer| sizer.room()).clamp(1, LARGEST)
    }

    /// An outermost master is about to fork: see [`TeamSizer::between_regions`]. Not a question,
    /// since it may fork.
    pub(crate) fn between_regions(&self, moment: &Moment) {
        let guard = NoUnwinding::enter();
        self.sizer.between_regions(moment);
        guard.leave();
    }
}

/// The source that the process found or was given.
struct Chosen(Once<Source>);

static CHOSEN: PerProcess<Chosen> = PerProcess::new(|| {
    CHOSEN.renew();
    publish();
});

/// Where that is: null until there is one.
static SOURCE: AtomicPtr<Source> = AtomicPtr::new(ptr::null_mut());

impl State for Chosen {
    fn begin() -> Self {
        Self(Once::new())
    }

    /// What was found is the parent's: a registration, limits at that time. A child goes on with
    /// what the program gave.
    fn in_child(&self) -> Self {
        let fresh = Once::new();
        if let Some(source) = self.0.get()
            && source.origin == Origin::Settings
            && source.survives_fork()
        {
            let _ = fresh.set(*source);
        }
        Self(fresh)
    }
}

fn publish() {
    let source = CHOSEN.existing().and_then(|chosen| chosen.0.get());
    let source = source.map_or(ptr::null_mut(), |source| ptr::from_ref(source).cast_mut());
    // ORDERING: Release - pairs with the Acquire of `chosen`.
    SOURCE.store(source, Release);
}

/// The source of team sizes, if the program has asked for a team before. Cost: a load.
#[inline]
fn chosen() -> Option<&'static Source> {
    // ORDERING: Acquire - pairs with the Release of `publish`.
    // SAFETY: - null, or what `publish` found, which is leaked.
    unsafe { SOURCE.load(Acquire).as_ref() }
}

/// The source of team sizes. The first call looks for a manager. Cost: a load.
#[inline]
pub fn source() -> &'static Source {
    match chosen() {
        Some(source) => source,
        None => choose(),
    }
}

#[cold]
fn choose() -> &'static Source {
    let source = CHOSEN.get().0.get_or_init(|| {
        let program = program();
        let (config, processors) = (program.config(), program.processors());
        let _aside = Aside::begin();
        if config.adapt
            && let Some(managed) = register(config.library, processors, program.mask())
        {
            return Source::of_own(managed, Origin::Manager);
        }
        match LONE.get() {
            Some(make) => Source::new(Box::leak(make()), Origin::Lone, None),
            None => Source::of_own(MaskAndQuota::of_program(), Origin::Alone),
        }
    });
    publish();
    source
}

/// Makes what sizes teams where no manager is found.
type Make = Box<dyn Fn() -> Box<dyn TeamSizer> + Send + Sync>;

/// The same in all processes: children make their own.
static LONE: Once<Make> = Once::new();

/// `make` makes what sizes teams where no manager is found, in this process and in children that
/// are forked from it. False when team sizes have a source already, or another one was named.
///
/// # Safety
/// - The methods of what it makes fork no region, wait for none, and ask the engine nothing;
///   [`TeamSizer::between_regions`] is free to.
pub(crate) unsafe fn set_lone(make: Make) -> bool {
    chosen().is_none() && LONE.set(make).is_ok()
}

/// Installs a sizer, with what is to be around each question to it; false when one is already in
/// use.
pub(crate) fn install(sizer: Box<dyn TeamSizer>, around: Around) -> bool {
    let sizer = Box::into_raw(sizer);
    // SAFETY: - just leaked, and freed below only if it was not set.
    let source = Source::new(unsafe { &*sizer }, Origin::Settings, Some(around));
    let is_set = CHOSEN.get().0.set(source).is_ok();
    if is_set {
        publish();
    } else {
        // SAFETY: - as above: no other thread has it.
        drop(unsafe { Box::from_raw(sizer) });
    }
    is_set
}

/// True when team sizes have a source: settings are fixed.
pub fn is_chosen() -> bool {
    chosen().is_some()
}

/// The manager that the program follows, or followed. Cost: a load.
#[inline]
pub(crate) fn managed() -> Option<&'static Managed> {
    source().managed()
}

/// The same, where the program has asked for a team before: looks for no manager. Cost: a load.
#[inline]
pub(crate) fn managed_already() -> Option<&'static Managed> {
    chosen().and_then(Source::managed)
}

/// Another manager took the program in.
fn come_back() {
    // A program that has not used its manager yet has joined nothing.
    if let Some(managed) = managed_already() {
        managed.comes_back();
    }
}

/// True when a manager was found at start.
pub(crate) fn is_managed() -> bool {
    source().origin == Origin::Manager
}

/// True when nothing but mask and quota says how large teams may be.
pub(crate) fn sizes_by_mask() -> bool {
    source().origin == Origin::Alone
}

/// What a region without a number of its own asks for: all processors, or more when the sizer
/// offers more.
pub(crate) fn wish() -> usize {
    program().processors().max(source().limit())
}

/// True when `threads` threads have a processor each: what regions may use now, and not more than
/// there are, of which a number that the program gave says nothing. Cost: a load or two beside the
/// sizer's limit.
#[inline]
pub(crate) fn has_room_for(threads: usize) -> bool {
    let source = source();
    threads <= source.room() && (source.knows_processors() || threads <= program().processors())
}

/// Changes what one master could use from `before` to `now`, and requests the sum (D6, M2).
pub(crate) fn want(before: usize, now: usize) {
    source().request(program().masters().want(before, now).max(1));
}
