//! `cpumgr completions` and `cpumgr man`: what is written from the command line itself.

use std::fs;
use std::path::Path;

use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs, ManArgs};
use crate::error::Error;
use crate::output::print;

/// `cpumgr completions`.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Error> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "cpumgr", &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// `cpumgr man`.
///
/// # Errors
/// When the directory, or standard output, cannot be written.
pub(crate) fn manual(args: &ManArgs) -> Result<(), Error> {
    let Some(directory) = &args.directory else {
        return print(&page(&Cli::command(), "cpumgr")?);
    };
    for (name, text) in pages()? {
        let path = directory.join(name);
        fs::write(&path, text).map_err(|source| failed(&path, source))?;
    }
    Ok(())
}

/// The page of each command that is not hidden, by its file's name.
fn pages() -> Result<Vec<(String, String)>, Error> {
    let mut whole = Cli::command();
    whole.build();
    let mut pages = vec![("cpumgr.1".to_owned(), page(&whole, "cpumgr")?)];
    for command in whole.get_subcommands().filter(|it| !it.is_hide_set()) {
        let name = command.get_name();
        if name != "help" {
            let name = format!("cpumgr-{name}");
            pages.push((format!("{name}.1"), page(command, &name)?));
        }
    }
    Ok(pages)
}

fn page(command: &clap::Command, name: &str) -> Result<String, Error> {
    // The name in the page's head is for ever; a command is not.
    let name: &'static str = name.to_owned().leak();
    let command = command.clone().name(name);
    let mut text = Vec::new();
    let written = clap_mangen::Man::new(command).render(&mut text);
    written.map_err(|source| failed(Path::new(name), source))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn failed(path: &Path, source: std::io::Error) -> Error {
    Error::Io { what: "cannot write", path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_the_exit_codes_and_its_options() {
        let pages = pages().unwrap();
        for command in Cli::command().get_subcommands().filter(|it| !it.is_hide_set()) {
            let name = format!("cpumgr-{}.1", command.get_name());
            let (_, text) = pages.iter().find(|(of, _)| *of == name).unwrap();
            for option in command.get_arguments().filter(|it| !it.is_hide_set()) {
                if let Some(long) = option.get_long() {
                    // A hyphen is written as `\-` there.
                    let long = long.replace('-', "\\-");
                    assert!(text.contains(&long), "{name} does not name --{long}");
                }
            }
        }
        let (_, whole) = &pages[0];
        assert!(whole.contains("no manager answers") && whole.contains("CPUMGR_CONFIG"), "{whole}");
    }
}
