//! Planted crates: what counts as an edge, as a circle, as a fault of order.

use super::*;

/// Writes a crate and reads it.
fn house(files: &[(&str, &str)]) -> House {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let (library, program) = (folder.path().join("lib.rs"), folder.path().join("main.rs"));
    let mut roots = vec![(library.as_path(), Some("planted".to_owned()))];
    if program.is_file() {
        roots.push((program.as_path(), None));
    }
    let mut house = House::of("planted", roots.into_iter()).unwrap();
    for file in &mut house.tree.files {
        *file = file.strip_prefix(folder.path()).unwrap().to_owned();
    }
    house
}

/// The edges, as `from:line to item`.
fn edges(files: &[(&str, &str)]) -> Vec<String> {
    let house = house(files);
    let shown = |edge: &Edge| {
        let (from, to) =
            (house.tree.file_of(edge.from).display(), house.tree.file_of(edge.to).display());
        format!("{from}:{} {to} {}", edge.line, edge.item)
    };
    house.edges.iter().map(shown).collect()
}

#[test]
fn a_circle_is_found_with_its_files_and_edges() {
    let house = house(&[
        ("lib.rs", "mod a; mod b; mod c; mod d; mod e; mod f;"),
        ("a.rs", "use crate::b::B;\npub struct A(B);"),
        ("b.rs", "pub struct B; fn f() { crate::c::c(); }"),
        ("c.rs", "pub fn c() -> super::d::D { super::d::D }"),
        ("d.rs", "use super::e;\npub struct D; fn f() { e::e() }"),
        ("e.rs", "use {crate::a::A, crate::f::F};\npub fn e() { let _: A; let _: F; }"),
        ("f.rs", "pub struct F;"),
    ]);
    let circle: Vec<_> =
        house.circles[0].iter().map(|file| house.tree.files[*file].display().to_string()).collect();
    assert_eq!(circle, ["a.rs", "b.rs", "c.rs", "d.rs", "e.rs"]);
    let report = house.report();
    assert!(report.contains("planted: 5 files in a circle, 5 edges:"), "{report}");
    assert!(report.contains("  d.rs:2 uses crate::e::e (e.rs)"), "{report}");
    assert!(!report.contains("f.rs"), "{report}");
    assert_eq!(house.summary(), "planted: 7 files, 6 edges, largest circle 5");
}

#[test]
fn a_circle_of_four_is_not_reported() {
    let house = house(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::c::C; pub struct B;"),
        ("c.rs", "use crate::d::D; pub struct C;"),
        ("d.rs", "use crate::a::A; pub struct D;"),
    ]);
    assert_eq!(house.circles[0].len(), 4);
    assert_eq!(house.report(), "");
}

#[test]
fn a_re_export_leads_to_the_module_that_defines() {
    let found = edges(&[
        ("lib.rs", "mod a; mod facade; pub use facade::Thing as Renamed;"),
        ("facade.rs", "mod inner; pub use inner::{Thing, f};"),
        ("facade/inner.rs", "pub struct Thing; pub fn f() {}"),
        ("a.rs", "use crate::Renamed;\nuse crate::facade;\nfn g() { facade::f() }"),
    ]);
    assert_eq!(
        found,
        [
            "a.rs:1 facade/inner.rs crate::facade::inner::Thing",
            "a.rs:3 facade/inner.rs crate::facade::inner::f",
        ]
    );
}

#[test]
fn a_facade_that_uses_what_it_re_exports_has_an_edge() {
    let found = edges(&[
        ("lib.rs", "mod facade;"),
        ("facade.rs", "mod inner; pub use inner::Thing;\nfn f() -> Thing { Thing }"),
        ("facade/inner.rs", "pub struct Thing;"),
    ]);
    assert_eq!(found, ["facade.rs:2 facade/inner.rs crate::facade::inner::Thing"]);
}

#[test]
fn a_re_export_from_beside_is_an_edge() {
    let found = edges(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub use crate::b::B;\npub(crate) use crate::b::f;"),
        ("b.rs", "pub struct B; pub fn f() {}"),
    ]);
    assert_eq!(found, ["a.rs:1 b.rs crate::b::B", "a.rs:2 b.rs crate::b::f"]);
}

#[test]
fn what_tests_models_and_documents_use_does_not_count() {
    let found = edges(&[
        ("lib.rs", "#[cfg(test)] mod absent; mod a; mod b;"),
        (
            "a.rs",
            "#[cfg(test)] use crate::b::B;
             /// [`crate::b::B`]
             #[cfg(all(test, not(loom)))] mod tests { use crate::b::B; }
             #[cfg(loom)] fn f() -> crate::b::B { crate::b::B }
             fn g() { #[cfg(loom)] crate::b::f(); #[cfg(test)] let _ = crate::b::B; }
             // crate::b::f()
             fn h() -> &'static str { \"crate::b::f()\" }",
        ),
        ("b.rs", "pub struct B; pub fn f() {}"),
    ]);
    assert_eq!(found, [""; 0]);
}

#[test]
fn what_a_shipped_build_has_counts() {
    let found = edges(&[
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "fn g() {\n#[cfg(not(loom))] crate::b::f();\n#[cfg(unix)]\nlet _ = crate::b::B;\n}",
        ),
        ("b.rs", "pub struct B; pub fn f() {}"),
    ]);
    assert_eq!(found, ["a.rs:2 b.rs crate::b::f", "a.rs:4 b.rs crate::b::B"]);
}

#[test]
fn an_inline_module_belongs_to_its_file() {
    let found = edges(&[
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "pub struct A;\npub mod inner \
             {\n use super::A;\n use super::super::b::B;\n pub struct In; pub mod deep; }",
        ),
        ("a/inner/deep.rs", "use super::super::A;"),
        ("b.rs", "pub struct B; use crate::a::inner::In;"),
    ]);
    assert_eq!(
        found,
        [
            "a/inner/deep.rs:1 a.rs crate::a::A",
            "a.rs:4 b.rs crate::b::B",
            "b.rs:1 a.rs crate::a::inner::In"
        ]
    );
}

#[test]
fn files_are_found_as_the_compiler_finds_them() {
    let found = edges(&[
        (
            "lib.rs",
            "mod a; #[path = \"../elsewhere.rs\"] mod b; mod c;".replace("../", "").as_str(),
        ),
        ("a/mod.rs", "mod below; pub struct A;"),
        ("a/below.rs", "use super::A;"),
        ("elsewhere.rs", "mod beside; use self::beside::X;"),
        ("beside.rs", "pub struct X;"),
        ("c.rs", "#[path = \"d/../odd.rs\"] mod d; use d::D;"),
        ("odd.rs", "pub struct D;"),
    ]);
    assert_eq!(
        found,
        [
            "a/below.rs:1 a/mod.rs crate::a::A",
            "c.rs:1 odd.rs crate::c::d::D",
            "elsewhere.rs:1 beside.rs crate::b::beside::X",
        ]
    );
}

#[test]
fn a_missing_file_is_an_error_that_names_the_module() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lib.rs");
    std::fs::write(&file, "mod lost;").unwrap();
    let fault = House::of("planted", [(file.as_path(), None)].into_iter()).err().unwrap();
    assert!(format!("{fault:#}").contains("module `lost` of"), "{fault:#}");
}

#[test]
fn paths_inside_macros_count() {
    let found = edges(&[
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "use crate::b;\nfn f(x: X) {\n println!(\"{}\", b::f(x.b, 'b', 0..b::N));\n}\nmacro_rules! m { () => { $crate::b::g() }; }",
        ),
        ("b.rs", "pub fn f() {} pub fn g() {} pub const N: u32 = 1;"),
    ]);
    assert_eq!(
        found,
        ["a.rs:3 b.rs crate::b::N", "a.rs:3 b.rs crate::b::f", "a.rs:5 b.rs crate::b::g"]
    );
}

#[test]
fn macros_are_followed_to_where_they_are_written() {
    let found = edges(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "macro_rules! outer { () => {}; }\nmod inner;"),
        ("a/inner.rs", "outer! {}\nfn f() { crate::given!(); }"),
        ("b.rs", "#[macro_export]\nmacro_rules! given { () => {}; }"),
    ]);
    assert_eq!(found, ["a/inner.rs:1 a.rs crate::a::outer", "a/inner.rs:2 b.rs crate::b::given"]);
}

#[test]
fn a_star_leads_to_the_names_used_through_it() {
    let found = edges(&[
        ("lib.rs", "mod a; mod facade; mod b; mod c;"),
        ("facade.rs", "pub use crate::b::B; pub use crate::c::C;"),
        ("a.rs", "use crate::facade::*;\nfn f(_: B) {}"),
        ("b.rs", "pub struct B;"),
        ("c.rs", "pub struct C;"),
    ]);
    let of_a: Vec<_> = found.iter().filter(|edge| edge.starts_with("a.rs")).collect();
    assert_eq!(of_a, ["a.rs:2 b.rs crate::b::B"]);
}

#[test]
fn what_another_crate_defines_stops_where_it_is_imported() {
    let found = edges(&[
        ("lib.rs", "mod a; mod sync;"),
        ("sync.rs", "pub use std::sync::Mutex; pub use std::sync::atomic::*;"),
        (
            "a.rs",
            "use std::sync::Arc;\nuse crate::sync::Mutex;\nuse crate::sync::AtomicU32;\nfn f() -> \
             ::sync::X {}",
        ),
    ]);
    assert_eq!(
        found,
        ["a.rs:2 sync.rs crate::sync::Mutex", "a.rs:3 sync.rs crate::sync::AtomicU32"]
    );
}

#[test]
fn a_program_uses_the_library_by_its_name() {
    let found = edges(&[
        ("lib.rs", "pub mod a;"),
        ("a.rs", "pub fn run() {}"),
        ("main.rs", "fn main() {\n planted::a::run() }"),
    ]);
    assert_eq!(found, ["main.rs:2 a.rs crate::a::run"]);
}

#[test]
fn re_exports_in_a_circle_end() {
    let found = edges(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub use crate::b::*; pub use crate::b::X;"),
        ("b.rs", "pub use crate::a::*; pub use crate::a::X;"),
    ]);
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn a_module_inside_a_function_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lib.rs");
    std::fs::write(&file, "fn f() {\n mod inner {} }").unwrap();
    let fault =
        House::of("planted", [(file.as_path(), None)].into_iter()).err().unwrap().to_string();
    assert!(fault.contains("lib.rs:2: a module inside a function"), "{fault}");
}

const ORDER: &str = "//! A crate.\n//!\n//! # Modules, from the bottom up\n//! 1. `low`, `base`: \
                     first.\n//! 2. `high`: then.\n";

fn faults(head: &str, low: &str) -> (bool, Vec<String>) {
    let house = house(&[
        (
            "lib.rs",
            &format!("{head}#[cfg(loom)] mod model; mod low; mod base; mod high; pub struct Root;"),
        ),
        ("low.rs", low),
        ("base.rs", "use crate::low;\npub struct B; fn f() { low::f() }"),
        ("high.rs", "mod inner; use crate::base::B; use crate::Root; pub struct H;"),
        ("high/inner.rs", "use crate::low::f;"),
    ]);
    direction::faults(&house.tree, &house.edges, 0)
}

#[test]
fn an_edge_upwards_is_named_by_its_place() {
    let (is_ordered, found) = faults(ORDER, "pub fn f() {\n let _ = crate::high::H; }");
    assert!(is_ordered);
    // `high` uses the root, which is above all.
    assert_eq!(
        found,
        [
            "high.rs:1 uses crate::Root, which is above it",
            "low.rs:2 uses crate::high::H, which is above it",
        ]
    );
}

#[test]
fn edges_within_a_layer_and_downwards_are_right() {
    // A module that only a model has may be named.
    let head = ORDER.replace("1. `low`", "1. `crate`, `model`, `low`");
    assert_eq!(faults(&head, "pub fn f() { let _ = crate::base::B; }"), (true, Vec::new()));
}

#[test]
fn only_a_crate_of_one_module_needs_no_order() {
    let (is_ordered, found) = faults("", "pub fn f() { let _ = crate::high::H; }");
    assert!(!is_ordered);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("lib.rs: 3 modules, and no section"), "{found:?}");
    let house = house(&[("lib.rs", "mod low;"), ("low.rs", "pub struct L;")]);
    assert_eq!(direction::faults(&house.tree, &house.edges, 0), (false, Vec::new()));
}

#[test]
fn the_order_names_every_module_and_no_other() {
    let head = ORDER.replace("`base`", "`bass`").replace("`low`", "`crate`, `low`");
    let (_, found) = faults(&head, "pub fn f() {}");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("`base` is missing"), "{found:?}");
    assert!(found[1].contains("names `bass`"), "{found:?}");
}
