//! Reads a workload file: TOML, with errors that name file, line and what is allowed.
//!
//! Syntax, unknown keys and values of a wrong kind are found by the parser. What only the simulator knows (an unknown
//! policy, a range) is found by `Workload::check`, which names a place, `jobs[2].program`; its line is looked up in the
//! document here.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use policies::Registry;
use policies::sim::{Fault, Pattern, Workload};
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
        // The parser's own words come with a picture of the line; the first line of them says it all.
        let message = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
        let message = message.replace("expected u32", "expected a whole number, 0 or more");
        FileError::Wrong { path: path.to_owned(), line, message }
    };
    let mut workload: Workload = toml::from_str(text).map_err(|error| wrong(error.span(), error.message()))?;
    for (name, program) in &mut workload.programs {
        if let Pattern::File(file) = &program.pattern {
            let beside = path.parent().unwrap_or(Path::new("")).join(file);
            let list = numbers(&beside, &load(file)?)?;
            if list.is_empty() {
                let fault = Fault::at(&format!("programs.{name}.pattern"), format!("{file} has no number"));
                return Err(wrong(span_of(text, &fault.at), &fault.to_string()));
            }
            program.pattern = Pattern::List(list);
        }
    }
    workload.check(registry).map_err(|fault| wrong(span_of(text, &fault.at), &fault.to_string()))?;
    Ok(workload)
}

fn load(path: &Path) -> Result<String, FileError> {
    let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
    let wrong = |line, message| FileError::Wrong { path: path.to_owned(), line, message };
    // The length that a device or a pipe states says nothing of what comes out of it.
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes)).map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST {
        return Err(wrong(1, format!("it is too long; a workload and a pattern have at most {LARGEST} bytes")));
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
            message: format!("{number:?} is no number of processors; each line has one whole number"),
        })?;
        list.push(number);
    }
    Ok(list)
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
                let (name, value) = table.iter().find(|(name, _)| name.get_ref().as_ref() == key)?;
                Some((name.span(), value))
            }),
            Step::Index(index) => array.and_then(|array| array.get(index)).map(|value| (value.span(), value)),
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

/// `jobs[2].program` as jobs, 2, program. Keys with dots or brackets in them are found as far as they go.
fn steps(at: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for part in at.split('.') {
        let mut pieces = part.split('[');
        steps.extend(pieces.next().map(Step::Key));
        steps.extend(pieces.filter_map(|piece| piece.strip_suffix(']')?.parse().ok()).map(Step::Index));
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
            (change("\"equip\"", "\"fair\""), "w.toml:5: manager.policy: ", "dss-ts"),
            (change("request = 4", "request = 0"), "w.toml:10: programs.a.request: ", "from 1 to 4096"),
            (change("request = 4", "request = -1"), "w.toml:10: ", "`-1`, expected a whole number"),
            (change("request = 4", "request = 99999999999999999999"), "w.toml:10: ", "expected a whole number"),
            (change("base = 2", "base = \"much\""), "w.toml:8: ", "expected true, false, a number, or a time"),
            (change("base = 2", "base = -2"), "w.toml:8: parameters.pdpa.base: ", "from 1 to 1024"),
            (change("base = 2", "base = [2]"), "w.toml:8: ", "expected true, false, a number"),
            (change("request = 4", "requests = 4"), "w.toml:10: ", "expected one of `request`"),
            (change("\"50ms\"", "\"fast\""), "w.toml:6: ", "write"),
            (change("base = 2", "base = 0"), "w.toml:8: parameters.pdpa.base: ", "from 1 to 1024"),
            (change("base = 2", "bass = 2"), "w.toml:8: parameters.pdpa.bass: ", "min-efficiency"),
            (change("program = \"b\"", "program = \"c\""), "w.toml:22: jobs[1].program: ", "there are: a, b"),
            (change("regions = 100", "regions = 0"), "w.toml:11: programs.a.phases[1]: ", "1 to 1000000"),
            (change("\"diamond\"", "\"round\""), "w.toml:15: ", "`diamond`"),
            (change("[1, 10.0]", "[2, 10.0]"), "w.toml:17: programs.b.curve: ", "it is for 1"),
            (change("\"diamond\"", "{ file = \"bad\" }"), "bad:3: ", "\"four\" is no number"),
            (change("\"diamond\"", "{ file = \"empty\" }"), "w.toml:15: programs.b.pattern: ", "no number"),
            (change("[machine]", "[machine"), "w.toml:2: ", ""),
            (error("name = \"x\""), "w.toml:1: ", "machine"),
        ] {
            assert!(message.starts_with(starts) && message.contains(has), "{message}");
        }
    }
}
