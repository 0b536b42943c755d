//! The first source that can be used, of an ordered list; each one that cannot says why.
//!
//! # Protocol
//! 1. To attach is to choose anew: the sources are tried in the order of
//!    [`SourceKind::ORDER`], and the first that takes the areas counts.
//! 2. One that cannot begin to count, or turned out not to count at all
//!    ([`CounterSource::failure`]), is declined, too, and the next one is tried, at the next
//!    recorded iteration's beginning. It counts from zero.
//! 3. When none is left, [`CounterSource::start`] fails, and says what each one said.

use std::sync::Arc;

use super::{
    Caps, CounterSource, HardwareSource, Ledger, LoopSchedule, Scope, SourceError, SourceKind,
    TrapParameters, TrapSource,
};
use crate::area::Areas;
use crate::counters::Counters;
use crate::statistics::Declined;
use crate::topology::{TableTopology, Topology};

type Made = Result<Box<dyn CounterSource + Send>, SourceError>;

/// See the module head.
pub struct AutoSource {
    /// The only one to be tried.
    only: Option<SourceKind>,
    parameters: TrapParameters,
    ledger: Option<Arc<Ledger>>,
    make: fn(&Self, SourceKind) -> Made,
    /// What is tried next, in the order.
    next: usize,
    taken: Option<(SourceKind, Box<dyn CounterSource + Send>)>,
    declined: Vec<Declined>,
    attached: Option<(Areas, TableTopology)>,
}

impl AutoSource {
    /// All sources in their order, or only one of them. Those that sample do it like this.
    pub fn new(only: Option<SourceKind>, parameters: TrapParameters) -> Self {
        Self {
            only,
            parameters,
            ledger: None,
            make: Self::make,
            next: 0,
            taken: None,
            declined: Vec::new(),
            attached: None,
        }
    }

    /// The program's loops say what they touch.
    #[must_use]
    pub fn with_ledger(self, ledger: Arc<Ledger>) -> Self {
        Self { ledger: Some(ledger), ..self }
    }

    /// Which source counts.
    pub fn kind(&self) -> Option<SourceKind> {
        self.taken.as_ref().map(|(kind, _)| *kind)
    }

    fn make(&self, kind: SourceKind) -> Made {
        let none = |why: &str| Err(SourceError::None(why.to_owned()));
        match kind {
            SourceKind::Loops => match &self.ledger {
                Some(ledger) => Ok(Box::new(LoopSchedule::with_ledger(ledger.clone()))),
                None => none("the program's loops do not say what they touch"),
            },
            SourceKind::Hardware => Ok(Box::new(HardwareSource::open()?)),
            SourceKind::Guards => Ok(Box::new(TrapSource::by_guards(self.parameters)?)),
            SourceKind::Userfaults => Ok(Box::new(TrapSource::by_userfault(self.parameters)?)),
            SourceKind::Rights => Ok(Box::new(TrapSource::new(self.parameters))),
            SourceKind::None => none("nothing is left that could count"),
        }
    }

    fn decline(&mut self, kind: SourceKind, why: String) {
        self.declined.push(Declined { source: kind.name(), why });
    }

    /// Takes the next source that can be used.
    fn take_next(&mut self) -> Result<(), SourceError> {
        self.taken = None;
        while let Some(kind) = SourceKind::ORDER.get(self.next).copied() {
            self.next += 1;
            if self.only.is_some_and(|only| only != kind) {
                continue;
            }
            let made = (self.make)(self, kind).and_then(|mut source| {
                if let Some((areas, topology)) = &self.attached {
                    // SAFETY: - the promise that `attach` got, which lasts until this source
                    // is dropped or attached anew: so does the one inside.
                    unsafe { source.attach(areas, topology) }?;
                }
                Ok(source)
            });
            match made {
                Ok(source) => {
                    self.taken = Some((kind, source));
                    return Ok(());
                }
                Err(error) => self.decline(kind, error.to_string()),
            }
        }
        let reasons: Vec<String> = self.declined.iter().map(Declined::to_string).collect();
        Err(SourceError::None(reasons.join("; ")))
    }
}

impl CounterSource for AutoSource {
    fn name(&self) -> &'static str {
        self.kind().map_or("the first source that can be used", SourceKind::name)
    }

    fn caps(&self) -> Caps {
        let none = Caps { is_exact: false, sees_reads: false, makes_faults: false };
        self.taken.as_ref().map_or(none, |(_, source)| source.caps())
    }

    unsafe fn attach(&mut self, areas: &Areas, topology: &dyn Topology) -> Result<(), SourceError> {
        self.stop();
        // Before the areas that it has may end.
        self.taken = None;
        self.next = 0;
        self.declined.clear();
        self.attached = Some((areas.clone(), TableTopology::of(topology)));
        self.take_next()
    }

    fn start(&mut self, scope: Scope) -> Result<(), SourceError> {
        loop {
            let Some((kind, source)) = &mut self.taken else { return self.take_next() };
            let begun = match source.failure() {
                Some(why) => Err(why),
                None => source.start(scope).map_err(|error| error.to_string()),
            };
            let Err(why) = begun else { return Ok(()) };
            let kind = *kind;
            self.decline(kind, why);
            self.take_next()?;
        }
    }

    fn tick(&self) {
        if let Some((_, source)) = &self.taken {
            source.tick();
        }
    }

    fn pause(&self) {
        if let Some((_, source)) = &self.taken {
            source.pause();
        }
    }

    fn resume(&self) {
        if let Some((_, source)) = &self.taken {
            source.resume();
        }
    }

    fn is_lost(&self) -> bool {
        self.taken.as_ref().is_some_and(|(_, source)| source.is_lost())
    }

    fn declined(&self) -> &[Declined] {
        &self.declined
    }

    fn snapshot(&mut self, out: &mut Counters) {
        match &mut self.taken {
            Some((_, source)) => source.snapshot(out),
            None => out.clear(0, 0),
        }
    }

    /// Not while the next start takes another source.
    fn is_enough(&self) -> bool {
        self.taken
            .as_ref()
            .is_some_and(|(_, source)| source.failure().is_none() && source.is_enough())
    }

    fn note_use(&mut self) {
        if let Some((_, source)) = &mut self.taken {
            source.note_use();
        }
    }

    fn keeps_counts(&self) -> bool {
        self.taken.as_ref().is_some_and(|(_, source)| source.keeps_counts())
    }

    fn stop(&mut self) {
        if let Some((_, source)) = &mut self.taken {
            source.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    // What makes faults leaves traces in the process: those tests are in `tests/faults`.
    use super::*;
    use crate::source::ScriptedSource;
    use crate::topology::Node;
    use platform::numa::{self, Pages};

    fn attached(mut source: AutoSource, pages: &Pages) -> (AutoSource, Result<(), SourceError>) {
        let mut areas = Areas::new(numa::page_bytes());
        areas.add(pages.addresses().start, pages.addresses().len()).unwrap();
        let topology = TableTopology::new(2, &[]).unwrap().with_processors(vec![Node(0); 4096]);
        // SAFETY: - each test drops the source before its memory.
        let outcome = unsafe { source.attach(&areas, &topology) };
        (source, outcome)
    }

    #[test]
    fn what_cannot_begin_is_declined_and_the_next_one_counts() {
        /// Attaches and does not begin.
        struct Refusing;
        impl CounterSource for Refusing {
            fn name(&self) -> &'static str {
                "refusing"
            }
            fn caps(&self) -> Caps {
                Caps { is_exact: false, sees_reads: false, makes_faults: false }
            }
            unsafe fn attach(&mut self, _: &Areas, _: &dyn Topology) -> Result<(), SourceError> {
                Ok(())
            }
            fn start(&mut self, _: Scope) -> Result<(), SourceError> {
                Err(SourceError::None("it does not begin".to_owned()))
            }
            fn snapshot(&mut self, _: &mut Counters) {}
            fn stop(&mut self) {}
        }
        let pages = Pages::map(numa::page_bytes()).unwrap();
        let mut auto = AutoSource::new(None, TrapParameters::default());
        auto.make = |_, kind| match kind {
            SourceKind::Rights => Ok(Box::new(ScriptedSource::new([vec![(0, Node(1), 5)]]))),
            _ => Ok(Box::new(Refusing)),
        };
        let (mut auto, outcome) = attached(auto, &pages);
        assert_eq!((outcome, auto.kind()), (Ok(()), Some(SourceKind::Loops)));
        auto.start(Scope::Iteration).unwrap();
        assert_eq!(auto.kind(), Some(SourceKind::Rights));
        assert!(auto.declined().iter().all(|declined| declined.why == "it does not begin"));
        let mut counters = Counters::default();
        auto.snapshot(&mut counters);
        assert_eq!(counters.page(0), [0, 5]);
    }
}
