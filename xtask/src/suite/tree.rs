//! Of which commit the tree is that was measured, and what in it differs.

use std::path::Path;
use std::process::Command;

/// Records and texts: nothing that runs depends on them, and a suite may write its record here.
const NOT_BUILT: [&str; 4] = ["--", ".", ":(exclude)*.csv", ":(exclude)*.md"];

/// The commit. Where the tree differs from it, it has a `+` and a hash of what differs: two
/// changed trees of a commit are not one.
pub(super) fn commit(root: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").current_dir(root).args(arguments).output().ok()?;
        output.status.success().then_some(output.stdout)
    };
    // A copy without its history has no commit.
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else {
        return "unknown".into();
    };
    let of = |arguments: &[&str]| git(&[arguments, &NOT_BUILT].concat()).unwrap_or_default();
    let mut changes = of(&["diff", "HEAD", "--binary", "--no-ext-diff", "--no-color"]);
    // Files that were not added are in no difference.
    let others = of(&["ls-files", "--others", "--exclude-standard", "-z"]);
    for name in String::from_utf8_lossy(&others).split_terminator('\0') {
        changes.extend_from_slice(name.as_bytes());
        changes.extend(std::fs::read(root.join(name)).unwrap_or_default());
    }
    marked(String::from_utf8_lossy(&commit).trim(), &changes)
}

/// A commit and what differs from it.
fn marked(commit: &str, changes: &[u8]) -> String {
    if changes.is_empty() {
        return commit.to_owned();
    }
    // FNV-1a: always the same, whatever compiled it.
    let hash = changes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{commit}+{:08x}", hash >> 32 ^ hash & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_trees_are_told_apart() {
        assert_eq!(marked("abc", b""), "abc");
        let [one, other] = ["-a\n+b", "-a\n+c"].map(|it| marked("abc", it.as_bytes()));
        assert!(one.starts_with("abc+") && one.len() == 12, "{one}");
        assert_ne!(one, other);
        assert_eq!(one, marked("abc", b"-a\n+b"));
    }

    #[test]
    fn a_folder_without_history_has_no_commit() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(commit(folder.path()), "unknown");
    }

    #[test]
    fn what_differs_in_a_tree_counts_except_records_and_texts() {
        let folder = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let person =
                ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"];
            let mut command = Command::new("git");
            command.current_dir(folder.path()).args(person).args(arguments);
            command.output().is_ok_and(|output| output.status.success())
        };
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
            commit(folder.path())
        };
        write("a.c", "1");
        if !(git(&["init", "-q"]) && git(&["add", "."]) && git(&["commit", "-qm", "a"])) {
            crate::skips::note(format_args!("the commit of a changed tree: needs git"));
            return;
        }
        let clean = commit(folder.path());
        assert!(!clean.contains('+'), "{clean}");
        let two = write("a.c", "2");
        assert!(two.starts_with(&format!("{clean}+")), "{two}");
        assert_ne!(write("a.c", "3"), two);
        assert_eq!(write("a.c", "2"), two);
        assert_eq!(write("suite.csv", "1,2"), two, "a suite that goes on finds its own record");
        let three = write("b.c", "1");
        assert_ne!(three, two);
        assert_ne!(write("b.c", "2"), three);
    }
}
