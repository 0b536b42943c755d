//! The engine as programs use it: areas, a source, and the calls at the borders of iterations and
//! phases.
//!
//! # Protocol
//! - [`Upm::iteration`] runs one iteration of the outer loop. While the engine is on it is
//!   recorded, and pages move after it.
//! - [`Upm::record_phases`] runs an iteration whose phases are compared; later iterations call
//!   [`Upm::replay`] before each phase and [`Upm::undo`] after the last.
//! - A source counts within these calls only, also when the program panics in them: so areas are
//!   borrowed for the life of the engine, and are plain memory again whenever none of its calls is
//!   under way.
//!
//! # Order
//! Stop the source, then read homes and move: the kernel's queries do not find what is armed.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use platform::numa::{self, Advice, Pages};

use crate::area::{AreaError, AreaId};
use crate::array::{HotArray, Plain};
use crate::counters::Counters;
use crate::criterion::Criterion;
use crate::migrator::{Migrator, Parameters};
use crate::mover::{KernelMover, Mover};
use crate::phases::{GainTest, Phases};
use crate::policy::Policies;
#[cfg(not(loom))]
use crate::source::{AutoSource, TrapParameters};
use crate::source::{CounterSource, Ledger, LoopSchedule, Scope};
use crate::statistics::{Off, Statistics};
#[cfg(not(loom))]
use crate::topology::TopologyError;
use crate::topology::{KernelTopology, Topology};

/// Bytes of a huge page on the machines that have 4 KiB pages.
const HUGE: usize = 2 << 20;

/// Page migration for one program.
///
/// # Costs
/// - To watch an area: `/proc/self/maps` and `smaps` are read, and its mappings have some system
///   calls. Memory for each page: some bytes, and 8 bytes for each node once it is counted.
/// - A recorded iteration: what its source takes, see [`CounterSource`]. Loops that say what they
///   touch add some numbers for each chunk; samples by faults take some microseconds for each one.
/// - [`Upm::migrate_memory`]: a look at each page, one query for 512 pages, and 1 to 15 us for each
///   page that moves.
/// - When it is off, or between recorded iterations: nothing. No access faults then.
pub struct Upm<'m, T = KernelTopology, M = KernelMover<KernelTopology>> {
    migrator: Migrator<T, M>,
    source: Box<dyn CounterSource + Send + 'm>,
    phases: Phases,
    counters: Counters,
    /// The counters when the last call of the engine used them.
    used: Counters,
    is_attached: bool,
    is_recording: bool,
    /// The criterion is the source's; else the program's.
    follows_source: bool,
    /// Policies of areas that had none; given back before the arrays go.
    policies: Policies,
    /// Arrays that stay mapped.
    arrays: Vec<Arc<Pages>>,
    _areas: PhantomData<&'m ()>,
}

#[cfg(not(loom))]
impl Upm<'_> {
    /// On this machine, with the first source that can be used ([`AutoSource`]); those before it
    /// are in the statistics, with the reason why they could not.
    ///
    /// # Errors
    /// The machine's nodes cannot be read.
    pub fn new() -> Result<Self, TopologyError> {
        let topology = KernelTopology::read()?;
        let mover = KernelMover::new(topology.clone());
        let source = Box::new(AutoSource::new(None, TrapParameters::default()));
        Ok(Self::with(topology, mover, source, Parameters::default()))
    }
}

impl<'m, T: Topology, M: Mover> Upm<'m, T, M> {
    /// On a topology, a mover and a source. The source says which criterion holds unless the
    /// parameters have one of their own.
    pub fn with(
        topology: T,
        mover: M,
        source: Box<dyn CounterSource + Send + 'm>,
        parameters: Parameters,
    ) -> Self {
        let page = numa::page_bytes();
        let mut migrator = Migrator::new(topology, mover, parameters, page);
        let follows_source = parameters.criterion == Parameters::default().criterion;
        if follows_source && source.caps().is_exact {
            migrator.set_criterion(Criterion::EXACT);
        }
        migrator.statistics.source = Some(source.name());
        Self {
            migrator,
            source,
            phases: Phases::new(GainTest::default()),
            counters: Counters::default(),
            used: Counters::default(),
            is_attached: false,
            is_recording: false,
            follows_source,
            policies: Policies::default(),
            arrays: Vec::new(),
            _areas: PhantomData,
        }
    }

    /// Watches an array. It may be used as before, and dropped.
    ///
    /// # Errors
    /// See [`AreaError`].
    pub fn watch<E: Plain>(&mut self, array: &HotArray<E>) -> Result<AreaId, AreaError> {
        let area = self.add(array.addresses())?;
        self.arrays.push(array.memory());
        Ok(area)
    }

    /// Watches memory that other threads may use at the same time: atomics and cells.
    ///
    /// # Errors
    /// See [`AreaError`].
    pub fn watch_slice<E: Sync>(&mut self, memory: &'m [E]) -> Result<AreaId, AreaError> {
        let range = memory.as_ptr_range();
        self.add(range.start.addr()..range.end.addr())
    }

    /// Watches any memory (`memrefcnt`). Where it has no memory policy it is given one until the
    /// engine ends, so that the kernel's balancing leaves it alone.
    ///
    /// # Safety
    /// - It stays mapped while the engine lives, may be read and written, and no other part of the
    ///   process changes its rights.
    ///
    /// # Errors
    /// See [`AreaError`].
    pub unsafe fn watch_raw(&mut self, begin: usize, length: usize) -> Result<AreaId, AreaError> {
        let end = begin.checked_add(length).ok_or(AreaError::Wraps { begin, length })?;
        self.add(begin..end)
    }

    fn add(&mut self, bytes: Range<usize>) -> Result<AreaId, AreaError> {
        let (begin, length) = (bytes.start, bytes.len());
        // Where the mappings cannot be read, holes show as untouched pages.
        let mappings = if length > 0 { numa::mappings(bytes.clone()).ok() } else { None };
        if let Some(mappings) = &mappings {
            let mut hole = begin;
            for mapping in mappings {
                if mapping.addresses.start > hole {
                    break;
                }
                if !mapping.is_writable || mapping.is_executable {
                    let at = mapping.addresses.start.max(begin);
                    return Err(AreaError::Rights { begin, length, at });
                }
                hole = mapping.addresses.end;
            }
            if hole < bytes.end {
                return Err(AreaError::Unmapped { begin, length, hole });
            }
        }
        let area = self.migrator.add(begin, length)?;
        self.is_attached = false;
        let inner = self.migrator.areas().spans()[area.0].inner();
        if !inner.is_empty() {
            // A kernel without huge pages does not know the advice.
            let _small = numa::advise(inner.clone(), Advice::NoHugePages);
            // Those that are there stay, and move as a whole.
            if numa::huge_bytes(inner.clone()).is_ok_and(|bytes| bytes > 0) {
                self.migrator.set_unit(area, HUGE / numa::page_bytes());
            }
            // Balancing may be switched on at any time. One node has nothing to balance.
            if self.migrator.topology().homes() > 1 && self.migrator.mover.is_real() {
                let given = self.policies.give(mappings.as_deref().unwrap_or(&[]), inner);
                self.migrator.statistics.kept += given.kept;
                self.migrator.statistics.exposed += given.exposed;
            }
        }
        Ok(area)
    }

    /// Runs an iteration of the program's outer loop. While the engine is on, references are
    /// counted during it and pages move after it. [`Upm::migrations`] has how many moved.
    pub fn iteration<R>(&mut self, work: impl FnOnce() -> R) -> R {
        self.start(Scope::Iteration);
        let outcome = Recording(self).run(work);
        self.migrate_memory();
        outcome
    }

    /// Runs an iteration whose phases are compared: `work` calls [`Recorder::border`] before the
    /// first phase and after each. Returns how many moves later iterations make, too.
    pub fn record_phases<R>(
        &mut self,
        work: impl FnOnce(&mut Recorder<'_, 'm, T, M>) -> R,
    ) -> (R, usize) {
        self.start(Scope::Phases);
        let mut recorder = Recorder(Recording(self));
        let outcome = work(&mut recorder);
        drop(recorder);
        (outcome, self.compare_counters())
    }

    /// Begins to count, if the engine is on or phases are to be recorded; for programs that cannot
    /// give an iteration as a closure.
    ///
    /// # Safety
    /// - [`Upm::stop`], or a call that moves pages, follows before any area's memory ends.
    pub unsafe fn begin(&mut self, scope: Scope) {
        self.start(scope);
    }

    fn start(&mut self, scope: Scope) {
        let is_wanted = match scope {
            Scope::Iteration => self.migrator.is_on(),
            Scope::Phases => !matches!(self.statistics().off, Some(Off::OneNode)),
        };
        if !is_wanted || self.is_recording {
            return;
        }
        let begun = self.attach().and_then(|()| self.source.start(scope));
        self.note_source();
        if let Err(error) = begun {
            self.migrator.turn_off(Off::NoSource(format!("{}: {error}", self.source.name())));
            return;
        }
        self.is_recording = true;
    }

    fn attach(&mut self) -> Result<(), crate::source::SourceError> {
        if !self.is_attached {
            // SAFETY: - arrays are kept mapped by `arrays`, slices are borrowed for 'm, which the
            // source does not outlive, and the rest was promised to `watch_raw`.
            unsafe { self.source.attach(self.migrator.areas(), self.migrator.topology()) }?;
            self.is_attached = true;
            self.used.clear(0, 0);
        }
        Ok(())
    }

    /// Which source counts is known when it begins, and may change then.
    fn note_source(&mut self) {
        let statistics = &mut self.migrator.statistics;
        statistics.source = Some(self.source.name());
        statistics.declined = self.source.declined().to_vec();
        if self.follows_source {
            self.migrator.set_criterion(criterion_for(&*self.source));
        }
    }

    /// A good moment for the source to look: between chunks of a loop.
    pub fn tick(&self) {
        self.source.tick();
    }

    /// The program's loops say what they touch, through this: from now on that alone counts,
    /// exactly and without faults. Every loop of an iteration has to say it: what none says was not
    /// touched.
    ///
    /// ```
    /// # use upm::{HotArray, KernelTopology, Placement, Upm};
    /// # let topology = KernelTopology::read()?;
    /// # let mut field = HotArray::<f64>::zeroed(1000, Placement::FirstTouch, &topology)?;
    /// let mut upm = Upm::new()?;
    /// upm.watch(&field)?;
    /// let ledger = upm.ledger();
    /// upm.iteration(|| {
    ///     std::thread::scope(|scope| {
    ///         for chunk in field.chunks_mut(500) {
    ///             let ledger = &ledger;
    ///             scope.spawn(move || {
    ///                 ledger.elements(chunk);
    ///                 chunk.iter_mut().for_each(|value| *value += 1.0);
    ///             });
    ///         }
    ///     });
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ledger(&mut self) -> Arc<Ledger> {
        let source = LoopSchedule::new();
        let ledger = source.ledger();
        self.set_source(Box::new(source));
        ledger
    }

    /// Another source counts from now on: the numbers so far are left, and the next iteration's
    /// are the first. An engine that is off because nothing could count is on again.
    pub fn set_source(&mut self, source: Box<dyn CounterSource + Send + 'm>) {
        self.stop();
        self.migrator.statistics.off.take_if(|off| matches!(off, Off::NoSource(_)));
        self.source = source;
        self.follows_source = true;
        self.is_attached = false;
        self.note_source();
    }

    /// Nothing faults until [`Upm::resume`]; the recorded iteration goes on. For the parts of it in
    /// which the program may do what counting forbids: system calls on its arrays.
    pub fn pause(&self) {
        if self.is_recording {
            self.source.pause();
        }
    }

    /// See [`Upm::pause`].
    pub fn resume(&self) {
        if self.is_recording {
            self.source.resume();
        }
    }

    /// Whether the areas are not what they were when counting began: the program has unmapped one.
    pub fn is_lost(&self) -> bool {
        self.source.is_lost()
    }

    /// Ends counting. No access faults afterwards.
    pub fn stop(&mut self) {
        if self.is_recording {
            self.source.stop();
            self.is_recording = false;
        }
    }

    /// Moves pages by what was counted since the last call; returns how many moved. A sampled
    /// source that has not enough yet goes on in the next iteration: then the engine stays on. So
    /// do the counters of a page that has too few to decide.
    pub fn migrate_memory(&mut self) -> usize {
        self.stop();
        if let Some(why) = self.source.failure() {
            self.migrator.turn_off(Off::NoSource(format!("{}: {why}", self.source.name())));
            return 0;
        }
        if self.source.is_enough() { self.migrate_now() } else { 0 }
    }

    /// The same with what was counted, however little that is.
    pub fn migrate_now(&mut self) -> usize {
        self.stop();
        if !self.migrator.is_on() || !self.is_attached {
            return 0;
        }
        self.source.snapshot(&mut self.counters);
        let migrations = if self.source.keeps_counts() {
            self.migrator.migrate(&self.counters)
        } else {
            let migrations = self.migrator.migrate(&self.counters.since(&self.used));
            self.used.take(&self.counters, |page| self.migrator.is_undecided(page));
            migrations
        };
        self.source.note_use();
        migrations
    }

    /// A border of phases in a recorded iteration (`record`).
    pub fn record(&mut self) {
        if self.is_recording {
            self.source.snapshot(&mut self.counters);
            self.phases.record(&self.counters);
        }
    }

    /// Ends counting and decides which pages move before which phase (`compare_counters`).
    pub fn compare_counters(&mut self) -> usize {
        self.stop();
        self.phases.compare(&mut self.migrator)
    }

    /// The next phase begins; returns how many pages moved for it.
    pub fn replay(&mut self) -> usize {
        self.stop();
        self.phases.replay(&mut self.migrator)
    }

    /// The iteration's last phase ended; returns how many pages moved back.
    pub fn undo(&mut self) -> usize {
        self.stop();
        self.phases.undo(&mut self.migrator)
    }

    /// The program's threads are on other nodes now: the engine is on again.
    pub fn rearm(&mut self) {
        self.migrator.rearm();
        // Old references are of other nodes.
        self.is_attached = false;
    }

    /// Whether enough was counted to decide by.
    pub fn is_enough(&self) -> bool {
        self.source.is_enough()
    }

    /// Whether references are counted now.
    pub fn is_recording(&self) -> bool {
        self.is_recording
    }

    /// Whether the next iteration is recorded.
    pub fn is_on(&self) -> bool {
        self.migrator.is_on()
    }

    /// Pages that the last call of the engine moved (`num_migrations`).
    pub fn migrations(&self) -> usize {
        let is_on = self.migrator.is_on();
        self.statistics().calls.last().filter(|_| is_on).map_or(0, crate::Call::migrations)
    }

    /// What was done, and why.
    pub fn statistics(&self) -> &Statistics {
        self.migrator.statistics()
    }

    /// Its statistics follow those of an engine that was there before.
    pub(crate) fn go_on_from(&mut self, before: Self) {
        // Its policies end here.
        let (own, before) = (&mut self.migrator.statistics, before.migrator.statistics);
        own.calls = before.calls;
        own.rearmed = before.rearmed + 1;
    }

    /// The phases' plans.
    pub fn phases(&self) -> &Phases {
        &self.phases
    }

    /// The engine inside, to look at. Not to change: areas that it were given directly would be
    /// armed without a promise that they stay mapped.
    ///
    /// ```compile_fail,E0596
    /// let mut upm = upm::Upm::new().unwrap();
    /// upm.migrator().add(0x1000, 0x1000);
    /// ```
    pub fn migrator(&self) -> &Migrator<T, M> {
        &self.migrator
    }
}

/// Exact numbers need no floor.
fn criterion_for(source: &dyn CounterSource) -> Criterion {
    if source.caps().is_exact { Criterion::EXACT } else { Criterion::SAMPLED }
}

/// Ends counting when it is dropped.
struct Recording<'a, 'm, T: Topology, M: Mover>(&'a mut Upm<'m, T, M>);

impl<T: Topology, M: Mover> Recording<'_, '_, T, M> {
    fn run<R>(self, work: impl FnOnce() -> R) -> R {
        work()
    }
}

impl<T: Topology, M: Mover> Drop for Recording<'_, '_, T, M> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A recorded iteration.
pub struct Recorder<'a, 'm, T: Topology, M: Mover>(Recording<'a, 'm, T, M>);

impl<T: Topology, M: Mover> Recorder<'_, '_, T, M> {
    /// A phase begins or ends here.
    pub fn border(&mut self) {
        self.0.0.record();
    }

    /// A good moment for the source to look.
    pub fn tick(&self) {
        self.0.0.tick();
    }
}
