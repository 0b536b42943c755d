//! What is wrong with a configuration: where it stands, and what is allowed there.

use std::io;
use std::path::PathBuf;

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file has a mistake.
    #[error("{}:{line}: {what}", path.display())]
    Mistake {
        /// Which.
        path: PathBuf,
        /// Where in it.
        line: usize,
        /// What is wrong, and what is allowed.
        what: String,
    },
    /// A variable has one.
    #[error("the environment variable {variable}: {what}")]
    Variable {
        /// Which.
        variable: &'static str,
        /// What is wrong, and what is allowed.
        what: String,
    },
    /// A file cannot be read.
    #[error("cannot read the configuration {}: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Another user can change it.
    #[error("the configuration {} is not used: {what}", path.display())]
    NotTrusted {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// All together make no sense.
    #[error("the configuration: {0}")]
    Together(String),
}
