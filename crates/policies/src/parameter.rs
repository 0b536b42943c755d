//! Parameters of policies: typed, documented, validated, serialisable, and changed while
//! applications run.
//!
//! Each policy that has parameters has a struct of them
//! ([`ClusterParameters`](crate::ClusterParameters), ...), which reads and writes itself as a map
//! from key to [`Value`]. Code that knows a policy only by its name uses [`Policy::parameters`] and
//! [`Policy::configure`].
//!
//! # Invariants
//! V1  A value that a policy holds is within its range: every way in checks it.
//! V2  A key left out has its default value; an unknown key is an error, so that a misspelt one
//!     does not pass.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::policy::Policy;
use crate::snapshot::Nanos;

/// The value of a parameter. Read from text: `true`, `12`, `0.7`, `100ms`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// Yes or no.
    Switch(bool),
    /// A whole number.
    Whole(u64),
    /// Any number.
    Number(f64),
    /// A time; a whole number of ns, us, ms, s, min or h.
    Time(#[serde(serialize_with = "write_time")] Nanos),
}

/// Values by key, as they stand in files and messages.
pub type Settings = BTreeMap<String, Value>;

/// As people write them, here, in workload files and on the command line.
const UNITS: [(&str, Nanos); 6] = [
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];
/// Times are printed in seconds and less.
const PRINTED: usize = 2;

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Switch(on) => write!(f, "{on}"),
            Self::Whole(number) => write!(f, "{number}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Time(time) => {
                let (unit, length) = UNITS[PRINTED..]
                    .iter()
                    .find(|(_, length)| time.is_multiple_of(*length))
                    .unwrap_or(&("ns", 1));
                write!(f, "{}{unit}", time / length)
            }
        }
    }
}

impl FromStr for Value {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if let Ok(on) = text.parse() {
            return Ok(Self::Switch(on));
        }
        if let Ok(number) = text.parse() {
            return Ok(Self::Whole(number));
        }
        if let Ok(number) = text.parse() {
            return Ok(Self::Number(number));
        }
        time(text).map(Self::Time).ok_or_else(|| ValueError { text: text.to_owned() })
    }
}

/// The time that is written so.
fn time(text: &str) -> Option<Nanos> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, length) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    number.parse::<Nanos>().ok()?.checked_mul(length)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn write_time<S: Serializer>(time: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Value::Time(*time))
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

/// Takes what stands there; what is no value at all is told with what would be.
struct AnyValue;

impl de::Visitor<'_> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false, a number, or a time as \"100ms\" (units: h, min, s, ms, us, ns)")
    }

    fn visit_bool<E>(self, on: bool) -> Result<Value, E> {
        Ok(Value::Switch(on))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Whole(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        // As in text: a number below 0 is no whole number of anything, and out of the range of what
        // it is for.
        Ok(u64::try_from(number).map_or(Value::Number(number as f64), Value::Whole))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Number(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        let wrong = || E::invalid_value(de::Unexpected::Str(text), &self);
        time(text).map(Value::Time).ok_or_else(wrong)
    }
}

/// A text that is no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no value; write true, false, a number, or a time as 100ms (units: h, min, s, ms, us, ns)"
)]
pub struct ValueError {
    /// The text.
    pub text: String,
}

/// One parameter of a policy, as it stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameter {
    /// By this name it is changed.
    pub key: &'static str,
    /// Its value now.
    pub value: Value,
    /// Its value unless changed.
    pub default: Value,
    /// The smallest value that it may have.
    pub lowest: Value,
    /// The largest value that it may have.
    pub highest: Value,
    /// What it does.
    pub description: &'static str,
}

impl Parameter {
    /// Which values it may have, as "a whole number from 1 to 1024".
    #[must_use]
    pub fn allowed(&self) -> String {
        allowed(self.lowest, self.highest)
    }
}

fn allowed(lowest: Value, highest: Value) -> String {
    let kind = match lowest {
        Value::Switch(_) => return "true or false".to_owned(),
        Value::Whole(_) => "a whole number",
        Value::Number(_) => "a number",
        Value::Time(_) => "a time",
    };
    format!("{kind} from {lowest} to {highest}")
}

/// The value as it was typed: a number with a point keeps it, since that may be what is wrong.
fn typed(value: &Value) -> String {
    if let Value::Number(number) = value { format!("{number:?}") } else { value.to_string() }
}

/// A parameter that cannot be set so.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// There is no such key.
    #[error("there is no parameter {key:?}; there are: {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    Unknown {
        /// The key asked for.
        key: String,
        /// The keys that exist.
        known: Vec<&'static str>,
    },
    /// The value is of another kind, or out of range.
    #[error("{key} cannot be {}; it is {allowed}", typed(value))]
    Value {
        /// The key.
        key: &'static str,
        /// The value refused.
        value: Value,
        /// What it may be.
        allowed: String,
    },
}

impl ParameterError {
    /// The error of a policy with these parameters that has none called `key`.
    #[must_use]
    pub fn unknown(key: &str, parameters: &[Parameter]) -> Self {
        Self::Unknown {
            key: key.to_owned(),
            known: parameters.iter().map(|parameter| parameter.key).collect(),
        }
    }
}

/// Sets several parameters of a policy, all or none.
///
/// # Errors
/// The first one that cannot be set; the policy is then as before.
pub fn apply(policy: &mut dyn Policy, settings: &Settings) -> Result<(), ParameterError> {
    let before = policy.parameters();
    for (key, value) in settings {
        if let Err(error) = policy.configure(key, value) {
            for parameter in before {
                policy.configure(parameter.key, &parameter.value)?;
            }
            return Err(error);
        }
    }
    Ok(())
}

/// A type that a parameter can have. For the macro [`parameters!`](crate::parameters).
#[doc(hidden)]
pub trait Kind: Copy + PartialOrd {
    fn value(self) -> Value;
    fn from_value(value: &Value) -> Option<Self>;
}

impl Kind for bool {
    fn value(self) -> Value {
        Value::Switch(self)
    }

    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Switch(on) = value { Some(*on) } else { None }
    }
}

impl Kind for u32 {
    fn value(self) -> Value {
        Value::Whole(self.into())
    }

    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Whole(number) = value { u32::try_from(*number).ok() } else { None }
    }
}

impl Kind for f64 {
    fn value(self) -> Value {
        Value::Number(self)
    }

    fn from_value(value: &Value) -> Option<Self> {
        match *value {
            Value::Number(number) => Some(number),
            // Whole numbers of this size are exact; larger ones are out of every range.
            Value::Whole(number) => u32::try_from(number).ok().map(f64::from),
            Value::Switch(_) | Value::Time(_) => None,
        }
    }
}

impl Kind for Nanos {
    fn value(self) -> Value {
        Value::Time(self)
    }

    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Time(time) = value { Some(*time) } else { None }
    }
}

/// The value as this type, if it is in the range.
#[doc(hidden)]
pub fn within<T: Kind>(
    key: &'static str,
    value: &Value,
    lowest: T,
    highest: T,
) -> Result<T, ParameterError> {
    T::from_value(value).filter(|new| (lowest..=highest).contains(new)).ok_or_else(|| {
        ParameterError::Value {
            key,
            value: *value,
            allowed: allowed(lowest.value(), highest.value()),
        }
    })
}

#[doc(hidden)]
pub use serde as format;

/// Defines the struct of a policy's parameters: one line each of key, field, type, default and
/// range.
///
/// The struct has `Default`, `list`, `set` and `check`, and is written and read as
/// [`Settings`](crate::parameter::Settings). A type is `bool`, `u32`, `f64` or
/// [`Nanos`](crate::Nanos).
///
/// ```
/// policies::parameters! {
///     /// Parameters of a policy of one's own.
///     pub struct MineParameters {
///         /// Processors kept apart, in per cent.
///         "percent" percent: u32 = 25, 0 => 90;
///     }
/// }
/// let mut mine = MineParameters::default();
/// let error = mine.set("percent", &policies::Value::Whole(91)).expect_err("it is too much");
/// assert_eq!(error.to_string(), "percent cannot be 91; it is a whole number from 0 to 90");
/// assert_eq!(mine.percent, 25);
/// ```
#[macro_export]
macro_rules! parameters {
    (
        $(#[$outer:meta])*
        pub struct $name:ident {
            $( $(#[doc = $doc:literal])+ $key:literal $field:ident: $type:ty = $default:expr, $lowest:expr => $highest:expr; )+
        }
    ) => {
        $(#[$outer])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $field: $type, )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )+ }
            }
        }

        impl $name {
            /// Each parameter with its value, range and description.
            #[must_use]
            pub fn list(&self) -> Vec<$crate::parameter::Parameter> {
                use $crate::parameter::Kind;
                vec![$( $crate::parameter::Parameter {
                    key: $key,
                    value: self.$field.value(),
                    default: <$type as Kind>::value($default),
                    lowest: <$type as Kind>::value($lowest),
                    highest: <$type as Kind>::value($highest),
                    description: concat!($($doc),+).trim_ascii(),
                }, )+]
            }

            /// Changes one parameter.
            ///
            /// # Errors
            /// There is none called `key`, or it cannot have this value.
            pub fn set(
                &mut self,
                key: &str,
                value: &$crate::parameter::Value,
            ) -> Result<(), $crate::parameter::ParameterError> {
                match key {
                    $( $key => self.$field = $crate::parameter::within::<$type>($key, value, $lowest, $highest)?, )+
                    _ => return Err($crate::parameter::ParameterError::unknown(key, &self.list())),
                }
                Ok(())
            }

            /// Says whether each parameter is in its range.
            ///
            /// # Errors
            /// The first one that is not.
            pub fn check(&self) -> Result<(), $crate::parameter::ParameterError> {
                let mut copy = self.clone();
                self.list().iter().try_for_each(|parameter| copy.set(parameter.key, &parameter.value))
            }
        }

        impl $crate::parameter::format::Serialize for $name {
            fn serialize<S: $crate::parameter::format::Serializer>(
                &self,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                let settings = $crate::parameter::Settings::from(self.clone());
                $crate::parameter::format::Serialize::serialize(&settings, serializer)
            }
        }

        impl<'de> $crate::parameter::format::Deserialize<'de> for $name {
            fn deserialize<D: $crate::parameter::format::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                let settings: $crate::parameter::Settings =
                    $crate::parameter::format::Deserialize::deserialize(deserializer)?;
                Self::try_from(settings).map_err($crate::parameter::format::de::Error::custom)
            }
        }

        impl From<$name> for $crate::parameter::Settings {
            fn from(parameters: $name) -> Self {
                parameters.list().into_iter().map(|parameter| (parameter.key.to_owned(), parameter.value)).collect()
            }
        }

        impl TryFrom<$crate::parameter::Settings> for $name {
            type Error = $crate::parameter::ParameterError;

            fn try_from(settings: $crate::parameter::Settings) -> Result<Self, Self::Error> {
                let mut parameters = Self::default();
                settings.iter().try_for_each(|(key, value)| parameters.set(key, value))?;
                Ok(parameters)
            }
        }
    };
}
pub use parameters;

/// The methods of [`Policy`](crate::Policy) about parameters, for a policy that keeps them in a field
/// `parameters`.
#[macro_export]
macro_rules! configurable {
    () => {
        fn parameters(&self) -> Vec<$crate::parameter::Parameter> {
            self.parameters.list()
        }

        fn configure(
            &mut self,
            key: &str,
            value: &$crate::parameter::Value,
        ) -> Result<(), $crate::parameter::ParameterError> {
            self.parameters.set(key, value)
        }
    };
}
pub use configurable;
