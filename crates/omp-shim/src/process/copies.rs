//! Several copies of this library in one process (D12): the first one's engine serves all of them.
//!
//! A program may have the drop-in library and, in itself or in a plugin, the static one; or the
//! drop-in library under two paths, which the loader takes for two libraries. Each copy would have
//! threads of its own and register with the manager as if it were a program. So a copy that finds
//! an older one takes its teams from there: constructs, tasks and control variables stay its own,
//! threads and grants are the first one's.
//!
//! # How copies find each other
//! Each carries an ELF note that says where its [`EngineTable`] stands. The loader lists the
//! modules in the order in which they were loaded, also those that `dlopen` keeps local; so all
//! copies agree on the first, without a word in shared memory that they would have to agree on
//! before, and without a race. Copies in another namespace (`dlmopen`) are not listed. A copy whose
//! table has another version is not called: then this one runs its regions on the calling thread,
//! and says so once.
//!
//! The first copy cannot be unloaded: the drop-in library is linked so, and glibc keeps a module as
//! long as threads have destructors in it, as the workers have.

mod note;
mod table;

use crate::process::message;
use engine::{self, Member, Recall, Work};
use std::ffi::c_void;
use std::ptr;
use table::{EngineTable, VERSION};

/// Whose engine this copy uses.
#[derive(Clone, Copy)]
pub(crate) enum Host {
    /// Its own: it is the first.
    Own,
    /// That of an older copy.
    Older(&'static Older),
    /// None: the older copy cannot be called.
    Absent,
}

/// An older copy.
pub(crate) struct Older(EngineTable);

impl std::fmt::Debug for Host {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Own => "Own",
            Self::Older(_) => "Older",
            Self::Absent => "Absent",
        })
    }
}

/// A team that is ready to run one region.
pub(crate) enum HostTeam {
    Own(engine::Team),
    Older { older: &'static Older, team: *mut c_void, size: usize },
    Alone,
}

impl Host {
    /// Looks for older copies. Says so when one is there that cannot be called.
    pub(crate) fn find() -> Self {
        let Some(table) = note::older_table() else { return Self::Own };
        // SAFETY: - all versions of the table begin with their version.
        let version = unsafe { table.cast::<u32>().read() };
        if version != VERSION {
            message::warn(&format!(
                "another version of this library is in the process already (its engine's table has \
                 version {version}, this one {VERSION}): regions of this one run on the calling \
                 thread; load the same file everywhere"
            ));
            return Self::Absent;
        }
        // SAFETY: - the same version: the same layout; the module stays (module head).
        Self::Older(unsafe { &*table.cast::<Older>() })
    }

    /// Processors of the mask that the program was started with.
    pub(crate) fn processors(self) -> usize {
        match self {
            Self::Own | Self::Absent => engine::processors(),
            Self::Older(older) => (older.0.processors)(),
        }
    }

    /// True when a manager was found.
    pub(crate) fn is_managed(self) -> bool {
        match self {
            Self::Own => engine::is_managed(),
            Self::Older(older) => (older.0.is_managed)(),
            Self::Absent => false,
        }
    }

    /// True when the calling thread is a member of a team of several threads, whatever forked it:
    /// this copy, another one, or a program that uses the engine itself.
    #[inline]
    pub(crate) fn is_in_team(self) -> bool {
        match self {
            Self::Own => Member::current().size > 1,
            Self::Older(older) => (older.0.is_in_team)(),
            Self::Absent => false,
        }
    }

    /// The most threads that a team may have.
    pub(crate) fn largest_team(self) -> usize {
        match self {
            Self::Own => engine::largest_team(),
            Self::Older(older) => (older.0.largest_team)(),
            Self::Absent => 1,
        }
    }

    /// True where members of a region can be called back: see [`HostTeam::run`].
    #[inline]
    pub(crate) fn can_recall(self) -> bool {
        matches!(self, Self::Own)
    }

    /// The threads of the caller's teams end, and others take their places. Not those of an older
    /// copy.
    pub(crate) fn renew_threads(self) {
        if let Self::Own = self {
            engine::renew_threads();
        }
    }

    /// Says which region the calling thread forks next. An older copy of this library has its own,
    /// and is not told.
    #[inline]
    pub(crate) fn identify_region(self, region: usize) {
        if let Self::Own = self {
            engine::identify_region(region);
        }
    }

    /// States what the program could use; returns how many threads a region may have now.
    #[inline]
    pub(crate) fn grant_for(self, wanted: usize) -> usize {
        match self {
            Self::Own => engine::grant_for(wanted),
            Self::Older(older) => (older.0.grant_for)(wanted),
            Self::Absent => 1,
        }
    }

    /// Processors that a region may use now. Not asked of an older copy.
    pub(crate) fn limit(self) -> usize {
        match self {
            Self::Own => engine::team_limit(),
            Self::Older(_) | Self::Absent => 1,
        }
    }

    /// Asks for all processors that the program's masters want ([`engine::ask_again`]). Not of an
    /// older copy.
    pub(crate) fn ask_again(self) {
        if let Self::Own = self {
            engine::ask_again();
        }
    }

    /// How many threads, of at most `most`, the next parallel part of a program with threads of its
    /// own is to have, by this copy's `settings` or the older one's.
    pub(crate) fn adjust_threads(
        self,
        most: usize,
        settings: impl FnOnce() -> asat::Settings,
    ) -> usize {
        match self {
            Self::Own => asat::adjust_threads(most, settings),
            Self::Older(older) => (older.0.adjust_threads)(most),
            Self::Absent => 1,
        }
    }

    /// Microseconds that the caller may spin now for another thread of its team.
    pub(crate) fn spin_limit(self) -> u64 {
        match self {
            Self::Own | Self::Absent => engine::spin_limit(),
            Self::Older(older) => (older.0.spin_limit)(),
        }
    }

    /// Whether what the calling thread starts might inherit a processor that the engine put it on:
    /// it had better be started in [`Host::unbound`].
    pub(crate) fn needs_unbound(self) -> bool {
        match self {
            Self::Own => engine::needs_unbound(),
            Self::Older(older) => (older.0.needs_unbound)(),
            Self::Absent => false,
        }
    }

    /// The caller becomes another program, which is to have the mask of this one. May be a child of
    /// `vfork`.
    pub(crate) fn before_exec(self) {
        match self {
            Self::Own => engine::before_exec(),
            Self::Older(older) => (older.0.before_exec)(),
            Self::Absent => {}
        }
    }

    /// Runs `body` with the mask of the program.
    pub(crate) fn unbound<R>(self, body: impl FnOnce() -> R) -> R {
        let Self::Older(older) = self else { return engine::unbound(body) };
        let (mut body, mut result) = (Some(body), None);
        let mut errand: &mut dyn FnMut() = &mut || result = body.take().map(|body| body());
        // SAFETY: - `run_errand` takes such an errand, which lives through the call.
        unsafe { (older.0.unbound)(run_errand, (&raw mut errand).cast()) };
        result.expect("the older copy calls once")
    }

    /// A team of `size` threads, or (unless `exact`) of those that there are.
    #[inline]
    pub(crate) fn reserve(self, size: usize, exact: bool) -> HostTeam {
        match self {
            Self::Own if exact => HostTeam::Own(engine::Team::reserve(size)),
            Self::Own => HostTeam::Own(engine::Team::reserve_available(size)),
            Self::Older(older) => {
                let mut got = 1;
                // SAFETY: - a place for a number.
                let team = unsafe { (older.0.reserve)(size, exact, &raw mut got) };
                HostTeam::Older { older, team, size: got }
            }
            Self::Absent => HostTeam::Alone,
        }
    }
}

/// # Safety
/// - `errand` points to a `&mut dyn FnMut()` that no other thread uses meanwhile.
unsafe extern "C" fn run_errand(errand: *mut c_void) {
    // SAFETY: - caller's contract.
    let errand = unsafe { &mut *errand.cast::<&mut dyn FnMut()>() };
    errand();
}

/// Our work on an older copy's team.
struct Call {
    work: Work,
    data: *const (),
}

/// # Safety
/// - `call` points to a [`Call`].
unsafe extern "C" fn call_back(call: *const c_void, id: u32, size: u32) {
    // SAFETY: - caller's contract.
    let call = unsafe { &*call.cast::<Call>() };
    // SAFETY: - as told to `HostTeam::run`.
    unsafe { (call.work)(call.data, Member { id, size }) };
}

impl HostTeam {
    /// Threads.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Own(team) => team.size(),
            Self::Older { size, .. } => *size,
            Self::Alone => 1,
        }
    }

    /// Runs a region: `work` on each member. Those that left stay away.
    ///
    /// # Safety
    /// - `work` takes `data`, may run on many threads at once, and does not unwind.
    pub(crate) unsafe fn run_plainly(self, work: Work, data: *const ()) {
        match self {
            // SAFETY: - caller's contract.
            Self::Own(team) => unsafe { team.run(work, data) },
            // SAFETY: - caller's contract; no region runs with this one.
            other => unsafe { other.run(work, data, &Recall::new()) },
        }
    }

    /// Runs a region: `work` on each member. Those that left are called back by `recall`, if they
    /// are this copy's ([`Host::can_recall`]).
    ///
    /// # Safety
    /// - `work` takes `data`, may run on many threads at once, and does not unwind.
    /// - No other region runs with `recall` meanwhile.
    #[inline]
    pub(crate) unsafe fn run(self, work: Work, data: *const (), recall: &Recall) {
        match self {
            // SAFETY: - caller's contract.
            Self::Own(team) => unsafe { team.run_with_recall(work, data, recall) },
            Self::Older { older, team, .. } => {
                let call = Call { work, data };
                // SAFETY: - reserved there, by this thread, and run once; `call` lives until the
                // region is joined.
                unsafe { (older.0.run)(team, call_back, ptr::from_ref(&call).cast()) };
            }
            // SAFETY: - caller's contract.
            Self::Alone => unsafe { work(data, Member { id: 0, size: 1 }) },
        }
    }
}
