//! Reductions over tasks: `task_reduction`, `in_reduction`, and `reduction(task, ...)` of
//! constructs and regions.
//!
//! Compiled code describes its reductions in arrays of words, chained from inner to outer groups:
//! [`COUNT`] variables, [`SIZE`] bytes of one thread's private copies, [`BASE`] alignment at first
//! and address of all copies once registered, [`NEXT`] array, [`END`] of the copies, and from
//! [`ENTRIES`] on three words for each variable: address of the original, offset in the copies,
//! unused. Word [`HEAD`] is ours: 1 in the first array of a registration.

use crate::frame::Frame;
use crate::process::message;
use crate::task::TaskGroup;
use std::ffi::c_void;
use std::ptr;

const COUNT: usize = 0;
const SIZE: usize = 1;
const BASE: usize = 2;
const NEXT: usize = 4;
const HEAD: usize = 5;
const END: usize = 6;
const ENTRIES: usize = 7;
const ENTRY: usize = 3;

/// One array of words, see the module head.
#[derive(Clone, Copy)]
struct Data(*mut usize);

impl Data {
    fn new(data: *mut usize) -> Option<Self> {
        (!data.is_null()).then_some(Self(data))
    }

    fn get(self, word: usize) -> usize {
        // SAFETY: - compiled code's array, which has `ENTRIES + ENTRY * count` words, all callers
        // stay below.
        unsafe { *self.0.add(word) }
    }

    fn set(self, word: usize, value: usize) {
        // SAFETY: - as in `get`; the array is writable for the runtime.
        unsafe { *self.0.add(word) = value };
    }

    fn next(self) -> Option<Self> {
        Self::new(ptr::with_exposed_provenance_mut(self.get(NEXT)))
    }

    /// The offset of the variable whose original is at `address`.
    fn offset_of(self, address: usize) -> Option<usize> {
        (0..self.get(COUNT))
            .map(|index| ENTRIES + ENTRY * index)
            .find(|entry| self.get(*entry) == address)
            .map(|entry| self.get(entry + 1))
    }

    /// The original of the variable with this offset.
    fn original_at(self, offset: usize) -> Option<usize> {
        (0..self.get(COUNT))
            .map(|index| ENTRIES + ENTRY * index)
            .find(|entry| self.get(entry + 1) == offset)
            .map(|entry| self.get(entry))
    }

    /// Makes private copies, zeroed, for `threads`.
    fn allocate(self, threads: usize) {
        let size = self.get(SIZE).saturating_mul(threads);
        let align = self.get(BASE).max(size_of::<*const c_void>());
        let mut memory = ptr::null_mut();
        // SAFETY: - `memory` is a place for the result.
        let error = unsafe { libc::posix_memalign(&mut memory, align, size.max(1)) };
        if error != 0 {
            message::fatal(&format!(
                "out of memory: {size} bytes for the private copies of a task reduction"
            ));
        }
        // SAFETY: - fresh memory of this size.
        unsafe { ptr::write_bytes(memory.cast::<u8>(), 0, size) };
        self.set(BASE, memory.expose_provenance());
        self.set(END, memory.addr() + size);
    }
}

/// Registers the chain that begins with `data` for a team of `threads`, in front of `outer`. With
/// `first`, the copies that another member registered for the same construct are used.
fn link(data: *mut usize, outer: *mut usize, first: *mut usize, threads: usize) {
    let (mut this, mut model) = (Data::new(data), Data::new(first));
    while let Some(array) = this {
        if let Some(other) = model {
            array.set(BASE, other.get(BASE));
            array.set(END, other.get(END));
            model = other.next();
        } else {
            array.allocate(threads);
        }
        array.set(HEAD, usize::from(ptr::eq(array.0, data)));
        this = array.next();
        if this.is_none() {
            array.set(NEXT, outer.expose_provenance());
        }
    }
}

/// `GOMP_taskgroup_reduction_register`: the current group reduces `data`.
///
/// # Safety
/// - `data` is a chain as the module head describes it, not registered yet.
pub(crate) unsafe fn register(frame: &Frame, data: *mut usize) {
    let Some(group) = frame.task().group() else {
        message::fatal("a task reduction was registered outside any task group");
    };
    let outer = group.outer().map_or(ptr::null_mut(), |outer| outer.reductions.get());
    link(data, outer, ptr::null_mut(), frame.size as usize);
    group.reductions.set(data);
}

/// Registers the reductions of a worksharing construct: the first member (`first` null) makes the
/// copies for all.
///
/// # Safety
/// - As for [`register`]; `first` is null or what the first member registered.
pub(crate) unsafe fn register_construct(frame: &Frame, data: *mut usize, first: *mut usize) {
    let Some(group) = frame.task().group() else {
        message::fatal("a construct's task reduction was registered outside its task group");
    };
    let outer = group.outer().map_or(ptr::null_mut(), |outer| outer.reductions.get());
    link(data, outer, first, frame.size as usize);
    group.reductions.set(data);
    group.of_construct.set(true);
}

/// Registers the reductions of a whole region of `threads` in `group`.
///
/// # Safety
/// - As for [`register`].
pub(crate) unsafe fn register_region(group: &TaskGroup, data: *mut usize, threads: u32) {
    link(data, ptr::null_mut(), ptr::null_mut(), threads as usize);
    group.reductions.set(data);
    group.of_construct.set(true);
}

/// Frees the copies of the registration that begins with `data`.
///
/// # Safety
/// - `data` was registered, and no thread uses its copies any more.
pub(crate) unsafe fn unregister(data: *mut usize) {
    let mut this = Data::new(data);
    while let Some(array) = this {
        // SAFETY: - allocated by `Data::allocate`, freed once (caller's contract).
        unsafe { libc::free(ptr::with_exposed_provenance_mut(array.get(BASE))) };
        this = array.next().filter(|next| next.get(HEAD) == 0);
    }
}

/// `GOMP_task_reduction_remap`: replaces each address in `addresses[..count]`, of an original or of
/// another thread's copy, by that of the calling thread's copy, and writes the first `originals`
/// originals after them.
///
/// # Safety
/// - `addresses` has `count + originals` words.
pub(crate) unsafe fn remap(frame: &Frame, count: usize, originals: usize, addresses: *mut usize) {
    let chain = frame.task().group().map_or(ptr::null_mut(), |group| group.reductions.get());
    for index in 0..count {
        // SAFETY: - caller's contract.
        let place = unsafe { addresses.add(index) };
        // SAFETY: - caller's contract.
        let address = unsafe { *place };
        let Some((array, offset, original)) = find(chain, address) else {
            message::fatal(&format!(
                "no task_reduction, or reduction with the task modifier, matches {address:#x}"
            ));
        };
        let own = array.get(BASE) + frame.id as usize * array.get(SIZE) + offset;
        // SAFETY: - caller's contract.
        unsafe { *place = own };
        if index < originals {
            // SAFETY: - caller's contract.
            unsafe { *addresses.add(count + index) = original };
        }
    }
}

/// The array that reduces `address`, the variable's offset there, and its original.
fn find(chain: *mut usize, address: usize) -> Option<(Data, usize, usize)> {
    let arrays = || std::iter::successors(Data::new(chain), |array| array.next());
    if let Some(found) =
        arrays().find_map(|array| Some((array, array.offset_of(address)?, address)))
    {
        return Some(found);
    }
    let array = arrays().find(|array| (array.get(BASE)..array.get(END)).contains(&address))?;
    let offset = (address - array.get(BASE)) % array.get(SIZE);
    Some((array, offset, array.original_at(offset)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An array with `size` bytes of copies for each thread and these variables.
    fn array(size: usize, variables: &[(usize, usize)]) -> Vec<usize> {
        let mut words = vec![variables.len(), size, 16, usize::MAX, 0, 0, 0];
        for (original, offset) in variables {
            words.extend([*original, *offset, 0]);
        }
        words
    }

    #[test]
    fn copies_are_found_by_original_and_by_any_threads_copy() {
        let mut inner = array(32, &[(0x1000, 0), (0x2000, 16)]);
        let mut outer = array(16, &[(0x3000, 0)]);
        link(outer.as_mut_ptr(), ptr::null_mut(), ptr::null_mut(), 3);
        link(inner.as_mut_ptr(), outer.as_mut_ptr(), ptr::null_mut(), 3);
        let chain = inner.as_mut_ptr();
        let (found, offset, original) = find(chain, 0x2000).expect("inner variable");
        assert_eq!((found.0, offset, original), (chain, 16, 0x2000));
        let copy_of_thread_2 = inner[BASE] + 2 * 32 + 16;
        let (_, offset, original) = find(chain, copy_of_thread_2).expect("inner copy");
        assert_eq!((offset, original), (16, 0x2000));
        assert_eq!(find(chain, 0x3000).expect("outer variable").0.0, outer.as_mut_ptr());
        assert!(find(chain, 0x4000).is_none());
        // SAFETY: both registered above, the inner one first.
        unsafe {
            unregister(chain);
            unregister(outer.as_mut_ptr());
        }
    }

    #[test]
    fn a_second_member_uses_the_copies_of_the_first() {
        let mut first = array(8, &[(0x1000, 0)]);
        let mut second = array(8, &[(0x1000, 0)]);
        link(first.as_mut_ptr(), ptr::null_mut(), ptr::null_mut(), 2);
        link(second.as_mut_ptr(), ptr::null_mut(), first.as_mut_ptr(), 2);
        assert_eq!((first[BASE], first[END]), (second[BASE], second[END]));
        // SAFETY: registered above; `second` shares the memory and must not free it.
        unsafe { unregister(first.as_mut_ptr()) };
    }
}
