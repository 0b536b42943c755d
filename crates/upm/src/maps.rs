//! What is mapped where in this process, and which of it may be a program's hot arrays, where the
//! program does not name them.
//!
//! # Rule
//! The paper takes shared arrays that are both read and written in parallel loops. At run time an
//! array is seen as the mapping that it is in. Hot are those that may be read and written, are
//! private, hold no code, and have a number of pages at least: the program's own static data, and
//! anonymous memory, as `malloc` takes it from the system for large arrays. Left out are
//! - stacks of threads: memory above an inaccessible piece, which guards it. The kernel ends a
//!   program whose signal it cannot put on a stack. A kernel before 6.7 joins a stack and the array
//!   above it to one mapping; a later one does so with an array that was recorded once, which is
//!   without huge pages since, as stacks are. Where all stacks are known to be smaller than some
//!   size, what comes after that many bytes is an array, else all of it is left out;
//! - the heap and those of threads, where the C library and the program keep what system calls use;
//! - static data of libraries, and mappings of files;
//! - each mapping that holds something of the library's own: its fault handler uses that;
//! - what was mapped before, while the program was loaded: the loader's own memory, and the first
//!   thread's static thread-local storage with its control block. The kernel writes into that block
//!   (restartable sequences), and ends a program where it cannot. An array mapped later just below
//!   is one mapping with it, so it is cut out by its addresses.
//!
//! Static data that is aligned to more than a page has a segment of its own in the program's file,
//! and its zeroed part follows nothing of the program: it is left out as memory of the loader.
//!
//! So a library that is linked into the program leaves the program's static data out, of which its
//! own is a part.

use std::ops::Range;

/// The most areas; the largest ones.
const MOST: usize = 64;
/// What heaps of threads are aligned to, with glibc.
const THREAD_HEAP: usize = 64 << 20;

/// A line of `/proc/self/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its addresses.
    pub addresses: Range<usize>,
    rights: [u8; 4],
    /// A file's path, or a name of the kernel's in brackets; empty: anonymous.
    name: String,
}

/// What an area is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Static data of the program.
    Static,
    /// Anonymous memory.
    Anonymous,
}

/// What is not the program's, though it may look so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// Addresses of the library's own memory: no mapping that holds one may be hot.
    pub addresses: Vec<usize>,
    /// An address in the library's code: the program's static data is not hot where this is the
    /// program's file.
    pub code: usize,
    /// Anonymous memory that was mapped when the program was loaded ([`anonymous`]), ascending.
    pub earlier: Vec<Range<usize>>,
}

/// Memory that may be hot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its addresses.
    pub addresses: Range<usize>,
    /// What it is.
    pub kind: Kind,
}

impl Line {
    /// It may be read and written, is no code, and no other process has it.
    pub fn is_plain(&self) -> bool {
        self.rights == *b"rw-p"
    }

    /// It may be read and written, is no code, and other processes may have it.
    pub fn is_shared(&self) -> bool {
        self.rights == *b"rw-s"
    }

    /// Any access faults.
    pub fn is_inaccessible(&self) -> bool {
        self.rights.starts_with(b"---")
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let (begin, end) = words.next()?.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let addresses = number(begin)?..number(end)?;
        let rights = words.next()?.as_bytes().try_into().ok()?;
        let name = words.nth(3).unwrap_or("").trim_start().to_owned();
        Some(Self { addresses, rights, name })
    }
}

/// The lines of a text of the form of `/proc/self/maps`; what is no such line is left out.
pub fn parse(text: &str) -> Vec<Line> {
    text.lines().filter_map(Line::parse).collect()
}

/// This process's.
///
/// # Errors
/// `/proc` is not there.
pub fn read() -> std::io::Result<Vec<Line>> {
    Ok(parse(&platform::file::text("/proc/self/maps")?))
}

/// Those that touch these addresses.
pub fn within<'a>(lines: &'a [Line], addresses: &Range<usize>) -> impl Iterator<Item = &'a Line> {
    let addresses = addresses.clone();
    lines.iter().filter(move |line| {
        line.addresses.start < addresses.end && addresses.start < line.addresses.end
    })
}

/// The addresses of all anonymous memory, ascending.
pub fn anonymous(lines: &[Line]) -> Vec<Range<usize>> {
    let without_name = lines.iter().filter(|line| line.name.is_empty());
    without_name.map(|line| line.addresses.clone()).collect()
}

/// What may be hot among all mappings, ascending: at least `smallest` bytes each. `program` is an
/// address in the program's file. `stacks`: no thread's stack has more bytes.
pub fn candidates(
    lines: &[Line],
    program: usize,
    own: &Own,
    smallest: usize,
    stacks: Option<usize>,
) -> Vec<Found> {
    let path = lines
        .iter()
        .find(|line| line.addresses.contains(&program))
        .map_or("", |line| line.name.as_str());
    let mut found: Vec<Found> = Vec::new();
    // The mapping before is static data, which may be in pieces: advice and policies cut it.
    let mut follows_static = false;
    for (index, line) in lines.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| &lines[before]);
        let before = before.filter(|before| before.addresses.end == line.addresses.start);
        let after = lines.get(index + 1);
        let after = after.filter(|after| after.addresses.start == line.addresses.end);
        let is_of_program = |line: &Line| !path.is_empty() && line.name == path;
        let is_static = is_of_program(line) || is_end_of_static(line, before, follows_static);
        follows_static = is_static && line.is_plain();
        let kind = if is_static { Kind::Static } else { Kind::Anonymous };
        let has_stack = before.is_some_and(Line::is_inaccessible);
        let begin = match stacks {
            _ if !has_stack => Some(line.addresses.start),
            Some(bytes) => line.addresses.start.checked_add(bytes),
            None => None,
        };
        let begin = begin.filter(|begin| *begin < line.addresses.end);
        let is_of_library = before.is_some_and(|before| before.name.starts_with('/'));
        let is_thread_heap = line.addresses.start.is_multiple_of(THREAD_HEAP)
            && after.is_some_and(Line::is_inaccessible);
        let is_array = match kind {
            Kind::Static => true,
            Kind::Anonymous => line.name.is_empty() && !is_of_library && !is_thread_heap,
        };
        let is_own = own.addresses.iter().any(|address| line.addresses.contains(address));
        if let Some(begin) = begin.filter(|_| line.is_plain() && is_array && !is_own) {
            let addresses = begin..line.addresses.end;
            match found.last_mut() {
                // Data and its zeroed part.
                Some(last)
                    if kind == Kind::Static
                        && last.kind == kind
                        && last.addresses.end == addresses.start =>
                {
                    last.addresses.end = addresses.end;
                }
                _ if kind == Kind::Static => found.push(Found { addresses, kind }),
                _ => {
                    let rest = without(addresses, &own.earlier);
                    found.extend(rest.into_iter().map(|addresses| Found { addresses, kind }));
                }
            }
        }
    }
    // The library is a part of the program: it has its data there, too.
    let is_program = |line: &Line| line.name == path && line.addresses.contains(&own.code);
    if !path.is_empty() && lines.iter().any(is_program) {
        found.retain(|found| found.kind != Kind::Static);
    }
    found.retain(|found| found.addresses.len() >= smallest);
    if found.len() > MOST {
        found.sort_by_key(|found| std::cmp::Reverse(found.addresses.len()));
        found.truncate(MOST);
        found.sort_by_key(|found| found.addresses.start);
    }
    found
}

/// What is left of some addresses without these, which ascend.
fn without(mut addresses: Range<usize>, left_out: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut rest = Vec::new();
    for hole in left_out {
        if hole.start < addresses.end && addresses.start < hole.end {
            if addresses.start < hole.start {
                rest.push(addresses.start..hole.start);
            }
            addresses.start = hole.end.min(addresses.end);
        }
    }
    if !addresses.is_empty() {
        rest.push(addresses);
    }
    rest
}

/// The zeroed part of the program's static data is anonymous, and follows the rest.
fn is_end_of_static(line: &Line, before: Option<&Line>, follows_static: bool) -> bool {
    line.name.is_empty() && before.is_some() && follows_static
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Own = Own { addresses: Vec::new(), code: 0, earlier: Vec::new() };
    const MAPS: &str = "\
00400000-00401000 r--p 00000000 08:01 42                         /home/a/pro gram
00401000-00402000 r-xp 00001000 08:01 42                         /home/a/pro gram
00403000-00404000 rw-p 00003000 08:01 42                         /home/a/pro gram
00404000-00904000 rw-p 00000000 00:00 0
01000000-01900000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0003000000 rw-p 00000000 00:00 0
7f0003000000-7f0004000000 ---p 00000000 00:00 0
7f0010000000-7f0010001000 ---p 00000000 00:00 0
7f0010001000-7f0010801000 rw-p 00000000 00:00 0
7f0020000000-7f0021000000 rw-p 00000000 00:00 0
7f0022000000-7f0022200000 rw-s 00000000 00:01 7                  /dev/shm/x
7f0023000000-7f0023001000 rw-p 00003000 08:01 43                 /lib/libc.so.6
7f0023001000-7f0023401000 rw-p 00000000 00:00 0
7f0024000000-7f0024001000 rw-p 00000000 00:00 0
7ffc00000000-7ffc00400000 rw-p 00000000 00:00 0                  [stack]
";

    #[test]
    fn static_data_of_the_program_and_large_anonymous_memory_may_be_hot_and_nothing_else() {
        let lines = parse(MAPS);
        let own = |addresses: &[usize], code| Own { addresses: addresses.into(), code, ..NOTHING };
        let found = |addresses: &[usize], smallest| {
            candidates(&lines, 0x40_0123, &own(addresses, 5), smallest, None)
        };
        let data = Found { addresses: 0x40_3000..0x90_4000, kind: Kind::Static };
        let array = Found { addresses: 0x7f00_2000_0000..0x7f00_2100_0000, kind: Kind::Anonymous };
        assert_eq!(found(&[], 1 << 18), [data.clone(), array.clone()]);
        assert_eq!(found(&[0x7f00_2000_1000], 1 << 18), [data]);
        assert_eq!(found(&[0x40_4000, 1], 1 << 23), [array]);
        assert_eq!(found(&[], 1).len(), 3, "a page, too");
        let linked = candidates(&lines, 0x40_0123, &own(&[], 0x40_1010), 1 << 18, None);
        assert_eq!(linked.len(), 1, "the library is in the program: {linked:x?}");
        let joined = candidates(&lines, 0, &NOTHING, 1 << 22, Some(0x40_0000));
        let above = 0x7f00_1040_1000..0x7f00_1080_1000;
        assert!(joined.iter().any(|found| found.addresses == above), "{joined:x?}");
        let smaller = candidates(&lines, 0, &NOTHING, 1, Some(0x80_0000));
        assert!(!smaller.iter().any(|found| found.addresses.end == above.end), "{smaller:x?}");
    }

    #[test]
    fn static_data_in_pieces_is_one_area() {
        let whole = "00404000-00904000 rw-p 00000000 00:00 0\n";
        let pieces = "00404000-00500000 rw-p 00000000 00:00 0\n\
                      00500000-00700000 rw-p 00000000 00:00 0\n\
                      00700000-00904000 rw-p 00000000 00:00 0\n";
        let lines = parse(&MAPS.replace(whole, pieces));
        assert_eq!(lines.len(), parse(MAPS).len() + 2);
        // All of it was there when the program was loaded.
        let own = Own { earlier: anonymous(&lines), ..NOTHING };
        let found = candidates(&lines, 0x40_0123, &own, 1 << 18, None);
        assert_eq!(found, [Found { addresses: 0x40_3000..0x90_4000, kind: Kind::Static }]);
    }

    #[test]
    fn what_was_mapped_at_the_start_is_cut_out_of_an_array_that_is_joined_with_it() {
        let (begin, end) = (0x7f00_2000_0000, 0x7f00_2100_0000);
        let hot = |kind, earlier: &[(usize, usize)]| {
            let earlier = earlier.iter().map(|(begin, end)| *begin..*end).collect();
            let own = Own { earlier, ..NOTHING };
            let found = candidates(&parse(MAPS), 0x40_0123, &own, 1 << 20, None);
            let of_kind = found.into_iter().filter(|found| found.kind == kind);
            of_kind.map(|found| (found.addresses.start, found.addresses.end)).collect::<Vec<_>>()
        };
        let found = |earlier: &[(usize, usize)]| hot(Kind::Anonymous, earlier);
        let block = 0x7f00_20f0_0000;
        assert_eq!(found(&[(block, end)]), [(begin, block)]);
        let middle = (0x7f00_2050_0000, 0x7f00_2050_3000);
        assert_eq!(found(&[middle, (block, end)]), [(begin, middle.0), (middle.1, block)]);
        assert_eq!(found(&[(0, begin), (end, usize::MAX)]), [(begin, end)]);
        assert_eq!(found(&[(0, 0x7f00_2001_0000)]), [(0x7f00_2001_0000, end)]);
        assert_eq!(found(&[(0, usize::MAX)]), []);
        assert_eq!(found(&[(begin + 0x1000, end)]), [], "too small without it");
        let data = hot(Kind::Static, &[(0, usize::MAX)]);
        assert_eq!(data, [(0x40_3000, 0x90_4000)], "the program's, whenever it was mapped");
    }

    #[test]
    fn memory_without_a_name_is_anonymous() {
        let earlier = anonymous(&parse(MAPS));
        assert_eq!(earlier.len(), 8);
        assert!(earlier.contains(&(0x7f00_2000_0000..0x7f00_2100_0000)));
        assert!(!earlier.iter().any(|range| range.contains(&0x7ffc_0000_0000)), "the stack");
        assert!(earlier.is_sorted_by_key(|range| range.start));
    }

    #[test]
    fn the_mapping_of_a_fresh_array_is_found_in_this_process_and_its_stack_is_not() {
        let array = platform::numa::Pages::map(1 << 22).unwrap();
        let (begin, stack) = (array.addresses().start, (&raw const array).addr());
        let found = candidates(&read().unwrap(), 0, &NOTHING, 1 << 22, None);
        assert!(found.iter().any(|found| found.addresses.contains(&begin)), "{found:x?}");
        assert!(!found.iter().any(|found| found.addresses.contains(&stack)), "{found:x?}");
        let own = Own { addresses: vec![begin], ..NOTHING };
        let found = candidates(&read().unwrap(), 0, &own, 1 << 22, None);
        assert!(!found.iter().any(|found| found.addresses.contains(&begin)), "{found:x?}");
    }
}
