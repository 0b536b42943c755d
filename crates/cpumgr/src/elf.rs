//! What an ELF file says of itself: only its headers, its dynamic section and, where it is asked
//! for, its constants are read, as much of them as a budget allows, independent of the file's size
//! and of what it claims.
//!
//! # Invariants
//! - E1 Opening never waits: only regular files are opened, and what stands at a path is found out
//!   without opening it.
//! - E2 No file costs more than [`BUDGET`] bytes of memory.

use std::cell::Cell;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;
use object::elf::{self, FileHeader64, ProgramHeader64};
use object::endian::LittleEndian;
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader};
use object::read::{ReadCache, ReadRef};

/// The most that is read of one file.
const BUDGET: u64 = 8 << 20;
/// The most that `object` reads to find the end of a string.
const STRING: u64 = 4096;

/// A file that may be an ELF file.
pub(crate) struct Image {
    cache: ReadCache<File>,
    left: Cell<u64>,
}

/// What a program's dynamic section asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) libraries: Vec<String>,
    /// DT_RPATH without DT_RUNPATH: searched before the library path.
    pub(crate) own_path: bool,
}

/// Opens a regular file that `is_meant` (E1).
///
/// # Errors
/// What the kernel says; `InvalidInput` when it is none, or is not meant.
pub(crate) fn open_regular(path: &Path, is_meant: impl Fn(&Metadata) -> bool) -> io::Result<File> {
    let flags = |flags: OFlag| (flags | OFlag::O_CLOEXEC).bits();
    // A descriptor that names the file and does not open it: no device and no pipe notices.
    let named = OpenOptions::new().read(true).custom_flags(flags(OFlag::O_PATH)).open(path)?;
    let data = named.metadata()?;
    if !data.is_file() || !is_meant(&data) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let again = format!("/proc/self/fd/{}", named.as_raw_fd());
    OpenOptions::new()
        .read(true)
        .custom_flags(flags(OFlag::O_NONBLOCK | OFlag::O_NOCTTY))
        .open(again)
}

impl Image {
    /// The image at a path.
    ///
    /// # Errors
    /// As [`open_regular`].
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        open_regular(path, |_| true).map(Self::of)
    }

    /// The image in a regular file.
    pub(crate) fn of(file: File) -> Self {
        Self { cache: ReadCache::new(file), left: Cell::new(BUDGET) }
    }

    /// It begins as an ELF file does, of whatever machine.
    pub(crate) fn is_elf(&self) -> bool {
        self.read_bytes_at(0, 4).is_ok_and(|magic| magic == elf::ELFMAG)
    }

    /// Of the machine that this program was built for.
    pub(crate) fn is_native(&self) -> bool {
        self.head().is_some()
    }

    /// The kernel starts it by way of a loader.
    pub(crate) fn has_interpreter(&self) -> bool {
        self.segments().iter().any(|segment| segment.p_type(LittleEndian) == elf::PT_INTERP)
    }

    /// What its dynamic section asks for; `None`: it has none that can be read.
    pub(crate) fn needs(&self) -> Option<Needs> {
        let end = LittleEndian;
        let segments = self.segments();
        let entries = segments.iter().find_map(|it| it.dynamic(end, self).ok().flatten())?;
        let entries = || entries.iter().take_while(|it| it.tag32(end) != Some(elf::DT_NULL));
        let has = |tag: u32| entries().any(|it| it.tag32(end) == Some(tag));
        let strings = self.names()?;
        let mut needs = Needs { own_path: has(elf::DT_RPATH), ..Needs::default() };
        needs.own_path &= !has(elf::DT_RUNPATH);
        for entry in entries().filter(|it| it.tag32(end) == Some(elf::DT_NEEDED)) {
            let from =
                strings.start.checked_add(entry.d_val(end)).filter(|from| *from < strings.end)?;
            let name = self.read_bytes_at_until(from..strings.end, 0).ok()?;
            needs.libraries.push(String::from_utf8_lossy(name).into_owned());
        }
        Some(needs)
    }

    /// Where in the file its dynamic section's names stand.
    fn names(&self) -> Option<Range<u64>> {
        let end = LittleEndian;
        let segments = self.segments();
        let entries = segments.iter().find_map(|it| it.dynamic(end, self).ok().flatten())?;
        let entries = || entries.iter().take_while(|it| it.tag32(end) != Some(elf::DT_NULL));
        let value =
            |tag: u32| entries().find(|it| it.tag32(end) == Some(tag)).map(|it| it.d_val(end));
        file_range(segments, value(elf::DT_STRTAB)?, value(elf::DT_STRSZ)?)
    }

    /// Whether a function or variable that it offers or asks for has a name with this piece;
    /// `None`: its names cannot be read.
    pub(crate) fn has_name(&self, piece: &[u8]) -> Option<bool> {
        let names = self.names()?;
        let size = names.end.checked_sub(names.start)?;
        let names = self.read_bytes_at(names.start, size).ok()?;
        Some(memmem(names, piece).is_some())
    }

    /// It was made by Go's tools, which put down in a section of its own how.
    pub(crate) fn is_go(&self) -> bool {
        let sections = self.head().and_then(|head| head.sections(LittleEndian, self).ok());
        let name = b".go.buildinfo";
        sections.is_some_and(|sections| sections.section_by_name(LittleEndian, name).is_some())
    }

    /// Whether its constants hold a text.
    pub(crate) fn has_constant(&self, text: &[u8]) -> bool {
        self.has_constants([text]) == [true]
    }

    /// The same of several, for the budget of one.
    pub(crate) fn has_constants<const N: usize>(&self, texts: [&[u8]; N]) -> [bool; N] {
        let bytes = self.constants().unwrap_or_default();
        texts.map(|text| memmem(bytes, text).is_some())
    }

    /// The version that stands after a text among its constants: digits and dots.
    pub(crate) fn version_after(&self, text: &[u8]) -> Option<String> {
        let mut rest = self.constants()?;
        while let Some(at) = memmem(rest, text) {
            rest = &rest[at + text.len()..];
            let is_part = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
            let version: Vec<u8> = rest.iter().take_while(is_part).take(16).copied().collect();
            let version = String::from_utf8(version).unwrap_or_default();
            let version = version.trim_end_matches('.');
            if version.contains('.') && version.starts_with(|it: char| it.is_ascii_digit()) {
                return Some(version.to_owned());
            }
        }
        None
    }

    fn constants(&self) -> Option<&[u8]> {
        let end = LittleEndian;
        let sections = self.head()?.sections(end, self).ok()?;
        let (_, constants) = sections.section_by_name(end, b".rodata")?;
        constants.data(end, self).ok()
    }

    fn head(&self) -> Option<&FileHeader64<LittleEndian>> {
        let machine = if cfg!(target_arch = "x86_64") {
            Some(elf::EM_X86_64)
        } else if cfg!(target_arch = "aarch64") {
            Some(elf::EM_AARCH64)
        } else {
            None
        };
        let head = FileHeader64::<LittleEndian>::parse(self).ok()?;
        machine.is_none_or(|machine| head.e_machine.get(LittleEndian) == machine).then_some(head)
    }

    fn segments(&self) -> &[ProgramHeader64<LittleEndian>] {
        self.head()
            .and_then(|head| head.program_headers(LittleEndian, self).ok())
            .unwrap_or_default()
    }

    fn spend(&self, bytes: u64) -> Result<(), ()> {
        self.left.set(self.left.get().checked_sub(bytes).ok_or(())?);
        Ok(())
    }
}

/// Where a text begins in some bytes.
fn memmem(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}

/// Where in the file the bytes at an address of the program stand.
fn file_range(
    segments: &[ProgramHeader64<LittleEndian>],
    address: u64,
    length: u64,
) -> Option<Range<u64>> {
    let end = LittleEndian;
    let loaded = segments.iter().filter(|segment| segment.p_type(end) == elf::PT_LOAD);
    let from = loaded
        .filter_map(|segment| {
            let within = address.checked_sub(segment.p_vaddr(end))?;
            (within < segment.p_filesz(end)).then(|| segment.p_offset(end).checked_add(within))?
        })
        .next()?;
    Some(from..from.checked_add(length)?)
}

impl<'a> ReadRef<'a> for &'a Image {
    fn len(self) -> Result<u64, ()> {
        (&self.cache).len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.spend(size)?;
        (&self.cache).read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        self.spend(range.end.saturating_sub(range.start).min(STRING))?;
        // A table that ends after the file's end is no reason not to read what stands in it.
        let end = range.end.min(self.len()?);
        (&self.cache).read_bytes_at_until(range.start..end, delimiter)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    /// A file with these bytes.
    pub(crate) fn image(bytes: &[u8]) -> Image {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Image::of(file)
    }

    #[test]
    fn this_test_names_its_libraries_whatever_its_size() {
        let own = std::env::current_exe().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("copy");
        std::fs::copy(&own, &copy).unwrap();
        // Sparse: no machine has this much memory.
        std::fs::OpenOptions::new().write(true).open(&copy).unwrap().set_len(1 << 40).unwrap();
        let image = Image::open(&copy).unwrap();
        let needs = image.needs().unwrap();
        assert!(needs.libraries.iter().any(|name| name.starts_with("libc.so")), "{needs:?}");
        assert!(image.is_native() && image.has_interpreter());
        let read = BUDGET - image.left.get();
        assert!(read < 64 << 10, "{read} bytes");
    }

    #[test]
    fn a_section_that_claims_to_be_huge_is_not_read() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let head = image(&own[..64]);
        let (at, size) = head
            .head()
            .map(|it| (it.e_shoff.get(LittleEndian), it.e_shentsize.get(LittleEndian)))
            .unwrap();
        let mut bytes = own;
        let sections = bytes.split_at_mut(usize::try_from(at).unwrap()).1;
        for section in sections.chunks_exact_mut(size.into()) {
            // Section type 1 holds the program's bytes.
            if section[4..8] == 1_u32.to_le_bytes() {
                section[32..40].copy_from_slice(&(1_u64 << 33).to_le_bytes());
            }
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        file.set_len(1 << 40).unwrap();
        let image = Image::of(file);
        assert!(!image.has_constant(b"NANOS_CPUMGR"));
        assert!(image.is_native(), "there is budget left for what it does say");
    }

    #[test]
    fn what_is_no_regular_file_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        // Opened as a file is, it would wait for a writer.
        assert!(Image::open(&fifo).is_err());
        assert!(Image::open(dir.path()).is_err() && Image::open(Path::new("/dev/null")).is_err());
    }

    #[test]
    fn names_and_versions_are_read_from_what_the_file_says() {
        static VERSION: &str = "nanos elf test OpenBLAX : no\0OpenBLAX 1.22.333.and so on";
        std::hint::black_box(VERSION);
        let own = || Image::open(&std::env::current_exe().unwrap()).unwrap();
        // This program asks the C library for it, and nothing for the other.
        assert_eq!(own().has_name(b"__libc_start_main"), Some(true));
        assert_eq!(own().has_name(b"no_function_has_this_name"), Some(false));
        assert_eq!(own().version_after(b"OpenBLAX ").as_deref(), Some("1.22.333"));
        let found = own().has_constants([b"nanos elf test", b"no text of this test's file, X"]);
        assert!(found[0] && own().has_constant(b"nanos elf test"));
        assert_eq!(image(b"#!/bin/sh").has_constants([b"sh", b"/bin"]), [false, false]);
        assert_eq!(own().version_after(b"no OpenBLAX at all "), None);
        assert_eq!(image(b"#!/bin/sh").has_name(b"x"), None);
    }

    proptest! {
        #[test]
        fn no_file_makes_the_reader_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), elf: bool) {
            if elf {
                let magic = b"\x7fELF\x02\x01\x01";
                let length = bytes.len().min(magic.len());
                bytes[..length].copy_from_slice(&magic[..length]);
                if bytes.len() > 20 && cfg!(target_arch = "x86_64") {
                    bytes[18..20].copy_from_slice(&62_u16.to_le_bytes());
                }
            }
            let image = image(&bytes);
            image.has_interpreter();
            image.needs();
            image.has_constant(b"x");
            image.has_name(b"x");
            image.version_after(b"x");
        }
    }
}
