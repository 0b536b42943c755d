//! How many items a library shows: those that a program can name.
//!
//! # What counts
//! Functions, types, traits, macros, constants, statics and modules whose path from the crate's
//! root is public, and each name of a `pub use`, also of what another crate defines. Of one that is
//! reachable by two paths each path counts, and so does what only a feature has. Methods, fields
//! and variants do not count. A `pub use` of all names of a module cannot be counted, and is a
//! fault.
//!
//! # Not here
//! What a re-exported module holds: it counts as one item.

use super::tree::{Id, Tree};

/// The libraries that are limited, and how many items each shows. A number that grew is a fault;
/// one that fell is lowered here. What 1.0 allows is at most [`MOST`].
const SHOWN: [(&str, usize); 1] = [("nanothreads", 72)];

/// What no library of the workspace may exceed that is limited.
const MOST: usize = 90;

const _: () = assert!(SHOWN[0].1 <= MOST);

/// The paths of all items that the library shows, without the crate's own name.
fn paths(tree: &Tree, root: Id) -> Vec<String> {
    let mut paths = Vec::new();
    walk(tree, root, "", &mut paths);
    for module in tree.modules.iter().filter(|module| module.root == root) {
        paths.extend(module.scope.exported_macros.iter().map(|name| format!("{name}!")));
    }
    paths.sort();
    paths
}

fn walk(tree: &Tree, module: Id, before: &str, paths: &mut Vec<String>) {
    let module = &tree.modules[module];
    paths.extend(module.scope.public.iter().map(|name| format!("{before}{name}")));
    for (name, child) in &module.children {
        if module.scope.public_modules.contains(name) {
            let path = format!("{before}{name}");
            walk(tree, *child, &format!("{path}::"), paths);
            paths.push(path);
        }
    }
}

/// What the check says of crate `name`: `None`, it is not limited.
pub(super) fn check(name: &str, tree: &Tree) -> Option<Result<String, String>> {
    let (_, allowed) = *SHOWN.iter().find(|(limited, _)| *limited == name)?;
    let root = tree.roots.iter().find(|root| root.library.is_some())?.module;
    Some(verdict(name, allowed, &paths(tree, root)))
}

fn verdict(name: &str, allowed: usize, paths: &[String]) -> Result<String, String> {
    let count = paths.len();
    if let Some(all) = paths.iter().find(|path| path.ends_with('*')) {
        return Err(format!("{name}: `pub use {all}` cannot be counted: name what is shown"));
    }
    if count > allowed {
        let all = paths.join(", ");
        return Err(format!(
            "{name}: shows {count} items, and at most {allowed} are allowed: {all}"
        ));
    }
    if count < allowed {
        return Err(format!(
            "{name}: shows {count} items now instead of {allowed}: lower the number in {}",
            file!()
        ));
    }
    Ok(format!("{name}: shows {count} items, at most {allowed}"))
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
                "pub trait T {} pub enum E { V } fn private() {} pub mod c { pub type U = u8; }",
            ),
        ]);
        let expected =
            ["A", "C", "S", "Thing", "a", "b", "b::E", "b::T", "b::c", "b::c::U", "g", "shout!"];
        assert_eq!(paths(&tree, 0), expected);
        let verdict = |allowed| verdict("planted", allowed, &expected.map(str::to_owned));
        assert_eq!(verdict(12), Ok("planted: shows 12 items, at most 12".to_owned()));
        assert!(verdict(11).unwrap_err().contains("12 items, and at most 11 are allowed: A, C"));
        assert!(verdict(13).unwrap_err().contains("lower the number"));
    }

    #[test]
    fn all_names_of_a_module_cannot_be_counted() {
        let tree = tree(&[("lib.rs", "mod a; pub use a::*;"), ("a.rs", "pub struct A;")]);
        assert!(verdict("planted", 9, &paths(&tree, 0)).unwrap_err().contains("cannot be counted"));
    }
}
