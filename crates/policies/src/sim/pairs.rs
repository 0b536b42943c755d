//! Pairs of numbers, as workloads have them.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, SeqAccess, Visitor};

/// `[[4, 1.0], [8, 0.55]]`, with exactly two numbers each. Not every format says that something is
/// left when a tuple has been read: TOML leaves out a third number without a word.
pub(super) fn pairs<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(u32, f64)>, D::Error> {
    Ok(Vec::<Pair>::deserialize(from)?.into_iter().map(|Pair(one, other)| (one, other)).collect())
}

struct Pair(u32, f64);

struct OfTwo;

impl<'de> Deserialize<'de> for Pair {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(OfTwo)
    }
}

impl<'de> Visitor<'de> for OfTwo {
    type Value = Pair;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("two numbers, as [4, 0.5]: a number of processors, and what is said of it")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Pair, A::Error> {
        let missing = |number| A::Error::invalid_length(number, &self);
        let one = all.next_element()?.ok_or_else(|| missing(0))?;
        let other = all.next_element()?.ok_or_else(|| missing(1))?;
        let mut more = 0;
        while all.next_element::<IgnoredAny>()?.is_some() {
            more += 1;
        }
        if more > 0 { Err(missing(2 + more)) } else { Ok(Pair(one, other)) }
    }
}
