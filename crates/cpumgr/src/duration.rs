//! Durations as people write them: `100ms`, `2s`, `250us`; units as for the parameters of policies.

use std::time::Duration;

use policies::Value;

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not a number and a unit.
    #[error(
        "{text:?} is no duration; write a whole number and a unit: 100ms, 2s, 5min (units: h, min, \
         s, ms, us, ns)"
    )]
    Form {
        /// What was written.
        text: String,
    },
    /// The same, where only some are allowed.
    #[error(
        "{text:?} is no duration; write a whole number and a unit (h, min, s, ms, us, ns), \
         {} to {}",
        show(*min), show(*max)
    )]
    FormWithin {
        /// What was written.
        text: String,
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// Out of range.
    #[error("{text} is not between {} and {}", show(*min), show(*max))]
    Range {
        /// What was written.
        text: String,
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
}

/// As people write it, and as [`parse`] reads it where it is a whole number of its unit.
pub fn show(duration: Duration) -> String {
    format!("{duration:?}").replace('µ', "u")
}

/// Reads a duration.
///
/// # Errors
/// [`DurationError::Form`].
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    match text.parse() {
        Ok(Value::Time(ns)) => Ok(Duration::from_nanos(ns)),
        _ => Err(DurationError::Form { text: text.to_owned() }),
    }
}

/// Reads a duration between `min` and `max`.
///
/// # Errors
/// [`DurationError::FormWithin`] and [`DurationError::Range`].
pub fn parse_within(text: &str, min: Duration, max: Duration) -> Result<Duration, DurationError> {
    let duration =
        parse(text).map_err(|_| DurationError::FormWithin { text: text.to_owned(), min, max })?;
    if duration < min || duration > max {
        return Err(DurationError::Range { text: text.to_owned(), min, max });
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood() {
        assert_eq!(parse("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(parse("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(parse("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(parse("5min"), Ok(Duration::from_secs(300)));
        assert_eq!(
            (parse("1h"), parse("7ns")),
            (Ok(Duration::from_secs(3600)), Ok(Duration::from_nanos(7)))
        );
    }

    #[test]
    fn what_is_shown_can_be_written() {
        for text in ["900us", "2ms", "0ns", "10s", "7ns"] {
            assert_eq!(show(parse(text).unwrap()), text);
        }
    }

    #[test]
    fn anything_else_is_named() {
        for text in [
            "",
            "100",
            "ms",
            "-1s",
            "1.5s",
            "1 s",
            "1d",
            "99999999999999999999s",
            "18446744073709551615min",
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?} is no duration")), "{error}");
        }
        let error = parse_within("2us", Duration::from_millis(1), Duration::from_secs(1))
            .unwrap_err()
            .to_string();
        assert_eq!(error, "2us is not between 1ms and 1s");
    }
}
