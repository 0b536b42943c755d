//! Times as they stand in workload files: `250us`, `100ms`, `12s`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::parameter::Value;
use crate::snapshot::Nanos;

/// A length of time; a whole or decimal number of ns, us, ms, s, min or h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(into = "String")]
pub struct Span(pub Nanos);

/// A text that is no time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no time; write a number and its unit in quotes, as \"100ms\" or \"1.5s\" (units: h, min, s, ms, us, ns)"
)]
pub struct SpanError {
    /// The text.
    pub text: String,
}

impl Span {
    /// A span of `us` microseconds.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// A span of `ms` milliseconds.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// In nanoseconds.
    pub(super) fn ns(self) -> f64 {
        self.0 as f64
    }

    /// A span `factor` times as long.
    pub(super) fn times(self, factor: f64) -> Self {
        // A cast saturates.
        Self((self.0 as f64 * factor).round() as Nanos)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Value::Time(self.0).fmt(f)
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        if let Ok(Value::Time(time)) = text.parse() {
            return Ok(Self(time));
        }
        let error = || SpanError { text: text.to_owned() };
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(error)?;
        let (number, unit) = text.split_at(digits);
        let Ok(Value::Time(unit)) = format!("1{unit}").parse() else { return Err(error()) };
        let number: f64 = number.parse().map_err(|_| error())?;
        let time = number * unit as f64;
        // Exact up to 2^53 ns, 104 days; larger ones are no times of a simulation.
        if time.is_finite() && time < 9e15 { Ok(Self(time.round() as Nanos)) } else { Err(error()) }
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(AnySpan)
    }
}

/// Takes a time; what is none is told with what would be.
struct AnySpan;

impl de::Visitor<'_> for AnySpan {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time as \"100ms\" or \"1.5s\" (units: h, min, s, ms, us, ns)")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        for (text, ns) in [
            ("100ms", 100_000_000),
            ("1.5s", 1_500_000_000),
            ("0s", 0),
            ("2.25us", 2_250),
            ("7ns", 7),
        ] {
            assert_eq!(text.parse(), Ok(Span(ns)), "{text}");
        }
        assert_eq!(Span(1_500_000_000).to_string(), "1500ms");
        for text in [
            "",
            "5",
            "ms",
            "1.2.3s",
            "-1s",
            "1 s",
            "1 hour",
            "1d",
            "1e3s",
            "99999999999999999999s",
            ".",
        ] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
