//! How far two processors are apart, in two classes: by the round trip of a cache line.

/// Round trips above this are called far (ns).
const FAR_NS: f64 = 150.0;

/// How far two processors were apart while something was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Distance {
    Near,
    Far,
}

impl Distance {
    /// Of a round trip in nanoseconds.
    pub(crate) fn of(round_trip: f64) -> Distance {
        if round_trip > FAR_NS { Distance::Far } else { Distance::Near }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Distance::Near => "near",
            Distance::Far => "far",
        }
    }
}
