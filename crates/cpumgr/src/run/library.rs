//! The drop-in library, in front of those that the program would find.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use crate::cli::{Preload, RunArgs};
use crate::dropin::{LIBRARY, LIBRARY_VARIABLE, NoLibrary, library_directory};
use crate::preload::{self, Program};

/// Puts the library in front of those that the program finds, where the loader can be told of it:
/// separators of its lists cannot be escaped.
pub(super) fn offer(command: &mut Command, directory: &Path, args: &RunArgs, warn: &impl Fn(&str)) {
    let shown = directory.display();
    let other = format!(
        "move it, or name a symbolic link to it with --lib or {LIBRARY_VARIABLE}; the program \
         runs with the OpenMP \
         library that it finds"
    );
    if preload::is_split(directory, preload::PATH) {
        return warn(&format!(
            "the drop-in OpenMP library cannot be used from {shown}: LD_LIBRARY_PATH is split at \
             ':' and ';'; {other}"
        ));
    }
    command.env("LD_LIBRARY_PATH", in_front(directory, env::var_os("LD_LIBRARY_PATH").as_deref()));
    let library = directory.join(LIBRARY);
    if !is_preloaded(args, &library) {
        return;
    }
    if preload::is_split(&library, preload::LIST) {
        return warn(&format!(
            "the drop-in OpenMP library in {shown} cannot be preloaded: LD_PRELOAD is split at \
             blanks; {other} by \
             LD_LIBRARY_PATH"
        ));
    }
    // A module with a library of its own (DT_RPATH, another file name) does not ask the path (D17).
    command.env("LD_PRELOAD", in_front(&library, env::var_os("LD_PRELOAD").as_deref()));
}

/// Why the program will not have the library, as far as can be told before it runs, and what to do.
pub(super) fn missing(args: &RunArgs) -> Option<String> {
    let directory = match library_directory(args.lib.as_deref()) {
        Ok(directory) => directory,
        Err(NoLibrary::Absent { looked }) => {
            return Some(format!(
                "it is not in {looked}: name its directory with --lib or {LIBRARY_VARIABLE}"
            ));
        }
        Err(NoLibrary::Unsafe { directory, why }) => {
            return Some(format!("the one in {} is not used: {why}", directory.display()));
        }
    };
    let (shown, program) = (directory.display(), Path::new(&args.command[0]));
    if preload::is_split(&directory, preload::PATH) {
        return Some(format!("the loader cannot be told of {shown}: name a link to it with --lib"));
    }
    let named = program.display();
    match preload::of_command(program) {
        Some(Program::Static) => Some(format!(
            "{named} is linked statically and loads none: where it was linked with \
             libnanos_omp.a, set UPM_PLACEMENT=random in its environment; else link it dynamically"
        )),
        Some(Program::Foreign) => Some(format!("{named} is another machine's and cannot load it")),
        Some(Program::Dynamic)
            if args.preload == Preload::Never
                && !preload::finds_by_path(program, Some(&directory)) =>
        {
            Some(format!("{named} does not load it by itself: leave out --preload never"))
        }
        _ => None,
    }
}

/// Whether the library is to be preloaded. The loader complains about one that it cannot load, in
/// each process.
fn is_preloaded(args: &RunArgs, library: &Path) -> bool {
    match args.preload {
        Preload::Never => false,
        Preload::Always => true,
        Preload::Auto => {
            let program = preload::of_command(Path::new(&args.command[0]));
            let loads = matches!(program, Some(Program::Dynamic | Program::Interpreted))
                && !preload::wants_first_place(Path::new(&args.command[0]));
            // What a program that finds the library by the path starts needs no library forced upon
            // it.
            let finds = || preload::finds_by_path(Path::new(&args.command[0]), library.parent());
            loads && preload::is_loadable(library) && !finds()
        }
    }
}

/// A search path with `directory` in front. An empty part would mean the current directory: none is
/// made.
/// A list of paths with this one as its first; one that is there already (`run` started by `run`)
/// is not put there again.
fn in_front(directory: &Path, path: Option<&OsStr>) -> OsString {
    let mut all = directory.as_os_str().to_owned();
    if let Some(path) = path.filter(|path| !path.is_empty()) {
        let first = path.as_bytes().split(|byte| *byte == b':').next();
        if first == Some(all.as_bytes()) {
            return path.to_owned();
        }
        all.push(":");
        all.push(path);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_comes_first_in_the_search_path() {
        assert_eq!(in_front(Path::new("/a"), None), "/a");
        assert_eq!(in_front(Path::new("/a"), Some("".as_ref())), "/a");
        assert_eq!(in_front(Path::new("/a"), Some("/b:/c".as_ref())), "/a:/b:/c");
        assert_eq!(in_front(Path::new("/a"), Some("/b:/a".as_ref())), "/a:/b:/a");
    }

    #[test]
    fn a_library_that_is_the_first_already_is_not_put_there_again() {
        assert_eq!(in_front(Path::new("/a"), Some("/a:/b".as_ref())), "/a:/b");
        assert_eq!(in_front(Path::new("/a"), Some("/ab:/b".as_ref())), "/a:/ab:/b");
    }
}
