//! The thread and its file.

use std::fs;
use std::path::Path;

use arena::message::{FromManager, HistoryHead};
use tokio::sync::mpsc;

use super::*;
use crate::api;

/// A run of a user that was seen last at `until_ns`.
pub(super) fn run(user: u32, program: &str, until_ns: u64) -> Account {
    Account {
        user,
        program: program.to_owned(),
        runs: 1,
        pid: Some(7),
        state: Some(RunState::Ended),
        began_ns: until_ns.saturating_sub(5),
        until_ns,
        granted_ns: 3,
        used_ns: 2,
        waited_ns: 1,
        queued_ns: 0,
    }
}

const BOUNDS: Bounds = Bounds { size: 4 << 20, age: Duration::from_secs(1 << 40) };

fn note(serial: u64, account: Account) -> Note {
    Note { serial, account }
}

fn answer(mut answers: mpsc::Receiver<api::Answer>) -> (HistoryHead, Vec<Account>) {
    let Some(api::Answer::Messages(messages)) = answers.blocking_recv() else {
        panic!("no messages")
    };
    let mut messages = messages.into_iter();
    let Some(FromManager::History(head)) = messages.next() else { panic!("no head") };
    let rows = messages.flat_map(|message| match message {
        FromManager::Accounts { rows } => rows,
        other => panic!("{other:?}"),
    });
    (head, rows.collect())
}

fn asked(history: &mut History) -> (HistoryHead, Vec<Account>) {
    let question = HistoryQuestion { each: true, ..HistoryQuestion::default() };
    loop {
        let (mailbox, answers) = Mailbox::with_receiver();
        // The thread may have much to take before.
        if history.ask(question.clone(), Asker::Administrator, mailbox).is_ok() {
            return answer(answers);
        }
        std::thread::yield_now();
    }
}

fn stored(path: &Path) -> Vec<Account> {
    let mut all = Vec::new();
    Store::open(path).unwrap().each(|_, run| all.push(run)).unwrap();
    all
}

#[test]
fn what_was_noted_is_read_by_the_next_manager() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state/history.redb");
    let mut history = History::begin(path.clone(), BOUNDS).unwrap();
    let going = Account { state: Some(RunState::Runs), used_ns: 1, ..run(7, "lu", 10) };
    history.note(vec![note(1, going.clone())]);
    // A note stands in place of the one before, written or not.
    history.note(vec![note(1, Account { used_ns: 9, ..going.clone() }), note(2, run(8, "bt", 20))]);
    let (head, rows) = asked(&mut history);
    assert_eq!((head.row_count, head.fault), (2, None));
    assert_eq!(rows.iter().map(|it| it.used_ns).collect::<Vec<_>>(), [2, 9]);
    drop(history);
    assert_eq!(stored(&path).len(), 2);
    // It was not told that the run ended: the manager was killed.
    let mut history = History::begin(path, BOUNDS).unwrap();
    let (_, rows) = asked(&mut history);
    assert_eq!(
        rows.iter().map(|it| it.state).collect::<Vec<_>>(),
        [Some(RunState::Ended), Some(RunState::Cut)]
    );
}

#[test]
fn a_second_manager_does_not_write_the_file_of_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.redb");
    let mut first = History::begin(path.clone(), BOUNDS).unwrap();
    assert_eq!(asked(&mut first).0.fault, None);
    let mut second = History::begin(path, BOUNDS).unwrap();
    second.note(vec![note(1, run(7, "lu", 10))]);
    let (head, rows) = asked(&mut second);
    assert!(head.fault.unwrap().contains("another manager"), "its own are answered all the same");
    assert_eq!(rows.len(), 1);
}

#[test]
fn a_place_that_cannot_be_written_costs_the_history_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "no folder").unwrap();
    let mut history = History::begin(file.join("history.redb"), BOUNDS).unwrap();
    (0..10_000).for_each(|serial| history.note(vec![note(serial, run(7, "lu", serial))]));
    let (head, rows) = asked(&mut history);
    assert!(head.fault.is_some() && !rows.is_empty());
}

#[test]
fn a_file_that_cannot_be_written_is_read_all_the_same_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.redb");
    assert!(Store::in_memory(&path).is_err() && !path.exists(), "none is made");
    let mut store = Store::open(&path).unwrap();
    store.write(&[(5, &run(7, "lu", 10)), (6, &run(7, "bt", 20))]).unwrap();
    assert!(matches!(Store::in_memory(&path), Err(StoreError::Taken)), "its writer may be writing");
    // As a killed writer leaves it: not closed.
    let before = fs::read(&path).unwrap();
    drop(store);
    fs::write(&path, &before).unwrap();
    let mut names = Vec::new();
    Store::in_memory(&path).unwrap().each(|number, it| names.push((number, it.program))).unwrap();
    assert_eq!(names, [(5, "lu".to_owned()), (6, "bt".to_owned())]);
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn what_is_no_history_is_put_aside() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.redb");
    fs::write(&path, "these are no runs ".repeat(1000)).unwrap();
    let mut history = History::begin(path.clone(), BOUNDS).unwrap();
    history.note(vec![note(1, run(7, "lu", 10))]);
    let (head, rows) = asked(&mut history);
    assert_eq!((head.fault, rows.len()), (None, 1));
    drop(history);
    assert_eq!(stored(&path).len(), 1);
    assert!(fs::read_to_string(dir.path().join("history.redb.broken")).is_ok());
}

#[test]
fn a_file_that_is_cut_off_or_overwritten_costs_what_was_in_it_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.redb");
    let mut store = Store::open(&path).unwrap();
    let accounts: Vec<Account> = (0..2000).map(|at| run(7, "some-program", at)).collect();
    let rows: Vec<(u64, &Account)> = (1..).zip(&accounts).collect();
    rows.chunks(500).for_each(|rows| store.write(rows).unwrap());
    drop(store);
    let whole = fs::read(&path).unwrap();
    let cut = |part: usize| whole[..whole.len() * part / 8].to_vec();
    let overwritten = |at: usize| {
        let mut bytes = whole.clone();
        let at = bytes.len() * at / 8;
        bytes[at..].iter_mut().take(5000).enumerate().for_each(|(i, byte)| *byte = (i * 7) as u8);
        bytes
    };
    let one_less = whole[..whole.len() - 1].to_vec();
    let broken = (0..8).flat_map(|part| [cut(part), overwritten(part)]).chain([one_less]);
    for (which, bytes) in broken.enumerate() {
        fs::write(&path, &bytes).unwrap();
        let mut history = History::begin(path.clone(), BOUNDS).unwrap();
        history.note(vec![note(1, run(9, "lu", 1 << 40))]);
        let (head, rows) = asked(&mut history);
        assert_eq!(head.fault, None, "{which}: {} bytes", bytes.len());
        assert!(rows.iter().any(|row| row.user == 9), "{which}");
        // It is still there, and writes.
        drop(history);
        assert!(stored(&path).iter().any(|row| row.user == 9), "{which}");
    }
}

#[test]
fn what_is_too_old_goes_and_the_oldest_where_there_is_too_much() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.redb");
    let mut store = Store::open(&path).unwrap();
    let accounts: Vec<Account> = (0..40_000).map(|at| run(7, "some-program", at)).collect();
    let rows: Vec<(u64, &Account)> = (1..).zip(&accounts).collect();
    store.write(&rows).unwrap();
    let size = || fs::metadata(&path).unwrap().len();
    assert!(size() > BOUNDS.size, "{}", size());
    store.keep_within(BOUNDS, &path, 1000).unwrap();
    assert!(size() <= BOUNDS.size, "{}", size());
    let mut left = Vec::new();
    store.each(|number, _| left.push(number)).unwrap();
    assert_eq!(left.last(), Some(&40_000));
    assert!(left.len() > 1000 && left.len() < 40_000, "{}", left.len());
    let bounds = Bounds { age: Duration::from_nanos(10), ..BOUNDS };
    store.keep_within(bounds, &path, 40_000).unwrap();
    left.clear();
    store.each(|number, _| left.push(number)).unwrap();
    assert_eq!((left.first(), left.last()), (Some(&39_990), Some(&40_000)));
    drop(store);
    let mut store = Store::open(&path).unwrap();
    assert!(store.number(5) > 40_000, "numbers go on where the clock was set back");
}
