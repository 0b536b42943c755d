use super::*;
use crate::affinity::current_tid;
use crate::error::SysError;
use proptest::prelude::*;

/// A record as the kernel writes it.
fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_ne_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(u16::try_from(HEAD + body.len()).unwrap().to_ne_bytes());
    bytes.extend(body);
    bytes
}

fn sample(sample: Sample) -> Vec<u8> {
    let mut body = 77u32.to_ne_bytes().to_vec();
    body.extend(sample.thread.to_ne_bytes());
    body.extend(sample.address.to_ne_bytes());
    body.extend(sample.processor.to_ne_bytes());
    body.extend([0; 4]);
    record(RECORD_SAMPLE, &body)
}

/// A ring of 512 bytes that has these after `tail`.
fn ring(tail: u64, bytes: &[u8]) -> Vec<u8> {
    let mut ring = vec![0xee; 512];
    for (index, byte) in bytes.iter().enumerate() {
        ring[(usize::try_from(tail).unwrap() + index) % 512] = *byte;
    }
    ring
}

fn read(tail: u64, bytes: &[u8]) -> (Vec<Sample>, RingCounts) {
    let mut samples = Vec::new();
    let head = tail + bytes.len() as u64;
    let tally = parse(&ring(tail, bytes), tail, head, |sample| samples.push(sample));
    (samples, tally)
}

const ONE: Sample = Sample { thread: 5, address: 0x7f00_1234_5678, processor: 3 };

#[test]
fn samples_lost_ones_and_records_of_other_kinds_are_told_apart() {
    let mut bytes = sample(ONE);
    bytes.extend(record(5, &[1; 16]));
    bytes.extend(record(RECORD_LOST, &[9u64.to_ne_bytes(), 40u64.to_ne_bytes()].concat()));
    bytes.extend(record(RECORD_LOST_SAMPLES, &2u64.to_ne_bytes()));
    bytes.extend(sample(Sample { address: 0, ..ONE }));
    let expected = vec![ONE, Sample { address: 0, ..ONE }];
    let tally = RingCounts { samples: 2, lost: 42, garbage: 0 };
    // Also where records go over the ring's end.
    for tail in [0, 8, 480, 500, 511] {
        assert_eq!(read(tail, &bytes), (expected.clone(), tally), "from {tail}");
    }
    assert_eq!(read(512, &[]), (vec![], RingCounts::default()));
}

#[test]
fn after_a_record_that_is_none_the_rest_is_garbage() {
    let good = sample(ONE);
    for size in [0u16, 7, 12, 400] {
        let mut bytes = good.clone();
        let mut wrong = sample(ONE);
        wrong[6..8].copy_from_slice(&size.to_ne_bytes());
        bytes.extend(&wrong);
        bytes.extend(&good);
        let garbage = (bytes.len() - good.len()) as u64;
        let tally = RingCounts { samples: 1, lost: 0, garbage };
        assert_eq!(read(24, &bytes), (vec![ONE], tally), "size {size}");
    }
    // A sample without its fields, and a piece of a head.
    let mut bytes = record(RECORD_SAMPLE, &[0; 8]);
    bytes.extend(&good);
    bytes.extend([9, 0, 0]);
    assert_eq!(
        read(0, &bytes),
        (vec![ONE], RingCounts { samples: 1, lost: 0, garbage: 3 }.with(16))
    );
    // Positions that no ring has.
    let tally = parse(&[0; 512], 10, 5, |_| panic!("there is no sample"));
    assert_eq!(tally, RingCounts { garbage: 512, ..RingCounts::default() });
    assert_eq!(parse(&[], 0, 8, |_| panic!("there is no sample")), RingCounts::default());
}

impl RingCounts {
    fn with(self, garbage: u64) -> Self {
        Self { garbage: self.garbage + garbage, ..self }
    }
}

proptest! {
    #[test]
    fn whatever_a_ring_holds_is_read_to_its_end(
        bytes in proptest::collection::vec(any::<u8>(), 0..512),
        tail in 0u64..2000,
    ) {
        let (samples, tally) = read(tail, &bytes);
        prop_assert_eq!(samples.len() as u64, tally.samples);
        prop_assert!(tally.garbage <= bytes.len() as u64);
    }

    #[test]
    fn every_sample_comes_back_in_order_wherever_it_lies(
        given in proptest::collection::vec((any::<u32>(), any::<u64>(), any::<u32>()), 0..16),
        tail in any::<u32>(),
    ) {
        let given: Vec<Sample> = given
            .into_iter()
            .map(|(thread, address, processor)| Sample { thread, address, processor })
            .collect();
        let bytes: Vec<u8> = given.iter().flat_map(|one| sample(*one)).collect();
        let (samples, tally) = read(u64::from(tail), &bytes);
        prop_assert_eq!(tally, RingCounts { samples: given.len() as u64, ..RingCounts::default() });
        prop_assert_eq!(samples, given);
    }
}

#[test]
fn an_event_is_put_together_from_the_places_of_its_fields() {
    let format = |field: &str| {
        let place = match field {
            "event" => "config:0-7\n",
            "umask" => "config:8-15",
            "ldlat" => "config1:0-15",
            "inv" => "config:23",
            "far" => "config3:0-7",
            _ => return None,
        };
        Some(place.to_owned())
    };
    let of = |event| configured(event, format);
    assert_eq!(of("event=0xcd,umask=0x1,ldlat=3\n"), Some((0x1cd, 3)));
    assert_eq!(of("event=0xd0,inv"), Some((0x80_00d0, 0)));
    for wrong in ["event=0x1cd", "event=x", "far=1", "unknown=1", "inv=2", ""] {
        assert_eq!(of(wrong), None, "{wrong}");
    }
}

#[test]
fn a_machines_units_are_found_with_their_precision_or_it_is_said_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let why = || memory_events_in(root).unwrap_err();
    assert!(why().contains("offer no events"), "{}", why());
    write("cpu/type", "4\n");
    assert!(why().contains("no loads with addresses"), "{}", why());
    write("cpu/events/mem-loads", "event=0xcd,ldlat=30\n");
    assert!(why().contains("not precise"), "{}", why());
    write("cpu/caps/max_precise", "3\n");
    assert!(why().contains("not as documented"), "{}", why());
    write("cpu/format/event", "config:0-7\n");
    write("cpu/format/ldlat", "config1:0-15\n");
    write("ibs_op/type", "11\n");
    let events = memory_events_in(root).unwrap();
    let kinds: Vec<_> = events.iter().map(|event| (event.kind, event.precise)).collect();
    assert_eq!(kinds, [(4, 3), (11, 0)]);
    assert_eq!((events[0].config, events[0].config1), (0xcd, 30));
    assert_eq!(events[1].period % 16, 0);
}

/// The whole way through the kernel, by the one event with addresses that needs no such processor.
#[test]
fn page_faults_are_sampled_with_address_and_thread() {
    let thread = current_tid();
    let mut sampler = match Sampler::open(&Event::page_faults(), thread) {
        Ok(sampler) => sampler,
        Err(error) => return crate::skip!("{}", why_refused(error)),
    };
    let page = crate::numa::page_bytes();
    let touch = |pages: &crate::numa::Pages| {
        for address in pages.addresses().step_by(page) {
            let offset = address - pages.addresses().start;
            let byte = pages.first().as_ptr().cast::<u8>().wrapping_add(offset);
            // SAFETY: - the test's memory.
            unsafe { byte.write_volatile(1) };
        }
    };
    let fresh = |count: usize| {
        let pages = crate::numa::Pages::map(count * page).unwrap();
        crate::numa::advise(pages.addresses(), crate::numa::Advice::NoHugePages).unwrap();
        pages
    };
    let pages = fresh(40);
    touch(&pages);
    let mut found = Vec::new();
    let tally = sampler.drain(|sample| {
        let address = usize::try_from(sample.address).unwrap();
        if pages.addresses().contains(&address) {
            assert_eq!(sample.thread, thread.0.cast_unsigned());
            found.push((address - pages.addresses().start) / page);
        }
    });
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, (0..40).collect::<Vec<_>>());
    assert_eq!((tally.lost, tally.garbage), (0, 0));
    // Those of this test's own vectors may have come since.
    sampler.drain(|sample| {
        let address = usize::try_from(sample.address).unwrap();
        assert!(!pages.addresses().contains(&address), "what was read is not read again");
    });
    // A ring of 8 pages holds 1024 samples: the others are lost, and told.
    let many = fresh(2000);
    touch(&many);
    let first = sampler.drain(|_| {});
    touch(&fresh(10));
    let second = sampler.drain(|_| {});
    assert!(first.samples >= 1000 && second.samples >= 10);
    assert!(first.lost + second.lost >= 900, "{first:?} {second:?}");
}

#[test]
fn an_event_that_is_none_is_refused_by_name() {
    let unknown = Event { kind: 9999, ..Event::page_faults() };
    let error = Sampler::open(&unknown, current_tid()).unwrap_err();
    assert!(!why_refused(error).is_empty());
    let gone = Sampler::open(&Event::page_faults(), Tid(i32::MAX)).unwrap_err();
    assert_eq!(gone.call(), "perf_event_open");
    let mapping = SysError::new("mmap", libc::EPERM);
    assert!(why_refused(mapping).contains("perf_event_mlock_kb"));
    assert!(why_refused(SysError::new("perf_event_open", libc::EACCES)).contains("paranoid"));
}
