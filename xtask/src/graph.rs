//! Which crate uses which, and which module of a crate uses which: `cargo xtask graph`.
//!
//! # Protocol
//! 1. `crates` checks the dependencies between crates against its table.
//! 2. `tree` and `source` read the library and the programs of each crate; tests, benches and
//!    examples are no part of it, nor is what a shipped build lacks (`cfg`).
//! 3. `resolve` follows each path to the file that defines what it names.
//! 4. `circles` finds the files that all reach each other. A circle of up to [`SMALL`] files is
//!    fine. A crate whose largest is larger today has that size in `graph/ceilings.toml`: it may
//!    not grow, and when it got smaller the number there follows (`--update`).
//! 5. `direction` checks the order of modules, which the head of a crate of several states.
//! 6. `front` counts the items that a library shows, where that is limited.
//! 7. `programs` counts the test programs of a crate, where those are limited.
//!
//! # Not here
//! A crate's circles other than its largest are shown, and not limited.

mod cfg;
mod circles;
mod crates;
mod direction;
mod front;
mod programs;
mod resolve;
mod source;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, bail};

use crate::metadata::{self, Package};
use crate::ratchet::{Counts, Ratchet};
use crate::setup::Workspace;
use resolve::Edge;
use tree::Tree;

/// The largest circle that needs no line among the ceilings.
const SMALL: u64 = 4;

const CEILINGS: &str = "xtask/src/graph/ceilings.toml";
const CEILINGS_HEAD: &str = "# The largest circle of files that use each other, for each crate \
                             where it has more than four.\n\
                             # After it became smaller: `cargo xtask graph --update`. It may not \
                             grow.\n";
const TABLE: &str = "circles";

/// What to show, and whether to write the ceilings.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Prints every edge between the files of one crate, and checks nothing.
    #[arg(long, value_name = "CRATE", conflicts_with_all = ["circles", "update"])]
    edges: Option<String>,
    /// Prints every circle of more than four files of one crate with its edges, and checks nothing.
    #[arg(long, value_name = "CRATE", conflicts_with = "update")]
    circles: Option<String>,
    /// Lowers the ceilings to the circles of today.
    #[arg(long)]
    update: bool,
    /// With --update: raises them, too.
    #[arg(long, requires = "update")]
    force: bool,
}

/// The files of a crate and what they use of each other.
struct House {
    name: String,
    tree: Tree,
    edges: Vec<Edge>,
    /// Sets of files that all reach each other, the largest first.
    circles: Vec<Vec<usize>>,
}

/// Does what was asked for.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    if let Some(name) = &options.edges {
        let house = named(workspace, name)?;
        for edge in &house.edges {
            println!("{}", house.line(edge));
        }
        return Ok(());
    }
    if let Some(name) = &options.circles {
        print!("{}", named(workspace, name)?.report());
        return Ok(());
    }
    if options.update {
        let houses = houses(workspace)?;
        let refused = ceilings(workspace)?.update(&sizes(&houses), options.force)?;
        for change in &refused {
            println!(
                "{}: {} files in its largest circle, not more than {}",
                change.key, change.found, change.allowed
            );
        }
        if !refused.is_empty() {
            bail!("{CEILINGS} may only be lowered; --force raises it");
        }
    }
    check(workspace)
}

/// Checks crates and modules; prints one line for each crate.
pub(crate) fn check(workspace: &Workspace) -> anyhow::Result<()> {
    println!("{}", crates::check(&workspace.metadata)?);
    let houses = houses(workspace)?;
    let ceilings = ceilings(workspace)?;
    let mut faults = Vec::new();
    for house in &houses {
        let mut is_ordered = false;
        for root in 0..house.tree.roots.len() {
            let (states_order, found) = direction::faults(&house.tree, &house.edges, root);
            is_ordered |= states_order;
            faults.extend(found);
        }
        let order = if is_ordered { "ordered" } else { "one module" };
        println!("{}, at most {}; {order}", house.summary(), ceilings.allowed(TABLE, &house.name));
    }
    for house in &houses {
        match front::check(&house.name, &house.tree) {
            Some(Ok(line)) => println!("{line}"),
            Some(Err(fault)) => faults.push(fault),
            None => {}
        }
    }
    for package in metadata::packages(&workspace.metadata)? {
        let tests = package.targets.iter().filter(|target| target.is(&["test"])).count();
        faults.extend(programs::fault(&package.name, tests));
    }
    for change in ceilings.changes(&sizes(&houses)) {
        let (name, found, allowed) = (&change.key, change.found, change.allowed);
        if change.grew() {
            let report = houses
                .iter()
                .find(|house| house.name == *name)
                .map(House::report)
                .unwrap_or_default();
            faults.push(format!(
                "{name}: a circle of {found} files, and at most {allowed} are allowed\n{report}"
            ));
        } else {
            let remedy = "lower the ceiling with `cargo xtask graph --update`";
            faults.push(format!(
                "{name}: its largest circle has {found} files now instead of {allowed}: {remedy}"
            ));
        }
    }
    if !faults.is_empty() {
        bail!("{} faults between modules:\n  {}", faults.len(), faults.join("\n  "));
    }
    Ok(())
}

fn ceilings(workspace: &Workspace) -> anyhow::Result<Ratchet> {
    Ratchet::read(&workspace.root.join(CEILINGS), CEILINGS_HEAD, SMALL)
}

/// The largest circle of each crate.
fn sizes(houses: &[House]) -> Counts {
    let sizes = houses
        .iter()
        .map(|house| (house.name.clone(), house.circles.first().map_or(0, Vec::len) as u64));
    BTreeMap::from([(TABLE.to_owned(), sizes.collect())])
}

fn houses(workspace: &Workspace) -> anyhow::Result<Vec<House>> {
    let packages = metadata::packages(&workspace.metadata)?;
    std::thread::scope(|scope| {
        let read = |package| scope.spawn(move || House::read(&workspace.root, package));
        let readers: Vec<_> = packages.iter().map(read).collect();
        let ended = |fault| std::panic::resume_unwind(fault);
        readers.into_iter().map(|reader| reader.join().unwrap_or_else(ended)).collect()
    })
}

fn named(workspace: &Workspace, name: &str) -> anyhow::Result<House> {
    let packages = metadata::packages(&workspace.metadata)?;
    let Some(package) = packages.iter().find(|package| package.name == name) else {
        let names: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
        bail!("no crate `{name}` in the workspace; it has {}", names.join(", "));
    };
    House::read(&workspace.root, package)
}

impl House {
    fn read(root: &Path, package: &Package) -> anyhow::Result<House> {
        let libraries = package.targets.iter().filter(|target| {
            target.is(&["lib", "rlib", "dylib", "cdylib", "staticlib", "proc-macro"])
        });
        let programs = package.targets.iter().filter(|target| target.is(&["bin"]));
        let libraries = libraries.map(|target| (target, Some(target.name.replace('-', "_"))));
        let roots = libraries.chain(programs.map(|target| (target, None)));
        let roots = roots.map(|(target, library)| (target.src_path.as_path(), library));
        let mut house =
            House::of(&package.name, roots).with_context(|| format!("crate {}", package.name))?;
        for file in &mut house.tree.files {
            if let Ok(below) = file.strip_prefix(root) {
                *file = below.to_owned();
            }
        }
        Ok(house)
    }

    fn of<'a>(
        name: &str,
        roots: impl Iterator<Item = (&'a Path, Option<String>)>,
    ) -> anyhow::Result<House> {
        let mut tree = Tree::default();
        for (file, library) in roots {
            tree.add(file, library)?;
        }
        let edges = resolve::edges(&tree);
        let pairs: BTreeSet<(usize, usize)> = edges
            .iter()
            .map(|edge| (tree.modules[edge.from].file, tree.modules[edge.to].file))
            .collect();
        let circles = circles::circles(tree.files.len(), &pairs);
        Ok(House { name: name.to_owned(), tree, edges, circles })
    }

    fn summary(&self) -> String {
        let files = self.tree.files.len();
        let pairs: BTreeSet<_> = self.edges.iter().map(|edge| self.files(edge)).collect();
        let largest = self.circles.first().map_or(0, Vec::len);
        format!("{}: {files} files, {} edges, largest circle {largest}", self.name, pairs.len())
    }

    fn files(&self, edge: &Edge) -> (usize, usize) {
        (self.tree.modules[edge.from].file, self.tree.modules[edge.to].file)
    }

    /// An edge as a compiler would name a place.
    fn line(&self, edge: &Edge) -> String {
        let (from, to) =
            (self.tree.file_of(edge.from).display(), self.tree.file_of(edge.to).display());
        format!("{from}:{} uses {} ({to})", edge.line, edge.item)
    }

    /// Every circle of more than four files: its files, and for each of its edges the first use.
    fn report(&self) -> String {
        let mut lines = Vec::new();
        for circle in self.circles.iter().filter(|circle| circle.len() as u64 > SMALL) {
            let mut inside: BTreeMap<(usize, usize), Vec<&Edge>> = BTreeMap::new();
            for edge in &self.edges {
                let (from, to) = self.files(edge);
                if circle.contains(&from) && circle.contains(&to) {
                    inside.entry((from, to)).or_default().push(edge);
                }
            }
            lines.push(format!(
                "{}: {} files in a circle, {} edges:",
                self.name,
                circle.len(),
                inside.len()
            ));
            lines.extend(
                circle.iter().map(|file| format!("    {}", self.tree.files[*file].display())),
            );
            for uses in inside.values() {
                let more = match uses.len() {
                    1 => String::new(),
                    number => format!(", and {} more", number - 1),
                };
                lines.push(format!("  {}{more}", self.line(uses[0])));
            }
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

#[cfg(test)]
mod tests;
