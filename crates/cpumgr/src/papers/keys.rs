//! cpumgr.toml(5), made of the configuration file that is shipped: what that says of each key and
//! table, and of its default, is what the page says.

use super::roff::{escaped, files, item};
use crate::config::SHIPPED;

/// The page.
pub(super) fn page() -> String {
    let mut text = format!(
        ".TH cpumgr.toml 5 \"\" \"cpumgr {}\"\n.SH NAME\ncpumgr.toml \\- configuration of the \
         processor manager cpumgr\n.SH DESCRIPTION\n",
        env!("CARGO_PKG_VERSION")
    );
    text.push_str(
        "Settings of the manager. The file that comes with it has every key with its default, and \
         is what this page is made of. It begins:\n",
    );
    let mut blocks = blocks(SHIPPED);
    text.push_str(&as_it_stands(&blocks.remove(0).comment));
    text.push_str(".SH KEYS\n");
    for block in blocks.iter().filter(|block| !block.is_table()) {
        let comment = block.comment.join("\n");
        for (at, (key, value)) in block.keys.iter().enumerate() {
            // What is said of two keys together stands at the last one.
            let is_last = at + 1 == block.keys.len();
            let means = if is_last { comment.as_str() } else { "As the next one." };
            text.push_str(&item(&format!("{key} = {value}"), means));
        }
    }
    text.push_str(".SH TABLES\n");
    for block in blocks.iter().filter(|block| block.is_table()) {
        let (name, words, example) = block.table();
        text.push_str(&item(&name, &words));
        if !example.is_empty() {
            text.push_str(&as_it_stands(&[&example]));
        }
    }
    text + &files()
        + ".SH \"SEE ALSO\"\ncpumgr(1), cpumgr\\-daemon(1), cpumgr\\-check\\-config(1)\n"
}

/// Lines that keep their ends.
fn as_it_stands(lines: &[&str]) -> String {
    format!(".IP\n.EX\n{}\n.EE\n", escaped(&lines.join("\n")))
}

/// Lines between empty ones.
struct Block<'a> {
    /// Without the sign of a comment.
    comment: Vec<&'a str>,
    keys: Vec<(&'a str, &'a str)>,
    /// The table that it begins.
    begins: Option<&'a str>,
}

impl Block<'_> {
    fn is_table(&self) -> bool {
        self.keys.is_empty()
    }

    /// Its name, what is said of it, and an example.
    fn table(&self) -> (String, String, String) {
        let is_example = |line: &&&str| line.starts_with("  ");
        let (example, words): (Vec<&str>, Vec<&str>) =
            self.comment.iter().partition(|line| is_example(line));
        let first = example.iter().find(|line| line.trim_start().starts_with('['));
        let name = self.begins.or(first.copied()).unwrap_or_default().trim();
        (name.to_owned(), words.join("\n"), example.join("\n"))
    }
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let block = |text| {
        let mut block = Block { comment: Vec::new(), keys: Vec::new(), begins: None };
        for line in str::lines(text) {
            if let Some(comment) = line.strip_prefix('#') {
                block.comment.push(comment.strip_prefix(' ').unwrap_or(comment));
            } else if let Some(key) = line.split_once(" = ") {
                block.keys.push(key);
            } else {
                block.begins = Some(line);
            }
        }
        block
    };
    text.split("\n\n").map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_key_and_table_of_the_shipped_file_with_its_default() {
        let page = page();
        let shipped: toml::Table = SHIPPED.parse().unwrap();
        assert!(shipped.len() > 15);
        for (key, value) in shipped {
            if value.is_table() {
                assert!(page.contains(&format!("\\fB[{}]\\fR", escaped(&key))), "{key}: {page}");
                continue;
            }
            let line = escaped(&format!("{key} = {value}"));
            let (_, rest) =
                page.split_once(&format!("\\fB{line}\\fR\n")).unwrap_or_else(|| panic!("{line}"));
            let means = rest.lines().next().unwrap();
            assert!(!means.is_empty() && !means.starts_with('.'), "{key}: {means}");
        }
        for table in ["[users.alice]", "[programs.lu]", "[classes.interactive]", "[[class-rules]]"]
        {
            assert!(page.contains(&format!("\\fB{}\\fR", escaped(table))), "{table}: {page}");
        }
    }
}
