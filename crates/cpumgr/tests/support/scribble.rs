//! A program that writes random bytes into its area at full speed, and rings.

use std::path::Path;

use arena::header::VERSION;
use arena::message::MAX_MESSAGE;
use platform::event::Doorbell;
use platform::fdpass;
use platform::shm::{Mapping, SharedMemory};

use super::{PATIENCE, connection, register_packet};

/// Registers and begins; the threads never end.
pub(super) fn begin(socket: &Path) {
    let socket = connection(socket);
    fdpass::send(&socket, &register_packet(VERSION), &[]).unwrap();
    let mut buffer = vec![0; MAX_MESSAGE];
    let (_, descriptors) = fdpass::recv(&socket, &mut buffer, Some(PATIENCE)).unwrap();
    let [_down, up, doorbell, _global] =
        <[_; 4]>::try_from(descriptors).expect("a registration has four");
    let doorbell = Doorbell::from_fd(doorbell);
    let mapping = SharedMemory::from_fd(up).unwrap().map_read_write().unwrap();
    std::thread::spawn(move || {
        let mut random = 0x9e37_79b9_7f4a_7c15;
        loop {
            fill(&mapping, &mut random);
        }
    });
    std::thread::spawn(move || {
        let _registered = socket;
        loop {
            doorbell.ring().unwrap();
        }
    });
}

/// Writes every word once.
pub(crate) fn fill(mapping: &Mapping, random: &mut u64) {
    for offset in (0..mapping.len()).step_by(8) {
        // xorshift64
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        // SAFETY: - within the mapping, aligned, writable; the manager reads it by atomics only.
        unsafe { mapping.as_ptr().add(offset).cast::<u64>().write_volatile(*random) };
    }
}
