//! Target constructs, on the host: there is no device.

use crate::body::Body;
use crate::frame;
use crate::process::message;
use crate::region::league;
use crate::task::{Dependence, TaskRequest};
use crate::tasking;
use std::alloc::Layout;
use std::ffi::{c_int, c_uint, c_ushort, c_void};
use std::ptr;

/// Waits for what the `depend` clauses of a target construct name.
///
/// # Safety
/// - `depend` is null or the compiled code's list.
unsafe fn await_dependences(depend: *mut *mut c_void) {
    if !depend.is_null() {
        // SAFETY: caller's contract.
        tasking::wait_for_predecessors(frame::current(), &unsafe {
            super::tasks::dependences(depend)
        });
    }
}

/// As [`await_dependences`]; with the nowait clause the construct is a task of its own, which waits
/// for them in the encountering thread's place: they may include an event that this thread will
/// fulfill.
///
/// # Safety
/// - As for [`await_dependences`].
unsafe fn follow_dependences(flags: c_uint, depend: *mut *mut c_void) {
    unsafe extern "C" fn nothing(_data: *mut c_void) {}
    if flags & NOWAIT == 0 {
        // SAFETY: caller's contract.
        unsafe { await_dependences(depend) };
    } else if !depend.is_null() {
        // SAFETY: caller's contract.
        let dependences = unsafe { super::tasks::dependences(depend) };
        let data = ptr::dangling_mut::<u8>().cast();
        tasking::create(
            frame::current(),
            &target_task(nothing, data, None, Layout::new::<()>(), &dependences),
        );
    }
}

/// A deferrable task without clauses but these.
fn target_task(
    body: Body,
    data: *mut c_void,
    copy: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    block: Layout,
    dependences: &[Dependence],
) -> TaskRequest<'_> {
    let (deferrable, is_final, priority, event, bounds) = (true, false, 0, None, None);
    TaskRequest {
        body,
        data,
        copy,
        block,
        deferrable,
        is_final,
        priority,
        dependences,
        event,
        bounds,
    }
}

/// The kind of a mapping that gives the region its own copy.
const FIRSTPRIVATE: c_ushort = 12;
/// The nowait clause among the flags of a target construct.
const NOWAIT: c_uint = 1;

/// A layout that the program's variables have.
fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap_or_else(|_| too_large())
}

/// The layout of `one` followed by `other`, and where `other` begins.
fn behind(one: Layout, other: Layout) -> (Layout, usize) {
    one.extend(other).unwrap_or_else(|_| too_large())
}

#[cold]
fn too_large() -> ! {
    message::fatal("the firstprivate variables of a target construct are larger than memory can be")
}

/// A target region. In a block of its own the addresses stand after it, and then the firstprivate
/// variables.
#[repr(C)]
struct TargetRegion {
    body: Body,
    count: usize,
    addresses: *mut *mut c_void,
    /// Read only where the region is made: later the compiled code's lists may be gone.
    sizes: *const usize,
    kinds: *const c_ushort,
    /// The thread_limit clause, or 0.
    threads: u32,
}

impl TargetRegion {
    /// Index and layout of each firstprivate variable. One without an address is an optional
    /// argument that is absent, and stays so.
    ///
    /// # Safety
    /// - The lists have `count` items.
    unsafe fn private(&self) -> impl Iterator<Item = (usize, Layout)> {
        (0..self.count).filter_map(|index| {
            // SAFETY: caller's contract. The high bits are the logarithm of the alignment.
            let (kind, size) = unsafe { (*self.kinds.add(index), *self.sizes.add(index)) };
            // SAFETY: caller's contract.
            let is_there = unsafe { !(*self.addresses.add(index)).is_null() };
            let align = 1_usize << (kind >> 8).min(12);
            (kind & 0xff == FIRSTPRIVATE && is_there).then(|| (index, layout(size, align)))
        })
    }

    /// The layout of the region's block.
    ///
    /// # Safety
    /// - The lists have `count` items.
    unsafe fn block(&self) -> Layout {
        // SAFETY: caller's contract.
        unsafe { self.private() }
            .fold(self.head().0, |block, (_, variable)| behind(block, variable).0)
    }

    /// The layout of the region with its addresses, and where these begin.
    fn head(&self) -> (Layout, usize) {
        behind(
            Layout::new::<Self>(),
            layout(self.count.saturating_mul(size_of::<usize>()), align_of::<usize>()),
        )
    }

    /// Makes the block's region from the compiled code's.
    ///
    /// # Safety
    /// - `block` has the layout of `region`'s block, and `region` points to a region whose lists
    ///   have `count` items, and whose addresses are those of variables of these sizes.
    unsafe extern "C" fn copy(block: *mut c_void, region: *mut c_void) {
        let block = block.cast::<u8>();
        // SAFETY: caller's contract.
        let region = unsafe { &*region.cast::<Self>() };
        let (mut end, list) = region.head();
        // SAFETY: caller's contract: the list and the variables stand in the block, one after the
        // other.
        unsafe {
            let own = block.add(list).cast::<*mut c_void>();
            ptr::copy_nonoverlapping(region.addresses, own, region.count);
            for (index, variable) in region.private() {
                let place;
                (end, place) = behind(end, variable);
                ptr::copy_nonoverlapping(
                    (*region.addresses.add(index)).cast::<u8>(),
                    block.add(place),
                    variable.size(),
                );
                own.add(index).write(block.add(place).cast());
            }
            block.cast::<Self>().write(Self { addresses: own, ..*region });
        }
    }

    /// # Safety
    /// - `region` points to a region whose variables are there.
    unsafe extern "C" fn run(region: *mut c_void) {
        // SAFETY: caller's contract.
        let region = unsafe { &*region.cast::<Self>() };
        league::target(region.body, region.addresses.cast(), region.threads);
    }
}

/// The thread_limit clause among the arguments of a target construct, or 0.
///
/// # Safety
/// - `list` is null or the compiled code's list, which ends with a null.
unsafe fn thread_limit(list: *mut *mut c_void) -> u32 {
    const VALUE_FOLLOWS: usize = 1 << 7;
    const ID: usize = 0xff << 8;
    const THREAD_LIMIT: usize = 2 << 8;
    if list.is_null() {
        return 0;
    }
    let mut index = 0;
    loop {
        // SAFETY: caller's contract: not past the null.
        let word = unsafe { *list.add(index) }.addr();
        if word == 0 {
            return 0;
        }
        let follows = word & VALUE_FOLLOWS != 0;
        // SAFETY: caller's contract: the flag says that a value follows.
        let value = if follows { unsafe { *list.add(index + 1) }.addr() } else { word >> 16 };
        if word & ID == THREAD_LIMIT {
            return u32::try_from(value).unwrap_or(u32::MAX);
        }
        index += 1 + usize::from(follows);
    }
}

/// `target`.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_target_ext(
    device: c_int,
    body: Body,
    count: usize,
    addresses: *mut *mut c_void,
    sizes: *mut usize,
    kinds: *mut c_ushort,
    flags: c_uint,
    depend: *mut *mut c_void,
    arguments: *mut *mut c_void,
) {
    let frame = frame::current();
    league::require(frame, device);
    // SAFETY: the compiled code's list.
    let threads = unsafe { thread_limit(arguments) };
    let mut region = TargetRegion { body, count, addresses, sizes, kinds, threads };
    let data = (&raw mut region).cast();
    // SAFETY: the compiled code's lists.
    let block = unsafe { region.block() };
    if flags & NOWAIT != 0 {
        let dependences = if depend.is_null() {
            Vec::new()
        } else {
            // SAFETY: - the compiled code's list, not null.
            unsafe { super::tasks::dependences(depend) }
        };
        return tasking::create(
            frame,
            &target_task(TargetRegion::run, data, Some(TargetRegion::copy), block, &dependences),
        );
    }
    // SAFETY: the compiled code's lists.
    unsafe { await_dependences(depend) };
    tasking::with_block(block, |block| {
        // SAFETY: a fresh block of this layout; the variables are there while the region runs.
        unsafe {
            TargetRegion::copy(block, data);
            TargetRegion::run(block);
        }
    });
}

/// `target` of gcc 4.9.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_target(
    device: c_int,
    body: Body,
    _unused: *const c_void,
    _count: usize,
    addresses: *mut *mut c_void,
    _sizes: *mut usize,
    _kinds: *mut u8,
) {
    league::require(frame::current(), device);
    league::target(body, addresses.cast(), 0);
}

/// Defines entry points that bring data to a device or back: here the data are in their place.
macro_rules! in_place {
    ($($(#[$about:meta])* $name:ident($($list:ty),*);)*) => {$(
        $(#[$about])*
        #[unsafe(no_mangle)]
        extern "C" fn $name(device: c_int, $(_: $list),*) {
            league::require(frame::current(), device);
        }
    )*};
    (after dependences: $($(#[$about:meta])* $name:ident($($list:ty),*);)*) => {$(
        $(#[$about])*
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            device: c_int,
            $(_: $list,)*
            flags: c_uint,
            depend: *mut *mut c_void,
        ) {
            league::require(frame::current(), device);
            // SAFETY: - the compiled code's list.
            unsafe { follow_dependences(flags, depend) };
        }
    )*};
}

in_place! {
    /// `target data`.
    GOMP_target_data_ext(usize, *mut *mut c_void, *mut usize, *mut c_ushort);
    /// `target data` of gcc 4.9.
    GOMP_target_data(*const c_void, usize, *mut *mut c_void, *mut usize, *mut u8);
    /// `target update` of gcc 4.9.
    GOMP_target_update(*const c_void, usize, *mut *mut c_void, *mut usize, *mut u8);
}

in_place! {
    after dependences:
    /// `target update`.
    GOMP_target_update_ext(usize, *mut *mut c_void, *mut usize, *mut c_ushort);
    /// `target enter data`, `target exit data`.
    GOMP_target_enter_exit_data(usize, *mut *mut c_void, *mut usize, *mut c_ushort);
}

/// Defines entry points that have nothing to do.
macro_rules! ignored {
    ($($(#[$about:meta])* $name:ident($($argument:ty),*);)*) => {$(
        $(#[$about])*
        #[unsafe(no_mangle)]
        extern "C" fn $name($(_: $argument),*) {}
    )*};
}

ignored! {
    /// The end of `target data`.
    GOMP_target_end_data();
    /// Constructors of offload images register them: there is no device to load them to.
    GOMP_offload_register(*const c_void, c_int, *const c_void);
    /// The same with a version.
    GOMP_offload_register_ver(c_uint, *const c_void, c_int, *const c_void);
    /// The end of an image.
    GOMP_offload_unregister(*const c_void, c_int, *const c_void);
    /// The same with a version.
    GOMP_offload_unregister_ver(c_uint, *const c_void, c_int, *const c_void);
}
