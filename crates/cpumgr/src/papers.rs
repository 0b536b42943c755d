//! `cpumgr completions` and `cpumgr man`: what is written from the command line itself, and from
//! the shipped configuration (`keys`).

use std::fs;
use std::path::Path;

use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs, EXIT_CODES, ManArgs};
use crate::error::Error;
use crate::output::print;

mod keys;
mod roff;

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
        return print(&page(&without_help(Cli::command()), "cpumgr")?);
    };
    for (name, text) in pages()? {
        let path = directory.join(name);
        fs::write(&path, text).map_err(|source| failed(&path, source))?;
    }
    Ok(())
}

/// The page of each command that is not hidden, and of what it can be told to do, by its file's
/// name.
fn pages() -> Result<Vec<(String, String)>, Error> {
    let mut whole = without_help(Cli::command());
    whole.build();
    let mut pages = Vec::new();
    add_pages(&whole, "cpumgr", &mut pages)?;
    pages.push(("cpumgr.toml.5".to_owned(), keys::page()));
    Ok(pages)
}

/// A page names the pages of the commands below it, and there is none of `help`.
fn without_help(command: clap::Command) -> clap::Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

fn add_pages(
    command: &clap::Command,
    name: &str,
    pages: &mut Vec<(String, String)>,
) -> Result<(), Error> {
    pages.push((format!("{name}.1"), page(command, name)?));
    for below in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        add_pages(below, &format!("{name}-{}", below.get_name()), pages)?;
    }
    Ok(())
}

fn page(command: &clap::Command, name: &str) -> Result<String, Error> {
    // The name in the page's head is for ever; a command is not.
    let name: &'static str = name.to_owned().leak();
    let mut command = command.clone().name(name);
    let said = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    // Of the simulator, which asks no manager, something else is said.
    let has_codes = said == EXIT_CODES;
    if has_codes {
        command = command.after_help(clap::builder::Resettable::Reset);
    }
    let mut text = Vec::new();
    let written = clap_mangen::Man::new(command).render(&mut text);
    written.map_err(|source| failed(Path::new(name), source))?;
    let text = String::from_utf8_lossy(&text);
    Ok(if has_codes { roff::with_sections(&text, EXIT_CODES) } else { text.into_owned() })
}

fn failed(path: &Path, source: std::io::Error) -> Error {
    Error::Io { what: "cannot write", path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All commands that are not hidden, by the names of their pages.
    fn commands(command: &clap::Command, name: &str, into: &mut Vec<(String, clap::Command)>) {
        into.push((name.to_owned(), command.clone()));
        for below in command.get_subcommands().filter(|it| !it.is_hide_set()) {
            commands(below, &format!("{name}-{}", below.get_name()), into);
        }
    }

    /// As it stands in a page: a hyphen is written as `\-` there.
    fn escaped(text: &str) -> String {
        text.replace('-', "\\-")
    }

    #[test]
    fn every_command_has_a_page_with_the_exit_codes_its_options_and_its_values() {
        let pages = pages().unwrap();
        let mut all = Vec::new();
        commands(&Cli::command(), "cpumgr", &mut all);
        assert_eq!(all.len() + 1, pages.len(), "and that of the configuration");
        assert!(all.iter().any(|(name, _)| name == "cpumgr-trace-convert"));
        for (name, command) in all {
            let name = format!("{name}.1");
            let (_, text) = pages.iter().find(|(of, _)| *of == name).unwrap();
            // The simulator asks no manager.
            let has_codes = text.contains("no manager answers") || name == "cpumgr-simulate.1";
            assert!(has_codes, "{name} has no exit codes");
            for section in [".SH \"EXIT STATUS\"", ".SH ENVIRONMENT", ".SH FILES"] {
                let is_there = text.replace("\"ENVIRONMENT\"", "ENVIRONMENT").contains(section);
                assert!(is_there || name == "cpumgr-simulate.1", "{name} has no {section}");
            }
            assert!(!text.contains(".SH EXTRA") || name == "cpumgr-simulate.1", "{name}");
            for option in command.get_arguments().filter(|it| !it.is_hide_set()) {
                let shown = match option.get_long() {
                    Some(long) => long.to_owned(),
                    None => option.get_value_names().unwrap_or_default()[0].to_string(),
                };
                assert!(text.contains(&escaped(&shown)), "{name} does not name {shown}");
            }
        }
        let (_, whole) = &pages[0];
        assert!(whole.contains("no manager answers") && whole.contains("CPUMGR_CONFIG"), "{whole}");
        let (_, team) = pages.iter().find(|(name, _)| name == "cpumgr-set-team.1").unwrap();
        assert!(team.contains("malleable") && team.contains("fixed"), "{team}");
    }

    #[test]
    fn every_page_that_a_page_names_is_there() {
        let pages = pages().unwrap();
        let mut named = 0;
        for (of, text) in &pages {
            // As `cpumgr\-set\-quantum(1)`.
            for (before, _) in text.match_indices("(1)").map(|(at, _)| text.split_at(at)) {
                let start = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
                let name = before[start..].replace('\\', "");
                let is_there = pages.iter().any(|(page, _)| *page == format!("{name}.1"));
                assert!(is_there, "{of} names {name}, which has no page");
                named += 1;
            }
        }
        assert!(named >= pages.len() - 2, "{named} of {}", pages.len());
    }
}
