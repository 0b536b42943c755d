//! What the keys of a workload may be, for a reader of workloads that finds something else there.
//!
//! The checks are where the values are ([`Workload::check`](super::Workload::check)). This module
//! has their words, for a value of another kind, which no check sees. A test of `cpumgr simulate`
//! compares the two.

/// What stands at a place of a workload: its keys from the outside, as
/// `["programs", "swim", "request"]`, without places in lists. `None` where any value of the right
/// kind will do, or for no place of a workload.
#[must_use]
pub fn allowed(keys: &[&str]) -> Option<&'static str> {
    Some(match *keys {
        ["machine", "processors"] | ["programs", _, "request" | "min" | "max"] => "from 1 to 4096",
        ["machine", "smt_gain"] => "from 0.5 to 8",
        ["machine", "speeds"] => {
            "[[4, 1.0], [8, 0.55]]: how many processors, and how fast, from 0.05 to 1"
        }
        ["machine", "remote"] => "from 1 to 100",
        ["machine", "bandwidth"] => "from 0.01 to 4096",
        ["manager", "hold"] => "at most 1s",
        ["manager", "noise"] => "from 0 to 0.9",
        ["manager", "quantum"] => "from 1ms to 10s",
        ["manager", "level"] => "from 1 to 65536",
        ["native", "slice"] => "from 1us to 1s",
        ["native", "patience"] => "at most 3600s",
        ["native", "switch"] => "at most 1s",
        ["native", "coincidence"] => "from 0 to 10",
        ["native", "adapts"] => "from 1ms to 3600s",
        ["programs", _, "iterations"] => "from 1 to 1000000",
        ["programs", _, "weight"] => "from 0.001 to 1000",
        ["programs", _, "refill"] => "at most 60s",
        ["programs", _, "pattern", ..] => {
            "one of \"constant\", \"diamond\", \"alternate\", { list = [2, 4] } with a number per iteration and \
             { file = \"NAME\" } with a number per line"
        }
        ["classes", _, "min" | "max"] => "a whole number of processors",
        ["classes", _, "weight"] => "from 0.001 to 1000",
        ["classes", _, "priority"] => "a whole number, 0 and below, too",
        ["programs", _, "memory"] => "from 0 to 1",
        ["programs", _, "native", "work"] => "from 0.01 to 100",
        ["programs", _, "curve", ..]
        | ["programs", _, "native", "curve" | "busy" | "awake", ..] => {
            "one of \"linear\", { amdahl = { serial = 0.1 } }, { downey = { parallelism = 8.0, variance = 0.5 } }, \
             { speedups = [[1, 1.0], [4, 3.5]] } and { times = [[1, 10.0], [4, 3.0]] }"
        }
        ["programs", _, "phases", "serial" | "parallel"] => "from 1us to 100000s",
        ["programs", _, "phases", "regions"] => "1 to 1000000",
        ["jobs", "copies" | "repetitions"] => "1 or more",
        ["jobs", "arrival" | "every"] => "at most 10000s",
        _ => return None,
    })
}
