//! The order of a crate's modules, as its head states it, and the edges against it.
//!
//! A root of more than one module has a section `# Modules, from the bottom up` in its head. Each
//! list item there (`- ` or `1. `) is a layer, the lowest first: the names in backticks before the
//! first colon are its top-level modules, and what comes after the colon is for people.
//!
//! ```text
//! # Modules, from the bottom up
//! 1. `sync`, `shape`: atomics that a model can watch, and sizes.
//! 2. `vp`: one worker.
//! 3. `team`: what forks and joins.
//! ```
//!
//! A module uses its own layer and those below it. All that stands in a folder belongs to the
//! top-level module of that name. The root's own items are above all layers, unless the list names
//! `crate`. Every top-level module must be in the list, and only once; one that only tests or
//! models have may be.

use std::collections::BTreeMap;

use super::resolve::Edge;
use super::tree::{Id, Tree};

const HEADING: &str = "Modules, from the bottom up";

/// The root's own name in the list.
const ROOT: &str = "crate";

/// The layer of each module.
#[derive(Debug, PartialEq, Eq)]
struct Order {
    layers: BTreeMap<String, usize>,
    /// Names that stand there twice.
    twice: Vec<String>,
}

/// Reads the section; `None` without one.
fn order(head: &[String]) -> Option<Order> {
    let heading = |line: &str| {
        line.trim().strip_prefix('#').map(|rest| rest.trim_start_matches('#').trim().to_owned())
    };
    let begin = head.iter().position(|line| heading(line).as_deref() == Some(HEADING))?;
    let mut order = Order { layers: BTreeMap::new(), twice: Vec::new() };
    let mut layer = 0;
    for line in head[begin + 1..].iter().take_while(|line| heading(line).is_none()) {
        let Some(text) = list_item(line.trim()) else { continue };
        layer += 1;
        let names = text.split(':').next().unwrap_or(text);
        // Every second piece stands between backticks.
        for name in names.split('`').skip(1).step_by(2) {
            if order.layers.insert(name.to_owned(), layer).is_some() {
                order.twice.push(name.to_owned());
            }
        }
    }
    Some(order)
}

/// The text of a list item.
fn list_item(line: &str) -> Option<&str> {
    let number = line.trim_start_matches(|sign: char| sign.is_ascii_digit());
    if number.len() < line.len() {
        return number.strip_prefix(". ");
    }
    line.strip_prefix("- ").or_else(|| line.strip_prefix("* "))
}

/// Whether a root states an order, and every fault against it.
pub(super) fn faults(tree: &Tree, edges: &[Edge], root: usize) -> (bool, Vec<String>) {
    let root = &tree.roots[root];
    let file = tree.file_of(root.module).display();
    let own = &tree.modules[root.module].children;
    let Some(order) = order(&root.head) else {
        let missing = (own.len() > 1).then(|| {
            let number = own.len();
            format!("{file}: {number} modules, and no section \"{HEADING}\" in its head")
        });
        return (false, missing.into_iter().collect());
    };
    let mut faults: Vec<String> = order
        .twice
        .iter()
        .map(|name| format!("{file}: `{name}` stands twice in \"{HEADING}\""))
        .collect();
    for (name, _) in own.iter().filter(|(name, _)| !order.layers.contains_key(name)) {
        faults.push(format!("{file}: `{name}` is missing in \"{HEADING}\""));
    }
    let absent = &tree.modules[root.module].scope.absent;
    let is_there = |name: &String| {
        *name == ROOT || absent.contains(name) || own.iter().any(|(own, _)| own == name)
    };
    for name in order.layers.keys().filter(|name| !is_there(name)) {
        faults
            .push(format!("{file}: \"{HEADING}\" names `{name}`, which is no module of the crate"));
    }
    let layer = |module: Id| {
        let module = &tree.modules[module];
        let name = module.path.first().map_or(ROOT, String::as_str);
        let above_all = if name == ROOT { Some(usize::MAX) } else { None };
        (module.root == root.module)
            .then(|| order.layers.get(name).copied().or(above_all))
            .flatten()
    };
    for edge in edges {
        let (Some(from), Some(to)) = (layer(edge.from), layer(edge.to)) else { continue };
        if from < to {
            let place = tree.file_of(edge.from).display();
            faults.push(format!("{place}:{} uses {}, which is above it", edge.line, edge.item));
        }
    }
    (true, faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(head: &str) -> Option<Order> {
        order(&head.lines().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_head_without_the_section_states_no_order() {
        assert_eq!(read(" One sentence.\n\n # Map\n - `a`: first."), None);
    }

    #[test]
    fn each_list_item_is_a_layer() {
        let text = " Text.\n # Modules, from the bottom up\n 1. `a`, `b`: see `x`.\n    More of \
                    `y`.\n 2. `c`\n # End\n - `d`";
        let order = read(text).unwrap();
        let layers: Vec<_> =
            order.layers.iter().map(|(name, layer)| (name.as_str(), *layer)).collect();
        assert_eq!(layers, [("a", 1), ("b", 1), ("c", 2)]);
        assert!(order.twice.is_empty());
    }

    #[test]
    fn a_name_that_stands_twice_is_noted() {
        assert_eq!(read("# Modules, from the bottom up\n- `a`\n- `a`").unwrap().twice, ["a"]);
    }
}
