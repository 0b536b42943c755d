//! What is known of one application: what it received, when it had its turn, and on how many
//! processors it is efficient.

use std::collections::{BTreeMap, VecDeque};

use crate::share;
use crate::snapshot::{AppView, Nanos};

/// The books of one application.
#[derive(Debug, Clone)]
pub(super) struct Account {
    /// CPU time that it had received when it was last seen.
    pub(super) service: Nanos,
    /// Which program it is an execution of.
    pub(super) program: Option<u64>,
    /// Processors that it had then.
    pub(super) had: u32,
    /// It has had a whole turn: it is no newcomer any more.
    pub(super) had_turn: bool,
    /// It has had another one since: it gives way only to one that is ahead by far.
    pub(super) had_more: bool,
    /// When it last had processors of its own, or came.
    pub(super) ran: Nanos,
    /// The largest request so far: a serial phase makes no small program.
    pub(super) peak: u32,
    /// Processors on which it was measured to be efficient; 0: none.
    good: u32,
    /// The fewest processors on which it was measured not to be, and its speedup there.
    bad: Option<(u32, f64)>,
    /// When the last report that counted was made.
    reported: Option<Nanos>,
}

impl Account {
    pub(super) fn new(now: Nanos) -> Self {
        Self {
            service: 0,
            program: None,
            had: 0,
            had_turn: false,
            had_more: false,
            ran: now,
            peak: 0,
            good: 0,
            bad: None,
            reported: None,
        }
    }

    /// Follows what the application received, asks for and reports.
    pub(super) fn follow(&mut self, app: &AppView, min_efficiency: f64) {
        (self.service, self.program) = (app.cpu_time, app.program);
        self.peak = self.peak.max(app.wants());
        let Some(report) = app.speedup else { return };
        let sound = report.speedup.is_finite() && report.speedup > 0.0;
        let fresh = self.reported.is_none_or(|last| report.at > last);
        if !sound || !fresh || report.processors < 2 {
            return;
        }
        self.reported = Some(report.at);
        let on = report.processors;
        if report.speedup / f64::from(on) >= min_efficiency {
            self.good = self.good.max(on);
            self.bad = self.bad.filter(|(bad, _)| *bad > on);
        } else if self.bad.is_none_or(|(bad, _)| on <= bad) {
            self.bad = Some((on, report.speedup));
            self.good = self.good.min(on - 1);
        }
    }

    /// The most processors that it uses efficiently, as far as that is known: those on which it was
    /// measured so, or those that Amdahl's law allows by the measurement that was not, whichever is
    /// more. Without such a measurement: any number.
    pub(super) fn width(&self, min_efficiency: f64) -> u32 {
        let Some((on, speedup)) = self.bad else { return u32::MAX };
        // T(p) = f + (1 - f) / p, from S(on): the part f that is serial.
        let serial = (f64::from(on) / speedup - 1.0) / (f64::from(on) - 1.0);
        // S(n) / n >= e where n <= 1 + (1 / e - 1) / f.
        let most = 1.0 + (1.0 / min_efficiency.max(0.001) - 1.0) / serial.max(1e-9);
        // The cast saturates.
        (most as u32).max(self.good).min(on - 1).max(1)
    }

    /// It uses at most half of the machine, whatever it is given.
    pub(super) fn is_narrow(&self, processors: u32, min_efficiency: f64) -> bool {
        u64::from(self.peak.min(self.width(min_efficiency))) * 2 <= u64::from(processors)
    }
}

/// CPU times of the applications that ended: what is to be expected of those that run.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    /// The last ones with their programs, the oldest first.
    ended: VecDeque<(Option<u64>, Nanos)>,
    /// The most that an application of each program has received which has not ended.
    longest: BTreeMap<Option<u64>, Nanos>,
}

impl History {
    /// One more ended; `most` are remembered.
    pub(super) fn note(&mut self, account: &Account, service: Nanos, most: u32) {
        self.ended.push_back((account.program, service.max(1)));
        self.limit(most);
    }

    /// No more than these are remembered.
    pub(super) fn limit(&mut self, most: u32) {
        let over = self.ended.len().saturating_sub(most as usize);
        self.ended.drain(..over);
    }

    /// These run now.
    pub(super) fn see<'a>(&mut self, running: impl Iterator<Item = &'a Account>) {
        self.longest.clear();
        for account in running {
            let longest = self.longest.entry(account.program).or_default();
            *longest = account.service.max(*longest);
        }
    }

    /// The mean CPU time of all that ended; `None`: none did.
    pub(super) fn mean(&self) -> Option<Nanos> {
        let sum: u128 = self.ended.iter().map(|(_, ended)| u128::from(*ended)).sum();
        let mean = sum.checked_div(self.ended.len() as u128)?;
        Some(Nanos::try_from(mean).unwrap_or(Nanos::MAX))
    }

    /// The CPU time that an application of this program still needs which has received `service`:
    /// the mean of what those executions of it needed that ended later than that. One that is a
    /// little beyond another's end counts as at its end. Where none ended, all need the same, and
    /// the one that is furthest goes on for as long again; so does one that is beyond all ends.
    pub(super) fn remaining(&self, program: Option<u64>, service: Nanos) -> Nanos {
        let (mut sum, mut number, mut none) = (0_u128, 0_u128, true);
        for (_, ended) in self.ended.iter().filter(|(of, _)| *of == program) {
            none = false;
            if service < ended.saturating_add(ended / 4) {
                sum += u128::from(ended.saturating_sub(service).max(ended / 8));
                number += 1;
            }
        }
        if let Some(mean) = sum.checked_div(number) {
            return Nanos::try_from(mean).unwrap_or(Nanos::MAX);
        }
        let longest = self.longest.get(&program).copied().filter(|_| none).unwrap_or(0);
        longest.max(service).saturating_mul(2) - service
    }
}

/// Remaining CPU time relative to an application's weight.
pub(super) fn by_weight(remaining: Nanos, app: &AppView) -> u128 {
    (u128::from(remaining) << share::FIXED_BITS) / share::fixed(app.weight).max(1)
}
