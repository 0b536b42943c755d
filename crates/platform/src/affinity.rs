//! Sets of processors and the affinity masks of threads, for machines of any size (no
//! 1024-processor limit).

use std::fmt;

use crate::aside::SavedErrno;
use crate::error::{SysResult, check};

/// The operating system's number of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId(pub u32);

impl CpuId {
    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The kernel's number of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid(pub i32);

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A set of processors: a bitmap that grows.
///
/// ```
/// use platform::affinity::{CpuId, CpuSet};
/// # use nanothreads_platform as platform;
/// let set = CpuSet::parse_list("0-3,8")?;
/// assert_eq!(set.len(), 5);
/// assert_eq!(set.first(), Some(CpuId(0)));
/// assert_eq!(set.to_string(), "0-3,8");
/// # Ok::<(), platform::affinity::CpuListError>(())
/// ```
// Invariant C1: the last word is never 0, so that equal sets have equal words.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    words: Vec<u64>,
}

const WORD_BITS: u32 = u64::BITS;

impl CpuSet {
    /// Processor numbers are below this: eight times what any kernel supports (`CONFIG_NR_CPUS` <=
    /// 8192), and small enough that a wrong number cannot take the memory.
    pub const LIMIT: u32 = 1 << 16;

    /// The empty set.
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// The set of one processor.
    ///
    /// # Panics
    /// When the number is not below [`CpuSet::LIMIT`].
    pub fn single(cpu: CpuId) -> Self {
        let mut set = Self::new();
        set.insert(cpu);
        set
    }

    /// The processors `0..count`.
    ///
    /// # Panics
    /// When `count` is above [`CpuSet::LIMIT`].
    pub fn first_n(count: u32) -> Self {
        (0..count).map(CpuId).collect()
    }

    /// A set from a bitmap: bit `b` of word `w` is processor `64 w + b`.
    ///
    /// # Panics
    /// When a set bit is not below [`CpuSet::LIMIT`].
    pub fn from_words(words: &[u64]) -> Self {
        let mut set = Self { words: words.to_vec() };
        set.trim();
        assert!(
            set.words.len() <= (Self::LIMIT / WORD_BITS) as usize,
            "processor number above {}",
            Self::LIMIT
        );
        set
    }

    /// The bitmap, without zero words at its end.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Reads the kernel's list format: `0-3,8`, and groups as `0-31:2/8` (the first 2 of each 8).
    /// An empty text is the empty set; blanks around items are ignored.
    ///
    /// # Errors
    /// Names the item that is not a number, range or group, or is out of bounds.
    pub fn parse_list(text: &str) -> Result<Self, CpuListError> {
        let mut set = Self::new();
        if text.trim().is_empty() {
            return Ok(set);
        }
        for item in text.split(',') {
            let group = ListItem::parse(item.trim()).map_err(|reason| CpuListError {
                text: text.trim().to_owned(),
                item: item.trim().to_owned(),
                reason,
            })?;
            (group.low..=group.high)
                .filter(|cpu| (cpu - group.low) % group.stride < group.used)
                .for_each(|cpu| set.insert_below_limit(CpuId(cpu)));
        }
        Ok(set)
    }

    /// Adds a processor; true when it was not yet in the set.
    ///
    /// # Panics
    /// When the number is not below [`CpuSet::LIMIT`].
    pub fn insert(&mut self, cpu: CpuId) -> bool {
        assert!(cpu.0 < Self::LIMIT, "processor number {cpu} is not below {}", Self::LIMIT);
        let added = !self.contains(cpu);
        self.insert_below_limit(cpu);
        added
    }

    fn insert_below_limit(&mut self, cpu: CpuId) {
        let (word, bit) = position(cpu);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= bit;
    }

    /// Takes a processor out; true when it was in the set.
    pub fn remove(&mut self, cpu: CpuId) -> bool {
        let was_in = self.contains(cpu);
        if was_in {
            let (word, bit) = position(cpu);
            self.words[word] &= !bit;
            self.trim();
        }
        was_in
    }

    /// True when the processor is in the set.
    pub fn contains(&self, cpu: CpuId) -> bool {
        let (word, bit) = position(cpu);
        self.words.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// How many processors there are.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// True without processors.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The lowest processor.
    pub fn first(&self) -> Option<CpuId> {
        self.iter().next()
    }

    /// The highest processor.
    pub fn last(&self) -> Option<CpuId> {
        let word = self.words.last()?;
        let bit = WORD_BITS - 1 - word.leading_zeros();
        Some(CpuId((self.words.len() as u32 - 1) * WORD_BITS + bit))
    }

    /// The processors, ascending.
    pub fn iter(&self) -> Iter<'_> {
        Iter { rest: &self.words, base: 0, bits: 0 }
    }

    /// The processors of either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let (longer, shorter) =
            if self.words.len() < other.words.len() { (other, self) } else { (self, other) };
        let mut set = longer.clone();
        set.words.iter_mut().zip(&shorter.words).for_each(|(word, more)| *word |= more);
        set
    }

    /// The processors of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let words = self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect();
        let mut set = Self { words };
        set.trim();
        set
    }

    /// The processors of this set that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut set = self.clone();
        set.words.iter_mut().zip(&other.words).for_each(|(word, less)| *word &= !less);
        set.trim();
        set
    }

    /// True when `other` has all processors of this set.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.difference(other).is_empty()
    }

    /// True when no processor is in both sets.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.intersection(other).is_empty()
    }

    /// Restores C1.
    fn trim(&mut self) {
        let used = self.words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        self.words.truncate(used);
    }
}

const fn position(cpu: CpuId) -> (usize, u64) {
    ((cpu.0 / WORD_BITS) as usize, 1 << (cpu.0 % WORD_BITS))
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        let mut set = Self::new();
        set.extend(cpus);
        set
    }
}

impl Extend<CpuId> for CpuSet {
    fn extend<I: IntoIterator<Item = CpuId>>(&mut self, cpus: I) {
        for cpu in cpus {
            self.insert(cpu);
        }
    }
}

impl<'a> IntoIterator for &'a CpuSet {
    type Item = CpuId;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl std::str::FromStr for CpuSet {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        Self::parse_list(text)
    }
}

/// The kernel's list format, which [`CpuSet::parse_list`] reads back.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(CpuId(low)) = cpus.next() {
            let mut high = low;
            while cpus.next_if_eq(&CpuId(high + 1)).is_some() {
                high += 1;
            }
            if low == high {
                write!(f, "{separator}{low}")?;
            } else {
                write!(f, "{separator}{low}-{high}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// The processors of a [`CpuSet`], ascending.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    rest: &'a [u64],
    /// One past the number of the last bit of the word that `bits` came from.
    base: u32,
    bits: u64,
}

impl Iterator for Iter<'_> {
    type Item = CpuId;

    fn next(&mut self) -> Option<CpuId> {
        while self.bits == 0 {
            let (word, rest) = self.rest.split_first()?;
            self.bits = *word;
            self.rest = rest;
            self.base += WORD_BITS;
        }
        let bit = self.bits.trailing_zeros();
        self.bits &= self.bits - 1;
        Some(CpuId(self.base - WORD_BITS + bit))
    }
}

/// A text that is not a list of processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuListError {
    text: String,
    item: String,
    reason: &'static str,
}

impl fmt::Display for CpuListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, item, reason } = self;
        write!(
            f,
            "processor list {text:?}: {item:?} {reason} (expected numbers and ranges below {}, as \
             in \"0-3,8\")",
            CpuSet::LIMIT
        )
    }
}

impl std::error::Error for CpuListError {}

/// One item of a list: of each `stride` processors from `low` to `high` the first `used`.
struct ListItem {
    low: u32,
    high: u32,
    used: u32,
    stride: u32,
}

impl ListItem {
    fn parse(item: &str) -> Result<Self, &'static str> {
        let (range, group) = match item.split_once(':') {
            Some((range, group)) => (range, Some(group)),
            None => (item, None),
        };
        let (low, high) = match range.split_once('-') {
            Some((low, high)) => (number(low)?, number(high)?),
            None if group.is_some() => return Err("has a group without a range"),
            None => (number(range)?, number(range)?),
        };
        if low > high {
            return Err("runs backwards");
        }
        if high >= CpuSet::LIMIT {
            return Err("is out of bounds");
        }
        let (used, stride) = match group {
            Some(group) => {
                let (used, stride) = group.split_once('/').ok_or("has a group without '/'")?;
                (number(used)?, number(stride)?)
            }
            None => (1, 1),
        };
        if used == 0 || used > stride {
            return Err("has a group that is empty or larger than its stride");
        }
        Ok(Self { low, high, used, stride })
    }
}

fn number(text: &str) -> Result<u32, &'static str> {
    // `u32::from_str` alone would take "+5".
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("is not a number");
    }
    text.parse().map_err(|_| "is out of bounds")
}

/// The calling thread's number.
pub fn current_tid() -> Tid {
    // SAFETY: - gettid takes nothing and cannot fail.
    Tid(unsafe { libc::gettid() })
}

/// The processor that the caller runs on; it may be another one a moment later.
pub fn current_cpu() -> CpuId {
    // SAFETY: - sched_getcpu takes nothing.
    let cpu = unsafe { libc::sched_getcpu() };
    CpuId(u32::try_from(cpu).expect("sched_getcpu fails only on kernels before 2.6.19"))
}

/// The affinity mask of a thread; `None` is the caller. Costs one system call.
///
/// # Errors
/// `ESRCH` when there is no such thread.
pub fn affinity(tid: Option<Tid>) -> SysResult<CpuSet> {
    const CALL: &str = "sched_getaffinity";
    let _kept = SavedErrno::now();
    let mut words = vec![0_u64; 16];
    loop {
        // The raw call, because the C library's one hides how much the kernel wrote.
        // SAFETY: - the pointer and the length in bytes describe `words`, which lives through the
        // call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                raw(tid),
                size_of_val(words.as_slice()),
                words.as_mut_ptr(),
            )
        };
        match check(CALL, result) {
            Ok(bytes) => {
                let bytes = usize::try_from(bytes).expect("check lets no negative number through");
                words.truncate(bytes.div_ceil(size_of::<u64>()));
                return Ok(CpuSet::from_words(&words));
            }
            // The kernel has more processors than the buffer has bits.
            Err(error)
                if error.is(libc::EINVAL) && words.len() < (CpuSet::LIMIT / WORD_BITS) as usize =>
            {
                words.resize(words.len() * 2, 0);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Restricts a thread to `cpus`; `None` is the caller. Processors that are offline or outside the
/// thread's cpuset are left out by the kernel. Costs about 2 us for a sleeping thread, 30 us for a
/// running one.
///
/// # Errors
/// - `EINVAL`: no processor of `cpus` is online and in the thread's cpuset (an empty set never is).
/// - `EPERM`: the thread belongs to another user, and `CAP_SYS_NICE` is missing.
/// - `ESRCH`: there is no such thread.
pub fn set_affinity(tid: Option<Tid>, cpus: &CpuSet) -> SysResult<()> {
    let _kept = SavedErrno::now();
    let words = cpus.words();
    // SAFETY: - the pointer and the length in bytes describe the words of `cpus`, which lives
    // through the call.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, raw(tid), size_of_val(words), words.as_ptr())
    };
    check("sched_setaffinity", result).map(drop)
}

/// The kernel's number; 0 is the caller. A `Tid` that is not positive names no thread, and must not
/// mean the caller.
pub(crate) fn raw(tid: Option<Tid>) -> libc::pid_t {
    match tid {
        None => 0,
        Some(Tid(tid)) if tid > 0 => tid,
        Some(_) => libc::pid_t::MAX,
    }
}
