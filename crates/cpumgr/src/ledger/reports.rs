//! What programs report of their speed, and where it is kept.

use policies::speedups::{Refused, Sample};
use policies::{AppId, AppView, Nanos, Speedup};

use super::Ledger;
use super::entry::{Entry, REMEMBERED};

impl Ledger {
    /// The name of the program that this one is an execution of.
    pub fn set_program(&mut self, app: AppId, name: &str) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == app) {
            entry.program = Some(AppView::number_of(name));
        }
    }

    /// A program called `name` reported how long the same work took on numbers of processors. What
    /// is known of it under that name, also from earlier executions, is smoothed with it; the last
    /// time is the one to decide upon. Of programs of one name that run at once each later one is
    /// measured by itself: its input may be another one.
    ///
    /// # Errors
    /// The first time that is not believed; those before it are remembered, and nothing is decided
    /// upon them.
    pub fn report(
        &mut self,
        app: AppId,
        name: &str,
        times: &[(u32, Nanos)],
        now: Nanos,
    ) -> Result<(), Refused> {
        let (machine, region) = (self.processors(), self.region(app, name));
        let mut last = None;
        for &(processors, time) in times {
            last = Some(self.speedups.sample(
                name,
                Sample { region, processors, time, at: now },
                machine,
            )?);
        }
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == app) {
            entry.speedup = last.or(entry.speedup);
        }
        Ok(())
    }

    /// Where the times of a program are kept: with what is remembered under its name, unless
    /// another one that runs has that.
    fn region(&mut self, app: AppId, name: &str) -> u64 {
        let has_it = |entry: &Entry| {
            entry.kept_as.as_ref().is_some_and(|(kept, at)| kept == name && *at == REMEMBERED)
        };
        let is_taken = self.entries.iter().any(|entry| entry.id != app && has_it(entry));
        let own = app.0.saturating_add(1);
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == app) else { return own };
        if let Some((kept, region)) = &entry.kept_as
            && kept == name
        {
            return *region;
        }
        let region = if is_taken { own } else { REMEMBERED };
        entry.kept_as = Some((name.to_owned(), region));
        region
    }

    /// What a program reported, smoothed.
    pub fn speedup(&self, app: AppId) -> Option<Speedup> {
        self.entries.iter().find(|entry| entry.id == app)?.speedup
    }
}
