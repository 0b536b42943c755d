//! How many items a library shows: those that a program can name.
//!
//! # What counts
//! Functions, types, traits, macros, constants, statics and modules whose path from the crate's
//! root is public, and each name of a `pub use`, also of what another crate defines. Of one that is
//! reachable by two paths each path counts, and so does what only a feature has. Methods, fields
//! and variants do not count. A `pub use` of all names of a module cannot be counted, and is a
//! fault. What `#[doc(hidden)]` keeps out of the documents, by itself or with its module, has a
//! number of its own: it is for the crates beside the library.
//!
//! # Not here
//! What a re-exported module holds: it counts as one item.

use super::tree::{Id, Tree};

/// A library that is limited. A number that grew is a fault; one that fell is lowered here.
struct Limit {
    name: &'static str,
    /// Items in its documents. What 1.0 allows is at most [`MOST`].
    shown: usize,
    /// Those that are hidden there.
    hidden: usize,
}

const LIMITS: [Limit; 2] = [
    Limit { name: "nanothreads", shown: 74, hidden: 0 },
    Limit { name: "nanothreads-engine", shown: 52, hidden: 81 },
];

/// What no library of the workspace may exceed that is limited.
const MOST: usize = 90;

const _: () = assert!(LIMITS[0].shown <= MOST && LIMITS[1].shown <= MOST);

/// The paths of items, without the crate's own name.
#[derive(Debug, Default, PartialEq, Eq)]
struct Paths {
    shown: Vec<String>,
    hidden: Vec<String>,
}

impl Paths {
    fn add(&mut self, path: String, is_hidden: bool) {
        if is_hidden { self.hidden.push(path) } else { self.shown.push(path) }
    }
}

/// All items that the library has for others.
fn paths(tree: &Tree, root: Id) -> Paths {
    let mut paths = Paths::default();
    walk(tree, root, "", false, &mut paths);
    for module in tree.modules.iter().filter(|module| module.root == root) {
        for name in &module.scope.exported_macros {
            paths.add(format!("{name}!"), module.scope.hidden.contains(name));
        }
    }
    paths.shown.sort();
    paths.hidden.sort();
    paths
}

fn walk(tree: &Tree, module: Id, before: &str, is_hidden: bool, paths: &mut Paths) {
    let module = &tree.modules[module];
    let is_hidden = |name: &String| is_hidden || module.scope.hidden.contains(name);
    for name in &module.scope.public {
        paths.add(format!("{before}{name}"), is_hidden(name));
    }
    for (name, child) in &module.children {
        if module.scope.public_modules.contains(name) {
            let path = format!("{before}{name}");
            walk(tree, *child, &format!("{path}::"), is_hidden(name), paths);
            paths.add(path, is_hidden(name));
        }
    }
}

/// What the check says of crate `name`: `None`, it is not limited.
pub(super) fn check(name: &str, tree: &Tree) -> Option<Result<String, String>> {
    let limit = LIMITS.iter().find(|limit| limit.name == name)?;
    let root = tree.roots.iter().find(|root| root.library.is_some())?.module;
    let paths = paths(tree, root);
    let shown = verdict(name, "shows", limit.shown, &paths.shown);
    let hidden = verdict(name, "hides", limit.hidden, &paths.hidden);
    Some(match (shown, hidden) {
        (Ok(shown), Ok(_)) if paths.hidden.is_empty() => Ok(format!("{name} {shown}")),
        (Ok(shown), Ok(hidden)) => Ok(format!("{name} {shown}; {hidden}")),
        (Err(shown), Err(hidden)) => Err(format!("{shown}\n  {hidden}")),
        (Err(fault), Ok(_)) | (Ok(_), Err(fault)) => Err(fault),
    })
}

fn verdict(name: &str, does: &str, allowed: usize, paths: &[String]) -> Result<String, String> {
    let count = paths.len();
    if let Some(all) = paths.iter().find(|path| path.ends_with('*')) {
        return Err(format!("{name}: `pub use {all}` cannot be counted: name what is shown"));
    }
    if count > allowed {
        let all = paths.join(", ");
        return Err(format!(
            "{name}: {does} {count} items, and at most {allowed} are allowed: {all}"
        ));
    }
    if count < allowed {
        return Err(format!(
            "{name}: {does} {count} items now instead of {allowed}: lower the number in {}",
            file!()
        ));
    }
    Ok(format!("{does} {count} items, at most {allowed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let mut tree = Tree::default();
        tree.add(&folder.path().join("lib.rs"), Some("planted".to_owned())).unwrap();
        tree
    }

    #[test]
    fn every_public_path_counts_and_nothing_else_does() {
        let tree = tree(&[
            (
                "lib.rs",
                "mod a; pub mod b; pub use a::{A, f as g}; use a::f; pub(crate) fn h() {} pub use \
                 a::a;\n\
                 #[cfg(test)] pub fn t() {} #[cfg(feature = \"x\")] pub const C: u8 = 0;\n\
                 pub use other::Thing; pub struct S; impl S { pub fn m() {} }",
            ),
            (
                "a.rs",
                "pub struct A; pub fn f() {} pub fn hidden() {}\n\
                      #[macro_export] macro_rules! shout { () => {} }",
            ),
            (
                "b.rs",
                "pub trait T {} pub enum E { V } fn private() {} pub mod c { pub type U = u8; }
                 #[doc(hidden)] pub mod d { pub struct V; } #[doc(hidden)] pub use other::{W, X};
                 #[doc(hidden)] #[macro_export] macro_rules! whisper { () => {} }",
            ),
        ]);
        let expected =
            ["A", "C", "S", "Thing", "a", "b", "b::E", "b::T", "b::c", "b::c::U", "g", "shout!"];
        let Paths { shown, hidden } = paths(&tree, 0);
        assert_eq!(shown, expected);
        assert_eq!(hidden, ["b::W", "b::X", "b::d", "b::d::V", "whisper!"]);
        let verdict = |allowed| verdict("planted", "shows", allowed, &expected.map(str::to_owned));
        assert_eq!(verdict(12), Ok("shows 12 items, at most 12".to_owned()));
        assert!(verdict(11).unwrap_err().contains("12 items, and at most 11 are allowed: A, C"));
        assert!(verdict(13).unwrap_err().contains("lower the number"));
    }

    #[test]
    fn all_names_of_a_module_cannot_be_counted() {
        let tree = tree(&[("lib.rs", "mod a; pub use a::*;"), ("a.rs", "pub struct A;")]);
        assert!(
            verdict("planted", "shows", 9, &paths(&tree, 0).shown)
                .unwrap_err()
                .contains("cannot be counted")
        );
    }
}
