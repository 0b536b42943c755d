//! What a managed program itself says and hears.

use std::fmt::Write;
use std::str::FromStr;

use super::object::{self, Value};
use super::packet::{MessageError, fitting, malformed};
use super::refusal::{Refused, RefusedCode};
use super::registration::{Register, Registered};
use super::{MAX_MESSAGE, PROTOCOL_VERSION};

/// What a program says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// "I am a parallel program."
    Register(Register),
    /// "This process, which is registered, wants to be one of the domain" (`domain`).
    Join,
}

impl Said {
    /// The message as a packet.
    ///
    /// # Errors
    /// [`MessageError::TooLong`].
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        let mut packet = format!("{{\"version\":{PROTOCOL_VERSION},\"type\":");
        match self {
            Self::Join => packet.push_str("\"join\""),
            Self::Register(register) => {
                packet.push_str("\"register\"");
                push_register(&mut packet, register);
            }
        }
        packet.push('}');
        fitting(packet.into_bytes())
    }
}

fn push_register(packet: &mut String, register: &Register) {
    let Register { layout, max_processors, request, fixed_team, broker, library, held, within } =
        register;
    let mut push = |name: &str, value: String| {
        write!(packet, ",\"{name}\":{value}").expect("a String takes all");
    };
    push("layout", layout.to_string());
    push("max_processors", max_processors.to_string());
    push("request", request.to_string());
    push("fixed_team", fixed_team.to_string());
    push("broker", broker.to_string());
    let mut text = String::new();
    object::push_text(&mut text, library);
    push("library", text);
    if let Some(held) = held {
        push("held", format!("{{\"epoch\":{},\"cpus\":{}}}", held.epoch, list(&held.cpus)));
    }
    if let Some(within) = within {
        push("within", list(within));
    }
}

fn list(numbers: &[u32]) -> String {
    let numbers: Vec<_> = numbers.iter().map(u32::to_string).collect();
    format!("[{}]", numbers.join(","))
}

/// What a program hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// "You are in." With four descriptors: the `down` area (read-only), the `up` area, the
    /// doorbell (eventfd), the page of all programs (read-only).
    Registered(Registered),
    /// The answer to [`Said::Join`], with one descriptor: the domain's area.
    Joined {
        /// The program's line in it.
        line: u32,
    },
    /// "No", and why. The connection is closed afterwards.
    Refused(Refused),
    /// "Your process registered anew": this registration is over, and is not to be made again. The
    /// connection is closed afterwards.
    Replaced,
    /// A message of which a program needs no more than its name.
    Other {
        /// Its name.
        name: String,
    },
}

impl Heard {
    /// The message in a packet. The version is looked at first: a newer packet says "version", not
    /// "malformed".
    ///
    /// # Errors
    /// [`MessageError::TooLong`], [`MessageError::Version`] or [`MessageError::Malformed`].
    pub fn decode(packet: &[u8]) -> Result<Self, MessageError> {
        if packet.len() > MAX_MESSAGE {
            return Err(MessageError::TooLong { length: packet.len() });
        }
        let members = object::members(packet).map_err(|what| malformed(packet, what))?;
        let fields = Fields { packet, members: &members };
        let version = fields.number("version")?;
        if version != PROTOCOL_VERSION {
            return Err(MessageError::Version { theirs: version });
        }
        Ok(match fields.text("type")? {
            "registered" => Self::Registered(Registered { slot: fields.number("slot")? }),
            "joined" => Self::Joined { line: fields.number("line")? },
            "refused" => {
                let code = fields.text("code")?;
                let code = RefusedCode::named(code).ok_or_else(|| fields.wrong("code"))?;
                Self::Refused(Refused { code, reason: fields.text("reason")?.to_owned() })
            }
            "replaced" => Self::Replaced,
            other => Self::Other { name: other.to_owned() },
        })
    }
}

/// The fields of a packet, by name.
struct Fields<'a> {
    packet: &'a [u8],
    members: &'a [(String, Value<'a>)],
}

impl<'a> Fields<'a> {
    fn value(&self, name: &str) -> Option<&'a Value<'a>> {
        self.members.iter().find(|(of, _)| of == name).map(|(_, value)| value)
    }

    fn wrong(&self, name: &str) -> MessageError {
        malformed(self.packet, format!("field `{name}` is missing or not of its type"))
    }

    fn number<N: FromStr>(&self, name: &str) -> Result<N, MessageError> {
        let parsed = match self.value(name) {
            Some(Value::Number(number)) => number.parse().ok(),
            _ => None,
        };
        parsed.ok_or_else(|| self.wrong(name))
    }

    fn text(&self, name: &str) -> Result<&'a str, MessageError> {
        match self.value(name) {
            Some(Value::Text(text)) => Ok(text),
            _ => Err(self.wrong(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_named_even_when_the_rest_is_unknown() {
        let error = Heard::decode(br#"{"version":7,"type":"teleport"}"#).unwrap_err();
        assert!(matches!(error, MessageError::Version { theirs: 7 }), "{error}");
    }

    #[test]
    fn what_lacks_a_field_or_has_one_of_another_type_is_malformed_and_names_it() {
        for (packet, field) in [
            (r#"{"type":"replaced"}"#, "version"),
            (r#"{"version":1}"#, "type"),
            (r#"{"version":1,"type":"registered"}"#, "slot"),
            (r#"{"version":1,"type":"registered","slot":-1}"#, "slot"),
            (r#"{"version":1,"type":"joined","line":"3"}"#, "line"),
            (r#"{"version":1,"type":"refused","code":"rain","reason":""}"#, "code"),
            (r#"{"version":1,"type":"refused","code":"full"}"#, "reason"),
        ] {
            let error = Heard::decode(packet.as_bytes()).unwrap_err();
            assert!(matches!(error, MessageError::Malformed { .. }), "{error}");
            assert!(error.to_string().contains(&format!("`{field}`")), "{error}");
        }
        assert!(matches!(
            Heard::decode(&[b' '; MAX_MESSAGE + 1]),
            Err(MessageError::TooLong { .. })
        ));
    }
}
