//! What a program of the tests measures of the manager.

use std::sync::Arc;
use std::time::Duration;

use arena::client::Client;
use arena::layout::VpState;
use platform::affinity::{CpuSet, current_tid, set_affinity};
use platform::clock::monotonic_ns;

use super::Before;

/// Times of one work, repeated for this time.
pub(super) fn work(time: Duration) -> String {
    let begin = monotonic_ns();
    let mut times = Vec::new();
    let end = begin.saturating_add(u64::try_from(time.as_nanos()).unwrap());
    while monotonic_ns() < end {
        let begin = monotonic_ns();
        let mut state = 1_u64;
        for _ in 0..10_000_000 {
            state =
                std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        times.push((monotonic_ns() - begin).to_string());
    }
    times.join(" ")
}

/// Times from a request to a virtual processor that slept for it and runs: two rings each, so
/// slower than the manager lets one program ring.
pub(super) fn requests(client: &Arc<Client>, count: u32, before: Before) -> String {
    client.request(1);
    let (asleep, hear) = std::sync::mpsc::channel();
    let (go, woken) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let vp = {
        let client = Arc::clone(client);
        let (say, wait) = (woken.0, go.1);
        std::thread::spawn(move || {
            client.publish_vp(1, current_tid());
            while wait.recv().is_ok() {
                let mut said = false;
                client.park(1, || {
                    if !said {
                        said = true;
                        asleep.send(()).unwrap();
                    }
                    client.grant().processors > 1
                });
                say.send(monotonic_ns()).unwrap();
            }
        })
    };
    let mut times = Vec::new();
    for _ in 0..count {
        while client.grant().processors > 1 {
            std::thread::sleep(Duration::from_micros(200));
        }
        go.0.send(()).unwrap();
        hear.recv().unwrap();
        // From the look to the sleep.
        before.pass(Duration::from_millis(6));
        let begin = monotonic_ns();
        client.request(2);
        times.push((woken.1.recv().unwrap().saturating_sub(begin)).to_string());
        client.request(1);
    }
    drop(go.0);
    vp.join().unwrap();
    times.join(" ")
}

/// The last virtual processor of `processors` sleeps until there are that many, and says when that
/// was.
pub(super) fn wake(client: &Client, processors: u32) -> String {
    client.park(processors as usize - 1, || client.grant().processors >= processors);
    monotonic_ns().to_string()
}

/// The master sleeps until it shares its processor with no program, and says when that was.
pub(super) fn own(client: &Client) -> String {
    client.park(0, || !client.grant().shared);
    monotonic_ns().to_string()
}

/// Virtual processor 1 is on its processor, releases it after a pause in which it did so, says when
/// that was, and sleeps. `late`: it has none any more.
pub(super) fn release(client: &Arc<Client>, pause: Duration, before: Before) -> String {
    let client = Arc::clone(client);
    let releaser = std::thread::spawn(move || {
        client.set_vp_state(1, VpState::Running);
        client.publish_vp(1, current_tid());
        if let (Some(cpu), _) = client.vp(1) {
            set_affinity(None, &CpuSet::single(cpu)).unwrap();
        }
        before.pass(pause);
        let (Some(cpu), _) = client.vp(1) else { return "late".into() };
        let begin = monotonic_ns();
        client.release(cpu);
        client.set_vp_state(1, VpState::Parked);
        // Until the other one runs: an answer before that would be in its way.
        std::thread::sleep(Duration::from_millis(3));
        begin.to_string()
    });
    releaser.join().unwrap()
}

/// From a smaller grant to the last moment at which virtual processor 1, which only looks at the
/// clock, ran on the processor that was taken. It sees both itself: a thread that looked from
/// elsewhere would have to wait for its turn.
pub(super) fn squeeze(client: &Arc<Client>) -> String {
    let client = Arc::clone(client);
    let spinner = std::thread::spawn(move || {
        let (Some(taken), _) = client.vp(1) else { panic!("virtual processor 1 has no processor") };
        set_affinity(None, &CpuSet::single(taken)).unwrap();
        client.publish_vp(1, current_tid());
        let (mut begin, mut last) = (None, monotonic_ns());
        loop {
            // In this order: what is after the clock may be elsewhere, and much later.
            let now = monotonic_ns();
            if nix::sched::sched_getcpu().unwrap() != taken.index() {
                break;
            }
            last = now;
            if begin.is_none() && client.grant().processors < 2 {
                // Not `now`: it may be from before a turn of another thread here, and before the
                // grant.
                begin = Some(monotonic_ns());
            }
        }
        // It may have been moved while it waited for its turn, before it saw the grant.
        begin.map_or(0, |begin| last.saturating_sub(begin))
    });
    spinner.join().unwrap().to_string()
}
