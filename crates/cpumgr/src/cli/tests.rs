//! How the command line is read.

use super::*;
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
