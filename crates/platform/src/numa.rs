//! Where the pages of this process are: queries, migrations, and policies for pages to come.
//!
//! Nothing here changes what memory holds. Nodes are the operating system's numbers.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::ptr::NonNull;

use crate::error::{SysError, SysResult, check, check_int};
use crate::mapping::{self, READ_WRITE};

/// Bytes of a page.
pub fn page_bytes() -> usize {
    // SAFETY: - takes a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

/// The node of the processor that the calling thread runs on; 0 when the kernel does not say. A
/// signal handler may call it: it is one system call, and leaves `errno`.
pub fn current_node() -> u32 {
    let _kept = crate::aside::SavedErrno::now();
    let (mut cpu, mut node) = (0u32, 0u32);
    // SAFETY: - both are writable; the third argument is not used by any kernel of ours.
    let result = unsafe {
        libc::syscall(libc::SYS_getcpu, &raw mut cpu, &raw mut node, std::ptr::null::<u8>())
    };
    if result == 0 { node } else { 0 }
}

/// Moves pages of this process to nodes, or without `nodes` tells where they are. `status` has a
/// node or a negative error number for each page that the kernel reached; others keep what they
/// have. Pages that other processes have, too, do not move.
///
/// # Errors
/// The kernel's. Some pages may have moved all the same.
///
/// # Panics
/// The lengths differ.
pub fn move_pages(pages: &[usize], nodes: Option<&[i32]>, status: &mut [i32]) -> SysResult<()> {
    assert_eq!(pages.len(), status.len(), "each page has a status");
    assert!(nodes.is_none_or(|nodes| nodes.len() == pages.len()), "each page has a node");
    const MPOL_MF_MOVE: libc::c_int = 2;
    let nodes = nodes.map_or(std::ptr::null(), <[i32]>::as_ptr);
    // SAFETY: - 0 is this process; the arrays have as many entries as is said. Addresses are only
    // looked up, and to move a page does not change what it holds.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            pages.len(),
            pages.as_ptr(),
            nodes,
            status.as_mut_ptr(),
            MPOL_MF_MOVE,
        )
    };
    // A positive number: so many pages did not move.
    check("move_pages", result).map(drop)
}

/// Where pages come to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// As the thread's policy, or the system's, says.
    Default,
    /// On the nodes, and nowhere else.
    Bind,
    /// On the first of the nodes, while there is room.
    Preferred,
    /// On the nodes in turn.
    Interleave,
    /// On the node of the thread that touches it first, whatever else says otherwise. The kernel's
    /// balancing leaves such pages alone.
    Local,
}

impl Policy {
    fn number(self) -> libc::c_int {
        match self {
            Self::Default => 0,
            Self::Preferred => 1,
            Self::Bind => 2,
            Self::Interleave => 3,
            Self::Local => 4,
        }
    }
}

/// Nodes as the kernel reads them: a word of bits. The kernel takes one bit less than is said.
fn mask(nodes: &[u32]) -> SysResult<(libc::c_ulong, libc::c_ulong)> {
    let mut mask: libc::c_ulong = 0;
    for node in nodes {
        let bit = libc::c_ulong::from(1u8).checked_shl(*node);
        mask |= bit.ok_or(SysError::new("mbind", libc::EINVAL))?;
    }
    Ok((mask, libc::c_ulong::from(libc::c_ulong::BITS) + 1))
}

/// Where pages of these addresses come to be at their first touch. Pages that are there stay.
///
/// # Errors
/// The kernel's: `EINVAL` also for nodes above 63 and addresses that are no multiple of a page's
/// bytes, `EFAULT` where nothing is mapped.
pub fn bind(addresses: Range<usize>, policy: Policy, nodes: &[u32]) -> SysResult<()> {
    let (mask, bits) = mask(nodes)?;
    // SAFETY: - the mask is readable; a policy changes nothing that memory holds.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            addresses.start,
            addresses.len(),
            policy.number(),
            if nodes.is_empty() { std::ptr::null() } else { &raw const mask },
            if nodes.is_empty() { 0 } else { bits },
            0,
        )
    };
    check("mbind", result).map(drop)
}

/// Where pages that the calling thread touches first come to be, where no [`bind`] says it. New
/// threads and programs inherit it.
///
/// # Errors
/// The kernel's.
pub fn set_thread_policy(policy: Policy, nodes: &[u32]) -> SysResult<()> {
    let (mask, bits) = mask(nodes)?;
    // SAFETY: - the mask is readable.
    let result = unsafe {
        libc::syscall(
            libc::SYS_set_mempolicy,
            policy.number(),
            if nodes.is_empty() { std::ptr::null() } else { &raw const mask },
            if nodes.is_empty() { 0 } else { bits },
        )
    };
    check("set_mempolicy", result).map(drop)
}

/// Whether the memory at an address has a policy of its own ([`bind`]), or, without an address, the
/// calling thread ([`set_thread_policy`]). Touches no page.
///
/// # Errors
/// The kernel's: `EFAULT` where nothing is mapped.
pub fn has_policy(address: Option<usize>) -> SysResult<bool> {
    const MPOL_F_ADDR: libc::c_int = 2;
    let mut mode: libc::c_int = 0;
    let flags = if address.is_some() { MPOL_F_ADDR } else { 0 };
    // SAFETY: - the mode is writable, no nodes are asked for, and the address is only looked up.
    let result = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut mode,
            std::ptr::null_mut::<libc::c_ulong>(),
            0,
            address.unwrap_or(0),
            flags,
        )
    };
    check("get_mempolicy", result)?;
    Ok(mode != Policy::Default.number())
}

/// What may be done with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Any access faults.
    None,
    /// To read and to write.
    ReadWrite,
}

/// Changes what may be done with whole pages. A signal handler may call it: it is one system call,
/// and leaves `errno`.
///
/// # Safety
/// - The pages are the caller's: no other part of the process relies on their rights. With
///   [`Protection::None`] each access faults from now on, in every thread, and the caller's handler
///   resolves these faults.
///
/// # Errors
/// `ENOMEM`: nothing is mapped there, or the process would have too many mappings.
pub unsafe fn protect(addresses: Range<usize>, access: Protection) -> SysResult<()> {
    let _kept = crate::aside::SavedErrno::now();
    let rights = match access {
        Protection::None => libc::PROT_NONE,
        Protection::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
    };
    let begin = std::ptr::without_provenance_mut(addresses.start);
    // SAFETY: - the caller's promise.
    check_int("mprotect", unsafe { libc::mprotect(begin, addresses.len(), rights) }).map(drop)
}

/// Fresh memory: whole pages of zeros, unmapped when dropped.
#[derive(Debug)]
pub struct Pages {
    first: NonNull<libc::c_void>,
    bytes: usize,
}

// SAFETY: - plain memory; what is in it is the owner's matter.
unsafe impl Send for Pages {}
// SAFETY: - as above: `Pages` itself gives no reference to it.
unsafe impl Sync for Pages {}

impl Pages {
    /// At least `bytes` bytes.
    ///
    /// # Errors
    /// The kernel's; `EINVAL`: 0 bytes, or too many.
    pub fn map(bytes: usize) -> SysResult<Self> {
        Self::map_as(bytes, libc::MAP_PRIVATE)
    }

    /// The same, shared with the children that are forked later: what one of them writes all see.
    ///
    /// # Errors
    /// As [`Pages::map`].
    pub fn map_shared(bytes: usize) -> SysResult<Self> {
        Self::map_as(bytes, libc::MAP_SHARED)
    }

    fn map_as(bytes: usize, flags: libc::c_int) -> SysResult<Self> {
        let invalid = SysError::new("mmap", libc::EINVAL);
        let bytes = bytes.checked_next_multiple_of(page_bytes()).ok_or(invalid)?;
        let length = NonZeroUsize::new(bytes).ok_or(invalid)?;
        Ok(Self { first: mapping::map(length, READ_WRITE, flags, None)?, bytes })
    }

    /// Its first byte.
    pub fn first(&self) -> NonNull<libc::c_void> {
        self.first
    }

    /// Its addresses.
    pub fn addresses(&self) -> Range<usize> {
        let begin = self.first.addr().get();
        begin..begin + self.bytes
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: - our mapping, to which its owner has no reference any more.
        let result = unsafe { mapping::unmap(self.first, self.bytes) };
        debug_assert_eq!(result, Ok(()), "munmap of a whole mapping");
    }
}

/// Advice on whole pages that changes nothing that they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Make no huge pages of them. Those that are there stay.
    NoHugePages,
    /// Make huge pages of them.
    HugePages,
    /// Have them all there, writable, as if each was written to.
    Populate,
    /// Map those that are there or can be, as if each was read.
    PopulateRead,
}

/// Gives advice on whole pages.
///
/// # Errors
/// The kernel's: `EINVAL`, it does not know the advice; `ENOMEM`, nothing is mapped there;
/// `EFAULT`, the pages cannot be written to.
pub fn advise(addresses: Range<usize>, advice: Advice) -> SysResult<()> {
    let number = match advice {
        Advice::NoHugePages => libc::MADV_NOHUGEPAGE,
        Advice::HugePages => libc::MADV_HUGEPAGE,
        Advice::Populate => libc::MADV_POPULATE_WRITE,
        Advice::PopulateRead => libc::MADV_POPULATE_READ,
    };
    let begin = std::ptr::without_provenance_mut(addresses.start);
    // SAFETY: - none of these changes what memory holds.
    check_int("madvise", unsafe { libc::madvise(begin, addresses.len(), number) }).map(drop)
}

/// Maps those whole pages of shared memory that are there, as if each was read; others stay
/// untouched. Allocates nothing.
///
/// # Errors
/// The kernel's; the pages before are mapped then.
pub fn map_present(addresses: Range<usize>) -> SysResult<()> {
    const MOST: usize = 512;
    let page = page_bytes();
    let mut begin = addresses.start;
    while begin < addresses.end {
        let end = addresses.end.min(begin.saturating_add(MOST * page));
        let mut is_there = [0u8; MOST];
        let first = std::ptr::without_provenance_mut(begin);
        // SAFETY: - one byte for each page of at most `MOST`.
        let result = unsafe { libc::mincore(first, end - begin, is_there.as_mut_ptr()) };
        check_int("mincore", result)?;
        let pages = (end - begin).div_ceil(page);
        let mut next = 0;
        for run in is_there[..pages].chunk_by(|one, other| one & 1 == other & 1) {
            let from = begin + next * page;
            next += run.len();
            if run[0] & 1 == 1 {
                advise(from..from + run.len() * page, Advice::PopulateRead)?;
            }
        }
        begin = end;
    }
    Ok(())
}

/// A range of addresses that is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedRange {
    /// Its addresses.
    pub addresses: Range<usize>,
    /// It may be read and written.
    pub is_writable: bool,
    /// Instructions may be there.
    pub is_executable: bool,
    /// Other processes may have it, too.
    pub is_shared: bool,
}

/// The mappings of this process that touch these addresses, ascending.
///
/// # Errors
/// `/proc` is not there, or not as documented.
pub fn mappings(addresses: Range<usize>) -> std::io::Result<Vec<MappedRange>> {
    let text = crate::file::text("/proc/self/maps")?;
    let mut found = Vec::new();
    for line in text.lines() {
        let garbage = || std::io::Error::new(std::io::ErrorKind::InvalidData, line.to_owned());
        let mut words = line.split_ascii_whitespace();
        let (range, rights) =
            (words.next().ok_or_else(garbage)?, words.next().ok_or_else(garbage)?);
        let (begin, end) = range.split_once('-').ok_or_else(garbage)?;
        let number = |text| usize::from_str_radix(text, 16).map_err(|_| garbage());
        let range = number(begin)?..number(end)?;
        if range.start < addresses.end && addresses.start < range.end {
            found.push(MappedRange {
                addresses: range,
                is_writable: rights.starts_with("rw"),
                is_executable: rights.as_bytes().get(2) == Some(&b'x'),
                is_shared: rights.ends_with('s'),
            });
        }
    }
    Ok(found)
}

/// Bytes of huge pages in the mappings that touch these addresses.
///
/// # Errors
/// `/proc` is not there, or hides it.
pub fn huge_bytes(addresses: Range<usize>) -> std::io::Result<usize> {
    let text = crate::file::text("/proc/self/smaps")?;
    let (mut is_within, mut bytes) = (false, 0);
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or("");
        if let Some((begin, end)) = first.split_once('-') {
            let number = |text| usize::from_str_radix(text, 16);
            if let (Ok(begin), Ok(end)) = (number(begin), number(end)) {
                is_within = begin < addresses.end && addresses.start < end;
            }
        } else if is_within && ["AnonHugePages:", "ShmemPmdMapped:"].contains(&first) {
            let kib: usize = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            bytes += kib << 10;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_touched_page_is_on_a_node_and_can_be_asked_to_stay_there() {
        let page = page_bytes();
        let memory = vec![1u8; 3 * page];
        let address = memory.as_ptr().addr().next_multiple_of(page);
        let mut status = [i32::MIN];
        if let Err(error) = move_pages(&[address], None, &mut status) {
            return crate::skip!("this system refuses: {error}");
        }
        assert!(status[0] >= 0, "{status:?}");
        let node = status;
        move_pages(&[address], Some(&node), &mut status).unwrap();
        assert_eq!((status, memory[0]), (node, 1));
    }

    #[test]
    fn mappings_have_rights_and_holes() {
        let page = page_bytes();
        let memory = vec![1u8; page];
        let begin = memory.as_ptr().addr();
        let found = mappings(begin..begin + page).unwrap();
        assert!(!found.is_empty() && found.iter().all(|mapping| mapping.is_writable), "{found:?}");
        let code = mappings_have_rights_and_holes as *const () as usize;
        let found = mappings(code..code + 1).unwrap();
        assert!(found[0].is_executable && !found[0].is_writable, "{found:?}");
        assert_eq!(mappings(8..16).unwrap(), []);
    }

    #[test]
    fn pages_of_shared_memory_that_are_there_are_mapped_and_others_stay_untouched() {
        let page = page_bytes();
        let pages = Pages::map_shared(700 * page).unwrap();
        let touched = [0, 1, 3, 511, 512, 699];
        for index in touched {
            let byte = pages.first().as_ptr().cast::<u8>().wrapping_add(index * page);
            // SAFETY: - a byte of the test's memory.
            unsafe { byte.write_volatile(1) };
        }
        let begin = pages.addresses().start;
        // SAFETY: - shared memory keeps its pages; the test alone uses them.
        let unmapped = unsafe {
            let first = pages.first().as_ptr();
            libc::madvise(first, pages.addresses().len(), libc::MADV_DONTNEED)
        };
        assert_eq!(unmapped, 0);
        map_present(pages.addresses()).unwrap();
        let all: Vec<usize> = pages.addresses().step_by(page).collect();
        let mut status = vec![i32::MIN; all.len()];
        if let Err(error) = move_pages(&all, None, &mut status) {
            return crate::skip!("this system does not say where pages are: {error}");
        }
        let found: Vec<usize> = (0..700).filter(|index| status[*index] >= 0).collect();
        assert_eq!(found, touched, "from {begin:#x}");
    }

    #[test]
    fn a_policy_of_memory_is_seen_and_is_not_that_of_its_thread() {
        let pages = Pages::map(2 * page_bytes()).unwrap();
        let (begin, middle) = (pages.addresses().start, pages.addresses().start + page_bytes());
        let seen = match has_policy(Some(begin)) {
            Ok(seen) => seen,
            Err(error) => return crate::skip!("this system does not tell of policies: {error}"),
        };
        assert!(!seen);
        bind(begin..middle, Policy::Local, &[]).unwrap();
        assert_eq!((has_policy(Some(begin)), has_policy(Some(middle))), (Ok(true), Ok(false)));
        // A thread's policy ends with it.
        let of_thread = std::thread::spawn(move || {
            set_thread_policy(Policy::Local, &[]).unwrap();
            (has_policy(None), has_policy(Some(middle)))
        });
        assert_eq!(of_thread.join().unwrap(), (Ok(true), Ok(false)));
        bind(begin..middle, Policy::Default, &[]).unwrap();
        assert_eq!(has_policy(Some(begin)), Ok(false));
        drop(pages);
        assert!(has_policy(Some(8)).unwrap_err().is(libc::EFAULT));
    }

    #[test]
    fn nodes_beyond_a_word_are_refused() {
        assert!(bind(0..0, Policy::Bind, &[64]).unwrap_err().is(libc::EINVAL));
    }
}
