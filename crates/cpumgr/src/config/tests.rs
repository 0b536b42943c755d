use std::ffi::OsString;
use std::fs;

use policies::Value;

use super::*;
use crate::reload::START_ONLY;

fn line_and_text(text: &str) -> (usize, String) {
    Config::parse(text).unwrap_err()
}

#[test]
fn a_mistake_is_named_with_its_line_and_with_what_is_allowed() {
    for (text, line, words) in [
        ("policy = \"dss\"\ncolour = 4\n", 2, &["colour", "quantum", "trace-size"][..]),
        ("\n\nquantum = \"1h\"\n", 3, &["1ms", "10s"]),
        ("quantum = 5", 1, &["\"5\"", "1ms to 10s"]),
        ("policy = \"fare\"", 1, &["fair", "dss-ts"]),
        ("mpl = \"some\"", 1, &["number of programs"]),
        ("mpl = -1", 1, &["\"-1\"", "number of programs", "0 to 4294967295"]),
        ("[classes.a]\nmin = -1", 2, &["`-1`", "a whole number from 0 to 4294967295"]),
        ("[classes]\na = 3", 2, &["`3`", "a table", "[classes.night]"]),
        ("[users]\nann = 3", 2, &["`3`", "a table", "[users.ann]"]),
        ("smt = \"both\"", 1, &["spread", "pack"]),
        ("#\nstrangers = \"hate\"", 2, &["leave", "ignore"]),
        ("cpus = \"1-x\"", 1, &["0-3,8"]),
        ("fence = \"here\"", 1, &["absolute"]),
        ("trace-size = 7", 1, &["64K"]),
        ("policy = \"pdpa\"\n[parameters]\ncolour = 4", 3, &["pdpa", "colour", "step"]),
        ("policy = \"pdpa\"\npolicy = \"dss\"", 2, &["duplicate"]),
        ("policy =", 1, &[]),
    ] {
        let (found, what) = line_and_text(text);
        assert_eq!(found, line, "{text}: {what}");
        assert!(words.iter().all(|word| what.contains(word)), "{text}: {what}");
    }
}

/// The keys that the reader says are allowed.
fn keys(allowed: &str) -> Vec<&str> {
    let keys: Vec<&str> = allowed.split('`').skip(3).step_by(2).collect();
    assert!(keys.len() >= 12, "{allowed}");
    keys
}

#[test]
fn every_key_has_its_variable() {
    let (_, allowed) = line_and_text("colour = 1");
    // Tables have none.
    let tables = ["parameters", "users", "programs", "classes", "class-rules"];
    let mut keys = keys(&allowed);
    keys.retain(|key| !tables.contains(key));
    let name = |key: &&str| format!("CPUMGR_{}", key.to_uppercase().replace('-', "_"));
    let mut wanted: Vec<_> = keys.iter().map(|key| (name(key), (*key).to_owned())).collect();
    let found = sources::VARIABLES.map(|(name, key)| (name.to_owned(), key.to_owned()));
    let mut found = found.to_vec();
    wanted.sort();
    found.sort();
    assert_eq!(found, wanted);
}

#[test]
fn the_shipped_file_has_the_parameters_of_every_policy_with_their_defaults() {
    let (_, below) = SHIPPED.split_once("# Their defaults:\n").unwrap();
    let below = below.lines().map_while(|line| line.strip_prefix('#'));
    let words: Vec<&str> = below.flat_map(str::split_whitespace).collect();
    let value = |value: &Value| match value {
        Value::Time(_) => format!("\"{value}\""),
        _ => value.to_string(),
    };
    let mut wanted = Vec::new();
    for name in limits::builtin().names() {
        let parameters = limits::policy(name).unwrap().parameters();
        let all = parameters.iter().map(|it| format!("{} = {}", it.key, value(&it.value)));
        let all: Vec<String> = all.collect();
        if !all.is_empty() {
            wanted.push(format!("{name}: {}", all.join(", ")));
        }
    }
    assert_eq!(words.join(" "), wanted.join(" "));
}

#[test]
fn the_shipped_file_names_its_sources_and_what_stands_above_it() {
    let (head, _) = SHIPPED.split_once("\npolicy = ").unwrap();
    for base in ["/usr/lib/cpumgr/cpumgr.toml", "/etc/cpumgr/cpumgr.toml"] {
        assert!(head.contains(&format!("{base}.d/*.toml")), "drop-ins of {base}");
    }
    assert!(head.contains("CPUMGR_CONFIG") && head.contains("--config"), "{head}");
    let (before, _) = SHIPPED.split_once("\nidle-exit = ").unwrap();
    let (_, of_idleness) = before.rsplit_once("\n\n").unwrap();
    let background = crate::duration::show(crate::daemon::BACKGROUND_IDLE);
    assert!(of_idleness.contains(&background) && of_idleness.contains("--background"));
}

#[test]
fn the_shipped_file_has_every_key_with_its_default() {
    let shipped = Config::parse(SHIPPED).unwrap();
    let usual = Config {
        policy: Some(policies::DEFAULT_POLICY.to_owned()),
        quantum: Some(crate::daemon::QUANTUM),
        grace: Some(crate::daemon::GRACE),
        mpl: Some(Level::Any),
        fair_share: Some(cli::FairShare::Off),
        smt: Some(Threads::Spread),
        cpus: Some(None),
        strangers: Some(Strangers::Leave),
        idle_exit: Some(IdleExit::Never),
        fence: Some(PathBuf::new()),
        trace: Some(PathBuf::new()),
        listen: Some(cli::Listen::Off),
        trace_size: Some(cli::TRACE_SIZE),
        history: Some(crate::history::Keep::On),
        history_size: Some(cli::HISTORY_SIZE),
        history_age: Some(cli::HISTORY_AGE),
        admin_group: Some(rules::ADMIN_GROUP.to_owned()),
        ..Config::default()
    };
    assert_eq!(shipped, usual);
    // Nothing changes when a file begins to name a default, or ceases to.
    assert!(START_ONLY.iter().all(|(_, read)| read(&shipped) == read(&Config::default())));
    // The list of keys is what the reader itself says is allowed.
    let (_, allowed) = line_and_text("colour = 1");
    for key in keys(&allowed) {
        let stands =
            |line: &str| line.starts_with(&format!("{key} =")) || line.contains(&format!("[{key}"));
        assert!(SHIPPED.lines().any(stands), "{key} is not in the shipped file");
    }
}

#[test]
fn the_keys_that_are_read_at_a_start_only_are_named_where_people_read() {
    let readme = include_str!("../../README.md");
    let between = |text: &'static str, from: &str, to: &str| {
        let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("{from:?} is not there"));
        rest.split_once(to).unwrap_or_else(|| panic!("{to:?} is not there")).0
    };
    let shipped = between(SHIPPED, "`cpumgr reload`; ", "only when it starts");
    let said = between(readme, "leaves everything as it was", "are read at a start only");
    for text in [shipped, said.rsplit_once(").").unwrap().1] {
        let mut named: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
        let mut keys = START_ONLY.map(|(key, _)| key);
        named.sort_unstable();
        keys.sort_unstable();
        assert_eq!(named, keys, "{text}");
    }
}

#[test]
fn later_sources_win_key_by_key_and_another_policy_drops_the_parameters() {
    let of = |text: &str| Config::parse(text).unwrap();
    let first = of("policy = \"pdpa\"\nquantum = \"50ms\"\n[parameters]\nstep = 4");
    let second = of("grace = \"1ms\"");
    let both = first.clone().then(second);
    assert_eq!((both.policy.as_deref(), both.parameters["step"].as_str()), (Some("pdpa"), "4"));
    assert_eq!(both.quantum, Some(Duration::from_millis(50)));
    assert_eq!(both.grace, Some(Duration::from_millis(1)));
    let other = first.then(of("policy = \"dss\""));
    assert_eq!((other.policy.as_deref(), other.parameters.len()), (Some("dss"), 0));
}

#[test]
fn the_environment_says_the_same_as_a_file_and_a_mistake_names_the_variable() {
    let of = |name: &str, value: &str| {
        sources::environment([(OsString::from(name), OsString::from(value))])
    };
    assert_eq!(of("CPUMGR_MPL", "3").unwrap().mpl, Some(Level::AtMost(3)));
    assert_eq!(of("CPUMGR_IDLE_EXIT", "never").unwrap().idle_exit, Some(IdleExit::Never));
    assert_eq!(of("CPUMGR_TEST_MANAGER", "x").unwrap(), Config::default());
    assert_eq!(of("CPUMGR_QUANTUM", "").unwrap(), Config::default());
    let error = of("CPUMGR_QUANTUM", "soon").unwrap_err().to_string();
    assert!(error.contains("CPUMGR_QUANTUM") && error.contains("soon"), "{error}");
}

#[test]
fn a_variable_that_is_misspelt_is_told_with_the_one_that_is_meant() {
    let of = |name: &str| sources::misspelt([(OsString::from(name), OsString::new())]);
    for (name, meant) in [
        ("CPUMGR_QUANTOM", "CPUMGR_QUANTUM"),
        ("CPUMGR_POLCIY", "CPUMGR_POLICY"),
        ("CPUMGR_CPU", "CPUMGR_CPUS"),
        ("CPUMGR_FAIRSHARE", "CPUMGR_FAIR_SHARE"),
    ] {
        assert_eq!(of(name), [(name.to_owned(), meant)]);
    }
    // Known ones, what Kubernetes sets for a service of this name, and others' variables.
    for name in ["CPUMGR_MPL", "CPUMGR_LOG", "CPUMGR_SERVICE_HOST", "CPUMGR_PORT", "QUANTOM"] {
        assert!(of(name).is_empty(), "{name}");
    }
}

#[test]
fn drop_ins_come_after_their_file_by_name_and_what_others_may_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("cpumgr.toml");
    let sources = sources::Sources::at(vec![base.clone()]);
    assert_eq!(sources.load().unwrap(), Config::default());
    let folder = dir.path().join("cpumgr.toml.d");
    fs::create_dir(&folder).unwrap();
    fs::write(&base, "mpl = 1\nquantum = \"10ms\"").unwrap();
    fs::write(folder.join("20-b.toml"), "mpl = 3").unwrap();
    fs::write(folder.join("10-a.toml"), "mpl = 2\ngrace = \"3ms\"").unwrap();
    fs::write(folder.join(".hidden.toml"), "colour").unwrap();
    fs::write(folder.join("note.txt"), "colour").unwrap();
    let all = sources.load().unwrap();
    assert_eq!(all.mpl, Some(Level::AtMost(3)));
    assert_eq!(
        (all.quantum, all.grace),
        (Some(Duration::from_millis(10)), Some(Duration::from_millis(3)))
    );
    fs::write(folder.join("30-c.toml"), "\nmpl = 2\nmode = 3").unwrap();
    let error = sources.load().unwrap_err().to_string();
    assert!(error.contains("30-c.toml:3:") && error.contains("mode"), "{error}");
    fs::remove_file(folder.join("30-c.toml")).unwrap();
    fs::set_permissions(&base, fs::Permissions::from_mode(0o666)).unwrap();
    let error = sources.load().unwrap_err().to_string();
    assert!(error.contains("is not used"), "{error}");
    fs::set_permissions(&base, fs::Permissions::from_mode(0o644)).unwrap();
    fs::remove_file(&base).unwrap();
    fs::create_dir(&base).unwrap();
    assert!(sources.load().unwrap_err().to_string().contains("no regular file"));
}
