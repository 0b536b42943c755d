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

use crate::process::message;
use engine::{self, Member, Recall, Work};
use std::ffi::c_void;
use std::ptr;
use std::slice;

/// What the tables' layout is; to be raised with every change to it or to what its functions mean.
const VERSION: u32 = 5;
/// The note's type.
const TYPE: u32 = 1;
const NAME: &[u8; 6] = b"NANOS\0";

/// What a copy offers to younger ones.
#[repr(C)]
struct EngineTable {
    version: u32,
    is_managed: extern "C" fn() -> bool,
    is_in_team: extern "C" fn() -> bool,
    processors: extern "C" fn() -> usize,
    largest_team: extern "C" fn() -> usize,
    grant_for: extern "C" fn(usize) -> usize,
    adjust_threads: extern "C" fn(usize) -> usize,
    spin_limit: extern "C" fn() -> u64,
    /// Size, whether it must have that size, where its real size goes; returns the team.
    reserve: unsafe extern "C" fn(usize, bool, *mut usize) -> *mut c_void,
    /// A team from `reserve`, once; what each member calls, and with what.
    run: unsafe extern "C" fn(
        *mut c_void,
        unsafe extern "C" fn(*const c_void, u32, u32),
        *const c_void,
    ),
    needs_unbound: extern "C" fn() -> bool,
    before_exec: extern "C" fn(),
    /// What is called, and with what.
    unbound: unsafe extern "C" fn(unsafe extern "C" fn(*mut c_void), *mut c_void),
}

static TABLE: EngineTable = EngineTable {
    version: VERSION,
    is_managed: table_is_managed,
    is_in_team: table_is_in_team,
    processors: table_processors,
    largest_team: table_largest_team,
    grant_for: table_grant_for,
    adjust_threads: table_adjust_threads,
    spin_limit: table_spin_limit,
    reserve: table_reserve,
    run: table_run,
    needs_unbound: table_needs_unbound,
    before_exec: table_before_exec,
    unbound: table_unbound,
};

extern "C" fn table_is_managed() -> bool {
    engine::is_managed()
}

extern "C" fn table_is_in_team() -> bool {
    Member::current().size > 1
}

extern "C" fn table_processors() -> usize {
    engine::processors()
}

extern "C" fn table_largest_team() -> usize {
    engine::largest_team()
}

extern "C" fn table_grant_for(wanted: usize) -> usize {
    engine::grant_for(wanted)
}

extern "C" fn table_adjust_threads(most: usize) -> usize {
    // What is wrong with the variables was said when this copy was loaded.
    let read = |name: &str| std::env::var(name).ok();
    asat::adjust_threads(most, || asat::Settings::from_environment(&read).0)
}

extern "C" fn table_spin_limit() -> u64 {
    engine::spin_limit()
}

/// # Safety
/// - `size_got` is a place for a number.
unsafe extern "C" fn table_reserve(size: usize, exact: bool, size_got: *mut usize) -> *mut c_void {
    let team =
        if exact { engine::Team::reserve(size) } else { engine::Team::reserve_available(size) };
    // SAFETY: - caller's contract.
    unsafe { size_got.write(team.size()) };
    Box::into_raw(Box::new(team)).cast()
}

/// A younger copy's work.
struct Foreign {
    work: unsafe extern "C" fn(*const c_void, u32, u32),
    data: *const c_void,
}

/// # Safety
/// - `team` comes from [`table_reserve`], on the same thread, once.
/// - `work` takes `data`, may run on many threads at once, and does not unwind.
unsafe extern "C" fn table_run(
    team: *mut c_void,
    work: unsafe extern "C" fn(*const c_void, u32, u32),
    data: *const c_void,
) {
    // SAFETY: - caller's contract.
    let team = unsafe { Box::from_raw(team.cast::<engine::Team>()) };
    let foreign = Foreign { work, data };
    // SAFETY: - `run_foreign` takes a `Foreign`, which lives until the region is joined; the
    // caller's contract for the work.
    unsafe { team.run(run_foreign, ptr::from_ref(&foreign).cast()) };
}

/// # Safety
/// - `data` points to a [`Foreign`].
unsafe fn run_foreign(data: *const (), member: Member) {
    // SAFETY: - caller's contract.
    let foreign = unsafe { &*data.cast::<Foreign>() };
    // SAFETY: - as told to `table_run`.
    unsafe { (foreign.work)(foreign.data, member.id, member.size) };
}

extern "C" fn table_needs_unbound() -> bool {
    engine::needs_unbound()
}

extern "C" fn table_before_exec() {
    engine::before_exec();
}

/// # Safety
/// - `call` takes `data`, and does not unwind.
unsafe extern "C" fn table_unbound(call: unsafe extern "C" fn(*mut c_void), data: *mut c_void) {
    // SAFETY: - caller's contract.
    engine::unbound(|| unsafe { call(data) });
}

std::arch::global_asm!(
    ".pushsection .note.nanos,\"a\",@note",
    ".balign 4",
    ".hidden nanos_omp_note",
    ".globl nanos_omp_note",
    "nanos_omp_note:",
    ".long 6, 4, 1",
    ".asciz \"NANOS\"",
    ".balign 4",
    // From here to the table.
    ".long {table} - .",
    ".popsection",
    table = sym TABLE,
);

unsafe extern "C" {
    /// The note of this copy.
    #[link_name = "nanos_omp_note"]
    static NOTE: [u32; 6];
}

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
        let mut first: *const u32 = ptr::null();
        // SAFETY: - `look_for_note` takes a place for a pointer, and keeps nothing of what it is
        // shown.
        unsafe { libc::dl_iterate_phdr(Some(look_for_note), (&raw mut first).cast()) };
        if first.is_null() || ptr::eq(first, (&raw const NOTE).cast()) {
            return Self::Own;
        }
        // SAFETY: - a note of ours: after header and name stands the distance to the table.
        let place = unsafe { first.add(5) };
        // SAFETY: - as above.
        let table = unsafe { place.cast::<u8>().offset(place.cast::<i32>().read() as isize) }
            .cast::<Older>();
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
        Self::Older(unsafe { &*table })
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

/// Called for each module of the process; ends the list at the first that carries our note.
///
/// # Safety
/// - `info` describes a module, `found` is a place for the note's address.
unsafe extern "C" fn look_for_note(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    found: *mut c_void,
) -> i32 {
    // SAFETY: - caller's contract.
    let info = unsafe { &*info };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: - the loader's list of the module's segments.
    let segments = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let is_mapped = |note: &libc::Elf64_Phdr| {
        segments.iter().any(|load| {
            load.p_type == libc::PT_LOAD
                && load.p_vaddr <= note.p_vaddr
                && note.p_vaddr + note.p_memsz <= load.p_vaddr + load.p_filesz
        })
    };
    // Ours are aligned to 4; notes of other alignments are laid out otherwise.
    for notes in
        segments.iter().filter(|segment| segment.p_type == libc::PT_NOTE && segment.p_align == 4)
    {
        if !is_mapped(notes) {
            continue;
        }
        let begin = (info.dlpi_addr + notes.p_vaddr) as usize;
        // SAFETY: - a segment of words that is mapped, for reading, as all notes are.
        let words = unsafe {
            slice::from_raw_parts(ptr::with_exposed_provenance(begin), notes.p_memsz as usize / 4)
        };
        if let Some(note) = our_note(words) {
            // SAFETY: - caller's contract.
            unsafe { found.cast::<*const u32>().write(note.as_ptr()) };
            return 1;
        }
    }
    0
}

/// The first note of ours among `notes`.
fn our_note(mut notes: &[u32]) -> Option<&[u32]> {
    while let [name_size, data_size, kind, rest @ ..] = notes {
        let (name, data) = ((*name_size as usize).div_ceil(4), (*data_size as usize).div_ceil(4));
        let whole = name.checked_add(data).filter(|whole| *whole <= rest.len())?;
        let is_named = *name_size as usize == NAME.len()
            && rest[..name]
                .iter()
                .flat_map(|word| word.to_ne_bytes())
                .zip(NAME)
                .all(|(a, b)| a == *b);
        if is_named && *kind == TYPE && *data_size == 4 {
            return Some(notes);
        }
        notes = &rest[whole..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_note_is_found_after_others_and_nothing_is_read_past_the_end() {
        let name = [u32::from_ne_bytes(*b"NANO"), u32::from_ne_bytes(*b"S\0\0\0")];
        let gnu = [4, 8, 3, u32::from_ne_bytes(*b"GNU\0"), 1, 2];
        let ours = [6, 4, TYPE, name[0], name[1], 99];
        let both = [&gnu[..], &ours[..]].concat();
        assert_eq!(our_note(&both), Some(&ours[..]));
        assert_eq!(our_note(&gnu), None);
        for end in 0..both.len() {
            assert_eq!(our_note(&both[..end]), None, "{end}");
        }
        assert_eq!(our_note(&[u32::MAX, u32::MAX, 1, 2]), None);
    }
}
