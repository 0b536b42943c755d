//! Reads a workload file: TOML, with errors that name file, line and what is allowed.
//!
//! Syntax, unknown keys and values of a wrong kind are found by the parser. What only the simulator
//! knows (an unknown policy, a range) is found by `Workload::check`, which names a place,
//! `jobs[2].program`; its line is looked up in the document here.

use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use policies::Registry;
use policies::sim::{Fault, Pattern, Workload, allowed};
use toml::de::{DeTable, DeValue};

/// The largest workload and pattern file.
const LARGEST: u64 = 4 << 20;

/// A workload file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no workload.
    #[error("{}:{line}: {message}", path.display())]
    Wrong {
        /// Which.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What stands there, and what is allowed.
        message: String,
    },
}

/// Reads and checks a workload; files of request patterns are looked for beside it.
///
/// # Errors
/// What is wrong, in which file and line.
pub fn read(path: &Path, registry: &Registry) -> Result<Workload, FileError> {
    let text = load(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    parse(path, &text, registry, |name| load(&folder.join(name)))
}

/// Makes a workload of the text of the file `path`; `load` reads the file of a request pattern.
///
/// # Errors
/// What is wrong, in which file and line.
pub fn parse(
    path: &Path,
    text: &str,
    registry: &Registry,
    load: impl Fn(&str) -> Result<String, FileError>,
) -> Result<Workload, FileError> {
    let wrong = |span: Option<Range<usize>>, message: &str| {
        let line = span.map_or(1, |span| line_of(text, span.start));
        // The parser's own words come with a picture of the line; the first line of them says it
        // all.
        let message = message
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join("; ");
        let message =
            message.replace("expected u32", "expected a whole number from 0 to 4294967295");
        FileError::Wrong { path: path.to_owned(), line, message }
    };
    let mut workload: Workload = toml::from_str(text)
        .map_err(|error| wrong(error.span(), &explained(text, &error, registry)))?;
    for (name, program) in &mut workload.programs {
        if let Pattern::File(file) = &program.pattern {
            let beside = path.parent().unwrap_or(Path::new("")).join(file);
            let fault = |message: String| {
                let fault = Fault::at(&format!("programs.{name}.pattern"), message);
                wrong(span_of(text, &fault.at), &fault.to_string())
            };
            // What cannot be read is the fault of the line that names it.
            let numbers_in = load(file).map_err(|error| match error {
                FileError::Unreadable { .. } => fault(error.to_string()),
                other @ FileError::Wrong { .. } => other,
            })?;
            let list = numbers(&beside, &numbers_in)?;
            if list.is_empty() {
                return Err(fault(format!("{file} has no number")));
            }
            program.pattern = Pattern::List(list);
        }
    }
    workload
        .check(registry)
        .map_err(|fault| wrong(span_of(text, &fault.at), &fault.to_string()))?;
    Ok(workload)
}

fn load(path: &Path) -> Result<String, FileError> {
    let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
    let wrong = |line, message| FileError::Wrong { path: path.to_owned(), line, message };
    // To open a pipe waits for its writer, and a device may never end.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("it is no regular file")));
    }
    // It may grow meanwhile.
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST {
        return Err(wrong(
            1,
            format!("it is too long; a workload and a pattern have at most {LARGEST} bytes"),
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        wrong(line, "bytes that are no text; a workload and a pattern are UTF-8".to_owned())
    })
}

/// A number a line; what follows `#` is a comment.
fn numbers(path: &Path, text: &str) -> Result<Vec<u32>, FileError> {
    let mut list = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = line.split('#').next().unwrap_or_default().trim();
        if number.is_empty() {
            continue;
        }
        let number = number.parse().map_err(|_| FileError::Wrong {
            path: path.to_owned(),
            line: index + 1,
            message: format!(
                "{number:?} is no number of processors; each line has one whole number"
            ),
        })?;
        list.push(number);
    }
    Ok(list)
}

/// What the parser says, with the place and what is allowed there.
fn explained(text: &str, error: &toml::de::Error, registry: &Registry) -> String {
    let place = error.span().zip(DeTable::parse(text).ok()).and_then(|(span, document)| {
        let mut place = Vec::new();
        is_within(document.get_ref(), span.start, &mut place).then_some(place)
    });
    let message = error.message();
    let Some(place) = place else { return message.to_owned() };
    let keys: Vec<&str> =
        place.iter().map(String::as_str).filter(|step| !step.starts_with('[')).collect();
    let allowed = match *keys.as_slice() {
        ["parameters", policy, key, ..] => registry.create(policy).ok().and_then(|policy| {
            policy
                .parameters()
                .iter()
                .find(|parameter| parameter.key == key)
                .map(policies::Parameter::allowed)
        }),
        _ => allowed(&keys).map(str::to_owned),
    };
    let place = place.join(".").replace(".[", "[");
    match allowed {
        Some(allowed) => format!("{place}: {message}; it is {allowed}"),
        None => format!("{place}: {message}"),
    }
}

/// Whether the byte `at` belongs to something in `table`; its keys, and places in lists as `[2]`,
/// are then in `place`.
fn is_within(table: &DeTable<'_>, at: usize, place: &mut Vec<String>) -> bool {
    table.iter().any(|(key, value)| {
        place.push(key.get_ref().to_string());
        let found = is_in_value(value, at, place) || key.span().contains(&at);
        if !found {
            place.pop();
        }
        found
    })
}

/// The same for one value.
fn is_in_value(value: &toml::Spanned<DeValue<'_>>, at: usize, place: &mut Vec<String>) -> bool {
    let is_inside = match value.get_ref() {
        DeValue::Table(table) => is_within(table, at, place),
        DeValue::Array(array) => array.iter().enumerate().any(|(index, value)| {
            place.push(format!("[{index}]"));
            let found = is_in_value(value, at, place);
            if !found {
                place.pop();
            }
            found
        }),
        _ => false,
    };
    is_inside || value.span().contains(&at)
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

/// Where the place of a fault stands; as much of it as is there.
fn span_of(text: &str, at: &str) -> Option<Range<usize>> {
    let document = DeTable::parse(text).ok()?;
    let mut table: Option<&DeTable<'_>> = Some(document.get_ref());
    let mut array: Option<&toml::de::DeArray<'_>> = None;
    let mut span = None;
    for step in steps(at) {
        let found = match step {
            Step::Key(key) => table.and_then(|table| {
                let (name, value) =
                    table.iter().find(|(name, _)| name.get_ref().as_ref() == key)?;
                Some((name.span(), value))
            }),
            Step::Index(index) => {
                array.and_then(|array| array.get(index)).map(|value| (value.span(), value))
            }
        };
        let Some((place, value)) = found else { break };
        span = Some(place);
        (table, array) = match value.get_ref() {
            DeValue::Table(inner) => (Some(inner), None),
            DeValue::Array(inner) => (None, Some(inner)),
            _ => (None, None),
        };
    }
    span
}

enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// `jobs[2].program` as jobs, 2, program. Keys with dots or brackets in them are found as far as
/// they go.
fn steps(at: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for part in at.split('.') {
        let mut pieces = part.split('[');
        steps.extend(pieces.next().map(Step::Key));
        steps.extend(
            pieces.filter_map(|piece| piece.strip_suffix(']')?.parse().ok()).map(Step::Index),
        );
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use policies::Needs;

    const GOOD: &str = r#"name = "two programs"
[machine]
processors = 8
[manager]
policy = "equip"
quantum = "50ms"
[parameters.pdpa]
base = 2
[programs.a]
request = 4
phases = [{ serial = "1ms" }, { parallel = "1.5s", regions = 100 }]
curve = { downey = { parallelism = 6.0, variance = 0.5 } }
[programs.b]
request = 8
pattern = "diamond"
phases = [{ parallel = "1s" }]
curve = { times = [[1, 10.0], [4, 3.0]] }
[[jobs]]
program = "a"
copies = 2
[[jobs]]
program = "b"
arrival = "100ms"
"#;

    fn error(text: &str) -> String {
        let registry = Registry::with_builtin_for(Needs::EVERYTHING);
        let load = |name: &str| match name {
            "good" => Ok("2\n# more\n4 # top\n\n".to_owned()),
            "bad" => Ok("2\n\nfour\n".to_owned()),
            "none" => Err(FileError::Unreadable {
                path: "none".into(),
                source: io::Error::other("no such file"),
            }),
            _ => Ok(String::new()),
        };
        match parse(Path::new("w.toml"), text, &registry, load) {
            Ok(_) => "ok".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_workload_is_read() {
        let registry = Registry::with_builtin_for(Needs::EVERYTHING);
        let workload = parse(Path::new("w.toml"), GOOD, &registry, |_| Ok(String::new())).unwrap();
        assert_eq!((workload.jobs.len(), workload.programs["b"].request), (2, 8));
        assert_eq!(workload.manager.quantum.to_string(), "50ms");
        assert_eq!(workload.programs["a"].phases[1].parallel.unwrap().to_string(), "1500ms");
        assert_eq!(workload.programs["b"].pattern, Pattern::Diamond);
        let with_file = GOOD.replace("pattern = \"diamond\"", "pattern = { file = \"good\" }");
        let load = |_: &str| Ok("2\n# more\n4 # top\n\n".to_owned());
        let workload = parse(Path::new("w.toml"), &with_file, &registry, load).unwrap();
        assert_eq!(workload.programs["b"].pattern, Pattern::List(vec![2, 4]));
    }

    #[test]
    fn a_bad_workload_is_told_by_file_line_and_what_is_allowed() {
        let change = |from: &str, to: &str| {
            assert!(GOOD.contains(from), "the test looks for {from}");
            error(&GOOD.replace(from, to))
        };
        for (message, starts, has) in [
            (change("\"equip\"", "\"just\""), "w.toml:5: manager.policy: ", "dss-ts"),
            (
                change("request = 4", "request = 0"),
                "w.toml:10: programs.a.request: ",
                "from 1 to 4096",
            ),
            (change("request = 4", "request = -1"), "w.toml:10: ", "`-1`, expected a whole number"),
            (
                change("request = 4", "request = 99999999999999999999"),
                "w.toml:10: ",
                "expected a whole number",
            ),
            (
                change("base = 2", "base = \"much\""),
                "w.toml:8: ",
                "expected true, false, a number, or a time",
            ),
            (change("base = 2", "base = -2"), "w.toml:8: parameters.pdpa.base: ", "from 1 to 1024"),
            (change("base = 2", "base = [2]"), "w.toml:8: ", "expected true, false, a number"),
            (change("request = 4", "requests = 4"), "w.toml:10: ", "expected one of `request`"),
            (change("\"50ms\"", "\"fast\""), "w.toml:6: ", "write"),
            (change("base = 2", "base = 0"), "w.toml:8: parameters.pdpa.base: ", "from 1 to 1024"),
            (change("base = 2", "bass = 2"), "w.toml:8: parameters.pdpa.bass: ", "min-efficiency"),
            (
                change("program = \"b\"", "program = \"c\""),
                "w.toml:22: jobs[1].program: ",
                "there are: a, b",
            ),
            (
                change("regions = 100", "regions = 0"),
                "w.toml:11: programs.a.phases[1]: ",
                "1 to 1000000",
            ),
            (change("\"diamond\"", "\"round\""), "w.toml:15: ", "`diamond`"),
            (change("[1, 10.0]", "[2, 10.0]"), "w.toml:17: programs.b.curve: ", "it is for 1"),
            (change("\"diamond\"", "{ file = \"bad\" }"), "bad:3: ", "\"four\" is no number"),
            (
                change("\"diamond\"", "{ file = \"empty\" }"),
                "w.toml:15: programs.b.pattern: ",
                "no number",
            ),
            (
                change("\"diamond\"", "{ file = \"none\" }"),
                "w.toml:15: programs.b.pattern: cannot read none: ",
                "no such",
            ),
            (
                change("\"diamond\"", "{ list = [2], file = \"x\" }"),
                "w.toml:15: programs.b.pattern: ",
                "one of \"constant\"",
            ),
            (
                change("\"100ms\"", "\"-1s\""),
                "w.toml:23: jobs[1].arrival: \"-1s\" is no time",
                "at most 10000s",
            ),
            (
                change("\"100ms\"", "\"1 hour\""),
                "w.toml:23: jobs[1].arrival: ",
                "units: h, min, s, ms, us, ns",
            ),
            (
                change("\"100ms\"", "5"),
                "w.toml:23: jobs[1].arrival: ",
                "expected a time as \"100ms\"",
            ),
            (
                change("base = 2", "base = 2.0"),
                "w.toml:8: parameters.pdpa.base: base cannot be 2.0; ",
                "whole number",
            ),
            (
                change("base = 2", "base = \"much\""),
                "w.toml:8: parameters.pdpa.base: ",
                "a whole number from 1 to 1024",
            ),
            (
                change("{ times = [[1, 10.0], [4, 3.0]] }", "3"),
                "w.toml:17: programs.b.curve: ",
                "one of \"linear\"",
            ),
            (change("[machine]", "[machine"), "w.toml:2: ", ""),
            (error("name = \"x\""), "w.toml:1: ", "machine"),
        ] {
            assert!(message.starts_with(starts) && message.contains(has), "{message}");
        }
    }

    /// The words of `policies::sim::allowed` are those of the checks: what is out of range and what
    /// is of another kind are answered with the same.
    #[test]
    fn a_value_of_another_kind_is_answered_with_the_range_that_is_checked() {
        let all = GOOD
            .replace(
                "[parameters.pdpa]",
                "level = 4\n[native]\nslice = \"1ms\"\npatience = \"1ms\"\nswitch = \
                 \"1us\"\ncoincidence = 0.5\n[parameters.pdpa]",
            )
            .replace(
                "request = 8",
                "request = 8\nmin = 1\nmax = 7\niterations = 2\nweight = 1.5\nrefill = \"5us\"",
            )
            .replace(
                "arrival = \"100ms\"",
                "arrival = \"100ms\"\nevery = \"4ms\"\nrepetitions = 3",
            );
        assert_eq!(error(&all), "ok");
        for (good, far, has) in [
            ("processors = 8", "4097", "from 1 to 4096"),
            ("request = 4", "4097", "from 1 to 4096"),
            ("min = 1", "0", "from 1 to 4096"),
            ("max = 7", "4097", "from 1 to 4096"),
            ("quantum = \"50ms\"", "\"11s\"", "from 1ms to 10s"),
            ("level = 4", "65537", "from 1 to 65536"),
            ("slice = \"1ms\"", "\"2s\"", "from 1us to 1s"),
            ("patience = \"1ms\"", "\"2h\"", "at most 3600s"),
            ("switch = \"1us\"", "\"2s\"", "at most 1s"),
            ("coincidence = 0.5", "11.0", "from 0 to 10"),
            ("iterations = 2", "1000001", "from 1 to 1000000"),
            ("weight = 1.5", "1001.0", "from 0.001 to 1000"),
            ("refill = \"5us\"", "\"61s\"", "at most 60s"),
            ("serial = \"1ms\"", "\"30h\"", "from 1us to 100000s"),
            ("regions = 100", "1000001", "1 to 1000000"),
            ("copies = 2", "0", "1 or more"),
            ("repetitions = 3", "0", "1 or more"),
            ("arrival = \"100ms\"", "\"10001s\"", "at most 10000s"),
            ("every = \"4ms\"", "\"10001s\"", "at most 10000s"),
        ] {
            let key = good.split(' ').next().unwrap();
            for bad in [far, "[[true]]"] {
                assert!(all.contains(good), "the test looks for {good}");
                let message = error(&all.replace(good, &format!("{key} = {bad}")));
                assert!(message.contains(has), "{key} = {bad}: {message}");
            }
        }
    }
}
