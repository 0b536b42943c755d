//! The closure of a nano-thread: a plain one's beside its descriptor, in the same memory; that of
//! a described one in a [`Body`], which has room for small ones.

use crate::tasks::pool::class_of;
use std::alloc::Layout;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, align_of, size_of};

/// Words of captures that are stored inline.
const INLINE: usize = 6;

type Words = [usize; INLINE];

/// A closure that is called once with a pointer to its context, or dropped.
pub(crate) struct Body {
    /// `None`: there is no closure, or it is gone.
    calls: Option<&'static WordCalls>,
    words: MaybeUninit<Words>,
}

/// What can be done with a closure, once: in a table, so that a body has one word for it.
struct WordCalls {
    call: unsafe fn(*mut Words, *const ()),
    discard: unsafe fn(*mut Words),
}

/// What can be done with a closure beside a `T`, once, given that; and their memory.
pub(crate) struct Calls<T> {
    pub(crate) call: unsafe fn(*mut T, *const ()),
    pub(crate) discard: unsafe fn(*mut T),
    /// An allocation for both and nothing else.
    pub(crate) layout: Layout,
    /// Bytes of it before the `T`.
    pub(crate) before: usize,
}

/// A closure `F` beside a `T`: after it, or, where it is aligned to more, before it, so that there
/// is no gap.
pub(crate) struct Beside<T, F>(PhantomData<(T, F)>);

impl<T, F> Beside<T, F> {
    const IS_AFTER: bool = align_of::<F>() <= align_of::<T>();

    /// The class of a place for both; `None`: they need an allocation of their own.
    pub(crate) const CLASS: Option<usize> =
        if Self::IS_AFTER { class_of(size_of::<F>()) } else { None };

    const LAYOUT: Layout = {
        let align = if Self::IS_AFTER { align_of::<T>() } else { align_of::<F>() };
        match Layout::from_size_align(size_of::<T>() + size_of::<F>(), align) {
            Ok(layout) => layout,
            Err(_) => panic!("a closure that is too large for any memory"),
        }
    };

    /// Where the closure is.
    ///
    /// # Safety
    /// - `beside` has this closure, or room for it, beside it.
    #[inline]
    pub(crate) unsafe fn closure(beside: *mut T) -> *mut F {
        if Self::IS_AFTER {
            // A `T`'s size is a multiple of its alignment, and so of the closure's.
            // SAFETY: - caller's contract.
            unsafe { beside.add(1).cast() }
        } else {
            // A closure's size is a multiple of its alignment, and so of a `T`'s.
            // SAFETY: - caller's contract.
            unsafe { beside.cast::<F>().byte_sub(size_of::<F>()) }
        }
    }

    /// # Safety
    /// - `beside` has an `F` beside it, which nothing uses afterwards.
    unsafe fn discard(beside: *mut T) {
        // SAFETY: - caller's contract.
        unsafe { Self::closure(beside).drop_in_place() };
    }
}

impl<T: 'static, F: FnOnce(*const ())> Beside<T, F> {
    pub(crate) const CALLS: &'static Calls<T> = &Calls {
        call: Self::call,
        discard: Self::discard,
        layout: Self::LAYOUT,
        before: if Self::IS_AFTER { 0 } else { size_of::<F>() },
    };

    /// # Safety
    /// - `beside` has an `F` beside it, which nothing uses afterwards; `context` is as it expects.
    unsafe fn call(beside: *mut T, context: *const ()) {
        // Without a variable: unoptimized, that is one more copy on the nano-thread's stack.
        // SAFETY: - caller's contract.
        (unsafe { Self::closure(beside).read() })(context);
    }
}

/// Tables for a closure `F`.
struct Of<F>(PhantomData<F>);

impl<F: FnOnce(*const ())> Of<F> {
    const INLINE: &'static WordCalls =
        &WordCalls { call: call_inline::<F>, discard: discard_inline::<F> };
    const BOXED: &'static WordCalls =
        &WordCalls { call: call_boxed::<F>, discard: discard_boxed::<F> };
}

// SAFETY: - `new` takes only `Send` closures; the words hold one, or the box of one.
unsafe impl Send for Body {}

const fn fits<F>() -> bool {
    size_of::<F>() <= size_of::<Words>() && align_of::<F>() <= align_of::<Words>()
}

impl Body {
    /// Stores `closure`, whose argument points to the context that it runs in.
    ///
    /// # Safety
    /// - The body is called or dropped before anything that the closure borrows ends.
    pub(crate) unsafe fn new<F: FnOnce(*const ()) + Send>(closure: F) -> Self {
        let mut words = MaybeUninit::<Words>::uninit();
        let calls = if fits::<F>() {
            // SAFETY: - size and alignment were checked; nothing is overwritten.
            unsafe { words.as_mut_ptr().cast::<F>().write(closure) };
            Of::<F>::INLINE
        } else {
            let boxed = Box::into_raw(Box::new(closure));
            // SAFETY: - a thin pointer is one word.
            unsafe { words.as_mut_ptr().cast::<*mut F>().write(boxed) };
            Of::<F>::BOXED
        };
        Self { calls: Some(calls), words }
    }

    /// Calls the closure, which is gone then, also when it panics.
    ///
    /// # Safety
    /// - `context` is what the closure expects. Neither `call` nor `discard` was called before.
    #[inline]
    pub(crate) unsafe fn call(&mut self, context: *const ()) {
        // The closure moves out of `words` below: nothing is left to drop.
        let Some(calls) = self.calls.take() else { return };
        // SAFETY: - `calls` belong to what `words` hold, which is called once; the context is the
        // caller's contract.
        unsafe { (calls.call)(self.words.as_mut_ptr(), context) };
    }
}

impl Body {
    /// Drops the closure, unless it was called.
    pub(crate) fn discard(&mut self) {
        // What is dropped here must not be dropped again, also when that panics.
        let Some(calls) = self.calls.take() else { return };
        // SAFETY: - `calls` belong to what `words` hold; `call` took them when that was moved out.
        unsafe { (calls.discard)(self.words.as_mut_ptr()) };
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.discard();
    }
}

/// # Safety
/// - `words` hold an `F`, which nothing uses afterwards; `context` is what it expects.
unsafe fn call_inline<F: FnOnce(*const ())>(words: *mut Words, context: *const ()) {
    // SAFETY: - caller's contract.
    let closure = unsafe { words.cast::<F>().read() };
    closure(context);
}

/// # Safety
/// - `words` hold a pointer from `Box<F>`, which nothing uses afterwards; `context` is what the
///   closure expects.
unsafe fn call_boxed<F: FnOnce(*const ())>(words: *mut Words, context: *const ()) {
    // SAFETY: - caller's contract.
    let pointer = unsafe { words.cast::<*mut F>().read() };
    // SAFETY: - made by `Box::into_raw` in `new`.
    let closure = unsafe { Box::from_raw(pointer) };
    closure(context);
}

/// # Safety
/// - `words` hold an `F`, which nothing uses afterwards.
unsafe fn discard_inline<F>(words: *mut Words) {
    // SAFETY: - caller's contract.
    unsafe { words.cast::<F>().drop_in_place() };
}

/// # Safety
/// - `words` hold a pointer from `Box<F>`, which nothing uses afterwards.
unsafe fn discard_boxed<F>(words: *mut Words) {
    // SAFETY: - caller's contract.
    let pointer = unsafe { words.cast::<*mut F>().read() };
    // SAFETY: - made by `Box::into_raw` in `new`.
    drop(unsafe { Box::from_raw(pointer) });
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::ptr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// A closure over `ballast`, small or large, that counts its calls.
    fn counting<const N: usize>(calls: &Arc<AtomicUsize>) -> Body {
        let (calls, ballast) = (Arc::clone(calls), [1_usize; N]);
        // SAFETY: - the closure borrows nothing.
        unsafe {
            Body::new(move |_| {
                calls.fetch_add(ballast.iter().sum(), Relaxed);
            })
        }
    }

    fn check<const N: usize>() {
        let calls = Arc::new(AtomicUsize::new(0));
        // SAFETY: - the closure ignores its context.
        unsafe { counting::<N>(&calls).call(ptr::null()) };
        drop(counting::<N>(&calls));
        assert_eq!(calls.load(Relaxed), N, "called once, not when dropped");
        assert_eq!(Arc::strong_count(&calls), 1, "captures are dropped once each");
    }

    #[test]
    fn small_and_large_captures_are_called_or_dropped_exactly_once() {
        check::<1>();
        check::<5>();
        check::<6>();
        check::<40>();
    }

    #[test]
    fn over_aligned_captures_are_boxed() {
        #[repr(align(64))]
        struct Wide(u8);
        let wide = Wide(7);
        // SAFETY: - the closure borrows nothing.
        let mut body = unsafe {
            Body::new(move |_| {
                let wide = &wide;
                assert_eq!((wide.0, ptr::from_ref(wide).addr() % 64), (7, 0));
            })
        };
        // SAFETY: - the closure ignores its context.
        unsafe { body.call(ptr::null()) };
    }

    #[test]
    fn captures_of_a_closure_that_panics_are_dropped_once() {
        let held = Arc::new(());
        let inside = Arc::clone(&held);
        // SAFETY: - the closure borrows nothing.
        let mut body = unsafe {
            Body::new(move |_| {
                let _inside = inside;
                panic!("planted");
            })
        };
        // SAFETY: - the closure ignores its context.
        let caught = catch_unwind(AssertUnwindSafe(|| unsafe { body.call(ptr::null()) }));
        assert!(caught.is_err());
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
