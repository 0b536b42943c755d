//! Which module a path leads to, and with that the edges between modules.
//!
//! # Protocol
//! 1. A path starts at the root (`crate`), at a module (`self`, `super`), or at a name that its
//!    module defines, imports or has from a `*`; in a program also at the name of the package's
//!    library. Every other path is another crate's.
//! 2. A name that was imported is followed to the module that defines it, over as many re-exports
//!    as there are. The modules in between are no part of the edge.
//! 3. A path to what another crate defines stops at the module that imports it; one to what a macro
//!    makes, at the module that calls the macro.
//! 4. A path that ends at a module makes no edge: those that go on from there do. A re-export of
//!    what a module or one below it defines makes none either: it is the module's facade.
//!
//! # Not here
//! Method calls: they name no module. Names in strings, attributes and documents. What a macro
//! makes of its tokens: a path among them is read as if it stood in the text.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Import, Path};
use super::tree::{Id, Tree};

/// A use of one module by another one, in two files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) from: Id,
    pub(super) to: Id,
    /// In the file of `from`: the first such use.
    pub(super) line: usize,
    /// What is used, by the path of the module that defines it.
    pub(super) item: String,
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Module(Id),
    /// Defined in that module, under that name.
    Item(Id, String),
}

/// All edges of a tree between two files, one for each item, ordered by place.
pub(super) fn edges(tree: &Tree) -> Vec<Edge> {
    let mut found: BTreeMap<(Id, Id, String), usize> = BTreeMap::new();
    for from in 0..tree.modules.len() {
        let scope = &tree.modules[from].scope;
        let mut add = |target: &Target, line: usize| {
            let Target::Item(to, name) = target else { return };
            if tree.modules[*to].file != tree.modules[from].file {
                let first = found.entry((from, *to, name.clone())).or_insert(line);
                *first = line.min(*first);
            }
        };
        for import in scope.imports.iter().chain(&scope.inner_imports) {
            for target in tree.imported(from, import) {
                add(&target, import.path.line);
            }
        }
        for path in &scope.paths {
            let targets = Walk::new(tree).path(from, path, Names::WithInner);
            for target in &targets {
                add(target, path.line);
            }
        }
    }
    let shown = |to: Id, name: &str| format!("{}::{name}", tree.modules[to].shown());
    let mut edges: Vec<Edge> = found
        .into_iter()
        .map(|((from, to, name), line)| Edge { from, to, line, item: shown(to, &name) })
        .collect();
    edges.sort_by(|a, b| {
        (tree.file_of(a.from), a.line, &a.item).cmp(&(tree.file_of(b.from), b.line, &b.item))
    });
    edges
}

impl Tree {
    pub(super) fn file_of(&self, module: Id) -> &std::path::Path {
        &self.files[self.modules[module].file]
    }

    /// What a `use` itself depends on.
    fn imported(&self, from: Id, import: &Import) -> Vec<Target> {
        let mut targets = Walk::new(self).segments(from, &import.path.segments, Names::Module);
        if import.name.is_none() {
            // `*` depends on a module that defines something; one that only passes names on is a
            // facade.
            for target in &mut targets {
                if let Target::Module(module) = *target
                    && !self.modules[module].scope.items.is_empty()
                {
                    *target = Target::Item(module, "*".to_owned());
                }
            }
        }
        if import.exported {
            targets.retain(
                |target| matches!(target, Target::Item(to, _) if !self.is_within(*to, from)),
            );
        }
        targets
    }

    /// True when a module is another one or below it.
    fn is_within(&self, module: Id, outer: Id) -> bool {
        let mut up = Some(module);
        while let Some(id) = up {
            if id == outer {
                return true;
            }
            up = self.modules[id].parent;
        }
        false
    }
}

/// Which names of a module are asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Module,
    /// Also those that its functions import.
    WithInner,
}

/// One resolution. It remembers its names, for imports may go in a circle.
struct Walk<'a> {
    tree: &'a Tree,
    seen: BTreeSet<(Id, String)>,
}

impl<'a> Walk<'a> {
    fn new(tree: &'a Tree) -> Walk<'a> {
        Walk { tree, seen: BTreeSet::new() }
    }

    /// What a path in the text of a module stands for.
    fn path(&mut self, from: Id, path: &Path, names: Names) -> Vec<Target> {
        let mut targets = self.segments(from, &path.segments, names);
        if targets.is_empty() && path.call {
            targets.extend(path.segments.first().and_then(|name| self.outer_macro(from, name)));
        }
        targets
    }

    /// A macro of an outer module is seen without a path.
    fn outer_macro(&self, from: Id, name: &str) -> Option<Target> {
        let mut up = self.tree.modules[from].parent;
        while let Some(id) = up {
            let module = &self.tree.modules[id];
            if module.scope.items.iter().any(|item| item == name) {
                return Some(Target::Item(id, name.to_owned()));
            }
            up = module.parent;
        }
        None
    }

    /// Nothing, where the path is another crate's.
    fn segments(&mut self, from: Id, segments: &[String], names: Names) -> Vec<Target> {
        let Some((first, rest)) = segments.split_first() else { return Vec::new() };
        let module = &self.tree.modules[from];
        let mut targets = match first.as_str() {
            "crate" => vec![Target::Module(module.root)],
            "self" => vec![Target::Module(from)],
            "super" => module.parent.map(Target::Module).into_iter().collect(),
            name => match self.name(from, name, names) {
                found if found.is_empty() => self.library(from, name).into_iter().collect(),
                found => found,
            },
        };
        for (index, segment) in rest.iter().enumerate() {
            // A function may have the name of a module; only the module leads on.
            if targets.iter().any(|target| matches!(target, Target::Module(_))) {
                targets.retain(|target| matches!(target, Target::Module(_)));
            }
            let is_last = index + 1 == rest.len();
            targets = targets
                .into_iter()
                .flat_map(|target| self.step(target, segment, is_last))
                .collect();
        }
        targets
    }

    /// From a module to one of its names; a name of an item (a variant, a function of a type) is
    /// the item's.
    fn step(&mut self, target: Target, segment: &str, is_last: bool) -> Vec<Target> {
        let Target::Module(module) = target else { return vec![target] };
        if segment == "super" {
            return self.tree.modules[module].parent.map(Target::Module).into_iter().collect();
        }
        if segment == "self" {
            return vec![target];
        }
        let mut found = self.name(module, segment, Names::Module);
        if is_last && found.iter().any(|target| matches!(target, Target::Item(..))) {
            found.retain(|target| matches!(target, Target::Item(..)));
        }
        if found.is_empty() {
            // A macro made it there, or a `*` of another crate brought it there.
            found.push(Target::Item(module, segment.to_owned()));
        }
        found
    }

    /// The root of the package's library, under its own name in a program of the package.
    fn library(&self, from: Id, name: &str) -> Option<Target> {
        let root = self.tree.roots.iter().find(|root| root.library.as_deref() == Some(name))?;
        (root.module != self.tree.modules[from].root).then_some(Target::Module(root.module))
    }

    /// All that a name of a module stands for: a module, a function and a macro may share one.
    fn name(&mut self, module: Id, name: &str, names: Names) -> Vec<Target> {
        if !self.seen.insert((module, name.to_owned())) {
            return Vec::new();
        }
        let tree = self.tree;
        let this = &tree.modules[module];
        let mut found = Vec::new();
        if this.scope.items.iter().any(|item| item == name) {
            found.push(Target::Item(module, name.to_owned()));
        }
        found.extend(
            this.children
                .iter()
                .filter(|(child, _)| child == name)
                .map(|(_, id)| Target::Module(*id)),
        );
        let inner: &[Import] =
            if names == Names::WithInner { &this.scope.inner_imports } else { &[] };
        let mut is_foreign = false;
        for import in this.scope.imports.iter().chain(inner) {
            if import.name.as_deref() == Some(name) {
                let targets = self.segments(module, &import.path.segments, Names::Module);
                is_foreign |= targets.is_empty();
                found.extend(targets);
            }
        }
        if found.is_empty() && this.root == module {
            // Macros that any module of this crate gives to the root.
            let mut givers =
                tree.modules.iter().enumerate().filter(|(_, giver)| giver.root == module);
            let giver = givers
                .find(|(_, giver)| giver.scope.exported_macros.iter().any(|item| item == name));
            found.extend(giver.map(|(id, _)| Target::Item(id, name.to_owned())));
        }
        if found.is_empty() && is_foreign {
            found.push(Target::Item(module, name.to_owned()));
        }
        if found.is_empty() {
            for import in
                this.scope.imports.iter().chain(inner).filter(|import| import.name.is_none())
            {
                for target in self.segments(module, &import.path.segments, Names::Module) {
                    if let Target::Module(giver) = target {
                        found.extend(self.name(giver, name, Names::Module));
                    }
                }
            }
        }
        found.dedup();
        self.seen.remove(&(module, name.to_owned()));
        found
    }
}
