//! Tests that failed, by what their program printed.

/// A few that fail beside the others may run once more, alone: on two processors that others use
/// one of thousands fails now and then for what they did. More at once are no chance.
pub(crate) const MOST: usize = 3;

/// The test that this line of a test program's output says failed.
pub(crate) fn name(line: &str) -> Option<String> {
    let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    Some(name.strip_suffix(" - should panic").unwrap_or(name).to_owned())
}
