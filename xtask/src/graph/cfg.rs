//! Whether a `#[cfg(...)]` leaves an item in the shipped build.
//!
//! `test`, `loom`, `doc` and `doctest` are off. Everything else (features, targets, sanitizers) is
//! unknown, and an item is left out only when it is certainly absent.

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ImplItem, Item, Meta, Token, TraitItem};

/// Conditions that no shipped build has.
const OFF: [&str; 4] = ["test", "loom", "doc", "doctest"];

/// True unless one of the conditions certainly fails.
pub(super) fn is_shipped(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).all(|attribute| {
        attribute.parse_args::<Meta>().ok().and_then(|condition| holds(&condition)) != Some(false)
    })
}

/// The value of a condition; `None` where the build decides.
fn holds(condition: &Meta) -> Option<bool> {
    match condition {
        Meta::Path(path) if OFF.iter().any(|name| path.is_ident(name)) => Some(false),
        Meta::List(list) => {
            let parts =
                list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
            let parts: Vec<Option<bool>> = parts.iter().map(holds).collect();
            if list.path.is_ident("not") {
                parts.first().copied().flatten().map(|value| !value)
            } else if list.path.is_ident("all") {
                joined(&parts, false)
            } else if list.path.is_ident("any") {
                joined(&parts, true)
            } else {
                None
            }
        }
        _ => None,
    }
}

/// `decisive` when one part is; its opposite when all parts are that; else unknown.
fn joined(parts: &[Option<bool>], decisive: bool) -> Option<bool> {
    if parts.contains(&Some(decisive)) {
        Some(decisive)
    } else if parts.contains(&None) {
        None
    } else {
        Some(!decisive)
    }
}

/// Takes the attributes out of whichever variant a value is.
macro_rules! attributes {
    ($value:expr, $kind:ident: $($variant:ident)*) => {
        match $value {
            $($kind::$variant(inner) => &inner.attrs,)*
            _ => &[],
        }
    };
}

pub(super) fn of_item(item: &Item) -> &[Attribute] {
    attributes!(item, Item: Const Enum ExternCrate Fn ForeignMod Impl Macro Mod Static Struct Trait
        TraitAlias Type Union Use)
}

pub(super) fn of_impl_item(item: &ImplItem) -> &[Attribute] {
    attributes!(item, ImplItem: Const Fn Type Macro)
}

pub(super) fn of_trait_item(item: &TraitItem) -> &[Attribute] {
    attributes!(item, TraitItem: Const Fn Type Macro)
}

pub(super) fn of_expression(expression: &Expr) -> &[Attribute] {
    attributes!(expression, Expr: Array Assign Async Await Binary Block Break Call Cast Closure Const
        Continue Field ForLoop Group If Index Infer Let Lit Loop Macro Match MethodCall Paren Path
        Range RawAddr Reference Repeat Return Struct Try TryBlock Tuple Unary Unsafe While Yield)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped(condition: &str) -> bool {
        let item: Item = syn::parse_str(&format!("#[cfg({condition})] fn f() {{}}")).unwrap();
        is_shipped(of_item(&item))
    }

    #[test]
    fn what_is_only_in_tests_models_or_documents_is_left_out() {
        for absent in
            ["test", "loom", "doc", "all(test, not(loom))", "any(test, loom)", "not(not(test))"]
        {
            assert!(!shipped(absent), "{absent}");
        }
    }

    #[test]
    fn what_a_build_may_have_stays() {
        for present in
            ["not(test)", "not(loom)", "tsan", "not(tsan)", "feature = \"x\"", "any(test, unix)"]
        {
            assert!(shipped(present), "{present}");
        }
        assert!(shipped("all(not(loom), target_os = \"linux\")"));
    }
}
