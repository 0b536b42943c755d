//! What the loader has in this process: which libraries, and what one of them defines.

use platform::file;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::ptr;
use std::slice;

/// How often the loader has loaded something. Cost: some 100 ns.
pub(super) fn loads() -> u64 {
    extern "C" fn first(info: *mut libc::dl_phdr_info, _size: usize, count: *mut c_void) -> c_int {
        // SAFETY: - the loader's description of a module, and the place below.
        unsafe { count.cast::<u64>().write((*info).dlpi_adds) };
        1
    }
    let mut count = 0_u64;
    // SAFETY: - `first` takes a place for a number.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut count).cast()) };
    count
}

/// True when the last part of the path `name` has `piece` in it.
pub(super) fn has(name: &CStr, piece: &[u8]) -> bool {
    let file = name.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    file.windows(piece.len()).any(|window| window == piece)
}

/// A library that stays in the process as long as this lives.
#[derive(Debug)]
pub(super) struct Module {
    handle: *mut c_void,
    span: Range<usize>,
}

// SAFETY: - the loader's handle, which any thread may use.
unsafe impl Send for Module {}
// SAFETY: - as above.
unsafe impl Sync for Module {}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: - what `keep` opened, once.
        unsafe { libc::dlclose(self.handle) };
    }
}

/// The libraries for which `choose` has an answer, by the name that the loader has for it or by
/// that of the file itself, each with that, in the order in which they were loaded. Not those that
/// begin at an address that `is_known`.
pub(super) fn modules<T>(
    is_known: impl Fn(usize) -> bool,
    choose: impl Fn(&CStr) -> Option<T>,
) -> Vec<(Module, T)> {
    type All = Vec<(CString, Range<usize>)>;
    /// # Safety
    /// - `all` points to an `All`.
    unsafe extern "C" fn see(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        all: *mut c_void,
    ) -> c_int {
        // SAFETY: - the loader's description of a module; caller's contract.
        let (info, all) = unsafe { (&*info, &mut *all.cast::<All>()) };
        if info.dlpi_name.is_null() {
            return 0;
        }
        // SAFETY: - the loader's name of the module.
        let name = unsafe { CStr::from_ptr(info.dlpi_name.cast::<c_char>()) };
        // SAFETY: - the headers of the module's segments, of which there are so many.
        all.push((name.to_owned(), unsafe { span_of(info) }));
        0
    }
    let mut all: All = Vec::new();
    // SAFETY: - `see` takes such a vector.
    unsafe { libc::dl_iterate_phdr(Some(see), (&raw mut all).cast()) };
    // Outside the loader's list: what follows takes the loader's lock.
    let found = |(name, span): (CString, Range<usize>)| {
        let kind = (!is_known(span.start)).then(|| chosen(&name, &choose))??;
        Some((Module::keep(&name, span)?, kind))
    };
    all.into_iter().filter_map(found).collect()
}

/// The addresses of a module, from its first segment to its last.
///
/// # Safety
/// - It is the loader's description of a module that is loaded.
unsafe fn span_of(info: &libc::dl_phdr_info) -> Range<usize> {
    let base = info.dlpi_addr as usize;
    if info.dlpi_phdr.is_null() {
        return base..base;
    }
    // SAFETY: - caller's contract.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let segments = headers.iter().filter(|it| it.p_type == libc::PT_LOAD).map(|it| {
        let begin = base.wrapping_add(it.p_vaddr as usize);
        begin..begin.wrapping_add(it.p_memsz as usize)
    });
    segments.reduce(|all, it| all.start.min(it.start)..all.end.max(it.end)).unwrap_or(base..base)
}

/// What `choose` has for the loader's name of a library, or for the name of the file itself.
fn chosen<T>(name: &CStr, choose: impl Fn(&CStr) -> Option<T>) -> Option<T> {
    choose(name).or_else(|| choose(&file_of(name)?))
}

/// The same for the library that `place` is in.
pub(super) fn chosen_at<T>(place: *const c_void, choose: impl Fn(&CStr) -> Option<T>) -> Option<T> {
    let name = info_of(place)?.dli_fname;
    // SAFETY: - the loader's name of a library that is loaded: its code is about to run.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }).and_then(|it| chosen(it, choose))
}

/// The file that `name` is a symbolic link to, as conda has `libcblas.so.3` for its OpenBLAS.
fn file_of(name: &CStr) -> Option<CString> {
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    // The program itself has no name here, and the kernel's module no file.
    if !path.is_absolute() {
        return None;
    }
    CString::new(file::real_path(path).ok()?.into_os_string().into_vec()).ok()
}

impl Module {
    /// The library `name` that is loaded at `span`; `None` where it is there no more.
    fn keep(name: &CStr, span: Range<usize>) -> Option<Self> {
        // SAFETY: - a C string; nothing is loaded.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(Self { handle, span })
    }

    /// The addresses of the library.
    pub(super) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// What the library itself, none that it needs, defines under the first of `names` that it has.
    pub(super) fn symbol(&self, names: &[&CStr]) -> Option<*mut c_void> {
        names.iter().find_map(|name| {
            // SAFETY: - a handle that is open, and a C string.
            let place = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
            (!place.is_null() && self.has(place.addr())).then_some(place)
        })
    }
}

impl Module {
    /// Whether `place` is in the library.
    pub(super) fn has(&self, place: usize) -> bool {
        self.span.contains(&place)
    }
}

/// What the loader knows of `place`.
fn info_of(place: *const c_void) -> Option<libc::Dl_info> {
    let mut found = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: - a place for the answer.
    (unsafe { libc::dladdr(place, &raw mut found) } != 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_name_and_not_by_its_folder() {
        assert!(has(c"/x/libscipy_openblas64_-1.so", b"openblas"));
        assert!(!has(c"/openblas/libm.so.6", b"openblas"));
        assert!(!has(c"", b"openblas"));
    }

    #[test]
    fn a_link_is_known_by_the_name_of_its_file() {
        let dir = std::env::temp_dir().canonicalize().unwrap();
        let file = dir.join(format!("libopenblas-{}.so", std::process::id()));
        let link = dir.join(format!("libcblas-{}.so.3", std::process::id()));
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let name = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap();
        let found = file_of(&name(&link));
        std::fs::remove_file(&link).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(found, Some(name(&file)));
        for none in [c"", c"linux-vdso.so.1", c"/no/such/file"] {
            assert_eq!(file_of(none), None);
        }
    }

    #[test]
    fn the_c_library_is_found_where_it_is_not_known_and_only_what_it_defines() {
        let find = |known| modules(|at| at == known, |name| has(name, b"libc.so").then_some(7));
        let found = find(0);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].1, 7);
        let module = &found[0].0;
        assert!(module.symbol(&[c"no_such_name", c"qsort"]).is_some());
        // The loader's own, which the C library needs.
        assert!(module.symbol(&[c"_dl_mcount", c"__tls_get_addr"]).is_none());
        assert!(module.has((libc::qsort as *const ()).addr()));
        assert!(!module.has((&raw const *module).addr()));
        assert_eq!(find(module.span().start).len(), 0);
        assert!(loads() > 0);
    }
}
