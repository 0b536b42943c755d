//! The layout, byte by byte: a change here is a new layout version, or breaks programs that run.
#![cfg(not(loom))]

use std::mem::{align_of, offset_of, size_of};

use nanothreads_arena::grant::{CpuLine, Grant, GrantArea, GrantLine};
use nanothreads_arena::layout::{
    DOWN_SIZE, Down, Header, MAGIC, MAX_VPS, ManagerLine, RequestLine, UP_SIZE, Up, VERSION, VpLine,
};

#[test]
fn version_1_is_pinned() {
    assert_eq!(VERSION, 1, "a new version needs a new golden test beside this one");
    assert_eq!(MAGIC.to_le_bytes(), *b"NANOSARE");
    assert_eq!((DOWN_SIZE, UP_SIZE, MAX_VPS), (4096, 69_632, 1024));
}

#[test]
fn lines_keep_their_distance() {
    for (name, size, align) in [
        ("Header", size_of::<Header>(), align_of::<Header>()),
        ("GrantLine", size_of::<GrantLine>(), align_of::<GrantLine>()),
        ("CpuLine", size_of::<CpuLine>(), align_of::<CpuLine>()),
        ("ManagerLine", size_of::<ManagerLine>(), align_of::<ManagerLine>()),
        ("RequestLine", size_of::<RequestLine>(), align_of::<RequestLine>()),
    ] {
        assert_eq!((size, align), (128, 128), "{name}");
    }
    assert_eq!((size_of::<VpLine>(), align_of::<VpLine>()), (64, 64));
    assert_eq!(size_of::<GrantArea>(), 3 * 128);
}

#[test]
fn down_lies_as_documented() {
    assert_eq!(offset_of!(Down, header), 0);
    assert_eq!(offset_of!(Down, grant), 128);
    assert_eq!(offset_of!(Down, manager), 512);
    assert_eq!(size_of::<Down>(), 640);
}

#[test]
fn up_lies_as_documented() {
    assert_eq!(offset_of!(Up, header), 0);
    assert_eq!(offset_of!(Up, request), 128);
    assert_eq!(offset_of!(Up, vps), 256);
    assert_eq!(size_of::<Up>(), 256 + 64 * MAX_VPS);
}

#[test]
fn the_bytes_of_an_area_are_pinned() {
    let down = Down::default();
    down.header.write(nanothreads_arena::layout::Kind::Down, DOWN_SIZE, 9);
    let cpus = [0, 65].map(platform::affinity::CpuId).into_iter().collect();
    down.grant.publish(3, true, false, &cpus);
    down.manager.beat(0x1122);
    down.manager.set_quantum_ns(0x3344);
    // SAFETY: - `down` is live and `size_of::<Down>()` bytes long; nobody writes it meanwhile; it has no padding that
    //           is not zeroed: reading uninitialised padding is avoided by looking at the named words only.
    let word = |offset: usize| unsafe { (&raw const down).cast::<u8>().add(offset).cast::<u64>().read() };
    let expected = [
        (0, MAGIC),
        (8, u64::from(VERSION) | 1 << 32),
        (16, DOWN_SIZE as u64),
        (24, 9),
        (128, Grant { processors: 3, dedicated: true, shared: false, epoch: 1 }.pack()),
        (128, 3 | 1 << 16 | 1 << 32),
        // The bitmap of odd epochs is the second one.
        (256, 0),
        (384, 1),
        (392, 2),
        (512, 0x1122),
        (520, 0x3344),
    ];
    for (offset, value) in expected {
        assert_eq!(word(offset), value, "offset {offset}");
    }
}

#[test]
fn the_grant_words_bits_are_pinned() {
    let grant = Grant { processors: 0x3ff, dedicated: false, shared: true, epoch: 0xdead_beef };
    assert_eq!(grant.pack(), 0xdead_beef_0002_03ff);
}
