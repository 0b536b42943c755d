//! Sets of processors and masks of threads.

use std::collections::BTreeSet;

use nanothreads_platform::affinity::{
    CpuId, CpuSet, Tid, affinity, current_cpu, current_tid, set_affinity,
};
use proptest::prelude::*;

fn set(cpus: &[u32]) -> CpuSet {
    cpus.iter().copied().map(CpuId).collect()
}

fn numbers(set: &CpuSet) -> Vec<u32> {
    set.iter().map(|cpu| cpu.0).collect()
}

#[test]
fn lists_are_read_as_the_kernel_writes_them() {
    for (text, expected) in [
        ("", vec![]),
        ("\n", vec![]),
        ("0", vec![0]),
        ("0-3,8\n", vec![0, 1, 2, 3, 8]),
        ("5,1-2", vec![1, 2, 5]),
        ("1-2, 2-3", vec![1, 2, 3]),
        ("0-15:2/8", vec![0, 1, 8, 9]),
        ("4-9:1/4", vec![4, 8]),
        ("1023,1024,4095", vec![1023, 1024, 4095]),
    ] {
        assert_eq!(numbers(&CpuSet::parse_list(text).unwrap()), expected, "{text:?}");
    }
}

#[test]
fn a_bad_list_is_refused_with_the_item_and_the_reason() {
    for (text, item, reason) in [
        ("0-3,x", "x", "not a number"),
        ("0,,1", "\"\"", "not a number"),
        ("+1", "+1", "not a number"),
        ("3-1", "3-1", "backwards"),
        ("1-", "1-", "not a number"),
        ("-1", "-1", "not a number"),
        ("65536", "65536", "out of bounds"),
        ("0-99999999999", "0-99999999999", "out of bounds"),
        ("3:1/2", "3:1/2", "without a range"),
        ("0-3:1", "0-3:1", "without '/'"),
        ("0-3:0/2", "0-3:0/2", "empty or larger"),
        ("0-3:3/2", "0-3:3/2", "empty or larger"),
        ("0-3:0/0", "0-3:0/0", "empty or larger"),
    ] {
        let message = CpuSet::parse_list(text).unwrap_err().to_string();
        assert!(
            message.contains(text) && message.contains(item) && message.contains(reason),
            "{message}"
        );
    }
}

#[test]
#[should_panic(expected = "processor number 65536 is not below 65536")]
fn a_processor_number_beyond_the_limit_is_a_programming_error() {
    CpuSet::new().insert(CpuId(CpuSet::LIMIT));
}

#[test]
fn insert_and_remove_tell_whether_they_changed_something() {
    let mut cpus = CpuSet::new();
    assert!(cpus.insert(CpuId(70)) && !cpus.insert(CpuId(70)));
    assert!(!cpus.remove(CpuId(6)) && !cpus.remove(CpuId(100_000)));
    assert!(cpus.remove(CpuId(70)) && !cpus.remove(CpuId(70)));
    // Equality must not see the words that were once in use.
    assert_eq!(cpus, CpuSet::new());
    assert_eq!((cpus.first(), cpus.last(), cpus.to_string().as_str()), (None, None, ""));
}

#[test]
fn words_round_trip_without_zero_tail() {
    let cpus = CpuSet::from_words(&[1, 0, 1 << 63, 0, 0]);
    assert_eq!(numbers(&cpus), [0, 191]);
    assert_eq!(cpus.words(), [1, 0, 1 << 63]);
    assert_eq!(CpuSet::first_n(65).words(), [u64::MAX, 1]);
}

fn any_cpus() -> impl Strategy<Value = BTreeSet<u32>> {
    proptest::collection::btree_set(0..300_u32, 0..80)
}

proptest! {
    #[test]
    fn a_set_behaves_as_an_ordered_set_of_numbers(a in any_cpus(), b in any_cpus()) {
        let make = |of: &BTreeSet<u32>| of.iter().copied().map(CpuId).collect::<CpuSet>();
        let (left, right) = (make(&a), make(&b));
        prop_assert_eq!(left.len(), a.len());
        prop_assert_eq!(left.first(), a.first().copied().map(CpuId));
        prop_assert_eq!(left.last(), a.last().copied().map(CpuId));
        prop_assert_eq!(numbers(&left), a.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(left.union(&right), make(&(&a | &b)));
        prop_assert_eq!(left.intersection(&right), make(&(&a & &b)));
        prop_assert_eq!(left.difference(&right), make(&(&a - &b)));
        prop_assert_eq!(left.is_subset(&right), a.is_subset(&b));
        prop_assert_eq!(left.is_disjoint(&right), a.is_disjoint(&b));
        prop_assert_eq!(left.is_empty(), a.is_empty());
        prop_assert_eq!(CpuSet::parse_list(&left.to_string()).unwrap(), left);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[0-9,:/ x-]{0,24}") {
        if let Ok(set) = CpuSet::parse_list(&text) {
            prop_assert_eq!(CpuSet::parse_list(&set.to_string()).unwrap(), set);
        }
    }
}

#[test]
fn a_thread_runs_where_its_mask_says_and_gets_the_exact_mask_back() {
    // In a thread of its own: the mask of the test harness's thread stays as it is.
    std::thread::spawn(|| {
        let all = affinity(None).unwrap();
        assert!(!all.is_empty());
        for cpu in &all {
            set_affinity(None, &CpuSet::single(cpu)).unwrap();
            assert_eq!(affinity(Some(current_tid())).unwrap(), CpuSet::single(cpu));
            assert_eq!(current_cpu(), cpu);
        }
        set_affinity(Some(current_tid()), &all).unwrap();
        assert_eq!(affinity(None).unwrap(), all);
    })
    .join()
    .unwrap();
}

#[test]
fn another_threads_mask_can_be_set() {
    let (send_tid, tid) = std::sync::mpsc::channel();
    let (finish, finished) = std::sync::mpsc::channel::<()>();
    let sleeper = std::thread::spawn(move || {
        send_tid.send(current_tid()).unwrap();
        assert!(finished.recv().is_err(), "the channel closes, nothing is sent");
        affinity(None).unwrap()
    });
    let tid = tid.recv().unwrap();
    let target = CpuSet::single(affinity(None).unwrap().last().unwrap());
    set_affinity(Some(tid), &target).unwrap();
    drop(finish);
    assert_eq!(sleeper.join().unwrap(), target);
}

#[test]
fn masks_without_a_usable_processor_are_refused_by_name() {
    let absent = CpuSet::single(CpuId(CpuSet::LIMIT - 1));
    for mask in [CpuSet::new(), absent, set(&[])] {
        let before = affinity(None).unwrap();
        let error = set_affinity(None, &mask).unwrap_err();
        assert_eq!(error.to_string(), "sched_setaffinity: Invalid argument (EINVAL)");
        assert_eq!(affinity(None).unwrap(), before);
    }
}

#[test]
fn a_thread_that_is_not_there_is_esrch_and_never_the_caller() {
    let mask = affinity(None).unwrap();
    // Numbers end at 2^22 (PID_MAX_LIMIT).
    for tid in [Tid(i32::MAX), Tid(0), Tid(-1)] {
        assert_eq!(affinity(Some(tid)).unwrap_err().errno(), libc::ESRCH);
        assert_eq!(set_affinity(Some(tid), &mask).unwrap_err().errno(), libc::ESRCH);
    }
}

#[test]
fn another_users_thread_is_refused_with_eperm() {
    // SAFETY: - geteuid takes nothing and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        nanothreads_platform::skip!("root may bind every thread");
        return;
    }
    let init = Tid(1);
    let Ok(mask) = affinity(Some(init)) else {
        nanothreads_platform::skip!("process 1 is hidden");
        return;
    };
    if std::fs::metadata("/proc/1")
        .is_ok_and(|init| std::os::unix::fs::MetadataExt::uid(&init) != 0)
    {
        nanothreads_platform::skip!("process 1 is not root's");
        return;
    }
    assert_eq!(set_affinity(Some(init), &mask).unwrap_err().errno(), libc::EPERM);
}
