//! How the command line is read.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::error;
use clap::CommandFactory;

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn an_unknown_policy_is_answered_with_the_known_ones() {
    let error = Cli::try_parse_from(["cpumgr", "daemon", "--policy", "just"]).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    let text = error.to_string();
    assert!(
        text.contains("\"just\"") && text.contains("dss-ts") && text.contains("equip"),
        "{text}"
    );
}

#[test]
fn wrong_values_are_named() {
    for (option, value) in [
        ("--smt", "both"),
        ("--quantum", "fast"),
        ("--quantum", "1us"),
        ("--cpus", "1-x"),
        ("--idle-exit", "soon"),
        ("--trace-size", "1K"),
        ("--trace-size", "99999999999G"),
    ] {
        let error = Cli::try_parse_from(["cpumgr", "daemon", option, value]).unwrap_err();
        let text = error.to_string();
        assert!(error.exit_code() == 2 && text.contains(option) && text.contains(value), "{text}");
    }
}

#[test]
fn weights_are_read_in_thousandths() {
    let cli = Cli::try_parse_from(["cpumgr", "run", "--weight", "2.5", "prog"]).unwrap();
    let Command::Run(run) = cli.command else { panic!("not run") };
    assert_eq!(run.weight.map(|weight| (weight.thousandths(), weight.number())), Some((2500, 2.5)));
    for bad in ["0", "0.0004", "-1", "1001", "nan", "inf", "much"] {
        let error = Cli::try_parse_from(["cpumgr", "set", "weight", "7", "--", bad])
            .unwrap_err()
            .to_string();
        assert!(error.contains("0.001 to 1000"), "{bad}: {error}");
    }
}

#[test]
fn a_programs_options_are_its_own() {
    let cli =
        Cli::try_parse_from(["cpumgr", "run", "--policy", "equip", "--", "prog", "--policy", "-x"])
            .unwrap();
    let Command::Run(run) = cli.command else { panic!("not run") };
    assert_eq!(run.policy.as_deref(), Some("equip"));
    assert_eq!(run.command, ["prog", "--policy", "-x"]);
    let cli = Cli::try_parse_from(["cpumgr", "run", "prog", "--help"]).unwrap();
    let Command::Run(run) = cli.command else { panic!("not run") };
    assert_eq!(run.command, ["prog", "--help"]);
    assert!(Cli::try_parse_from(["cpumgr", "run"]).is_err());
}

#[test]
fn an_option_that_is_written_wrong_is_no_program() {
    for (words, near) in [
        (["run", "--clas", "x", "--", "true"], "--class"),
        (["submit", "--aray", "1-2", "--", "true"], "--array"),
        (["jobserver", "--job", "2", "--", "make"], "--jobs"),
        (["run", "-v", "true", "a", "b"], "-v"),
    ] {
        let error = Cli::try_parse_from(["cpumgr"].iter().chain(&words)).unwrap_err();
        let text = error.to_string();
        assert!(error.exit_code() == 2 && text.contains(near), "{words:?}: {text}");
    }
    let cli = Cli::try_parse_from(["cpumgr", "run", "--", "-odd", "--", "-x"]).unwrap();
    let Command::Run(run) = cli.command else { panic!("not run") };
    assert_eq!(run.command, ["-odd", "--", "-x"]);
    // As make's own option is written, mostly.
    let cli = Cli::try_parse_from(["cpumgr", "jobserver", "-j2", "make", "-k", "-j3"]).unwrap();
    let Command::Jobserver(jobserver) = cli.command else { panic!("not jobserver") };
    assert_eq!((jobserver.jobs, jobserver.command.len()), (Some(2), 3));
}

#[test]
fn processors_are_listed_as_taskset_does() {
    for (text, read) in
        [("0,5-7", "0,5-7"), ("0-8:4,1", "0-1,4,8"), ("0-7:2/4", "0-1,4-5"), (" 3 , 2 ", "2-3")]
    {
        assert_eq!(value::cpus(text).unwrap().to_string(), read, "{text}");
    }
    for bad in ["", " ", "0-31:0", "0-31:x", "3:2", "1-", "a", "7-3"] {
        assert!(value::cpus(bad).is_err(), "{bad}");
    }
}

/// The codes and their meanings as the help has them, and the sentences below those.
fn exit_codes() -> (Vec<(&'static str, &'static str)>, String) {
    let (codes, _) = EXIT_CODES.split_once("\n\nEnvironment:").unwrap();
    let lines: Vec<&str> = codes.lines().skip(1).map(str::trim).collect();
    let is_code = |line: &&&str| line.starts_with(|first: char| first.is_ascii_digit());
    let table: Vec<_> = lines.iter().take_while(is_code).collect();
    let sentences = lines[table.len()..].join(" ");
    (table.into_iter().map(|line| line.split_once(' ').unwrap()).collect(), sentences)
}

#[test]
fn the_readme_has_the_exit_codes_of_the_help() {
    let readme = include_str!("../../README.md");
    let (_, section) = readme.split_once("\n## Exit codes\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let plain = |text: &str| text.replace('`', "").split_whitespace().collect::<Vec<_>>().join(" ");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let rows: Vec<_> =
        rows.map(|(code, text)| (code, plain(text.trim_end_matches(" |")))).collect();
    let (table, sentences) = exit_codes();
    let table: Vec<_> = table.into_iter().map(|(code, text)| (code, plain(text))).collect();
    assert_eq!(rows[1..], table);
    let (_, below) = section.rsplit_once("|\n").unwrap();
    assert_eq!(plain(below).to_lowercase(), plain(&sentences).to_lowercase());
}

#[test]
fn the_help_has_every_code_that_an_error_has() {
    let (table, _) = exit_codes();
    let codes: Vec<u8> = table.iter().map(|(code, _)| code.parse().unwrap()).collect();
    let of_errors = [
        error::FAILED,
        error::USAGE,
        error::NO_MANAGER,
        error::RUNNING,
        error::SOCKET,
        error::PROTOCOL,
        error::CANCELLED,
        error::CANNOT_EXECUTE,
        error::NOT_FOUND,
    ];
    assert_eq!(codes[1..], of_errors);
}

#[test]
fn the_python_command_knows_which_options_have_values() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/python/nanos/__main__.py");
    // A package of this crate alone has no wheel.
    let Ok(text) = std::fs::read_to_string(&file) else { return };
    let (_, list) = text.split_once("VALUED = {").unwrap();
    let (list, _) = list.split_once('}').unwrap();
    let known: BTreeSet<String> =
        list.split(',').map(|it| it.trim().trim_matches('"').to_owned()).collect();
    let known: BTreeSet<String> = known.into_iter().filter(|it| !it.is_empty()).collect();
    let command = Cli::command();
    let ours: BTreeSet<String> = ["run", "submit"]
        .into_iter()
        .flat_map(|name| command.find_subcommand(name).unwrap().get_opts())
        .filter(|option| option.get_action().takes_values())
        .filter_map(|option| Some(format!("--{}", option.get_long()?)))
        .collect();
    assert_eq!(known, ours, "{}", file.display());
}
