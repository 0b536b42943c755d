//! A team of two on one processor, beside a busy stranger there: it has its share of the processor,
//! though its threads wait for each other all the time. One test: the mask is the process's.

use crate::processor_time::processor_time;
use nanothreads::{Team, builder};
use platform::affinity::{CpuSet, affinity, set_affinity};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Uses up its processor until it is dropped.
struct Stranger(Child);

impl Stranger {
    fn start() -> std::io::Result<Self> {
        Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .stdin(Stdio::null())
            .spawn()
            .map(Self)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        // It may have been killed from outside.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_team_that_takes_turns_has_its_share_beside_a_busy_stranger() {
    own_process!();
    let here = CpuSet::single(
        affinity(None).expect("this thread's mask").first().expect("it runs somewhere"),
    );
    set_affinity(None, &here).expect("a processor of the mask");
    builder().threads(2).adapt(false).install().expect("nothing ran before");
    let team = Team::exact(2).expect("threads");
    let stranger = match Stranger::start() {
        Ok(stranger) => stranger,
        Err(error) => return platform::skip!("no stranger: {error}"),
    };
    let (begin, before) = (Instant::now(), processor_time());
    let mut regions = 0;
    while begin.elapsed() < Duration::from_millis(1000) {
        team.run(|member| member.barrier());
        regions += 1;
    }
    let (passed, ran) = (begin.elapsed(), processor_time() - before);
    drop(stranger);
    println!("{regions} regions; ran for {ran:?} of {passed:?}");
    // Fair is a half, if nothing else runs there. A thread that only yields has a few microseconds
    // of each of the stranger's time slices.
    assert!(ran > passed / 20, "{ran:?} of {passed:?}, {regions} regions");
}
