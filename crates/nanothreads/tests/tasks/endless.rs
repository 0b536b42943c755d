//! A scope that waits for what only its own end could drop: it is reported, with places, and only
//! then.

use crate::process::{again, is_again, name_of};
use nanothreads::{builder, scope};
use std::io::Read;
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const AFTER: Duration = Duration::from_millis(200);

/// What the process says until it says `until`, or ends by itself.
fn said(test: &str, until: &str) -> String {
    let mut command = again(test);
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("a child");
    let mut stderr = child.stderr.take().expect("piped");
    let (mut text, mut piece, begin) = (String::new(), [0; 4096], Instant::now());
    while !text.contains(until) && begin.elapsed() < Duration::from_secs(60) {
        match stderr.read(&mut piece) {
            Ok(0) | Err(_) => break,
            Ok(length) => text += &String::from_utf8_lossy(&piece[..length]),
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    text
}

#[test]
fn a_scope_that_returns_its_spawner_is_reported_with_both_places() {
    let test = name_of(&|| ());
    if is_again(test) {
        builder().report_waits(AFTER).install().expect("first");
        let _never = scope(|s| {
            s.spawn(|_| ());
            s.spawner()
        });
        return;
    }
    let text = said(test, "for ever");
    assert!(
        text.contains("nanos: the scope at crates/nanothreads/tests/tasks/endless.rs:"),
        "{text}"
    );
    assert!(text.contains("made at crates/nanothreads/tests/tasks/endless.rs:"), "{text}");
    assert!(text.contains("but 1 of its spawners and completions"), "{text}");
}

#[test]
fn a_completion_that_was_leaked_is_reported_and_clones_are_counted() {
    let test = name_of(&|| ());
    if is_again(test) {
        builder().report_waits(AFTER).install().expect("first");
        scope(|s| {
            std::mem::forget(s.completion());
            let spawner = s.spawner();
            std::mem::forget((spawner.clone(), spawner));
        });
        return;
    }
    let text = said(test, "for ever");
    assert!(text.contains("but 3 of its spawners and completions"), "{text}");
}

#[test]
fn scopes_that_wait_for_tasks_or_that_were_told_not_to_report_are_silent() {
    let test = name_of(&|| ());
    if is_again(test) {
        builder().threads(2).report_waits(Duration::from_millis(20)).install().expect("first");
        // A task is what it waits for, and holds the spawner.
        scope(|s| {
            let spawner = s.spawner();
            s.spawn(move |_| {
                std::thread::sleep(Duration::from_millis(200));
                drop(spawner);
            });
        });
        // So are a task's own ones.
        scope(|s| {
            s.spawn(|s| {
                let (done, is_done) = channel::<()>();
                let completion = s.completion();
                std::thread::spawn(move || {
                    let _ = is_done.recv_timeout(Duration::from_millis(200));
                    completion.complete();
                });
                drop(done);
            });
        });
        eprintln!("at the end");
        return;
    }
    let text = said(test, "at the end");
    assert!(text.contains("at the end"), "{text}");
    assert!(!text.contains("nanos: the scope"), "{text}");
}
