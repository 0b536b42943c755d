//! Masters that share processors: where each one is, and how turns move them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::free::Free;
use crate::snapshot::AppId;

/// The sharing masters in a circle, cut into one run for each shared processor.
#[derive(Debug, Clone, Default)]
#[cfg_attr(test, derive(PartialEq))]
pub(super) struct Circle {
    masters: VecDeque<AppId>,
    /// Processors that are shared, by id; the first runs are the longer ones.
    shared: Vec<u32>,
}

impl Circle {
    /// Takes the masters that share now, in order of arrival, and takes the processors for them out
    /// of `free`: one for each master, as far as there are enough. A master that shared already
    /// keeps its place in the circle, newcomers follow at the end.
    ///
    /// When none of them shared before, each starts where it comes from, as far as the runs allow
    /// it. True when some master shared before, so that a turn may pass on.
    pub(super) fn renew(
        &mut self,
        masters: &[AppId],
        came_from: impl Fn(&AppId) -> Option<u32>,
        free: &mut Free<'_>,
    ) -> bool {
        let present: BTreeSet<AppId> = masters.iter().copied().collect();
        self.masters.retain(|app| present.contains(app));
        self.shared.retain(|&id| free.take_id(id));
        while self.shared.len() > masters.len() {
            let surplus = self.shared.pop().expect("it is longer than something");
            free.put_back(surplus);
        }
        if self.shared.len() < masters.len() {
            self.shared.extend(free.take_ids(masters.len() - self.shared.len()));
        }
        let known: BTreeSet<AppId> = self.masters.iter().copied().collect();
        let mut newcomers: Vec<AppId> =
            masters.iter().copied().filter(|app| !known.contains(app)).collect();
        let shared_before = !self.masters.is_empty();
        if !shared_before {
            newcomers = self.near_home(newcomers, came_from);
        }
        self.masters.extend(newcomers);
        shared_before
    }

    /// A turn: each master moves on by one place, unless all share alike already (rule 7: no
    /// needless movement). They do when each processor has the same number of masters, and none may
    /// be `joined` by masters that do not move.
    pub(super) fn turn(&mut self, joined: bool) {
        if self.turns(joined) {
            self.masters.rotate_left(1);
        }
    }

    /// Whether a turn moves any master.
    pub(super) fn turns(&self, joined: bool) -> bool {
        let surplus = self.masters.len().checked_rem(self.shared.len());
        surplus.is_some_and(|surplus| surplus != 0 || joined)
    }

    /// The processor of each master. Empty when there is no processor for them.
    pub(super) fn places(&self) -> BTreeMap<AppId, u32> {
        let runs = self.runs(self.masters.len());
        let cpus = runs.flat_map(|(id, length)| std::iter::repeat_n(id, length));
        self.masters.iter().copied().zip(cpus).collect()
    }

    /// Each shared processor with the number of masters on it: equal to within one.
    fn runs(&self, masters: usize) -> impl Iterator<Item = (u32, usize)> {
        let each = masters.checked_div(self.shared.len()).unwrap_or(0);
        let longer = masters.checked_rem(self.shared.len()).unwrap_or(0);
        self.shared.iter().enumerate().map(move |(i, &id)| (id, each + usize::from(i < longer)))
    }

    /// Orders masters so that as many as possible are on the processor from which they come.
    fn near_home(
        &self,
        masters: Vec<AppId>,
        came_from: impl Fn(&AppId) -> Option<u32>,
    ) -> Vec<AppId> {
        let mut runs: BTreeMap<u32, (usize, Vec<AppId>)> =
            self.runs(masters.len()).map(|(id, length)| (id, (length, Vec::new()))).collect();
        let mut elsewhere = VecDeque::new();
        for app in masters {
            match came_from(&app)
                .and_then(|id| runs.get_mut(&id))
                .filter(|(length, run)| run.len() < *length)
            {
                Some((_, run)) => run.push(app),
                None => elsewhere.push_back(app),
            }
        }
        let mut order = Vec::new();
        for id in &self.shared {
            let (length, run) = &runs[id];
            order.extend(run);
            let holes = length - run.len();
            order.extend(elsewhere.drain(..holes.min(elsewhere.len())));
        }
        order.extend(elsewhere);
        order
    }
}
