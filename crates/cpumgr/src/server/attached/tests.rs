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
