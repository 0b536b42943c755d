//! The line of a file on which something stands.

use toml::de::{DeArray, DeTable};

/// A step from a table, or a list, to what is in it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'a> {
    /// What has this key.
    Key(&'a str),
    /// The one of this number, from 0.
    Nth(usize),
}

/// The line, from 1, of that to which the steps lead, however it is written: a table with a head, a
/// table within a line, a key with dots. As far as they lead: what is missing is missing there.
pub(super) fn line_of(text: &str, steps: &[Step<'_>]) -> usize {
    let Ok(document) = DeTable::parse(text) else { return 1 };
    let (mut table, mut list): (Option<&DeTable<'_>>, Option<&DeArray<'_>>) =
        (Some(document.get_ref()), None);
    let mut at = 0;
    for step in steps {
        let found = match *step {
            Step::Key(key) => table
                .and_then(|table| table.iter().find(|(name, _)| name.get_ref().as_ref() == key))
                .map(|(name, value)| (name.span().start, value)),
            Step::Nth(number) => {
                list.and_then(|list| list.get(number)).map(|value| (value.span().start, value))
            }
        };
        let Some((start, value)) = found else { break };
        at = start;
        (table, list) = (value.get_ref().as_table(), value.get_ref().as_array());
    }
    number_of(text, at)
}

/// The line of a byte, from 1.
pub(super) fn number_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_in_any_way_is_found_and_of_what_is_missing_the_table_around_it() {
        let text = "a = 1\n[classes.\"\"]\n[classes.\"x y\"]\nmin = 1\n[[rules]]\n\n[[rules]]\n\
                    name = 1\n[b]\nc.d = 2\nlist = [\n{ e = 1 },\n{ e = 2 }]\n";
        use Step::{Key, Nth};
        for (steps, line) in [
            (&[Key("a")][..], 1),
            (&[Key("classes"), Key("")], 2),
            (&[Key("classes"), Key("x y")], 3),
            (&[Key("classes"), Key("x y"), Key("min")], 4),
            (&[Key("classes"), Key("x y"), Key("max")], 3),
            (&[Key("rules"), Nth(0)], 5),
            (&[Key("rules"), Nth(1)], 7),
            (&[Key("rules"), Nth(1), Key("name")], 8),
            (&[Key("b"), Key("c"), Key("d")], 10),
            (&[Key("b"), Key("list"), Nth(1), Key("e")], 13),
            (&[Key("colour")], 1),
        ] {
            assert_eq!(line_of(text, steps), line, "{steps:?}");
        }
        assert_eq!(line_of("a = ", &[Key("a")]), 1);
    }
}
