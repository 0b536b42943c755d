//! What programs found, and that it is the same on every runtime.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use anyhow::{Context, ensure};

use super::runtime::Runtime;
use super::table::Row;

/// Results may differ in the order of a sum.
const TOLERANCE: f64 = 1e-6;

/// What a program found, which every runtime must find too.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    Numbers(Vec<f64>),
    /// The file that it wrote, as a number.
    File(u64),
}

/// One copy's work: its seconds, and what it found if it was not killed.
pub(super) type Work = (f64, Option<Found>);

/// One run: its copies' mean seconds, and what each found.
pub(super) type Run = (Runtime, f64, Vec<Option<Found>>);

/// Takes runs into a row. Fails where one found something else than the first one did.
pub(super) fn take(
    found: Vec<Run>,
    row: &mut Row,
    expected: &mut Option<Found>,
) -> anyhow::Result<()> {
    for (runtime, seconds, results) in found {
        row.times.entry(runtime).or_default().push(seconds);
        for result in results {
            let Some(result) = result else {
                row.killed.insert(runtime);
                continue;
            };
            let first = expected.get_or_insert_with(|| result.clone());
            ensure!(
                same(first, &result),
                "{}, {}, {}: {result:?} instead of {first:?}",
                row.program,
                row.setting.name(),
                runtime.name()
            );
        }
    }
    Ok(())
}

/// What a copy wrote.
pub(super) fn of_file(path: &Path) -> anyhow::Result<Found> {
    let bytes = std::fs::read(path).with_context(|| format!("it wrote no {}", path.display()))?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Ok(Found::File(hasher.finish()))
}

fn same(one: &Found, other: &Found) -> bool {
    match (one, other) {
        (Found::Numbers(a), Found::Numbers(b)) => {
            let is_close =
                |(x, y): (&f64, &f64)| (x - y).abs() <= TOLERANCE * x.abs().max(y.abs()).max(1.0);
            a.len() == b.len() && a.iter().zip(b).all(is_close)
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_may_differ_in_the_order_of_a_sum_and_files_not_at_all() {
        let numbers = |values: &[f64]| Found::Numbers(values.to_vec());
        assert!(same(&numbers(&[1e9, 2.0]), &numbers(&[1e9 + 100.0, 2.0])));
        assert!(!same(&numbers(&[1e9]), &numbers(&[1e9 + 2000.0])));
        assert!(!same(&numbers(&[1.0]), &numbers(&[1.0, 1.0])));
        assert!(!same(&numbers(&[1.0]), &numbers(&[f64::NAN])));
        assert!(same(&Found::File(7), &Found::File(7)));
        assert!(!same(&Found::File(7), &Found::File(8)));
        assert!(!same(&Found::File(7), &numbers(&[7.0])));
    }

    #[test]
    fn a_file_is_told_from_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        assert!(of_file(&path).unwrap_err().to_string().contains("it wrote no"));
        std::fs::write(&path, "one").unwrap();
        let one = of_file(&path).unwrap();
        assert_eq!(of_file(&path).unwrap(), one);
        std::fs::write(&path, "two").unwrap();
        assert_ne!(of_file(&path).unwrap(), one);
    }
}
