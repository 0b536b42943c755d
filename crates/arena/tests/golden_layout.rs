//! The layout, byte by byte: a change here is a new layout version, or breaks programs that run.
#![cfg(not(loom))]

use std::mem::{align_of, offset_of, size_of};

use nanothreads_arena::domain::MemberLine;
use nanothreads_arena::global::{GLOBAL_SIZE, Global, LifeLine, State, StateLine};
use nanothreads_arena::grant::{CpuLine, Grant, GrantArea, GrantLine, Turn};
use nanothreads_arena::header::{Header, Kind, MAGIC, VERSION};
use nanothreads_arena::layout::{
    DOWN_SIZE, Down, MAX_VPS, NoticeLine, ReleaseLine, RequestLine, UP_SIZE, Up, Verdict, VpLine,
    VpState, VpWord,
};
use nanothreads_arena::report::ReportLine;
use platform::affinity::CpuId;

#[test]
fn version_2_is_pinned() {
    assert_eq!(VERSION, 2, "a new version needs a new golden test in place of this one");
    assert_eq!(MAGIC.to_le_bytes(), *b"NANOSARE");
    assert_eq!((DOWN_SIZE, UP_SIZE, GLOBAL_SIZE, MAX_VPS), (8192, 69_632, 4096, 1024));
    assert_eq!((Kind::Down as u32, Kind::Up as u32, Kind::Global as u32), (1, 2, 3));
}

#[test]
fn lines_keep_their_distance() {
    for (name, size, align) in [
        ("Header", size_of::<Header>(), align_of::<Header>()),
        ("GrantLine", size_of::<GrantLine>(), align_of::<GrantLine>()),
        ("CpuLine", size_of::<CpuLine>(), align_of::<CpuLine>()),
        ("NoticeLine", size_of::<NoticeLine>(), align_of::<NoticeLine>()),
        ("RequestLine", size_of::<RequestLine>(), align_of::<RequestLine>()),
        ("ReleaseLine", size_of::<ReleaseLine>(), align_of::<ReleaseLine>()),
        ("ReportLine", size_of::<ReportLine>(), align_of::<ReportLine>()),
        ("LifeLine", size_of::<LifeLine>(), align_of::<LifeLine>()),
        ("StateLine", size_of::<StateLine>(), align_of::<StateLine>()),
    ] {
        assert_eq!((size, align), (128, 128), "{name}");
    }
    assert_eq!((size_of::<VpLine>(), align_of::<VpLine>()), (64, 64));
    assert_eq!((size_of::<VpWord>(), align_of::<VpWord>()), (4, 4));
    assert_eq!(size_of::<GrantArea>(), 3 * 128);
}

#[test]
fn down_lies_as_documented() {
    assert_eq!(offset_of!(Down, header), 0);
    assert_eq!(offset_of!(Down, grant), 128);
    assert_eq!(offset_of!(Down, notice), 512);
    assert_eq!(offset_of!(Down, vps), 640);
    assert_eq!(size_of::<Down>(), 640 + 4 * MAX_VPS);
}

#[test]
fn up_lies_as_documented() {
    assert_eq!(offset_of!(Up, header), 0);
    assert_eq!(offset_of!(Up, request), 128);
    assert_eq!(offset_of!(Up, released), 256);
    assert_eq!(offset_of!(Up, report), 384);
    assert_eq!(offset_of!(Up, vps), 512);
    assert_eq!(offset_of!(VpLine, park), 8);
    assert_eq!(size_of::<Up>(), 512 + 64 * MAX_VPS);
}

#[test]
fn the_page_of_all_programs_lies_as_documented() {
    assert_eq!(offset_of!(Global, header), 0);
    assert_eq!(offset_of!(Global, life), 128);
    assert_eq!(offset_of!(Global, state), 256);
    assert_eq!(offset_of!(Global, cpus), 384);
    assert_eq!(size_of::<Global>(), 512);
}

/// The named words of an area, as bytes in memory.
fn words<T, const N: usize>(area: &T, offsets: [usize; N]) -> [u64; N] {
    offsets.map(|offset| {
        assert!(offset + 8 <= size_of::<T>());
        // SAFETY: - within `area`, which is live, aligned to 8 and not written meanwhile; the words
        //           named here are fields or zeroed padding of lines that were made by `Default`
        //           from zeroes.
        unsafe { std::ptr::from_ref(area).cast::<u8>().add(offset).cast::<u64>().read() }
    })
}

#[test]
fn the_bytes_of_down_are_pinned() {
    let down = Down::default();
    down.header.write(Kind::Down, DOWN_SIZE, 9);
    down.grant.publish(3, true, false, [0, 65].map(CpuId).into_iter());
    down.grant.set_turn(Turn::At(0x1122));
    down.notice.ask_for(5);
    down.notice.set_preempted(6);
    down.notice.set_grace_ns(0x3344);
    down.vps[0].set(Some(CpuId(65)), Verdict::Run);
    down.vps[1].set(None, Verdict::Squeezed);
    let found = words(&down, [0, 8, 16, 24, 128, 136, 256, 384, 392, 512, 520, 640]);
    let grant = 3 | 1 << 16 | 1 << 32;
    let published =
        Grant { processors: 3, dedicated: true, shared: false, fixed_team: false, epoch: 1 };
    assert_eq!(grant, published.pack());
    // The bitmap of odd epochs is the second one.
    let [kind, size] = [u64::from(VERSION) | 1 << 32, DOWN_SIZE as u64];
    let vps = 66 | 1 << 16 | 3 << (32 + 16);
    let asked = 5 | 6 << 32;
    assert_eq!(found, [MAGIC, kind, size, 9, grant, 0x1122, 0, 1, 2, asked, 0x3344, vps]);
    for (turn, word) in [(Turn::None, 0), (Turn::Now, 1)] {
        down.grant.set_turn(turn);
        assert_eq!(words(&down, [136]), [word]);
    }
}

#[test]
fn the_bytes_of_a_request_are_pinned() {
    let request = RequestLine::default();
    request.ask(3);
    request.set_lowest(2);
    request.note_release(0x55);
    request.set_serial(true);
    request.note_turns(1, 3);
    request.note_turns(5, 4);
    assert_eq!(words(&request, [0, 8, 16, 24]), [3, 2 | 2 << 32, 0x55, 6 | 4 << 32]);
    let released = ReleaseLine::default();
    released.add(CpuId(64));
    assert_eq!(words(&released, [0, 8]), [0, 1]);
    let vp = VpLine::default();
    vp.set_tid(7);
    vp.set_state(VpState::Parked);
    vp.park.prepare();
    assert_eq!(words(&vp, [0])[0], 7 | 2 << 32);
    assert!(vp.park.is_parked());
}

#[test]
fn the_bytes_of_a_report_are_pinned() {
    let report = ReportLine::default();
    report.write(4, 1, 0x66, 0x77);
    assert_eq!(words(&report, [0, 16, 24]), [2 | 4 << 32, 0x66, 0x77]);
}

#[test]
fn the_bytes_of_the_global_page_are_pinned() {
    let global = Global::default();
    global.life.beat(0x11);
    global.life.set_quantum_ns(0x22);
    global.state.set(State {
        processors: 1,
        programs: 2,
        waiting: 3,
        queued: 4,
        reports: true,
        domain: true,
    });
    global.state.set_policy("equip");
    let name = u64::from_le_bytes(*b"equip\0\0\0");
    assert_eq!(
        words(&global, [128, 136, 256, 264, 272, 304]),
        [0x11, 0x22, 1 | 2 << 32, 3 | 4 << 32, name, 1 | 1 << 32]
    );
}

#[test]
fn the_bytes_of_a_domains_line_are_pinned() {
    let line = MemberLine::default();
    line.offer(7, 2, 3);
    assert!(line.give(CpuId(64)));
    line.park.prepare();
    assert_eq!(words(&line, [0, 8, 16, 24, 144, 152]), [7, 2 | 2 << 16 | 1 << 32, 0, 1, 0, 1]);
    assert_eq!(size_of::<MemberLine>(), 384);
}

#[test]
fn the_grant_words_bits_are_pinned() {
    let grant = Grant {
        processors: 0x3ff,
        dedicated: false,
        shared: true,
        fixed_team: false,
        epoch: 0xdead_beef,
    };
    assert_eq!(grant.pack(), 0xdead_beef_0002_03ff);
    assert_eq!(Grant { fixed_team: true, ..grant }.pack(), 0xdead_beef_0006_03ff);
}
