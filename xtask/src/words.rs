//! Words and line lengths in Rust files and Markdown documents, words in the names of tests, in
//! strings and in the comments of other files, and sizes of files: `cargo xtask words`.
//!
//! # Rules
//! 1. `who`: a thread or a program is "it"; `who`, `whom` and `whoever` are refused.
//! 2. `amid`: an event happens "during" another one.
//! 3. `behind`: an event happens "after" another one.
//! 4. `person`: no thread or program is `nobody`, `somebody`, `anybody` or `everybody`: it is
//!    named.
//! 5. `width`: a line of a document or a comment has at most 100 characters, those to the left of a
//!    comment too. Tables, code blocks and the targets of links are free.
//! 6. `code`: so has every other line of a Rust file.
//! 7. `name`: the names of tests keep to the first four.
//! 8. `string`: so do string literals, in tests and elsewhere; the strings of this lint, which are
//!    the words themselves, are free.
//! 9. `size`: a Rust file has at most 600 lines.
//! 10. `glossary`: `docs/glossary.md` has at most 45 entries.
//! 11. `entry`: an entry of `CHANGELOG.md` is one line.
//!
//! Code between backticks is not read. Of files in C, assembler and TOML the comments are, for the
//! first four rules. What was there before the rules is counted for each crate or
//! folder in `words/counts.toml`; a number may only fall, and the file follows it (`--update`).
//!
//! # Not here
//! Comments in Fortran and scripts.

mod comments;
mod literals;
mod plain;
mod prose;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use proc_macro2::TokenStream;

use crate::ratchet::{Counts, Ratchet};
use crate::setup::Workspace;
use plain::Language;
use prose::{Line, Prose};

/// Columns of a line.
const WIDTH: usize = 100;
const WIDTH_RULE: &str = "width";
const CODE_RULE: &str = "code";

/// Lines of a Rust file.
const SIZE: usize = 600;
const SIZE_RULE: &str = "size";

const CHANGELOG: &str = "CHANGELOG.md";
const ENTRY_RULE: &str = "entry";

const GLOSSARY: &str = "docs/glossary.md";
/// Entries of the glossary.
const ENTRIES: usize = 45;
const GLOSSARY_RULE: &str = "glossary";

/// Words that are refused, each under the name of its rule.
const WORDS: [(&str, &str); 9] = [
    ("who", "who"),
    ("whom", "who"),
    ("whoever", "who"),
    ("amid", "amid"),
    ("behind", "behind"),
    ("nobody", "person"),
    ("somebody", "person"),
    ("anybody", "person"),
    ("everybody", "person"),
];

const NAME_RULE: &str = "name";
const STRING_RULE: &str = "string";

/// The group of the files that are in no folder.
const ROOT: &str = ".";

const COUNTS: &str = "xtask/src/words/counts.toml";
const COUNTS_HEAD: &str = "# Words and long lines that are still there, for each rule and crate or \
                           folder.\n\
                           # After a number fell: `cargo xtask words --update`. It may not grow.\n\
                           # `cargo xtask words --list [PATH]` names the places.\n";

/// What to do with the counts.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Names every place below a path, and checks nothing. `.`: in the root's own files.
    #[arg(long, value_name = "PATH", num_args = 0..=1, conflicts_with = "update")]
    list: Option<Option<PathBuf>>,
    /// Lowers the checked-in numbers to those of today.
    #[arg(long)]
    update: bool,
    /// With --update: raises them, too.
    #[arg(long, requires = "update")]
    force: bool,
}

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    line: usize,
    column: usize,
    rule: &'static str,
    what: String,
}

/// Does what was asked for.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    if let Some(below) = &options.list {
        return list(workspace, below.as_deref());
    }
    if options.update {
        let found = counts(&faults(workspace)?);
        let refused = ratchet(workspace)?.update(&found, options.force)?;
        for change in &refused {
            println!(
                "{}, rule `{}`: {}, not more than {}",
                change.key, change.table, change.found, change.allowed
            );
        }
        if !refused.is_empty() {
            bail!("{COUNTS} may only be lowered; --force raises it");
        }
    }
    check(workspace)
}

/// Compares the places of today with the checked-in numbers.
pub(crate) fn check(workspace: &Workspace) -> anyhow::Result<()> {
    let found = faults(workspace)?;
    let counts = counts(&found);
    let changes = ratchet(workspace)?.changes(&counts);
    let mut messages = Vec::new();
    for change in &changes {
        let (key, rule, found, allowed) =
            (&change.key, &change.table, change.found, change.allowed);
        messages.push(if change.grew() {
            format!(
                "{key}, rule `{rule}`: {found} places, and at most {allowed} are allowed: `cargo \
                 xtask words --list {key}`"
            )
        } else {
            let less = allowed - found;
            format!(
                "{key}, rule `{rule}`: {found} places now, lower it by {less}: `cargo xtask words \
                 --update`"
            )
        });
    }
    if !messages.is_empty() {
        bail!("{} numbers of {COUNTS} changed:\n  {}", messages.len(), messages.join("\n  "));
    }
    let sums = counts
        .iter()
        .map(|(rule, keys)| format!("{} of rule `{rule}`", keys.values().sum::<u64>()));
    println!("{} files; old places left: {}", found.len(), sums.collect::<Vec<_>>().join(", "));
    Ok(())
}

fn list(workspace: &Workspace, below: Option<&Path>) -> anyhow::Result<()> {
    let all = faults(workspace)?;
    let chosen = |is_chosen: &dyn Fn(&Path) -> bool| {
        let mut number = 0;
        for (file, faults) in all.iter().filter(|(file, _)| is_chosen(file)) {
            for Fault { line, column, rule, what } in faults {
                println!("{}:{line}:{column}: {rule}: {what}", file.display());
            }
            number += faults.len();
        }
        println!("{number} places");
    };
    let Some(below) = below else {
        chosen(&|_| true);
        return Ok(());
    };
    if below == Path::new(ROOT) {
        chosen(&|file| group(file) == ROOT);
        return Ok(());
    }
    // A path from where the command was typed, or from the root of the workspace.
    let choices = [below.to_owned(), workspace.root.join(below)];
    let found = choices.iter().find_map(|path| path.canonicalize().ok());
    let below = found.with_context(|| format!("no {} in the workspace", below.display()))?;
    let root = workspace.root.canonicalize().context("cannot find the root of the workspace")?;
    let below = below
        .strip_prefix(&root)
        .with_context(|| format!("{} is not in the workspace", below.display()))?;
    chosen(&|file| file.starts_with(below));
    Ok(())
}

fn ratchet(workspace: &Workspace) -> anyhow::Result<Ratchet> {
    Ratchet::read(&workspace.root.join(COUNTS), COUNTS_HEAD, 0)
}

/// Adds up the faults of each rule and group.
fn counts(found: &[(PathBuf, Vec<Fault>)]) -> Counts {
    let mut counts = Counts::new();
    for (file, faults) in found {
        for fault in faults {
            *counts.entry(fault.rule.to_owned()).or_default().entry(group(file)).or_default() += 1;
        }
    }
    counts
}

/// The crate of a file, or its first folder.
fn group(file: &Path) -> String {
    let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
    match parts.as_slice() {
        [crates, name, _, ..] if crates == "crates" => format!("crates/{name}"),
        [folder, _, ..] => folder.to_string(),
        _ => ROOT.to_owned(),
    }
}

/// Every file that the rules are for, with its faults, in the order of their names.
fn faults(workspace: &Workspace) -> anyhow::Result<Vec<(PathBuf, Vec<Fault>)>> {
    let mut files = Vec::new();
    gather(&workspace.root, &workspace.target, &mut files)?;
    files.sort();
    let half = files.len().div_ceil(2);
    let read = &|files: &[PathBuf]| -> anyhow::Result<Vec<_>> {
        files.iter().map(|file| Ok((below(file, &workspace.root), of_file(file)?))).collect()
    };
    std::thread::scope(|scope| {
        let ended = |fault| std::panic::resume_unwind(fault);
        let readers: Vec<_> =
            files.chunks(half.max(1)).map(|files| scope.spawn(move || read(files))).collect();
        let mut all = Vec::new();
        for reader in readers {
            all.extend(reader.join().unwrap_or_else(ended)?);
        }
        Ok(all)
    })
}

fn below(file: &Path, root: &Path) -> PathBuf {
    file.strip_prefix(root).unwrap_or(file).to_owned()
}

/// Gathers what is read below a folder; not what cargo builds, what is hidden, or what links
/// lead to.
fn gather(folder: &Path, target: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let context = || format!("cannot read {}", folder.display());
    for entry in std::fs::read_dir(folder).with_context(context)? {
        let entry = entry.with_context(context)?;
        let (path, kind) = (entry.path(), entry.file_type().with_context(context)?);
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        // Every folder that cargo builds in has this file.
        let is_built = || path == target || path.join("CACHEDIR.TAG").is_file();
        if kind.is_dir() && !is_hidden && !is_built() {
            gather(&path, target, files)?;
        } else if kind.is_file() && is_read(&path) {
            files.push(path);
        }
    }
    Ok(())
}

fn is_read(file: &Path) -> bool {
    let end = file.extension().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
    matches!(end, "rs" | "md") || Language::of(end).is_some()
}

fn of_file(file: &Path) -> anyhow::Result<Vec<Fault>> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let end = file.extension().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
    if let Some(language) = Language::of(end) {
        let comments = plain::comments(&text, language);
        // Each line by itself: what is code in a comment of C ends with it.
        let read = comments.iter().flat_map(|line| prose::read(std::slice::from_ref(line)));
        let faults = of_prose(&read.collect::<Vec<_>>());
        Ok(faults.into_iter().filter(|fault| fault.rule != WIDTH_RULE).collect())
    } else if end == "rs" {
        let mut faults = of_rust(&text).map_err(|fault| {
            let line = fault.span().start().line;
            anyhow::anyhow!("{}:{line}: {fault}", file.display())
        })?;
        if is_of_this_lint(file) {
            faults.retain(|fault| fault.rule != STRING_RULE);
        }
        Ok(faults)
    } else {
        let mut faults = of_prose(&prose::read(&prose::lines(&text)));
        if file.ends_with(GLOSSARY) {
            faults.extend(too_many_entries(&text));
        }
        if file.ends_with(CHANGELOG) {
            faults.extend(second_lines(&text));
        }
        Ok(faults)
    }
}

/// Lines that continue an entry of a list.
fn second_lines(text: &str) -> impl Iterator<Item = Fault> {
    let lines = text.lines().enumerate().filter(|(_, line)| line.starts_with(' '));
    lines.map(|(index, line)| Fault {
        line: index + 1,
        column: 1,
        rule: ENTRY_RULE,
        what: line.trim().to_owned(),
    })
}

/// The entries of a glossary after the last that it may have.
fn too_many_entries(text: &str) -> impl Iterator<Item = Fault> {
    let entries = text.lines().enumerate().filter(|(_, line)| line.starts_with("- **"));
    entries.skip(ENTRIES).map(|(index, line)| Fault {
        line: index + 1,
        column: 1,
        rule: GLOSSARY_RULE,
        what: line.to_owned(),
    })
}

/// True for the sources of this lint.
fn is_of_this_lint(file: &Path) -> bool {
    file.ends_with("xtask/src/words.rs")
        || file.parent().is_some_and(|folder| folder.ends_with("xtask/src/words"))
}

fn of_rust(text: &str) -> Result<Vec<Fault>, proc_macro2::LexError> {
    // Places are counted from the beginning of all text that this thread has read.
    proc_macro2::extra::invalidate_current_thread_spans();
    let tokens: TokenStream = text.parse()?;
    let blocks = comments::blocks(text, tokens.clone());
    let mut faults: Vec<_> =
        blocks.iter().flat_map(|block| of_prose(&prose::read(block))).collect();
    let literals::Found { names, strings } = literals::found(text, tokens);
    faults.extend(of_lines(&names, NAME_RULE).chain(of_lines(&strings, STRING_RULE)));
    let commented: BTreeSet<usize> = blocks.iter().flatten().map(|line| line.number).collect();
    faults.extend(of_code(text, &commented));
    Ok(faults)
}

/// Lines of code that are too long, and lines of a file that has too many. Those in `commented` are
/// judged with their comments.
fn of_code<'a>(text: &'a str, commented: &'a BTreeSet<usize>) -> impl Iterator<Item = Fault> + 'a {
    let lines = text.lines().zip(1..).map(|(line, number)| (number, line.chars().count()));
    let long = lines.filter(|(number, width)| *width > WIDTH && !commented.contains(number));
    let long = long.map(|(line, width)| Fault {
        line,
        column: WIDTH + 1,
        rule: CODE_RULE,
        what: format!("{width} characters"),
    });
    let size = text.lines().count();
    let large = (size > SIZE).then(|| Fault {
        line: SIZE + 1,
        column: 1,
        rule: SIZE_RULE,
        what: format!("{size} lines"),
    });
    long.chain(large)
}

/// The refused words of names or strings.
fn of_lines(lines: &[Line], rule: &'static str) -> impl Iterator<Item = Fault> {
    let is_refused =
        |word: &str| WORDS.iter().any(|(refused, _)| word.eq_ignore_ascii_case(refused));
    lines.iter().flat_map(move |line| {
        let found = words(&line.text).into_iter().filter(|(_, word)| is_refused(word));
        let fault = |(column, word): (usize, &str)| Fault {
            line: line.number,
            column: line.column + column + 1,
            rule,
            what: word.to_owned(),
        };
        found.map(fault).collect::<Vec<_>>()
    })
}

fn of_prose(lines: &[Prose]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for line in lines {
        for (column, word) in words(&line.text) {
            let refused = WORDS.iter().find(|(refused, _)| word.eq_ignore_ascii_case(refused));
            faults.extend(refused.map(|(_, rule)| Fault {
                line: line.number,
                column: line.column + column + 1,
                rule,
                what: word.to_owned(),
            }));
        }
        if line.width > WIDTH && !line.is_table {
            let what = format!("{} characters", line.width);
            faults.push(Fault { line: line.number, column: WIDTH + 1, rule: WIDTH_RULE, what });
        }
    }
    faults
}

/// The words of a line, with their columns. `_` and digits belong to a word: an identifier is one.
fn words(text: &str) -> Vec<(usize, &str)> {
    let is_part = |sign: char| sign.is_alphanumeric() || sign == '_';
    let mut found = Vec::new();
    let mut begin = None;
    for (column, (at, sign)) in text.char_indices().chain([(text.len(), ' ')]).enumerate() {
        match (begin, is_part(sign)) {
            (None, true) => begin = Some((column, at)),
            (Some((first, from)), false) => {
                found.push((first, &text[from..at]));
                begin = None;
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// `line:column rule` of each fault.
    fn rust(text: &str) -> Vec<String> {
        of_rust(text).unwrap().iter().map(shown).collect()
    }

    fn markdown(text: &str) -> Vec<String> {
        of_prose(&prose::read(&prose::lines(text))).iter().map(shown).collect()
    }

    fn shown(fault: &Fault) -> String {
        format!("{}:{} {}", fault.line, fault.column, fault.rule)
    }

    #[test]
    fn refused_words_are_found_in_comments() {
        let text = "//! Who waits.\n/// It is amid that,\nfn f() {} // and whom it\n// leaves \
                    behind (whoever).";
        assert_eq!(rust(text), ["1:5 who", "2:11 amid", "3:18 who", "4:11 behind", "4:19 who"]);
    }

    #[test]
    fn code_and_identifiers_are_free() {
        let text = "fn who(amid: &str) { who(\"`behind`\"); } // `who`, forked_amid, whole, \
                    ascertain_who2\n\
                    /// ```\n/// let who = behind;\n/// ```\nfn behind() {}";
        assert_eq!(rust(text), [""; 0]);
    }

    #[test]
    fn refused_words_are_found_in_names_of_tests_and_in_strings() {
        let text = "#[test]\nfn nobody_is_behind_it() { f(\"a\\nWho b\") }\nfn nobody() \
                    { \"everybody's\"; }";
        assert_eq!(rust(text), ["2:4 name", "2:14 name", "2:34 string", "3:16 string"]);
    }

    #[test]
    fn what_is_no_rust_is_an_error() {
        assert!(of_rust("fn f( {").is_err());
    }

    #[test]
    fn a_comment_ends_at_column_100() {
        let exact = format!("    // {}", "x".repeat(93));
        assert_eq!((exact.len(), rust(&exact)), (100, Vec::new()));
        assert_eq!(rust(&format!("{exact}x")), ["1:101 width"]);
        assert_eq!(rust(&format!("fn {}() {{}}", "f".repeat(110))), ["1:101 code"]);
        assert_eq!(rust(&format!("fn f() {{}} // {}", "x".repeat(90))), ["1:101 width"]);
    }

    #[test]
    fn a_file_ends_at_line_600() {
        let lines = "fn f() {}\n".repeat(600);
        assert_eq!(rust(&lines), [""; 0]);
        assert_eq!(rust(&format!("{lines}fn g() {{}}")), ["601:1 size"]);
    }

    #[test]
    fn a_glossary_ends_with_its_45th_entry() {
        let text = "# Words\n\n".to_owned() + &"- **a**: b\n  c\n".repeat(46);
        let found: Vec<String> = too_many_entries(&text).map(|fault| shown(&fault)).collect();
        assert_eq!(found, ["93:1 glossary"]);
    }

    #[test]
    fn an_entry_of_the_changelog_has_one_line() {
        let found: Vec<String> =
            second_lines("# Changes\n\n- a\n- b\n  c\n").map(|fault| shown(&fault)).collect();
        assert_eq!(found, ["5:1 entry"]);
    }

    #[test]
    fn comments_of_other_files_are_read_for_words_alone() {
        let folder = tempfile::tempdir().unwrap();
        let wide = "x".repeat(101);
        for (name, text) in [
            ("a.c", format!("int who; /* who */ // {wide}")),
            ("b.toml", "a = \"behind\" # nobody".to_owned()),
            ("c.s", "mov # amid `who`".to_owned()),
        ] {
            let file = folder.path().join(name);
            std::fs::write(&file, text).unwrap();
            assert!(is_read(&file));
            let found: Vec<String> = of_file(&file).unwrap().iter().map(shown).collect();
            let expected = match name {
                "a.c" => "1:13 who",
                "b.toml" => "1:16 person",
                _ => "1:7 amid",
            };
            assert_eq!(found, [expected]);
        }
    }

    #[test]
    fn tables_code_and_links_may_be_wide() {
        let wide = "x".repeat(101);
        assert_eq!(
            markdown(&format!(
                "| {wide} |\n```\n{wide}\n```\n[a](docs/{wide}.md) b\nhttps://{wide}"
            )),
            [""; 0]
        );
        assert_eq!(markdown(&format!("{wide}\n| who |")), ["1:101 width", "2:3 who"]);
        assert_eq!(rust(&format!("/// | {wide} |\nfn f() {{}}")), [""; 0]);
    }

    #[test]
    fn faults_are_counted_by_crate_or_folder() {
        let fault = Fault { line: 1, column: 1, rule: "who", what: "who".to_owned() };
        let of = |file: &str, number| (PathBuf::from(file), vec![fault.clone(); number]);
        let found = counts(&[
            of("crates/a/src/lib.rs", 2),
            of("crates/a/README.md", 1),
            of("xtask/x.rs", 1),
            of("A.md", 4),
        ]);
        let keys: BTreeMap<String, u64> = [(".", 4), ("crates/a", 3), ("xtask", 1)]
            .map(|(key, number)| (key.to_owned(), number))
            .into();
        assert_eq!(found, BTreeMap::from([("who".to_owned(), keys)]));
    }

    #[test]
    fn what_is_built_hidden_or_linked_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for file in [
            "a.rs",
            "src/b.md",
            "c.txt",
            ".hidden/d.rs",
            "target/e.rs",
            "fuzz/out/f.rs",
            "fuzz/out/CACHEDIR.TAG",
        ] {
            std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            std::fs::write(root.join(file), "// who").unwrap();
        }
        std::os::unix::fs::symlink(root.join("src"), root.join("link")).unwrap();
        let mut files = Vec::new();
        gather(root, &root.join("target"), &mut files).unwrap();
        files.sort();
        assert_eq!(files, [root.join("a.rs"), root.join("src/b.md")]);
        assert_eq!(of_file(&files[0]).unwrap().len(), 1);
    }
}
