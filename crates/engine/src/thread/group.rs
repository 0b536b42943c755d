//! The workers of one master at one depth.

use crate::broadcast::GroupChannel;
use crate::manager::Sitter;
use crate::manager::source;
use crate::placement::beyond::Beyond;
use crate::placement::binding;
use crate::placement::home::Home;
use crate::process::new_generation;
use crate::program::program;
use crate::protocols::lending::Lender;
use crate::workers::pool::{self, pool};
use crate::workers::worker::Worker;
use platform::affinity::CpuSet;

/// A root, as the masters that borrow from it see it.
pub(crate) type WorkerLender = Lender<&'static Worker>;

/// How a team that cannot have all its threads at once is to be treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// All of them: create workers where there are too few.
    Exact,
    /// What this program has: never more workers than processors.
    Available,
}

/// See the module head.
#[derive(Debug, Default)]
pub(crate) struct WorkerGroup {
    /// Lent or given by the root first, then own ones.
    pub(crate) members: Vec<&'static Worker>,
    /// How many of `members` are lent or given.
    pub(crate) lent: usize,
    /// The lending that `lent` belongs to.
    pub(crate) generation: u64,
    /// Whether other masters in that region have threads beyond what is lent, as this one may, at
    /// the same time.
    pub(crate) beyond: Beyond,
    /// A root's: how many members its team used when it last lent the rest.
    pub(crate) used: usize,
    /// A root's: the sizer's epoch at that time, to which the members of an outermost one are
    /// bound.
    pub(crate) bound: u32,
    /// A root's: something may be lent.
    lends: bool,
    /// A root's lender. Boxed: members point to it while the groups of deeper regions are added.
    pub(crate) root: Box<WorkerLender>,
    /// What it has of broadcasts.
    pub(crate) broadcast: GroupChannel,
    /// The number of what was made ready here last. When it is another one, or none, what was ready
    /// before no longer is.
    reservation: Reservation,
}

/// What `reserve` made ready: a number that no other reservation of the process has, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reservation(u64);

impl Reservation {
    /// Nothing is ready.
    pub(crate) const NONE: Self = Self(0);
}

/// `WorkerGroup::used` when the next fork has to look at everything.
pub(crate) const UNKNOWN: usize = usize::MAX;

impl WorkerGroup {
    /// What is ready here.
    #[inline]
    pub(crate) fn reservation(&self) -> Reservation {
        self.reservation
    }

    /// A team out of the members is ready.
    pub(crate) fn note_ready(&mut self) {
        self.broadcast.look_again();
        self.reservation = Reservation(new_generation());
    }

    /// The members of a team of `size`, for as long as none is added or given up (L2).
    #[inline]
    pub(crate) fn first(&self, size: usize) -> *const [&'static Worker] {
        let members: &[&'static Worker] = &self.members[..size - 1];
        members
    }

    /// How many members a team that is no root's may have: what an exact team added is above what
    /// the program has.
    #[inline]
    pub(crate) fn within(&self, need: Need) -> usize {
        match need {
            Need::Exact => self.members.len(),
            Need::Available => self.lent,
        }
    }

    /// Takes unused or new workers until the group has `wanted`, each for a processor of
    /// its own; true when any came. Their threads live `life`.
    pub(crate) fn grow(&mut self, wanted: usize, life: fn(&'static Worker)) -> bool {
        self.grow_by(wanted, life, |_| None)
    }

    /// The same for an inner team, which has the processors of its master and of what is lent, and
    /// may be `together` with others that have more threads than that ([`Home::beyond`]).
    pub(crate) fn grow_inside(
        &mut self,
        wanted: usize,
        together: bool,
        life: fn(&'static Worker),
    ) -> bool {
        let lent = self.lent;
        // Where it was otherwise when they came.
        let is_managed = source::managed_already().is_some();
        for (index, worker) in self.members[lent..].iter().enumerate() {
            let home = Home::beyond(index, number_of(&self.members[..lent]), together);
            let home = home.unwrap_or(Home::Of(worker.number()));
            if is_managed { worker.set_home(home) } else { worker.move_to(home) }
        }
        self.grow_by(wanted, life, |members| {
            Home::beyond(members.len() - lent, number_of(&members[..lent]), together)
        })
    }

    /// A region of the team is joined, which may have had threads beyond what `root` lends.
    #[inline]
    pub(crate) fn close_beyond(&mut self, root: &WorkerLender) {
        if self.beyond.is_open() && self.beyond.close(root) {
            // They sit elsewhere from now on.
            self.reservation = Reservation::NONE;
        }
    }

    fn grow_by(
        &mut self,
        wanted: usize,
        life: fn(&'static Worker),
        home: impl Fn(&[&'static Worker]) -> Option<Home>,
    ) -> bool {
        let before = self.members.len();
        while self.members.len() < wanted {
            match pool().acquire(home(&self.members), life) {
                Ok(worker) => self.members.push(worker),
                Err(error) => {
                    pool::say_refused(wanted, self.members.len(), &error);
                    break;
                }
            }
        }
        self.members.len() > before
    }

    /// Puts the members of an outermost master, `sitter`, where the grant of `epoch` says.
    pub(crate) fn place(&mut self, granted: Option<&CpuSet>, epoch: u32, sitter: &Sitter) {
        let is_new = self.bound != epoch;
        let stations = self.members.iter().map(|worker| worker.station());
        match granted {
            Some(_) if let Some(managed) = source::managed() => {
                managed.arrange(&self.members, sitter)
            }
            Some(cpus) => binding::bind_to_grant(stations, cpus),
            None if program().config().bind => binding::bind_team(stations),
            None if is_new => binding::unbind(stations),
            None => {}
        }
        if is_new {
            // Which members share a cache is different now.
            self.broadcast.forget();
        }
        self.bound = epoch;
    }

    /// The group of an outermost master: it borrows from none, so no lending has its number. What
    /// was ready is not found where the thread is no root because its workers were taken
    /// ([`custody`](crate::protocols::custody)).
    pub(crate) fn is_outermosts(&mut self) {
        self.generation = u64::MAX;
    }

    /// Another master has taken the members.
    pub(crate) fn lose_members(&mut self) {
        self.members.clear();
        self.used = UNKNOWN;
        self.reservation = Reservation::NONE;
        // They may come back as other members.
        self.broadcast.forget();
    }

    /// The members worked for other masters since this group's last region: the next one looks at
    /// everything again.
    pub(crate) fn had_other_masters(&mut self) {
        self.used = UNKNOWN;
        self.reservation = Reservation::NONE;
        // They may follow those masters' rings now.
        self.broadcast.look_again();
    }

    /// A root's next team uses the first `used` members; the others, up to `lendable` in all, are
    /// lent to its members.
    pub(crate) fn use_and_lend(&mut self, used: usize, lendable: usize) {
        self.used = used;
        let lendable = self.members.len().min(lendable).max(used);
        let spare = &self.members[used..lendable];
        if self.lends || !spare.is_empty() {
            self.lends = !spare.is_empty();
            self.root.lend(spare, used + 1);
        }
    }
}

/// The number of each of `members`.
fn number_of(members: &[&'static Worker]) -> impl Fn(usize) -> Option<usize> {
    |index| members.get(index).map(|worker| worker.number())
}
