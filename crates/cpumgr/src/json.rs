//! What readers show with `--json`: one object on one line, with a version and a kind.
//!
//! # Invariants
//! - J1 The version is [`SCHEMA`]; it grows when a field goes or changes its meaning. A new field
//!   is no reason: readers ignore what they do not know.
//! - J2 `docs/json.md` has an example of every kind and names every field; the tests compare both
//!   with what is written here.

use serde::Serialize;

use crate::error::Error;

/// The version of all documents.
pub(crate) const SCHEMA: u32 = 1;

/// What is shown, below version and kind.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a, T> {
    /// [`SCHEMA`].
    pub(crate) schema: u32,
    /// Which reader shows it.
    pub(crate) kind: &'a str,
    /// Its own fields.
    #[serde(flatten)]
    pub(crate) body: &'a T,
}

/// A document of this kind on one line.
///
/// # Errors
/// When it cannot be written as JSON: a defect.
pub(crate) fn line(kind: &str, body: &impl Serialize) -> Result<String, Error> {
    let text = serde_json::to_string(&Document { schema: SCHEMA, kind, body });
    text.map(|text| text + "\n").map_err(|error| Error::Usage(error.to_string()))
}

#[cfg(test)]
mod tests;
