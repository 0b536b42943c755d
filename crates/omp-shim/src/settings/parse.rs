//! The grammar of the environment variables' values. Pure; the text comes trimmed.

use super::places::PlacesSpec;

/// A value that does not fit: what would have.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParseError {
    /// To be read after "must be".
    pub(super) wanted: &'static str,
}

/// TRUE or FALSE, in any case.
pub(super) fn boolean(text: &str) -> Result<bool, ParseError> {
    if text.eq_ignore_ascii_case("true") {
        Ok(true)
    } else if text.eq_ignore_ascii_case("false") {
        Ok(false)
    } else {
        Err(ParseError { wanted: "TRUE or FALSE" })
    }
}

/// A whole number of at least 0 that fits an `int`.
pub(super) fn number(text: &str) -> Result<u32, ParseError> {
    let value = text.parse::<i32>().ok().filter(|value| *value >= 0);
    value.map(i32::cast_unsigned).ok_or(ParseError { wanted: "an integer of at least 0" })
}

/// A whole number of at least 1 that fits an `int`.
pub(super) fn positive(text: &str) -> Result<u32, ParseError> {
    let value = text.parse::<i32>().ok().filter(|value| *value > 0);
    value.map(i32::cast_unsigned).ok_or(ParseError { wanted: "a positive integer" })
}

/// A limit of at least `least`. One beyond what an `int` holds limits nothing: it is the largest.
pub(super) fn limit(
    text: &str,
    least: fn(&str) -> Result<u32, ParseError>,
) -> Result<u32, ParseError> {
    let is_large =
        text.trim_start_matches('0').len() > 9 && text.bytes().all(|digit| digit.is_ascii_digit());
    least(text).or_else(|error| if is_large { Ok(i32::MAX.cast_unsigned()) } else { Err(error) })
}

/// Items between commas, at least one.
pub(super) fn list<T>(
    text: &str,
    item: impl Fn(&str) -> Result<T, ParseError>,
    wanted: &'static str,
) -> Result<Vec<T>, ParseError> {
    text.split(',').map(|part| item(part.trim()).map_err(|_| ParseError { wanted })).collect()
}

/// The size of a stack. Less than any system allows is a typing error.
pub(super) fn stack(text: &str) -> Result<usize, ParseError> {
    const LEAST: usize = 16 << 10;
    size(text).and_then(|bytes| {
        if bytes < LEAST { Err(ParseError { wanted: "at least 16K" }) } else { Ok(bytes) }
    })
}

/// Bytes: a number followed by B, K, M or G; K when nothing stands there.
fn size(text: &str) -> Result<usize, ParseError> {
    const ERROR: ParseError = ParseError { wanted: "a size such as 512K, 4M or 1G" };
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "b" => 0,
        "" | "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return Err(ERROR),
    };
    let value: usize = digits.parse().map_err(|_| ERROR)?;
    value.checked_mul(1 << shift).ok_or(ERROR)
}

/// `GOMP_SPINCOUNT`: a number followed by k, M, G or T, or INFINITE.
pub(super) fn spin_count(text: &str) -> Result<u64, ParseError> {
    const ERROR: ParseError = ParseError { wanted: "a number such as 1000, 30k or INFINITE" };
    if text.eq_ignore_ascii_case("infinite") || text.eq_ignore_ascii_case("infinity") {
        return Ok(u64::MAX);
    }
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        "t" => 1_000_000_000_000,
        _ => return Err(ERROR),
    };
    let value: u64 = digits.parse().map_err(|_| ERROR)?;
    value.checked_mul(factor).ok_or(ERROR)
}

/// `GOMP_CPU_AFFINITY`: processors, ranges and ranges with a stride of at least 1, between spaces
/// or commas. Kept as it is.
pub(super) fn cpu_affinity(text: &str) -> Result<String, ParseError> {
    let number = |part: &str| part.parse::<u32>().ok();
    let is_item = |part: &str| {
        let (range, stride) =
            part.split_once(':').map_or((part, None), |(range, stride)| (range, Some(stride)));
        match (range.split_once('-'), stride) {
            (None, None) => number(range).is_some(),
            (None, Some(_)) => false,
            (Some((from, to)), stride) => {
                matches!((number(from), number(to)), (Some(from), Some(to)) if from <= to)
                    && stride.is_none_or(|stride| number(stride).is_some_and(|stride| stride > 0))
            }
        }
    };
    // Between two commas there is something, which spaces may cut further.
    let are_items = |part: &str| !part.trim().is_empty() && part.split_whitespace().all(is_item);
    if text.split(',').all(are_items) {
        Ok(text.to_owned())
    } else {
        Err(ParseError { wanted: "processors such as \"0 3 1-2 4-15:2\"" })
    }
}

/// `OMP_PLACES`: an abstract name with an optional count, or places in braces. Kept as it is; see
/// [`super::places`] for its meaning on this machine.
pub(super) fn places(text: &str) -> Result<String, ParseError> {
    if PlacesSpec::parse(text).is_some() {
        Ok(text.to_owned())
    } else {
        Err(ParseError {
            wanted: "threads, cores, sockets, ll_caches or numa_domains with an optional (count), \
                     or places such as {0:2},{2:2}",
        })
    }
}
