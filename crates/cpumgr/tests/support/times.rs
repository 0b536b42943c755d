//! What a program measures of the manager: for the bench.

use std::sync::Arc;
use std::time::Duration;

use arena::client::Client;
use platform::affinity::{Tid, affinity, current_tid};
use platform::clock::monotonic_ns;

/// Times from a request to a virtual processor that slept for it and runs: two rings each, so slower than the manager
/// lets one program ring.
pub(super) fn requests(client: &Arc<Client>, count: u32) -> String {
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
        std::thread::sleep(Duration::from_millis(6));
        let begin = monotonic_ns();
        client.request(2);
        times.push((woken.1.recv().unwrap().saturating_sub(begin)).to_string());
        client.request(1);
    }
    drop(go.0);
    vp.join().unwrap();
    times.join(" ")
}

/// Sleeps until there are `processors`, and says when that was.
pub(super) fn wake(client: &Client, processors: u32) -> String {
    client.park(0, || client.grant().processors >= processors);
    monotonic_ns().to_string()
}

/// Waits for a smaller grant, then for the mask of thread `spinner` to follow.
pub(super) fn squeeze(client: &Client, spinner: Tid) -> String {
    let ((_, cpus), before) = (client.grant_with_cpus(), affinity(Some(spinner)).unwrap());
    while client.grant().processors as usize >= cpus.len() {
        std::thread::sleep(Duration::from_micros(50));
    }
    let begin = monotonic_ns();
    while affinity(Some(spinner)).unwrap() == before {
        std::thread::sleep(Duration::from_micros(50));
    }
    (monotonic_ns() - begin).to_string()
}
