//! The modules of a package's library and programs, and the file of each.
//!
//! A module is found as the compiler finds it: `mod x;` is `x.rs` or `x/mod.rs` in the folder of
//! the module that declares it, or the file that `#[path]` names; a module with a body stays in its
//! file.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::source::{self, Child, Scope, Source};

/// A module's number in its [`Tree`].
pub(super) type Id = usize;

/// A module with its own text.
#[derive(Debug)]
pub(super) struct Module {
    /// The number of its file.
    pub(super) file: usize,
    /// Its names from the root, without the root's own.
    pub(super) path: Vec<String>,
    pub(super) parent: Option<Id>,
    pub(super) root: Id,
    pub(super) scope: Scope,
    /// The modules that it declares.
    pub(super) children: Vec<(String, Id)>,
}

impl Module {
    /// The path that other modules of the crate write.
    pub(super) fn shown(&self) -> String {
        std::iter::once("crate")
            .chain(self.path.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join("::")
    }
}

/// A root of the tree: a library or a program.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) module: Id,
    /// The name under which the package's programs use it: a library's alone.
    pub(super) library: Option<String>,
    /// Its head, line by line.
    pub(super) head: Vec<String>,
}

/// All modules of a package.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) modules: Vec<Module>,
    pub(super) roots: Vec<Root>,
    /// As they were found: below the folder that the roots were named in.
    pub(super) files: Vec<PathBuf>,
}

/// Where the modules are looked for that a text declares.
struct Place {
    /// The folder of `mod x;`.
    folder: PathBuf,
    /// The folder that `#[path]` starts from.
    start: PathBuf,
}

impl Tree {
    /// Reads a root and every module below it. `library`: its name, when it is a library.
    pub(super) fn add(&mut self, file: &Path, library: Option<String>) -> anyhow::Result<()> {
        let id = self.modules.len();
        let source = read(file)?;
        let file_id = self.file(file);
        self.roots.push(Root { module: id, library, head: source.head });
        let folder = folder_of(file);
        self.module(
            source.scope,
            file_id,
            Vec::new(),
            None,
            id,
            &Place { start: folder.clone(), folder },
        )
    }

    /// The number of a file; two modules may have the same.
    fn file(&mut self, file: &Path) -> usize {
        self.files.iter().position(|known| known == file).unwrap_or_else(|| {
            self.files.push(file.to_owned());
            self.files.len() - 1
        })
    }

    fn module(
        &mut self,
        mut scope: Scope,
        file: usize,
        path: Vec<String>,
        parent: Option<Id>,
        root: Id,
        place: &Place,
    ) -> anyhow::Result<()> {
        let id = self.modules.len();
        let children = std::mem::take(&mut scope.children);
        self.modules.push(Module {
            file,
            path: path.clone(),
            parent,
            root,
            scope,
            children: Vec::new(),
        });
        for Child { name, path: named, inline } in children {
            let below = [path.as_slice(), std::slice::from_ref(&name)].concat();
            let child = self.modules.len();
            if let Some(scope) = inline {
                let folder = match &named {
                    Some(named) => place.start.join(named),
                    None => place.folder.join(&name),
                };
                self.module(
                    scope,
                    file,
                    below,
                    Some(id),
                    root,
                    &Place { start: folder.clone(), folder },
                )?;
            } else {
                let (found, folder) = find(place, &name, named.as_deref()).with_context(|| {
                    format!("module `{}` of {}", below.join("::"), self.files[file].display())
                })?;
                let source = read(&found)?;
                if !source.shipped {
                    self.modules[id].scope.absent.push(name);
                    continue;
                }
                let file = self.file(&found);
                let place = Place { folder, start: folder_of(&found) };
                self.module(source.scope, file, below, Some(id), root, &place)?;
            }
            self.modules[id].children.push((name, child));
        }
        Ok(())
    }
}

fn read(file: &Path) -> anyhow::Result<Source> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    source::read(&text).map_err(|fault| {
        let at = fault.span().start();
        anyhow::anyhow!("{}:{}: {fault}", file.display(), at.line)
    })
}

/// The file of `mod name;`, and the folder of the modules below it.
fn find(place: &Place, name: &str, named: Option<&str>) -> anyhow::Result<(PathBuf, PathBuf)> {
    if let Some(named) = named {
        let file = normal(&place.start.join(named));
        let folder = folder_of(&file);
        return Ok((file, folder));
    }
    let folder = place.folder.join(name);
    let choices = [place.folder.join(format!("{name}.rs")), folder.join("mod.rs")];
    match choices.iter().find(|file| file.is_file()) {
        Some(file) => Ok((file.clone(), folder)),
        None => bail!("neither {} nor {} is there", choices[0].display(), choices[1].display()),
    }
}

/// Takes `..` out, so that a file has one name.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir if out.file_name().is_some() => {
                out.pop();
            }
            std::path::Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

fn folder_of(file: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).to_owned()
}
