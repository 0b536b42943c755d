//! File trees from compact descriptions, in a temporary folder.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

/// Writes the files `(path, content)`, in memory where the machine has a place for that: a server's
/// tree is a thousand files.
pub(crate) fn tree<P: AsRef<str>, C: AsRef<str>>(
    files: impl IntoIterator<Item = (P, C)>,
) -> TempDir {
    let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    for (path, content) in files {
        write(root.path(), path.as_ref(), content.as_ref());
    }
    root
}

/// Writes one file and the folders above it. As the kernel does, the content ends with a line end.
pub(crate) fn write(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("{content}\n")).unwrap();
}
