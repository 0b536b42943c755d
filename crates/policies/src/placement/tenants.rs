//! The applications that a placement knows: where each one ran last, and which set of processors it
//! stays inside.

use std::collections::BTreeMap;

use super::topology::Topology;
use crate::decision::Decision;
use crate::quick::QuickMap;
use crate::snapshot::AppId;

/// No application.
pub(super) const NOBODY: usize = usize::MAX;

/// What is known of one application.
#[derive(Debug, Clone)]
#[cfg_attr(test, derive(PartialEq))]
pub(super) struct Tenant {
    pub(super) app: AppId,
    /// Processor (by id) of virtual processor i; the first `held` of them are held now.
    pub(super) slots: Vec<u32>,
    pub(super) held: usize,
    /// Ids in order; `None`: everywhere.
    within: Option<Vec<u32>>,
    /// The same on the machine of now, as far as it bounds anything.
    pub(super) room: Option<Room>,
}

impl Tenant {
    fn new(app: AppId) -> Self {
        Self { app, slots: Vec::new(), held: 0, within: None, room: None }
    }

    pub(super) fn held(&self) -> &[u32] {
        &self.slots[..self.held]
    }

    /// The master of it runs here, alone or shared; its team keeps its home meanwhile.
    pub(super) fn lodge(&mut self, id: u32) {
        if self.slots.len() <= 1 {
            self.slots.clear();
            self.slots.push(id);
        }
    }
}

/// The processors that an application may have, by index.
#[derive(Debug, Clone)]
#[cfg_attr(test, derive(PartialEq))]
pub(super) struct Room {
    /// Ascending; not empty.
    pub(super) cpus: Vec<usize>,
    set: Vec<u64>,
}

impl Room {
    /// Of a set that bounds anything: which has some processors of the machine, and not all.
    fn new(within: &[u32], topology: &Topology) -> Option<Self> {
        let cpus: Vec<usize> = within.iter().filter_map(|id| topology.index_of(*id)).collect();
        if cpus.is_empty() || cpus.len() == topology.cpus.len() {
            return None;
        }
        Some(Self::of(cpus, topology.cpus.len().div_ceil(64)))
    }

    fn of(cpus: Vec<usize>, words: usize) -> Self {
        let mut set = vec![0; words];
        cpus.iter().for_each(|cpu| set[cpu / 64] |= 1 << (cpu % 64));
        Self { cpus, set }
    }

    /// What of it all others have, too; they have something in common.
    pub(super) fn common<'a>(&self, others: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let is_common = |cpu: &usize| others.clone().all(|other| other.has(*cpu));
        Self::of(self.cpus.iter().copied().filter(is_common).collect(), self.set.len())
    }

    /// Bit i of word w: processor 64 w + i.
    pub(super) fn words(&self) -> &[u64] {
        &self.set
    }

    pub(super) fn has(&self, cpu: usize) -> bool {
        self.set[cpu / 64] & 1 << (cpu % 64) != 0
    }
}

/// Where applications may be in one placement.
pub(super) struct Rooms<'a> {
    pub(super) tenants: &'a Tenants,
    /// By place of a tenant, where it is to be a part of its set only: others meet it there.
    closer: BTreeMap<usize, Room>,
}

impl<'a> Rooms<'a> {
    pub(super) fn new(tenants: &'a Tenants, closer: BTreeMap<usize, Room>) -> Self {
        Self { tenants, closer }
    }

    /// `None`: everywhere.
    pub(super) fn of(&self, tenant: usize) -> Option<&Room> {
        self.closer.get(&tenant).or(self.tenants.list[tenant].room.as_ref())
    }

    /// Whether it may have this processor.
    pub(super) fn may_use(&self, tenant: usize, cpu: usize) -> bool {
        self.of(tenant).is_none_or(|room| room.has(cpu))
    }

    /// The processor with this id, if it may have it.
    pub(super) fn find(&self, topology: &Topology, tenant: usize, id: u32) -> Option<usize> {
        topology.index_of(id).filter(|&cpu| self.may_use(tenant, cpu))
    }
}

/// All of them.
#[derive(Debug, Clone, Default)]
#[cfg_attr(test, derive(PartialEq))]
pub(super) struct Tenants {
    /// Those of the last decision in its order, then newcomers that were told of since.
    pub(super) list: Vec<Tenant>,
    /// Place in the list of each application, in order of their numbers.
    places: Vec<(AppId, usize)>,
    /// By processor of the topology: the place of the one that ran there last, as long as that
    /// stays; else [`NOBODY`].
    pub(super) last: Vec<usize>,
    /// The same, by id, of processors that the machine does not have now.
    elsewhere: BTreeMap<u32, AppId>,
    /// How many stay inside a set.
    pub(super) confined: usize,
    /// Their rooms are of another machine, or there are new sets.
    rooms_are_old: bool,
}

impl Tenants {
    pub(super) fn of(&self, app: AppId) -> Option<&Tenant> {
        self.place_of(app).map(|at| &self.list[at])
    }

    pub(super) fn of_mut(&mut self, app: AppId) -> Option<&mut Tenant> {
        self.place_of(app).map(|at| &mut self.list[at])
    }

    fn place_of(&self, app: AppId) -> Option<usize> {
        let place = self.places.binary_search_by_key(&app, |(app, _)| *app).ok()?;
        Some(self.places[place].1)
    }

    /// That of an application that may be a newcomer.
    fn of_newcomer(&mut self, app: AppId) -> &mut Tenant {
        let at = match self.places.binary_search_by_key(&app, |(app, _)| *app) {
            Ok(place) => self.places[place].1,
            Err(place) => {
                self.list.push(Tenant::new(app));
                self.places.insert(place, (app, self.list.len() - 1));
                self.list.len() - 1
            }
        };
        &mut self.list[at]
    }

    /// A newcomer holds those of these processors that no other application holds.
    pub(super) fn remember(&mut self, app: AppId, cpus: &[u32]) {
        let taken = |cpu: &u32| self.list.iter().any(|tenant| tenant.held().contains(cpu));
        let mut slots: Vec<u32> = Vec::new();
        for cpu in cpus {
            if !taken(cpu) && !slots.contains(cpu) {
                slots.push(*cpu);
            }
        }
        let tenant = self.of_newcomer(app);
        (tenant.held, tenant.slots) = (slots.len(), slots);
    }

    /// An application stays inside these.
    pub(super) fn confine(&mut self, app: AppId, cpus: &[u32]) {
        let mut within = cpus.to_vec();
        within.sort_unstable();
        within.dedup();
        let was_free = self.of_newcomer(app).within.replace(within).is_none();
        self.confined += usize::from(was_free);
        self.rooms_are_old = true;
    }

    pub(super) fn is_confined(&self, app: AppId) -> bool {
        self.of(app).is_some_and(|tenant| tenant.within.is_some())
    }

    /// Whether the application may have the processor with this id.
    pub(super) fn may_use(&self, app: AppId, id: u32) -> bool {
        let within = self.of(app).and_then(|tenant| tenant.within.as_ref());
        within.is_none_or(|within| within.binary_search(&id).is_ok())
    }

    /// The machine is another one.
    pub(super) fn move_to(&mut self, before: &Topology, now: &Topology) {
        for (cpu, &at) in before.cpus.iter().zip(&self.last).filter(|(_, at)| **at != NOBODY) {
            self.elsewhere.insert(cpu.id, self.list[at].app);
        }
        let mut last = Vec::with_capacity(now.cpus.len());
        for cpu in &now.cpus {
            let app = self.elsewhere.remove(&cpu.id);
            last.push(app.and_then(|app| self.place_of(app)).unwrap_or(NOBODY));
        }
        self.last = last;
        self.rooms_are_old = true;
    }

    /// Brings the list into the order of a decision and drops what is known of applications that it
    /// does not name. For each place of before: the place now, or [`NOBODY`]; `None`: nothing
    /// changed.
    pub(super) fn line_up(&mut self, decision: &Decision) -> Option<Vec<usize>> {
        let named = || decision.allocations.iter().map(|allocation| allocation.app);
        if named().eq(self.list.iter().map(|tenant| tenant.app)) {
            return None;
        }
        let known = self.list.iter().enumerate();
        let known: QuickMap<AppId, usize> = known.map(|(at, tenant)| (tenant.app, at)).collect();
        let mut moved = vec![NOBODY; self.list.len()];
        let mut before: Vec<Option<Tenant>> =
            std::mem::take(&mut self.list).into_iter().map(Some).collect();
        for app in named() {
            let at = known.get(&app).copied();
            let tenant = at.and_then(|at| before[at].take());
            if let (Some(at), Some(_)) = (at, &tenant) {
                moved[at] = self.list.len();
            }
            self.list.push(tenant.unwrap_or_else(|| Tenant::new(app)));
        }
        for at in self.last.iter_mut().filter(|at| **at != NOBODY) {
            *at = moved[*at];
        }
        self.elsewhere.retain(|_, app| known.get(app).is_some_and(|&at| moved[at] != NOBODY));
        self.places = self.list.iter().enumerate().map(|(at, it)| (it.app, at)).collect();
        self.places.sort_unstable();
        self.confined = self.list.iter().filter(|tenant| tenant.within.is_some()).count();
        Some(moved)
    }

    /// Nothing is known of where they ran.
    pub(super) fn forget(&mut self) {
        for tenant in &mut self.list {
            tenant.slots.clear();
            tenant.held = 0;
        }
        self.last.fill(NOBODY);
        self.elsewhere.clear();
    }

    /// Rooms are those of this machine and of all sets.
    pub(super) fn renew_rooms(&mut self, topology: &Topology) {
        if std::mem::take(&mut self.rooms_are_old) {
            for tenant in &mut self.list {
                tenant.room = tenant.within.as_ref().and_then(|within| Room::new(within, topology));
            }
        }
    }
}
