//! The ELF note by which copies of this library find each other: it says where the copy's table
//! stands.

use super::table::{EngineTable, TABLE};
use std::ffi::c_void;
use std::ptr;
use std::slice;

/// The note's type.
const TYPE: u32 = 1;
const NAME: &[u8; 6] = b"NANOS\0";

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

/// The table of the first copy in the process; `None`: this copy is the first.
pub(super) fn older_table() -> Option<*const EngineTable> {
    let mut first: *const u32 = ptr::null();
    // SAFETY: - `look_for_note` takes a place for a pointer, and keeps nothing of what it is shown.
    unsafe { libc::dl_iterate_phdr(Some(look_for_note), (&raw mut first).cast()) };
    if first.is_null() || ptr::eq(first, (&raw const NOTE).cast()) {
        return None;
    }
    // SAFETY: - a note of ours: after header and name stands the distance to the table.
    let place = unsafe { first.add(5) };
    // SAFETY: - as above.
    let table = unsafe { place.cast::<u8>().offset(place.cast::<i32>().read() as isize) };
    Some(table.cast())
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
