//! A program in the books: what it says, what it holds and since when, what it is to hold.

use policies::{AppId, AppView, Nanos, Speedup};

/// The region of a program's times that outlive it.
pub(super) const REMEMBERED: u64 = 0;

/// What a program holds.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Holding {
    /// Its processors; the first is its master's.
    pub cpus: Vec<u32>,
    /// Its one processor is used by other programs in turn.
    pub shared: bool,
    /// No other program wants processors that it does not have.
    pub dedicated: bool,
    /// It is bound to nothing and may use this number of processors at once; `cpus` are all that
    /// are managed. Under the policy `none`.
    pub unbound: Option<u32>,
}

impl Holding {
    /// Processors that it may use at once.
    pub fn number(&self) -> u32 {
        self.unbound.unwrap_or_else(|| {
            u32::try_from(self.cpus.len()).expect("processors have 32-bit numbers")
        })
    }
}

/// The most that a program counts as asking for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Curb {
    /// So many processors; none: it sleeps.
    pub processors: u32,
    /// It stays when the program asks for more.
    pub firm: bool,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: AppId,
    /// Whose it is.
    pub(super) user: u32,
    /// When it came.
    pub(super) arrival: Option<Nanos>,
    /// Which program it is an execution of.
    pub(super) program: Option<u64>,
    /// Its class, by name.
    pub(super) class: Option<String>,
    pub(super) request: u32,
    pub(super) max: u32,
    /// Processors that are there for programs.
    pub(super) there: u32,
    /// Processors below which it gains nothing from running.
    pub(super) lowest: u32,
    /// Processors that it is to have before others have more than theirs, as its user says.
    pub(super) min: u32,
    /// Its share relative to others.
    pub(super) weight: f64,
    /// It wants little because it is in a serial phase.
    pub(super) serial: bool,
    /// It gave processors back and wants no more than these until it says so.
    pub(super) kept: Option<u32>,
    /// It uses no more than that, and others want what it holds.
    pub(super) curb: Option<Curb>,
    /// What it measured last.
    pub(super) speedup: Option<Speedup>,
    /// Under which program and region its times are kept, from its first report on.
    pub(super) kept_as: Option<(String, u64)>,
    pub(super) holding: Holding,
    /// How many processors at the end of the holding are idle (L5).
    pub(super) idle: usize,
    /// Since when it holds each processor of its holding.
    pub(super) since: Vec<Nanos>,
    /// What it is to hold.
    pub(super) target: Vec<u32>,
    /// Processor time that it was allocated.
    pub(super) cpu_time: Nanos,
    /// Processor time that it wanted and was not allocated.
    pub(super) missed: Nanos,
    /// It came since the last accounting: what passed before that is not its time.
    pub(super) is_new: bool,
}

impl Entry {
    /// Takes over a holding; says whose when it is another one than before.
    pub(super) fn hold(&mut self, now: Nanos, holding: Holding) -> Option<AppId> {
        if holding == self.holding {
            return None;
        }
        self.note_since(now, &holding.cpus, holding.shared);
        self.holding = holding;
        Some(self.id)
    }

    /// Takes over its target as processors of its own: what `hold` does, without space for another
    /// holding.
    pub(super) fn hold_target(&mut self, now: Nanos, dedicated: bool) -> Option<AppId> {
        let held = &self.holding;
        let flags = (held.shared, held.dedicated, held.unbound);
        if flags == (false, dedicated, None) && held.cpus == self.target {
            return None;
        }
        let target = std::mem::take(&mut self.target);
        self.note_since(now, &target, false);
        self.holding.cpus.clone_from(&target);
        (self.holding.shared, self.holding.dedicated, self.holding.unbound) =
            (false, dedicated, None);
        self.target = target;
        Some(self.id)
    }

    /// It holds `cpus` from now on, some of them since before.
    fn note_since(&mut self, now: Nanos, cpus: &[u32], shared: bool) {
        // A processor of its own is young when it stops being shared.
        let stays = !self.holding.shared || shared;
        let (held, before) = (&self.holding.cpus, self.since.len());
        for cpu in cpus {
            let at = held.iter().position(|it| stays && it == cpu);
            self.since.push(at.map_or(now, |at| self.since[at]));
        }
        self.since.drain(..before);
    }

    /// It received this of what it wanted in that time.
    pub(super) fn receive(&mut self, received: Nanos, passed: Nanos) {
        if std::mem::replace(&mut self.is_new, false) {
            return;
        }
        self.cpu_time = self.cpu_time.saturating_add(received);
        let wanted = passed.saturating_mul(u64::from(self.wants()));
        self.missed = self.missed.saturating_add(wanted.saturating_sub(received));
    }

    /// What it holds, without what is idle in its serial phase (L5).
    pub(super) fn used(&self) -> &[u32] {
        let cpus = &self.holding.cpus;
        &cpus[..cpus.len() - self.idle]
    }

    /// Processors that it can use.
    pub(super) fn most(&self) -> u32 {
        // What it gave back limits what it can use; its share is still that of its request.
        self.max.min(self.there).min(self.kept.unwrap_or(u32::MAX)).max(1)
    }

    /// Processors that it wants and can use: what its view says. None when it sleeps.
    pub(super) fn wants(&self) -> u32 {
        if self.sleeps() { 0 } else { self.asks().min(self.most()) }
    }

    /// The same without its curb.
    pub(super) fn wants_in_all(&self) -> u32 {
        self.request.max(1).min(self.most())
    }

    /// What it counts as asking for.
    fn asks(&self) -> u32 {
        self.curb.map_or(self.request, |curb| curb.processors.min(self.request)).max(1)
    }

    pub(super) fn view(&self) -> AppView {
        let max = self.most();
        AppView {
            max,
            allocated: self
                .holding
                .unbound
                .unwrap_or(u32::try_from(self.used().len()).unwrap_or(u32::MAX)),
            cpu_time: self.cpu_time,
            min: self.lowest.max(self.min).min(max),
            weight: self.weight,
            speedup: self.speedup,
            program: self.program,
            user: self.user,
            class: self.class.as_deref().map(AppView::number_of),
            arrival: self.arrival.unwrap_or(0),
            ..AppView::new(self.id, self.asks())
        }
    }

    /// It is curbed to nothing.
    pub(super) fn sleeps(&self) -> bool {
        self.curb.is_some_and(|curb| curb.processors == 0)
    }

    /// It asks anew.
    pub(super) fn lift_curb(&mut self) {
        self.curb = self.curb.filter(|curb| curb.firm);
    }
}
