use super::super::looks::tests::Asked;
use super::super::model::Process;
use super::*;

#[test]
fn a_thread_made_by_one_that_was_not_moved_yet_counts_as_the_initial_threads() {
    let process = Process::start();
    let (kernel, second) = (Asked::default(), process.second);
    let uid = nix::unistd::geteuid().as_raw();
    let all = CpuSet::first_n(3);
    let (first, other) = (CpuSet::parse_list("0").unwrap(), CpuSet::parse_list("1").unwrap());
    let mut attached = Attached::open(process.pid(), uid, &all, &kernel, 0).unwrap();
    for cpus in [&first, &other] {
        attached.move_to(cpus.clone(), 0);
        assert_eq!(attached.look(&kernel, 0), Ok(true));
    }
    // Listed before it was there, with the mask of its maker.
    let make = |attached: &mut Attached| {
        attached.bound.remove(&second.0);
        kernel.set_affinity(second, &first).unwrap();
        attached.seen = Some(BTreeSet::new());
    };
    make(&mut attached);
    assert_eq!(attached.look(&kernel, 0), Ok(true));
    assert_eq!(attached.bound[&second.0], Bound { before: all.clone(), now: other.clone() });
    assert!(attached.written().former.contains(&"0".to_owned()));
    make(&mut attached);
    attached.restore(&kernel);
    assert_eq!(kernel.affinity(second).unwrap(), all);
}

/// So many threads of this process that wait, until the other end is dropped.
fn threads(count: usize) -> (Vec<std::thread::JoinHandle<()>>, std::sync::mpsc::Sender<()>) {
    let (ends, end) = std::sync::mpsc::channel::<()>();
    let end = std::sync::Arc::new(std::sync::Mutex::new(end));
    let wait = |end: std::sync::Arc<std::sync::Mutex<std::sync::mpsc::Receiver<()>>>| {
        let _end = end.lock().map(|end| end.recv());
    };
    let small = || std::thread::Builder::new().stack_size(32 << 10);
    let start = |_| {
        let end = std::sync::Arc::clone(&end);
        small().spawn(move || wait(end)).unwrap()
    };
    ((0..count).map(start).collect(), ends)
}

#[test]
fn all_of_more_than_a_thousand_threads_are_bound_and_what_is_beyond_is_counted() {
    // The masks are the test's own: no thread of it is bound.
    let kernel = Asked::default();
    let uid = nix::unistd::geteuid().as_raw();
    let (all, first) = (CpuSet::first_n(3), CpuSet::parse_list("0").unwrap());
    let (handles, ends) = threads(1100);
    let mut attached = Attached::open(process::current_pid(), uid, &all, &kernel, 0).unwrap();
    attached.move_to(first.clone(), 0);
    while !attached.look(&kernel, 0).unwrap() {}
    assert!(attached.bound.len() > 1100, "{}", attached.bound.len());
    assert!(attached.bound.values().all(|it| it.now == first));
    assert_eq!(attached.beyond, 0);
    drop(ends);
    handles.into_iter().for_each(|it| it.join().unwrap());
}
