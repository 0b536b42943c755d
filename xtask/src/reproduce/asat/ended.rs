//! A copy that ended, and what it said of its timed sections.

use serde::Deserialize;

use super::KILLED;
use crate::measure::Finish;

/// What the program prints.
#[derive(Deserialize)]
struct Line {
    seconds: Vec<f64>,
    joins: Option<f64>,
    team: Option<f64>,
    verified: bool,
}

/// A copy that ended.
pub(super) struct Ended {
    pub(super) index: usize,
    pub(super) lived: f64,
    pub(super) processor_time: f64,
    /// How often its threads gave their processor up, and lost it.
    pub(super) voluntary: u64,
    pub(super) involuntary: u64,
    /// What it says of its timed sections, or what was wrong.
    pub(super) result: Result<Timed, String>,
}

/// See [`Row`](super::Row).
pub(super) struct Timed {
    pub(super) wall: f64,
    pub(super) joins: Option<f64>,
    pub(super) team: Option<f64>,
}

impl Ended {
    pub(super) fn of(finish: &Finish) -> Ended {
        let said = || format!("{}{}", finish.output, finish.errors).trim().replace('\n', " ");
        let line = finish.output.lines().last().map(serde_json::from_str::<Line>);
        let result = match (finish.status, line) {
            (None, _) => Err(KILLED.to_owned()),
            (Some(status), Some(Ok(line))) if status.success() && line.verified => {
                let Line { seconds, joins, team, .. } = line;
                Ok(Timed { wall: seconds.iter().sum(), joins, team })
            }
            (Some(status), _) => Err(format!("{status}; it said: {}", said())),
        };
        Ended {
            index: finish.index,
            lived: finish.turnaround.as_secs_f64(),
            processor_time: finish.cpu.as_secs_f64(),
            voluntary: finish.voluntary,
            involuntary: finish.involuntary,
            result,
        }
    }
}
