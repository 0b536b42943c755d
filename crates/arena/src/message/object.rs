//! JSON objects of numbers and texts: as much of JSON as a managed program's own messages need.

use std::fmt::Write;

/// The deepest nesting of a value that is passed over.
const DEEPEST: u32 = 64;

/// A member's value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// As it stands there.
    Number(&'a str),
    Text(String),
    /// Passed over: a list, an object, a truth value, nothing.
    Other,
}

/// The members of the object that `text` is, in their order.
///
/// # Errors
/// Where `text` is no JSON object, and why.
pub(super) fn members(text: &[u8]) -> Result<Vec<(String, Value<'_>)>, String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    let mut reader = Reader { text, at: 0 };
    let mut members = Vec::new();
    reader.object(0, |name, value| members.push((name, value)))?;
    match reader.next() {
        None => Ok(members),
        Some(_) => Err(reader.expected("the end")),
    }
}

/// Appends `text` as a JSON text.
pub(super) fn push_text(onto: &mut String, text: &str) {
    onto.push('"');
    for character in text.chars() {
        match character {
            '"' => onto.push_str("\\\""),
            '\\' => onto.push_str("\\\\"),
            '\n' => onto.push_str("\\n"),
            '\r' => onto.push_str("\\r"),
            '\t' => onto.push_str("\\t"),
            '\u{8}' => onto.push_str("\\b"),
            '\u{c}' => onto.push_str("\\f"),
            '\0'..='\u{1f}' => {
                write!(onto, "\\u{:04x}", u32::from(character)).expect("a String takes all");
            }
            other => onto.push(other),
        }
    }
    onto.push('"');
}

struct Reader<'a> {
    text: &'a str,
    /// At the boundary of a character.
    at: usize,
}

impl<'a> Reader<'a> {
    fn expected(&self, what: &str) -> String {
        format!("expected {what} at byte {}", self.at)
    }

    /// The byte after blanks, which is not passed.
    fn next(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| b" \t\n\r".contains(byte)).count();
        self.text.as_bytes().get(self.at).copied()
    }

    /// Passes `byte`, if it is next.
    fn takes(&mut self, byte: u8) -> bool {
        let is_there = self.next() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn take(&mut self, byte: u8) -> Result<(), String> {
        if self.takes(byte) { Ok(()) } else { Err(self.expected(&format!("{:?}", byte as char))) }
    }

    fn object(
        &mut self,
        depth: u32,
        mut each: impl FnMut(String, Value<'a>),
    ) -> Result<(), String> {
        self.take(b'{')?;
        if self.takes(b'}') {
            return Ok(());
        }
        loop {
            let name = self.string()?;
            self.take(b':')?;
            each(name, self.value(depth + 1)?);
            if !self.takes(b',') {
                return self.take(b'}');
            }
        }
    }

    fn value(&mut self, depth: u32) -> Result<Value<'a>, String> {
        if depth > DEEPEST {
            return Err(format!("nested more than {DEEPEST} deep at byte {}", self.at));
        }
        match self.next() {
            Some(b'"') => return self.string().map(Value::Text),
            Some(b'-' | b'0'..=b'9') => return Ok(Value::Number(self.number())),
            Some(b'{') => self.object(depth, |_, _| ())?,
            Some(b'[') => self.list(depth)?,
            _ => {
                let rest = &self.text[self.at..];
                let word =
                    ["true", "false", "null"].into_iter().find(|word| rest.starts_with(word));
                self.at += word.ok_or_else(|| self.expected("a value"))?.len();
            }
        }
        Ok(Value::Other)
    }

    fn list(&mut self, depth: u32) -> Result<(), String> {
        self.take(b'[')?;
        if self.takes(b']') {
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            if !self.takes(b',') {
                return self.take(b']');
            }
        }
    }

    /// What is made of the characters of numbers. Its owner parses it.
    fn number(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let is_part = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
        let length = rest.bytes().take_while(is_part).count();
        self.at += length;
        &rest[..length]
    }

    fn string(&mut self) -> Result<String, String> {
        self.take(b'"')?;
        let mut said = String::new();
        let unclosed = |this: &Self| this.expected("the end of a text");
        loop {
            let rest = &self.text[self.at..];
            let stop = rest.find(['"', '\\']).ok_or_else(|| unclosed(self))?;
            said.push_str(&rest[..stop]);
            self.at += stop + 1;
            if rest.as_bytes()[stop] == b'"' {
                return Ok(said);
            }
            let escape = self.text.as_bytes().get(self.at).copied();
            self.at += 1;
            said.push(match escape.ok_or_else(|| unclosed(self))? {
                plain @ (b'"' | b'\\' | b'/') => plain as char,
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'u' => self.unicode()?,
                _ => {
                    self.at -= 1;
                    return Err(self.expected("an escape"));
                }
            });
        }
    }

    /// The character of four hexadecimal digits, or of two times four (a surrogate pair).
    fn unicode(&mut self) -> Result<char, String> {
        let first = self.hexadecimal()?;
        let number = match first {
            0xd800..=0xdbff => {
                if !self.text[self.at..].starts_with("\\u") {
                    return Err(self.expected("the second half of a character"));
                }
                self.at += 2;
                let second = self.hexadecimal()?;
                0x10000 + ((first - 0xd800) << 10) + (second.wrapping_sub(0xdc00) & 0x3ff)
            }
            number => number,
        };
        char::from_u32(number).ok_or_else(|| self.expected("a character"))
    }

    fn hexadecimal(&mut self) -> Result<u32, String> {
        let digits = self.text.get(self.at..self.at + 4);
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let number = number.ok_or_else(|| self.expected("four hexadecimal digits"))?;
        self.at += 4;
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn members_are_read_and_what_is_not_needed_is_passed_over() {
        let text = br#" { "a" : 12, "b":"x\"\u00e9\ud83d\ude00", "c":[1,[2,{"a":null}],[]], "d":{}, "e":true } "#;
        let read = members(text).unwrap();
        let names: Vec<_> = read.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "d", "e"]);
        assert_eq!(read[0].1, Value::Number("12"));
        assert_eq!(read[1].1, Value::Text("x\"\u{e9}\u{1f600}".into()));
        assert!(read[2..].iter().all(|(_, value)| *value == Value::Other));
        assert_eq!(members(b"{}").unwrap(), []);
    }

    #[test]
    fn what_is_no_object_is_refused_with_its_place() {
        let deep = format!("{{\"a\":{}", "[".repeat(100_000));
        for text in [
            "",
            "[]",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,}",
            "{}x",
            "{\"a\":\"",
            &deep,
        ] {
            let error = members(text.as_bytes()).expect_err(text);
            assert!(error.contains("byte"), "{text}: {error}");
        }
        for text in [r#"{"a":"\u12"}"#, r#"{"a":"\ud800"}"#, r#"{"a":"\x"}"#, r#"{"a":tru}"#] {
            members(text.as_bytes()).expect_err(text);
        }
        members(b"{\"\xff\":1}").expect_err("no UTF-8");
    }

    proptest! {
        #[test]
        fn any_text_survives(text: String) {
            let mut object = String::from("{\"t\":");
            push_text(&mut object, &text);
            object.push('}');
            prop_assert_eq!(members(object.as_bytes()).unwrap(), [("t".into(), Value::Text(text))]);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _read = members(&bytes);
        }
    }
}
