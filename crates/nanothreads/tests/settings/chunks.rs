//! What loops over slices tell of their chunks.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::{self, ThreadId};

use nanothreads::{Schedule, builder, par_chunks_mut};

type Chunks = Mutex<Vec<(ThreadId, Range<usize>)>>;

static IS_WANTED: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicUsize = AtomicUsize::new(0);
static HEARD: Chunks = Mutex::new(Vec::new());
static RAN: Chunks = Mutex::new(Vec::new());

#[expect(clippy::unwrap_used, reason = "a test that has no value fails")]
fn note(chunks: &Chunks, addresses: Range<usize>) {
    chunks.lock().unwrap().push((thread::current().id(), addresses));
}

fn ran<T>(chunk: &[T]) {
    let addresses = chunk.as_ptr_range();
    note(&RAN, addresses.start.addr()..addresses.end.addr());
}

/// What was told and what ran since the last call, in the order of addresses.
#[expect(clippy::unwrap_used, reason = "a test that has no value fails")]
fn taken() -> [Vec<(ThreadId, Range<usize>)>; 2] {
    [&HEARD, &RAN].map(|chunks| {
        let mut chunks = std::mem::take(&mut *chunks.lock().unwrap());
        chunks.sort_by_key(|chunk| chunk.1.start);
        chunks
    })
}

#[test]
fn each_chunk_is_told_once_on_the_thread_that_runs_it_while_that_is_wanted() {
    own_process!();
    let is_wanted = || {
        ASKED.fetch_add(1, Relaxed);
        IS_WANTED.load(Relaxed)
    };
    builder().threads(3).on_chunk(is_wanted, |chunk| note(&HEARD, chunk)).install().unwrap();
    let (mut words, mut bytes) = (vec![0_u32; 1000], vec![0_u8; 500]);
    par_chunks_mut(&mut words, 7).run(|_, chunk| ran(chunk));
    let [heard, ran_alone] = taken();
    assert_eq!((heard.len(), ran_alone.len(), ASKED.load(Relaxed)), (0, 143, 1));

    IS_WANTED.store(true, Relaxed);
    for schedule in [Schedule::Static, Schedule::Auto, Schedule::PURE] {
        par_chunks_mut(&mut words, 7).schedule(schedule).run(|_, chunk| ran(chunk));
        let [heard, ran] = taken();
        assert_eq!((heard.len(), &heard), (143, &ran), "{schedule:?}");
    }
    par_chunks_mut(&mut words, 100).map(|_, chunk| ran(chunk));
    par_chunks_mut(&mut bytes, 100).reduce((), |_, chunk| ran(chunk), |(), ()| ());
    par_chunks_mut(&mut words, 200).zip(&mut bytes, 100).run(|_, words, bytes| {
        ran(words);
        ran(bytes);
    });
    let [heard, ran] = taken();
    assert_eq!(heard.len(), 10 + 5 + 2 * 5);
    let bytes_of = |chunks: &[(ThreadId, Range<usize>)]| -> usize {
        chunks.iter().map(|chunk| chunk.1.len()).sum()
    };
    assert_eq!(bytes_of(&heard), 2 * (4000 + 500));
    assert_eq!(heard.len(), ran.len());
    assert!(heard.iter().all(|chunk| ran.contains(chunk)), "{heard:?} {ran:?}");
    // Once for each slice of each loop.
    assert_eq!(ASKED.load(Relaxed), 1 + 3 + 2 + 2);
}
