//! Times as they stand in workload files: `250us`, `100ms`, `12s`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::parameter::{Value, ValueError};
use crate::snapshot::Nanos;

/// A length of time; a whole number of ns, us, ms or s, or a decimal number of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Span(pub Nanos);

impl Span {
    /// So many microseconds.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// So many milliseconds.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// In nanoseconds.
    pub(super) fn ns(self) -> f64 {
        self.0 as f64
    }

    /// So many times as long.
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
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if let Ok(Value::Time(time)) = text.parse() {
            return Ok(Self(time));
        }
        let error = || ValueError { text: text.to_owned() };
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(error)?;
        let (number, unit) = text.split_at(digits);
        let Ok(Value::Time(unit)) = format!("1{unit}").parse() else { return Err(error()) };
        let number: f64 = number.parse().map_err(|_| error())?;
        let time = number * unit as f64;
        // Exact up to 2^53 ns, 104 days; larger ones are no times of a simulation.
        if time.is_finite() && time < 9e15 { Ok(Self(time.round() as Nanos)) } else { Err(error()) }
    }
}

impl TryFrom<String> for Span {
    type Error = ValueError;

    fn try_from(text: String) -> Result<Self, ValueError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        for (text, ns) in [("100ms", 100_000_000), ("1.5s", 1_500_000_000), ("0s", 0), ("2.25us", 2_250), ("7ns", 7)] {
            assert_eq!(text.parse(), Ok(Span(ns)), "{text}");
        }
        assert_eq!(Span(1_500_000_000).to_string(), "1500ms");
        for text in ["", "5", "ms", "1.2.3s", "-1s", "1 s", "1h", "1e3s", "99999999999999999999s", "."] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
