//! The paper's calls, for programs in C and Fortran: hot areas are named, and counting goes on from
//! then until a call of [`Library::migrate_memory`] finds nothing to move.
//!
//! # Protocol
//! 1. [`Library::memrefcnt`] names areas, and begins to count.
//! 2. The program calls [`Library::migrate_memory`] after an iteration, and again while
//!    [`Library::should_call`] says so.
//! 3. Or it calls [`Library::record`] at the borders of an iteration's phases, then
//!    [`Library::compare_counters`], and in each later iteration [`Library::replay`] before each
//!    phase and [`Library::undo`] after the last.
//!
//! # What counts
//! The first source that can be used, or the one that the settings name ([`AutoSource`]). Samples
//! by faults are taken between [`Library::enter`] and [`Library::leave`] alone: there the program
//! computes, and elsewhere it may hand its arrays to system calls. A program that describes its
//! loops ([`Library::ledger`]) is counted by what it says, exactly, from its first description on;
//! where the settings name [`SourceKind::Loops`], from the beginning.

use std::sync::Arc;

use crate::area::AreaError;
use crate::machine::{Engine, Machine};
use crate::migrator::Parameters;
use crate::source::{AutoSource, Ledger, Scope, SourceKind, TrapParameters};
use crate::statistics::Off;
use crate::topology::TopologyError;
use crate::{Settings, Statistics};

/// See the module head.
pub struct Library {
    upm: Engine,
    ledger: Arc<Ledger>,
    only: Option<SourceKind>,
    is_described: bool,
    /// What is counted for.
    scope: Scope,
    is_counting: bool,
    /// Parts of the program that compute now.
    inside: usize,
    /// A call was too early to decide.
    waits: bool,
}

impl Library {
    /// Nothing is named yet.
    ///
    /// # Errors
    /// The machine's nodes cannot be read.
    pub fn new(settings: Settings, ledger: Arc<Ledger>) -> Result<Self, TopologyError> {
        let machine = Machine::new(settings)?;
        let parameters =
            Parameters { critical_pages: settings.critical_pages, ..Parameters::default() };
        let only = settings.source;
        let mut source = AutoSource::new(only, TrapParameters::default());
        // Else there would be no source before the first description, and the engine be off.
        let is_described = only == Some(SourceKind::Loops);
        if is_described {
            source = source.with_ledger(ledger.clone());
        }
        let topology = machine.topology().clone();
        Ok(Self {
            upm: Engine::with(topology, machine.mover(), Box::new(source), parameters),
            ledger,
            only,
            is_described,
            scope: Scope::Iteration,
            is_counting: false,
            inside: 0,
            waits: false,
        })
    }

    /// Names a hot area, and counts.
    ///
    /// # Safety
    /// - It stays mapped while the library is there, and no other part of the process changes its
    ///   rights.
    ///
    /// # Errors
    /// See [`AreaError`]. Nothing has changed then.
    pub unsafe fn memrefcnt(&mut self, begin: usize, length: usize) -> Result<(), AreaError> {
        self.stop();
        // SAFETY: - the caller's promise.
        let added = unsafe { self.upm.watch_raw(begin, length) };
        self.count(self.scope);
        added.map(drop)
    }

    /// Moves pages by what was counted; returns how many moved.
    pub fn migrate_memory(&mut self) -> usize {
        let was_counting = self.is_counting;
        if was_counting && self.scope == Scope::Iteration && !self.upm.is_enough() {
            // A window that is open goes on in the next iteration: to stop here would cut windows
            // off at the same place again and again.
            self.waits = self.upm.is_on();
            return 0;
        }
        self.stop();
        let moved = self.upm.migrate_memory();
        self.waits = moved == 0 && was_counting && self.upm.is_on();
        if self.upm.is_on() {
            self.count(Scope::Iteration);
        }
        moved
    }

    /// Whether another call of [`Library::migrate_memory`] is worth making: the last one moved
    /// pages, or was too early to decide.
    pub fn should_call(&self) -> bool {
        self.waits || self.upm.migrations() > 0
    }

    /// A border of phases.
    pub fn record(&mut self) {
        if self.scope != Scope::Phases || !self.is_counting {
            self.stop();
            self.count(Scope::Phases);
        }
        self.upm.record();
    }

    /// Decides which pages move before which phase; returns how many moves that is.
    pub fn compare_counters(&mut self) -> usize {
        self.stop();
        self.upm.compare_counters()
    }

    /// The next phase begins; returns how many pages moved for it.
    pub fn replay(&mut self) -> usize {
        self.stop();
        self.upm.replay()
    }

    /// The iteration's last phase ended; returns how many pages moved back.
    pub fn undo(&mut self) -> usize {
        self.stop();
        self.upm.undo()
    }

    /// A part of the program begins that computes, and hands no array to the system.
    pub fn enter(&mut self) {
        self.inside += 1;
        if self.inside == 1 {
            self.upm.resume();
        }
    }

    /// It ends.
    pub fn leave(&mut self) {
        self.inside = self.inside.saturating_sub(1);
        if self.inside == 0 {
            self.upm.pause();
        }
    }

    /// What the program says of its loops goes here; from now on that counts, unless the settings
    /// name another source, or nothing is said while an iteration is recorded.
    pub fn ledger(&mut self) -> Arc<Ledger> {
        if !self.is_described {
            self.is_described = true;
            let was_counting = self.is_counting;
            self.stop();
            let source = AutoSource::new(self.only, TrapParameters::default());
            self.upm.set_source(Box::new(source.with_ledger(self.ledger.clone())));
            // It may have been off for want of a source.
            if was_counting || (self.scope == Scope::Iteration && self.upm.is_on()) {
                self.count(self.scope);
            }
        }
        self.ledger.clone()
    }

    /// The threads are on other nodes now.
    pub fn threads_moved(&mut self) {
        self.stop();
        self.upm.rearm();
        if self.upm.is_on() {
            self.count(Scope::Iteration);
        }
    }

    /// What was done, and why.
    pub fn statistics(&self) -> &Statistics {
        self.upm.statistics()
    }

    /// No access faults afterwards, until areas are named or phases recorded anew.
    pub fn stop(&mut self) {
        self.upm.stop();
        self.is_counting = false;
    }

    fn count(&mut self, scope: Scope) {
        let is_off = match scope {
            Scope::Iteration => !self.upm.is_on(),
            Scope::Phases => matches!(self.statistics().off, Some(Off::OneNode)),
        };
        if is_off || self.upm.statistics().pages == 0 {
            return;
        }
        self.scope = scope;
        // SAFETY: - areas stay mapped while the engine lives (`memrefcnt`).
        unsafe { self.upm.begin(scope) };
        self.is_counting = self.upm.is_recording();
        if self.inside == 0 {
            self.upm.pause();
        }
    }
}
