//! The process's source of team sizes, as the engine asks it.
//!
//! A [`TeamSizer`] may be code of the program, and the engine asks it wherever it has to know: in
//! the middle of a fork, and while a master waits for members that work. So what such code forks
//! has one thread ([`Local::ask`]), and what it answers is not trusted. Those of this crate fork
//! nothing, and are called as they are.
//!
//! [`Local::ask`]: crate::local::Local::ask

use crate::local::local;
use crate::managed::Managed;
use crate::sizer::{Lease, Seal, TeamSizer};
use crate::work::LARGEST;
use arena::client::{Client, Hello, SocketChoice, find_socket};
use arena::domain::Domain;
use platform::affinity::{CpuSet, Tid};
use platform::message::say;
use std::any::Any;
use std::path::Path;
use std::time::Duration;

/// See the module head.
#[derive(Clone, Copy)]
pub struct Source {
    sizer: &'static dyn TeamSizer,
    /// It forks nothing.
    is_plain: bool,
    managed: Option<&'static Managed>,
    origin: Origin,
}

/// Where a source comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The program said so.
    Settings,
    /// A manager was found at start.
    Manager,
    /// No manager was found.
    Alone,
}

impl Source {
    pub(crate) fn new(sizer: &'static dyn TeamSizer, origin: Origin) -> Self {
        let managed = sizer.managed(Seal).and_then(<dyn Any>::downcast_ref);
        Self { sizer, is_plain: sizer.forks_nothing(Seal), managed, origin }
    }

    pub(crate) fn origin(&self) -> Origin {
        self.origin
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

    /// Whether a forked child may go on with it. Nothing of the engine is there then.
    pub(crate) fn survives_fork(&self) -> bool {
        self.sizer.survives_fork()
    }

    #[inline]
    fn ask<R>(&self, otherwise: R, question: impl FnOnce(&dyn TeamSizer) -> R) -> R {
        if self.is_plain {
            question(self.sizer)
        } else {
            local().ask(otherwise, || question(self.sizer))
        }
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
}

/// Time that a program spends at most on registering before it goes on without a manager; the
/// watcher's thread then goes on trying.
const REGISTRATION: Duration = Duration::from_millis(500);

/// The manager of this program, if one answers, or has had no time to answer yet. The program's
/// threads stay within `mask`.
pub(crate) fn register(library: &str, processors: usize, mask: &CpuSet) -> Option<Managed> {
    let (path, explicit) = match find_socket() {
        SocketChoice::Off | SocketChoice::None => return None,
        SocketChoice::Explicit(path) => (path, true),
        SocketChoice::Found(path) => (path, false),
    };
    let wanted = u32::try_from(processors).unwrap_or(u32::MAX);
    let hello = Hello {
        max_processors: wanted,
        request: wanted,
        fixed_team: false,
        library: library.to_owned(),
        // What its threads are bound within (`placement`): explicit places, taskset, a cpuset
        // (D14).
        within: Some(mask.clone()),
    };
    match Client::connect(&path, &hello, REGISTRATION) {
        Ok(client) => Some(managed_by(client, &path)),
        Err(error) => {
            // One that had no time for us takes us in later: mask and quota count until then.
            let later = error.may_pass().then(|| Client::expect(&path, &hello).ok()).flatten();
            let until = if later.is_some() { " until it answers" } else { "" };
            // A manager that was named and does not answer is worth a line; one that merely might
            // be there is not.
            if explicit {
                say(format_args!(
                    "nanos: {error}; running without a manager{until} (NANOS_CPUMGR={})",
                    path.display()
                ));
            }
            later.map(Managed::new)
        }
    }
}

/// Follows `client`, in the domain of the manager at `path` if it has one.
fn managed_by(client: Client, path: &Path) -> Managed {
    let has_domain = client.has_domain();
    let managed = Managed::new(client);
    if !has_domain {
        return managed;
    }
    match Domain::join(path, REGISTRATION) {
        Ok(domain) => managed.in_domain(domain),
        Err(error) => managed.outside_domain(&error),
    }
}
