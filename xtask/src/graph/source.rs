//! What one source file says: the names that its modules define and import, and the paths they use.
//!
//! # Not here
//! What a name stands for: `resolve`. Method calls and fields: they name no module.

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Item, Lit, Meta, UseTree, Visibility};

use super::cfg;

/// A path as it stands in the source; its first segment may be `crate`, `self` or `super`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) segments: Vec<String>,
    pub(super) line: usize,
    /// It names a macro that is called, so a macro of an outer module may be meant.
    pub(super) call: bool,
}

/// One name of a `use`, or all names of a module.
#[derive(Clone, Debug)]
pub(super) struct Import {
    /// What it is called here; `None` for `*`, "_" where it has no name.
    pub(super) name: Option<String>,
    pub(super) path: Path,
    /// It has a visibility of its own: others may take the name from here.
    pub(super) exported: bool,
}

/// A module below another one.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) name: String,
    /// What `#[path]` says.
    pub(super) path: Option<String>,
    /// `None`: it is a file of its own.
    pub(super) inline: Option<Scope>,
}

/// A module's own text, without that of the modules below it.
#[derive(Debug, Default)]
pub(super) struct Scope {
    pub(super) items: Vec<String>,
    /// Macros that `#[macro_export]` puts into the crate's root.
    pub(super) exported_macros: Vec<String>,
    pub(super) imports: Vec<Import>,
    /// Imports inside functions: no other module sees their names.
    pub(super) inner_imports: Vec<Import>,
    pub(super) paths: Vec<Path>,
    pub(super) children: Vec<Child>,
    /// Modules that only tests or models have.
    pub(super) absent: Vec<String>,
    /// What it shows to everything outside, re-exports among that; `*` for all names of another
    /// module.
    pub(super) public: Vec<String>,
    /// The modules that it shows.
    pub(super) public_modules: Vec<String>,
    /// Names among all these that `#[doc(hidden)]` keeps out of the documents.
    pub(super) hidden: Vec<String>,
}

/// A source file.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) scope: Scope,
    /// The text of its head, `//!`, line by line.
    pub(super) head: Vec<String>,
    /// False when `#![cfg(...)]` takes it out of the shipped build.
    pub(super) shipped: bool,
}

/// Reads the text of a file.
pub(super) fn read(text: &str) -> syn::Result<Source> {
    let file = syn::parse_file(text)?;
    let mut head = Vec::new();
    for attribute in file.attrs.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let Some(text) = value(attribute) {
            head.extend(text.lines().map(str::to_owned));
            if text.is_empty() {
                head.push(String::new());
            }
        }
    }
    Ok(Source { scope: scope(&file.items)?, head, shipped: cfg::is_shipped(&file.attrs) })
}

/// The string of `#[name = "string"]`.
fn value(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    let Expr::Lit(literal) = &pair.value else { return None };
    let Lit::Str(text) = &literal.lit else { return None };
    Some(text.value())
}

fn scope(items: &[Item]) -> syn::Result<Scope> {
    let mut collector = Collector { scope: Scope::default(), fault: None };
    for item in items {
        match item {
            item if cfg::is_shipped(cfg::of_item(item)) => collector.define(item)?,
            Item::Mod(item) => collector.scope.absent.push(plain(&item.ident)),
            _ => {}
        }
    }
    match collector.fault {
        Some(fault) => Err(fault),
        None => Ok(collector.scope),
    }
}

/// The names that an item, unless it is a module, shows to everything outside its own one.
fn shown(item: &Item) -> Vec<String> {
    let (visibility, name) = match item {
        Item::Use(item) => {
            let mut imports = Vec::new();
            if matches!(item.vis, Visibility::Public(_)) {
                flatten(&item.tree, &mut Vec::new(), true, &mut imports);
            }
            let name = |import: Import| import.name.unwrap_or_else(|| "*".to_owned());
            return imports.into_iter().map(name).collect();
        }
        Item::Const(item) => (&item.vis, &item.ident),
        Item::Enum(item) => (&item.vis, &item.ident),
        Item::Fn(item) => (&item.vis, &item.sig.ident),
        Item::Static(item) => (&item.vis, &item.ident),
        Item::Struct(item) => (&item.vis, &item.ident),
        Item::Trait(item) => (&item.vis, &item.ident),
        Item::TraitAlias(item) => (&item.vis, &item.ident),
        Item::Type(item) => (&item.vis, &item.ident),
        Item::Union(item) => (&item.vis, &item.ident),
        _ => return Vec::new(),
    };
    if matches!(visibility, Visibility::Public(_)) { vec![plain(name)] } else { Vec::new() }
}

/// The name of a module or a macro.
fn own_name(item: &Item) -> Option<String> {
    match item {
        Item::Mod(item) => Some(plain(&item.ident)),
        Item::Macro(item) => item.ident.as_ref().map(plain),
        _ => None,
    }
}

/// True with `#[doc(hidden)]`.
fn is_hidden(attributes: &[Attribute]) -> bool {
    let is = |attribute: &Attribute| {
        attribute.path().is_ident("doc")
            && attribute.parse_args::<Ident>().is_ok_and(|argument| argument == "hidden")
    };
    attributes.iter().any(is)
}

struct Collector {
    scope: Scope,
    /// Something that this reader would get wrong.
    fault: Option<syn::Error>,
}

impl Collector {
    /// Takes in an item of the module itself.
    fn define(&mut self, item: &Item) -> syn::Result<()> {
        let shown = shown(item);
        if is_hidden(cfg::of_item(item)) {
            self.scope.hidden.extend(shown.iter().cloned().chain(own_name(item)));
        }
        self.scope.public.extend(shown);
        match item {
            Item::Use(item) => {
                let exported = !matches!(item.vis, Visibility::Inherited);
                if item.leading_colon.is_none() {
                    flatten(&item.tree, &mut Vec::new(), exported, &mut self.scope.imports);
                }
                return Ok(());
            }
            Item::Mod(item) => {
                let inline = item.content.as_ref().map(|(_, items)| scope(items)).transpose()?;
                let path = item
                    .attrs
                    .iter()
                    .find(|attribute| attribute.path().is_ident("path"))
                    .and_then(value);
                if matches!(item.vis, Visibility::Public(_)) {
                    self.scope.public_modules.push(plain(&item.ident));
                }
                self.scope.children.push(Child { name: plain(&item.ident), path, inline });
                return Ok(());
            }
            Item::Macro(item) => {
                if let Some(name) = &item.ident {
                    self.scope.items.push(plain(name));
                    if item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export"))
                    {
                        self.scope.exported_macros.push(plain(name));
                    }
                }
            }
            Item::ForeignMod(block) => {
                for item in &block.items {
                    match item {
                        syn::ForeignItem::Fn(item) => self.scope.items.push(plain(&item.sig.ident)),
                        syn::ForeignItem::Static(item) => self.scope.items.push(plain(&item.ident)),
                        syn::ForeignItem::Type(item) => self.scope.items.push(plain(&item.ident)),
                        _ => {}
                    }
                }
            }
            Item::Const(item) => self.scope.items.push(plain(&item.ident)),
            Item::Enum(item) => self.scope.items.push(plain(&item.ident)),
            Item::Fn(item) => self.scope.items.push(plain(&item.sig.ident)),
            Item::Static(item) => self.scope.items.push(plain(&item.ident)),
            Item::Struct(item) => self.scope.items.push(plain(&item.ident)),
            Item::Trait(item) => self.scope.items.push(plain(&item.ident)),
            Item::TraitAlias(item) => self.scope.items.push(plain(&item.ident)),
            Item::Type(item) => self.scope.items.push(plain(&item.ident)),
            Item::Union(item) => self.scope.items.push(plain(&item.ident)),
            _ => {}
        }
        visit::visit_item(self, item);
        Ok(())
    }

    /// Takes in what a macro is given: its text is no syntax tree, but its paths are paths.
    fn tokens(&mut self, tokens: &TokenStream) {
        let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
        let is = |at: Option<usize>, sign: char| {
            let tree = at.and_then(|at| trees.get(at));
            matches!(tree, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
        };
        let joined = |at: usize| is(Some(at), ':') && is(Some(at + 1), ':');
        let mut at = 0;
        while at < trees.len() {
            let (before, start) = (at.checked_sub(1), at);
            match &trees[at] {
                TokenTree::Group(group) => self.tokens(&group.stream()),
                TokenTree::Ident(first) => {
                    let mut segments = vec![plain(first)];
                    while joined(at + 1) {
                        let Some(TokenTree::Ident(next)) = trees.get(at + 3) else { break };
                        segments.push(plain(next));
                        at += 3;
                    }
                    let second = start.checked_sub(2);
                    let member = is(before, '.') && !is(second, '.');
                    let later = is(before, ':') && is(second, ':');
                    let variable = is(before, '$') && segments[0] != "crate";
                    if !(member || later || variable || is(before, '\'')) {
                        let call = is(Some(at + 1), '!') && !is(Some(at + 2), '=');
                        self.scope.paths.push(Path { segments, line: line(first), call });
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item(&mut self, item: &'ast Item) {
        if cfg::is_shipped(cfg::of_item(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            flatten(&item.tree, &mut Vec::new(), false, &mut self.scope.inner_imports);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let fault =
            syn::Error::new(item.span(), "a module inside a function is not followed: move it out");
        self.fault.get_or_insert(fault);
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        if cfg::is_shipped(cfg::of_impl_item(item)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast syn::TraitItem) {
        if cfg::is_shipped(cfg::of_trait_item(item)) {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        let shipped = match statement {
            syn::Stmt::Local(local) => cfg::is_shipped(&local.attrs),
            syn::Stmt::Macro(call) => cfg::is_shipped(&call.attrs),
            syn::Stmt::Item(_) | syn::Stmt::Expr(..) => true,
        };
        if shipped {
            visit::visit_stmt(self, statement);
        }
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        if cfg::is_shipped(cfg::of_expression(expression)) {
            visit::visit_expr(self, expression);
        }
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if cfg::is_shipped(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if cfg::is_shipped(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        if cfg::is_shipped(&field.attrs) {
            visit::visit_field_value(self, field);
        }
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        if cfg::is_shipped(&variant.attrs) {
            visit::visit_variant(self, variant);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        // `::name` is another crate, and what comes after `<Type>` is the type's.
        if path.leading_colon.is_none() {
            let segments = path.segments.iter().map(|segment| plain(&segment.ident)).collect();
            self.scope.paths.push(Path { segments, line: path.span().start().line, call: false });
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if call.path.leading_colon.is_none() {
            let segments = call.path.segments.iter().map(|segment| plain(&segment.ident)).collect();
            self.scope.paths.push(Path {
                segments,
                line: call.path.span().start().line,
                call: true,
            });
        }
        self.tokens(&call.tokens);
    }

    /// Attributes name no module of ours.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    /// `pub(in path)` opens a name and uses none.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

/// Adds each name of a `use`.
fn flatten(tree: &UseTree, before: &mut Vec<String>, exported: bool, imports: &mut Vec<Import>) {
    let mut add = |last: Option<&Ident>, name: Option<String>, line: usize| {
        let mut segments = before.clone();
        // `use a::{self}` is `use a`.
        segments.extend(last.filter(|last| *last != "self" || before.is_empty()).map(plain));
        let name =
            name.map(
                |name| if name == "self" { segments.last().cloned().unwrap_or(name) } else { name },
            );
        imports.push(Import { name, path: Path { segments, line, call: false }, exported });
    };
    match tree {
        UseTree::Path(path) => {
            before.push(plain(&path.ident));
            flatten(&path.tree, before, exported, imports);
            before.pop();
        }
        UseTree::Name(name) => add(Some(&name.ident), Some(plain(&name.ident)), line(&name.ident)),
        UseTree::Rename(name) => {
            add(Some(&name.ident), Some(plain(&name.rename)), line(&name.ident))
        }
        UseTree::Glob(glob) => add(None, None, glob.span().start().line),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, before, exported, imports);
            }
        }
    }
}

/// A name without `r#`.
fn plain(name: &Ident) -> String {
    name.unraw().to_string()
}

fn line(name: &Ident) -> usize {
    name.span().start().line
}
