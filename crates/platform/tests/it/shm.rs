//! Sealed shared memory and its mappings.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};

use nanothreads_platform::shm::{ForeignMemoryError, Mapping, SharedMemory};
use nix::fcntl::{FcntlArg, OFlag, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

const PAGE: usize = 4096;

fn bare_memfd(size: u64, seals: SealFlag) -> OwnedFd {
    let fd = memfd_create(c"bare", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).unwrap();
    File::from(fd.try_clone().unwrap()).set_len(size).unwrap();
    fcntl(&fd, FcntlArg::F_ADD_SEALS(seals)).unwrap();
    fd
}

fn byte(mapping: &Mapping, index: usize) -> &std::sync::atomic::AtomicU8 {
    assert!(index < mapping.len());
    // SAFETY: - `index` is inside of the mapping, which the reference borrows; all accesses are
    // atomic.
    unsafe { std::sync::atomic::AtomicU8::from_ptr(mapping.as_ptr().add(index)) }
}

#[test]
fn what_one_mapping_stores_another_one_loads() {
    use std::sync::atomic::Ordering::Relaxed;
    let memory = SharedMemory::create("test", 2 * PAGE).unwrap();
    assert_eq!(memory.size(), 2 * PAGE);
    let writer = memory.map_read_write().unwrap();
    let reader = Mapping::map_read_only(memory.reopen_read_only().unwrap(), 2 * PAGE).unwrap();
    assert_eq!(byte(&reader, 2 * PAGE - 1).load(Relaxed), 0);
    byte(&writer, 2 * PAGE - 1).store(7, Relaxed);
    assert_eq!(byte(&reader, 2 * PAGE - 1).load(Relaxed), 7);
    assert_eq!(reader.len(), 2 * PAGE);
    assert_eq!(writer.as_ptr() as usize % PAGE, 0);
}

#[test]
fn a_mapping_outlives_the_descriptor() {
    use std::sync::atomic::Ordering::Relaxed;
    let mapping = SharedMemory::create("test", PAGE).unwrap().map_read_write().unwrap();
    byte(&mapping, 0).store(1, Relaxed);
    assert_eq!(byte(&mapping, 0).load(Relaxed), 1);
}

#[test]
fn created_memory_is_present_private_to_the_user_and_of_fixed_size() {
    let memory = SharedMemory::create("test", 3 * PAGE).unwrap();
    let file = File::from(memory.as_fd().try_clone_to_owned().unwrap());
    let facts = file.metadata().unwrap();
    assert_eq!(facts.mode() & 0o7777, 0o600);
    assert!(facts.blocks() * 512 >= 3 * PAGE as u64, "only {} blocks are there", facts.blocks());
    for size in [0, PAGE as u64, 4 * PAGE as u64] {
        assert_eq!(file.set_len(size).unwrap_err().raw_os_error(), Some(libc::EPERM));
    }
    let more = FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_WRITE);
    assert_eq!(fcntl(&file, more), Err(nix::errno::Errno::EPERM), "the seals are final");
}

#[test]
fn memory_of_no_size_or_a_bad_name_is_refused() {
    for (name, size) in [("test", 0), ("a\0b", PAGE)] {
        let error = SharedMemory::create(name, size).unwrap_err();
        assert_eq!(error.to_string(), "memfd_create: Invalid argument (EINVAL)");
    }
    assert_eq!(SharedMemory::create(&"n".repeat(250), PAGE).unwrap_err().errno(), libc::EINVAL);
}

#[test]
fn more_memory_than_the_limit_is_refused_before_it_is_taken() {
    for size in [SharedMemory::MAX_SIZE + 1, usize::MAX] {
        let error = SharedMemory::create("test", size).unwrap_err();
        assert_eq!(error.to_string(), "memfd_create: File too large (EFBIG)");
    }
}

#[test]
fn the_read_only_descriptor_neither_writes_nor_maps_writable() {
    let memory = SharedMemory::create("test", PAGE).unwrap();
    let read_only = memory.reopen_read_only().unwrap();
    let error = Mapping::map_read_write(&read_only, PAGE).unwrap_err();
    assert_eq!(error.to_string(), "mmap: Permission denied (EACCES)");
    let mut file = File::from(read_only);
    assert_eq!(file.write(b"x").unwrap_err().raw_os_error(), Some(libc::EBADF));
    let mapping = Mapping::map_read_only(&file, PAGE).unwrap();
    // SAFETY: - the range is the mapping; the call is expected to be refused, and would only widen
    // its rights.
    let result = unsafe {
        libc::mprotect(mapping.as_ptr().cast(), PAGE, libc::PROT_READ | libc::PROT_WRITE)
    };
    assert_eq!((result, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EACCES)));
}

#[test]
fn descriptors_are_close_on_exec() {
    let memory = SharedMemory::create("test", PAGE).unwrap();
    let read_only = memory.reopen_read_only().unwrap();
    for fd in [memory.as_fd(), read_only.as_fd()] {
        assert_eq!(fcntl(fd, FcntlArg::F_GETFD).unwrap() & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    }
}

#[test]
fn memory_from_another_process_is_taken_when_its_size_is_fixed() {
    let memory = SharedMemory::create("test", PAGE).unwrap();
    let taken = SharedMemory::from_fd(memory.reopen_read_only().unwrap()).unwrap();
    assert_eq!(taken.size(), PAGE);
    assert_eq!(taken.map_read_only().unwrap().len(), PAGE);
    let fd = OwnedFd::from(memory);
    assert_eq!(SharedMemory::from_fd_of_size(fd, PAGE).unwrap().size(), PAGE);
}

#[test]
fn memory_whose_owner_could_resize_it_is_refused() {
    for (seals, missing) in [
        (SealFlag::empty(), "shrinking"),
        (SealFlag::F_SEAL_GROW, "shrinking"),
        (SealFlag::F_SEAL_SHRINK, "growing"),
    ] {
        let refused = SharedMemory::from_fd(bare_memfd(PAGE as u64, seals)).unwrap_err();
        assert_eq!(refused, ForeignMemoryError::NotSealed { missing });
        assert!(refused.to_string().contains("not sealed"), "{refused}");
    }
}

#[test]
fn memory_that_was_shrunk_before_it_was_sealed_is_refused() {
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
    let shrunk = bare_memfd(PAGE as u64, seals);
    let expected = 2 * PAGE;
    let refused = SharedMemory::from_fd_of_size(shrunk.try_clone().unwrap(), expected).unwrap_err();
    assert_eq!(refused, ForeignMemoryError::WrongSize { expected, actual: PAGE });
    // Mapping checks again, on its own.
    let error = Mapping::map_read_only(&shrunk, expected).unwrap_err();
    assert_eq!((error.call(), error.errno()), ("mmap beyond the end of the file", libc::ENXIO));
    let empty = SharedMemory::from_fd(bare_memfd(0, seals)).unwrap_err();
    assert_eq!(empty, ForeignMemoryError::WrongSize { expected: 1, actual: 0 });
}

#[test]
fn what_is_no_memfd_is_refused_by_the_calls_name() {
    let (pipe, _other_end) = nix::unistd::pipe2(OFlag::O_CLOEXEC).unwrap();
    for fd in [pipe, File::open("/dev/null").unwrap().into()] {
        let refused = SharedMemory::from_fd(fd).unwrap_err();
        assert!(
            refused.to_string().contains("fcntl(F_GET_SEALS): Invalid argument (EINVAL)"),
            "{refused}"
        );
    }
}

#[test]
fn a_mapping_of_nothing_is_refused() {
    let memory = SharedMemory::create("test", PAGE).unwrap();
    assert_eq!(Mapping::map_read_only(&memory, 0).unwrap_err().errno(), libc::EINVAL);
}

#[test]
fn dropping_a_mapping_unmaps_it() {
    let memory = SharedMemory::create("test-unmap", PAGE).unwrap();
    let before = File::from(memory.as_fd().try_clone_to_owned().unwrap());
    before.write_at(b"x", 0).unwrap();
    let inode = before.metadata().unwrap().ino();
    let is_mapped = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().any(|line| line.split_ascii_whitespace().nth(4) == Some(&inode.to_string()))
    };
    let mapping = memory.map_read_only().unwrap();
    assert!(is_mapped());
    drop(mapping);
    assert!(!is_mapped());
}

#[test]
fn a_mapping_may_be_kept_out_of_forked_children() {
    let mapping = SharedMemory::create("test", PAGE).unwrap().map_read_write().unwrap();
    mapping.dont_fork().unwrap();
    // The kernel shows the mark ("dc") in the flags of the mapping.
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let head = format!("{:x}-", mapping.as_ptr() as usize);
    let mut lines = smaps.lines().skip_while(|line| !line.starts_with(&head));
    let Some(flags) = lines.find(|line| line.starts_with("VmFlags:")) else {
        nanothreads_platform::skip!("this kernel shows no flags of mappings");
        return;
    };
    assert!(flags.split_ascii_whitespace().any(|flag| flag == "dc"), "{flags}");
}

#[test]
fn a_mapping_that_replaces_another_is_found_at_its_place() {
    let (old, new) =
        (SharedMemory::create("old", 8192).unwrap(), SharedMemory::create("new", 8192).unwrap());
    let place = old.map_read_write().unwrap();
    let other = new.map_read_write().unwrap();
    let byte = |mapping: &Mapping, offset: usize| {
        // SAFETY: - within the mapping, which is live and of this test alone.
        unsafe { mapping.as_ptr().add(offset).read_volatile() }
    };
    // SAFETY: - as above, and writable.
    unsafe {
        place.as_ptr().add(5000).write_volatile(1);
        other.as_ptr().add(5000).write_volatile(2);
    }
    let before = place.as_ptr();
    assert_eq!(byte(&place, 5000), 1);
    place.replace(other).unwrap();
    assert_eq!((byte(&place, 5000), place.as_ptr()), (2, before));
    assert_eq!(
        byte(&old.map_read_only().unwrap(), 5000),
        1,
        "the memory that was replaced is as it was"
    );
    // A read-only mapping takes the place of a writable one and is read-only there.
    place.replace(new.map_read_only().unwrap()).unwrap();
    assert_eq!(byte(&place, 5000), 2);
}

#[test]
fn a_mapping_of_another_length_replaces_nothing() {
    let memory = SharedMemory::create("long", 8192).unwrap();
    let place = SharedMemory::create("short", 4096).unwrap().map_read_only().unwrap();
    assert!(place.replace(memory.map_read_only().unwrap()).unwrap_err().is(libc::EINVAL));
}
