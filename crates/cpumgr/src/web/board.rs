//! What is shown: the manager's last answers, and how many processors each program had in the last
//! minutes.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Instant;

use arena::message::ProgramStatus;
use serde::Serialize;

use super::FRESH;
use crate::status::Report;
use crate::{json, metrics};

/// Samples that are kept, `sampler::STEP` apart: those of five minutes. A sample has a number for
/// each program, of which a manager has 512 at most.
const SAMPLES: usize = 150;

/// The last answers, and what they said before.
#[derive(Debug)]
pub(super) struct Board {
    socket: PathBuf,
    began: Instant,
    status: Option<(Instant, String)>,
    metrics: Option<(Instant, String)>,
    samples: VecDeque<Sample>,
}

/// How many processors programs had at a moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Sample {
    /// Seconds since the listener began.
    pub(crate) at: f64,
    /// Of each process.
    pub(crate) granted: BTreeMap<i32, u32>,
}

/// What the page asks for.
#[derive(Debug, Serialize)]
pub(crate) struct Shown<'a> {
    /// As `cpumgr status --json`.
    pub(crate) report: &'a Report,
    /// The oldest one first.
    pub(crate) samples: &'a VecDeque<Sample>,
}

impl Board {
    pub(super) fn new(socket: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
            began: Instant::now(),
            status: None,
            metrics: None,
            samples: VecDeque::new(),
        }
    }

    /// The programs have so many processors now.
    pub(super) fn note(&mut self, programs: &[ProgramStatus]) {
        let granted = programs.iter().map(|it| (it.pid, it.granted)).collect();
        self.samples.push_back(Sample { at: self.began.elapsed().as_secs_f64(), granted });
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
    }

    /// The document for the page.
    pub(super) fn status(&mut self) -> Result<String, String> {
        if let Some(text) = fresh(&self.status) {
            return Ok(text);
        }
        let report = Report::ask(&self.socket).map_err(|error| error.to_string())?;
        let shown = Shown { report: &report, samples: &self.samples };
        let text = json::line("web", &shown).map_err(|error| error.to_string())?;
        self.status = Some((Instant::now(), text.clone()));
        Ok(text)
    }

    /// The text for Prometheus.
    pub(super) fn metrics(&mut self) -> Result<String, String> {
        if let Some(text) = fresh(&self.metrics) {
            return Ok(text);
        }
        let measures = metrics::ask(&self.socket).map_err(|error| error.to_string())?;
        let report = Report::glance(&self.socket).map_err(|error| error.to_string())?;
        let text = metrics::text(&report, &measures);
        self.metrics = Some((Instant::now(), text.clone()));
        Ok(text)
    }
}

fn fresh(kept: &Option<(Instant, String)>) -> Option<String> {
    kept.as_ref().filter(|(at, _)| at.elapsed() < FRESH).map(|(_, text)| text.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_five_minutes_are_kept_and_no_more() {
        let mut board = Board::new(Path::new("/s"));
        (0..2 * SAMPLES).for_each(|_| board.note(&[]));
        assert_eq!(board.samples.len(), SAMPLES);
        let steps = u32::try_from(SAMPLES).unwrap();
        assert_eq!((super::super::sampler::STEP * steps).as_secs(), 300);
        assert!(board.samples.iter().is_sorted_by(|one, next| one.at <= next.at));
    }
}
