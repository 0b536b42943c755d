//! What the kernel's scheduler says of a thread of this process: how long it waited for a processor, and where it is.
//!
//! Two small files of `/proc`, opened at each look (some 5 us): a descriptor that is kept would be some other file once
//! the program closed all that it does not know. For looks in waits that are long already.

use crate::affinity::{CpuId, Tid};
use std::fs::File;
use std::io::Read;
use std::time::Duration;

/// How long the thread has waited for a processor in its life, while it was ready to run; up to the last time that it
/// got one. `None` where the kernel does not count (`CONFIG_SCHED_INFO`), or the thread has ended.
///
/// ```
/// # use nanothreads_platform as platform;
/// use platform::{affinity::current_tid, scheduling::run_delay};
/// if let Some(before) = run_delay(current_tid()) {
///     std::thread::yield_now();
///     assert!(run_delay(current_tid()) >= Some(before));
/// }
/// ```
pub fn run_delay(tid: Tid) -> Option<Duration> {
    parse_run_delay(&read(tid, "schedstat")?)
}

/// The processor on which the thread runs or waits to run; `None` when it sleeps, or has ended.
pub fn processor_of_ready(tid: Tid) -> Option<CpuId> {
    parse_ready(&read(tid, "stat")?)
}

fn read(tid: Tid, file: &str) -> Option<String> {
    let mut text = [0; 1024];
    let mut length = 0;
    let mut file = File::open(format!("/proc/self/task/{tid}/{file}")).ok()?;
    while length < text.len() {
        match file.read(&mut text[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            // The thread ended meanwhile.
            Err(_) => return None,
        }
    }
    Some(String::from_utf8_lossy(&text[..length]).into_owned())
}

/// Three numbers: nanoseconds on a processor, nanoseconds waiting for one, time slices.
fn parse_run_delay(text: &str) -> Option<Duration> {
    let mut fields = text.split_ascii_whitespace();
    let (_, delay, _) = (fields.next()?, fields.next()?, fields.next()?);
    delay.parse().ok().map(Duration::from_nanos)
}

/// Field 3 is the state, field 39 the processor. Field 2 is the name in parentheses, and may hold anything.
fn parse_ready(text: &str) -> Option<CpuId> {
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    if fields.next()? != "R" {
        return None;
    }
    fields.nth(35)?.parse().ok().map(CpuId)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::affinity::{CpuSet, affinity, current_tid, set_affinity};
    use proptest::prelude::*;

    #[test]
    fn a_running_thread_is_ready_where_it_runs_and_a_sleeping_one_nowhere() {
        std::thread::spawn(|| {
            let here = affinity(None).unwrap().first().unwrap();
            set_affinity(None, &CpuSet::single(here)).unwrap();
            assert_eq!(processor_of_ready(current_tid()), Some(here));
            let (tid, own) = std::sync::mpsc::channel();
            let (end, wait) = std::sync::mpsc::channel::<()>();
            let sleeper = std::thread::spawn(move || {
                tid.send(current_tid()).unwrap();
                wait.recv().unwrap_err();
            });
            let sleeper_tid = own.recv().unwrap();
            while processor_of_ready(sleeper_tid).is_some() {
                std::thread::yield_now();
            }
            drop(end);
            sleeper.join().unwrap();
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_that_shares_its_processor_waits_for_it() {
        let Some(begin) = run_delay(current_tid()) else {
            return println!("skipped: this kernel does not count run delays");
        };
        let here = affinity(None).unwrap().first().unwrap();
        let pin = || set_affinity(None, &CpuSet::single(here)).unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let waiting = scope.spawn(|| {
                pin();
                while run_delay(current_tid()).unwrap() < begin.max(Duration::from_millis(5)) {
                    std::hint::spin_loop();
                }
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            waiting.join().unwrap();
        });
    }

    #[test]
    fn names_of_threads_do_not_confuse() {
        let rest =
            "R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 7 0";
        assert_eq!(parse_ready(&format!("12 (a) S) b) {rest}")), Some(CpuId(7)));
        assert_eq!(parse_ready(&format!("12 (a) {}", rest.replacen('R', "S", 1))), None);
        assert_eq!(parse_run_delay("10 2000 3\n"), Some(Duration::from_nanos(2000)));
        assert_eq!(parse_run_delay("10 2000"), None);
    }

    proptest! {
        #[test]
        fn nothing_that_a_file_may_hold_panics(text in ".*") {
            let _ = (parse_ready(&text), parse_run_delay(&text));
        }
    }
}
