//! What the benches make of their samples: medians, bars, records.
#![allow(clippy::unwrap_used, reason = "a step of a test that fails is a failed test")]

#[path = "../benches/harness/mod.rs"]
mod harness;

use harness::about;
use harness::median;
use harness::table::forgiven;

#[test]
fn the_median_of_an_even_number_is_between_the_two_in_the_middle() {
    assert_eq!(median(&mut [3.0]), 3.0);
    assert_eq!(median(&mut [10.0, 2.0, 3.0]), 3.0);
    assert_eq!(median(&mut [10.0, 2.0, 3.0, 1.0]), 2.5);
}

#[test]
fn twice_the_time_of_some_nanoseconds_is_not_forgiven() {
    // `critical` of 2026-11-23: 8.6 ns beside 4.2.
    assert!(4.2 + forgiven(4.2, &[4.1, 4.2, 4.3]) < 8.6);
    assert_eq!(forgiven(200.0, &[200.0]), 10.0);
    // A peer whose samples differ says less.
    assert!(forgiven(10.0, &[0.0, 10.0, 20.0]) > 10.0);
}

#[test]
fn a_record_is_read_as_it_was_written_and_says_on_what_it_was_taken() {
    let folder = tempfile::tempdir().unwrap();
    let heads = ["case", "engine"].map(str::to_owned);
    let row = vec!["task, taskwait".to_owned(), "say \"libgomp\"".to_owned()];
    let path =
        about::record(Some(folder.path().to_owned()), "openmp", &heads, [row.clone()].into_iter())
            .unwrap();
    let rows: Vec<csv::StringRecord> =
        csv::Reader::from_path(&path).unwrap().records().map(Result::unwrap).collect();
    assert_eq!(rows, [csv::StringRecord::from(row)]);
    let about = csv::Reader::from_path(path.with_extension("about.csv")).unwrap().into_records();
    let about: Vec<csv::StringRecord> = about.map(Result::unwrap).collect();
    for what in ["machine", "kernel", "commit"] {
        assert!(about.iter().any(|row| &row[0] == what), "{what}: {about:?}");
    }
}

#[test]
fn the_records_that_are_kept_have_the_same_columns_in_every_row() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/records");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let records: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "csv")).collect();
    assert!(!records.is_empty());
    for path in records {
        // Not flexible: a row of another length is an error.
        let mut reader = csv::Reader::from_path(&path).unwrap();
        let heads = reader.headers().unwrap().clone();
        for row in reader.records() {
            let row = row.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            // A case with an unquoted comma would have moved this one.
            if heads.iter().any(|head| head == "row") {
                assert!(["bound", "unbound"].contains(&&row[2]), "{}: {row:?}", path.display());
            }
        }
    }
}
