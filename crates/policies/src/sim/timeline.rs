//! Which program ran where, and when: for each virtual processor of each execution a list of
//! intervals without gap or overlap.
//!
//! # Invariants
//! L1  The intervals of a virtual processor follow each other from the start of its execution to
//!     the end.
//! L2  At no time do two virtual processors run, idle or refill on the same processor; only shared
//!     masters may.

use serde::Serialize;

use crate::snapshot::Nanos;

/// What a virtual processor does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// It has a processor and works.
    Running,
    /// It has a processor and nothing to do: a serial phase, or a team that has not grown yet.
    Idle,
    /// It has a processor and loads its cache again.
    Refilling,
    /// It shares a processor with masters of other programs.
    Sharing,
    /// The kernel runs it now and then, anywhere.
    TimeShared,
    /// It has no processor.
    Absent,
}

impl Activity {
    /// All of them, in the order of their numbers in a trace.
    pub const ALL: [Self; 6] =
        [Self::Idle, Self::Running, Self::Refilling, Self::Sharing, Self::TimeShared, Self::Absent];

    /// Whether no other program can be on the processor.
    #[must_use]
    pub fn is_exclusive(self) -> bool {
        matches!(self, Self::Running | Self::Idle | Self::Refilling)
    }
}

/// A time in which a virtual processor does the same in the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Interval {
    /// From when.
    pub begin: Nanos,
    /// To when.
    pub end: Nanos,
    /// The processor's number; `None` when it has none of its own.
    pub cpu: Option<u32>,
    /// What it does.
    pub activity: Activity,
}

/// One execution: a list of intervals for each of its virtual processors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Track {
    /// As `swim.0.2`: program, copy, repetition.
    pub name: String,
    /// The program.
    pub program: String,
    /// When it started.
    pub started: Nanos,
    /// When it ended.
    pub ended: Nanos,
    /// By virtual processor.
    pub virtual_processors: Vec<Vec<Interval>>,
}

/// Which program ran where, and when.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Timeline {
    /// Processors of the machine.
    pub processors: u32,
    /// The end of the last execution.
    pub end: Nanos,
    /// In order of start.
    pub tracks: Vec<Track>,
}

impl Timeline {
    /// A new execution. Returns its place.
    pub(super) fn open(
        &mut self,
        name: String,
        program: &str,
        now: Nanos,
        virtual_processors: u32,
    ) -> usize {
        let absent = Interval { begin: now, end: now, cpu: None, activity: Activity::Absent };
        self.tracks.push(Track {
            name,
            program: program.to_owned(),
            started: now,
            ended: now,
            virtual_processors: vec![vec![absent]; virtual_processors as usize],
        });
        self.tracks.len() - 1
    }

    /// From now on the virtual processor does this.
    pub(super) fn note(
        &mut self,
        track: usize,
        vp: usize,
        now: Nanos,
        cpu: Option<u32>,
        activity: Activity,
    ) {
        let list = &mut self.tracks[track].virtual_processors[vp];
        let last = list.last_mut().expect("each list begins with one interval");
        if (last.cpu, last.activity) == (cpu, activity) {
            return;
        }
        last.end = now;
        let next = Interval { begin: now, end: now, cpu, activity };
        if last.begin == now {
            // It lasted no time. The one before may be the same as this.
            list.pop();
            if let Some(before) = list.last_mut().filter(|b| (b.cpu, b.activity) == (cpu, activity))
            {
                before.end = now;
                return;
            }
        }
        list.push(next);
    }

    /// The execution ends.
    pub(super) fn close(&mut self, track: usize, now: Nanos) {
        self.end = self.end.max(now);
        let track = &mut self.tracks[track];
        track.ended = now;
        for list in &mut track.virtual_processors {
            if let Some(last) = list.last_mut() {
                last.end = now;
            }
            list.retain(|interval| interval.end > interval.begin);
        }
    }
}
