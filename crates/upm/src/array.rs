//! Arrays in pages of their own, placed by a scheme: what a program's hot arrays should be.
//!
//! # Invariants
//! I1  The memory is mapped while the array or an engine that watches it lives: both hold it.
//! I2  Pages are small ones and have a policy of their own, so that neither huge pages nor the
//!     kernel's balancing move several at once or against the engine.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use platform::numa::{self, Advice, Pages};
use platform::{SysError, SysResult};

use crate::mover::KernelMover;
use crate::placement::{self, Placed, Placement};
use crate::topology::Topology;

/// Plain numbers: zeros are a value, and nothing is to be dropped.
///
/// # Safety
/// - All bytes zero are a value of the type, which is `Copy` and holds no reference.
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

macro_rules! plain {
    ($($number:ty)*) => {
        $(
            // SAFETY: - a number.
            unsafe impl Plain for $number {}
        )*
    };
}
plain!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

// SAFETY: - as its elements.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// An array of zeros at first. Derefs to a slice.
///
/// # Costs
/// To make one is a mapping and two or three system calls; its pages come at their first touch, a
/// fault for each of 4 KiB, as it has no huge pages. With [`Placement::Random`] all of them are
/// touched and most are moved, 1 to 15 us each. To use it costs what a slice does.
pub struct HotArray<T> {
    pages: Arc<Pages>,
    length: usize,
    placed: Placed,
    _owns: PhantomData<T>,
}

impl<T: Plain> HotArray<T> {
    /// `length` zeros, their pages placed by the scheme.
    ///
    /// # Errors
    /// No memory, or the kernel refuses the policy. `EINVAL`: no element, one that has to be
    /// aligned to more than a page, or a node without memory.
    pub fn zeroed(
        length: usize,
        placement: Placement,
        topology: &(impl Topology + Clone),
    ) -> SysResult<Self> {
        Self::on(Pages::map(Self::bytes(length)?)?, length, placement, topology)
    }

    /// The same in memory that is shared with children that are forked later: what they write, all
    /// see. Guards and userfaults need it
    /// ([`TrapSource::by_guards`](crate::source::TrapSource::by_guards)).
    ///
    /// # Errors
    /// As [`HotArray::zeroed`].
    pub fn shared(
        length: usize,
        placement: Placement,
        topology: &(impl Topology + Clone),
    ) -> SysResult<Self> {
        Self::on(Pages::map_shared(Self::bytes(length)?)?, length, placement, topology)
    }

    fn bytes(length: usize) -> SysResult<usize> {
        let bytes = length.checked_mul(mem::size_of::<T>()).filter(|bytes| *bytes > 0);
        // The mapping begins with a page, and no further.
        let bytes = bytes.filter(|_| mem::align_of::<T>() <= numa::page_bytes());
        bytes.ok_or(SysError::new("mmap", libc::EINVAL))
    }

    fn on(
        pages: Pages,
        length: usize,
        placement: Placement,
        topology: &(impl Topology + Clone),
    ) -> SysResult<Self> {
        let addresses = pages.addresses();
        // A kernel without huge pages does not know the advice.
        let _small = numa::advise(addresses.clone(), Advice::NoHugePages);
        let mut mover = KernelMover::new(topology.clone());
        // SAFETY: - a fresh mapping, which nothing else knows.
        let placed = unsafe { placement::place(addresses, placement, topology, &mut mover) }?;
        Ok(Self { pages: Arc::new(pages), length, placed, _owns: PhantomData })
    }

    /// How many pages the scheme could place.
    pub fn placed(&self) -> Placed {
        self.placed
    }

    /// The addresses of its elements.
    pub fn addresses(&self) -> Range<usize> {
        let begin = self.pages.addresses().start;
        begin..begin + self.length * mem::size_of::<T>()
    }

    /// The memory, to keep it mapped (I1).
    pub(crate) fn memory(&self) -> Arc<Pages> {
        self.pages.clone()
    }

    fn first(&self) -> NonNull<T> {
        self.pages.first().cast()
    }
}

impl<T: Plain> Deref for HotArray<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: - `length` elements of our mapping, zeros or written through `deref_mut`; pages
        // are aligned for the type (`bytes`).
        unsafe { slice::from_raw_parts(self.first().as_ptr(), self.length) }
    }
}

impl<T: Plain> DerefMut for HotArray<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: - as above; borrowed mutably, and an engine that watches it holds no reference
        // to an element.
        unsafe { slice::from_raw_parts_mut(self.first().as_ptr(), self.length) }
    }
}

impl<T> fmt::Debug for HotArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HotArray")
            .field("addresses", &self.pages.addresses())
            .field("length", &self.length)
            .field("placed", &self.placed)
            .finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::topology::TableTopology;

    #[derive(Clone, Copy)]
    #[repr(align(131072))]
    struct Wide(#[allow(dead_code, reason = "only its alignment counts")] u8);

    // SAFETY: - a number.
    unsafe impl Plain for Wide {}

    #[test]
    fn what_a_page_cannot_hold_aligned_and_nothing_are_no_arrays() {
        let topology = TableTopology::new(1, &[]).unwrap();
        let first = Placement::FirstTouch;
        let wide = HotArray::<Wide>::zeroed(1, first, &topology).unwrap_err();
        assert!(wide.is(libc::EINVAL));
        for length in [0, usize::MAX] {
            let refused = HotArray::<u64>::zeroed(length, first, &topology).unwrap_err();
            assert!(refused.is(libc::EINVAL), "{length}");
        }
    }
}
