//! Masters that share processors: where each one is, and how turns move them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::free::Free;
use super::tenants::NOBODY;
use crate::quick::QuickMap;
use crate::snapshot::AppId;

/// A master that shares.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(test, derive(PartialEq))]
pub(super) struct Master {
    pub(super) app: AppId,
    /// Its place among the tenants.
    pub(super) tenant: usize,
    /// Not 0.
    pub(super) part: u32,
}

/// The sharing masters, cut into one run for each shared processor. Those with equal parts stand
/// together, the largest parts first, and take turns among themselves: each such group is a circle.
///
/// The kernel shares a processor evenly among those of a run. So a run is as long as the part of
/// its first master says, and masters with small parts are many on a processor. Without privilege
/// nothing else gives a part to a program that is not ours.
#[derive(Debug, Clone, Default)]
#[cfg_attr(test, derive(PartialEq))]
pub(super) struct Circle {
    masters: Vec<Master>,
    /// Processors that are shared, by id; of runs for equal parts the first ones are the longer
    /// ones.
    shared: Vec<u32>,
    /// Some of them are faster than others.
    unequal: bool,
}

impl Circle {
    /// The tenants stand at other places; those that stand nowhere left.
    pub(super) fn move_along(&mut self, moved: &[usize]) {
        self.masters.retain_mut(|master| {
            master.tenant = moved[master.tenant];
            master.tenant != NOBODY
        });
    }

    /// Takes the processors that it had out of `free`: `most`, as far as they go. To be called for
    /// all circles before any of them takes others.
    pub(super) fn keep(&mut self, most: usize, free: &mut Free<'_>) {
        self.shared.retain(|&id| free.take_id(id));
        while self.shared.len() > most {
            let surplus = self.shared.pop().expect("it is longer than something");
            free.put_back(surplus);
        }
    }

    /// Takes a processor in each of these sets of which it has none, that which most of them have
    /// first, up to `most`, or in place of one without which no set is missed: the masters of the
    /// sets are its own, and are guests on what it has. To be called when all circles have kept
    /// theirs.
    pub(super) fn meet(&mut self, sets: &[BTreeSet<u32>], most: usize, free: &mut Free<'_>) {
        while !sets.is_empty() {
            let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
            let places: QuickMap<u32, usize> = self.shared.iter().copied().zip(0..).collect();
            // By processor of the circle: the sets that it alone is in.
            let mut alone: Vec<Vec<&BTreeSet<u32>>> = vec![Vec::new(); self.shared.len()];
            for set in sets {
                let mut met = set.iter().filter_map(|id| places.get(id).copied());
                match (met.next(), met.next()) {
                    (Some(only), None) => alone[only].push(set),
                    (Some(_), Some(_)) => {}
                    (None, _) => set.iter().for_each(|id| *counts.entry(*id).or_default() += 1),
                }
            }
            // The place at which this one can stand.
            let place = |id: u32| {
                let is_spare = |at: &usize| alone[*at].iter().all(|set| set.contains(&id));
                let places = 0..self.shared.len();
                if places.len() < most { Some(places.end) } else { places.rev().find(is_spare) }
            };
            let mut found: Vec<(Reverse<usize>, u32)> =
                counts.into_iter().map(|(id, count)| (Reverse(count), id)).collect();
            found.sort_unstable();
            let mut found = found.into_iter().map(|(_, id)| id).filter(|id| free.has_id(*id));
            let Some((id, at)) = found.find_map(|id| Some((id, place(id)?))) else { return };
            free.take_id(id);
            match self.shared.get_mut(at) {
                Some(given_up) => free.put_back(std::mem::replace(given_up, id)),
                None => self.shared.push(id),
            }
        }
    }

    /// The processors that it shares.
    pub(super) fn shared(&self) -> &[u32] {
        &self.shared
    }

    /// Has this processor in place of that which stands there, or as one more; what it gives up.
    pub(super) fn stand(&mut self, place: Option<usize>, id: u32) -> Option<u32> {
        let Some(place) = place else {
            self.shared.push(id);
            return None;
        };
        Some(std::mem::replace(&mut self.shared[place], id))
    }

    /// Whether it shares this processor.
    pub(super) fn shares(&self, id: u32) -> bool {
        self.shared.contains(&id)
    }

    /// Takes the masters that share now, in order of arrival, and takes more processors for them
    /// out of `free`, up to `most`, as far as there are enough. A master that shared already keeps
    /// its place among those with its part, newcomers follow at their end.
    ///
    /// When none of them shared before, each starts where it comes from (of `tenants`, by their
    /// places), as far as the runs allow it. True when some master shared before, so that a turn
    /// may pass on.
    pub(super) fn renew(
        &mut self,
        masters: &[Master],
        most: usize,
        tenants: usize,
        came_from: impl Fn(usize) -> Option<u32>,
        free: &mut Free<'_>,
    ) -> bool {
        // By tenant its part, until it is found; 0: it shares nothing.
        let mut parts = vec![0; if masters.is_empty() { 0 } else { tenants }];
        masters.iter().for_each(|master| parts[master.tenant] = master.part);
        self.masters.retain_mut(|master| {
            master.part = parts.get_mut(master.tenant).map_or(0, std::mem::take);
            master.part != 0
        });
        if self.shared.len() < most {
            self.shared.extend(free.take_ids(most - self.shared.len()));
        }
        let shared_before = !self.masters.is_empty();
        self.masters.extend(masters.iter().filter(|master| parts[master.tenant] != 0));
        self.masters.sort_by_key(|master| Reverse(master.part));
        if !shared_before && self.groups().count() == 1 {
            self.masters = self.near_home(came_from);
        }
        shared_before
    }

    /// Learns how fast the shared processors are.
    pub(super) fn measure(&mut self, class_of: impl Fn(u32) -> Option<usize>) {
        let mut classes = self.shared.iter().map(|&id| class_of(id));
        let first = classes.next();
        self.unequal = classes.any(|class| Some(class) != first);
    }

    /// A turn: each master moves on by one place of its group, unless all of each group share alike
    /// already (rule 7: no needless movement). They do when their processors are equally fast and
    /// have the same number of masters, and none may be `joined` by masters that do not move.
    pub(super) fn turn(&mut self, joined: bool) {
        if self.turns(joined) {
            let lengths: Vec<usize> = self.groups().map(<[_]>::len).collect();
            let mut rest = &mut self.masters[..];
            for length in lengths {
                let (group, others) = rest.split_at_mut(length);
                group.rotate_left(1);
                rest = others;
            }
        }
    }

    /// Whether a turn moves any master.
    pub(super) fn turns(&self, joined: bool) -> bool {
        if self.shared.is_empty() || self.masters.is_empty() {
            return false;
        }
        let lengths: Vec<usize> = self
            .runs()
            .into_iter()
            .flat_map(|(_, length)| std::iter::repeat_n(length, length))
            .collect();
        let mut begin = 0;
        let uneven = self.groups().any(|group| {
            let own = &lengths[begin..begin + group.len()];
            begin += group.len();
            own.iter().any(|length| *length != own[0])
        });
        uneven || joined || self.unequal
    }

    /// Each shared processor with the masters on it. Empty when there is no processor for them.
    pub(super) fn places(&self) -> impl Iterator<Item = (u32, &[Master])> {
        let mut rest = &self.masters[..];
        self.runs().into_iter().map(move |(id, length)| {
            let (run, others) = rest.split_at(length);
            rest = others;
            (id, run)
        })
    }

    /// Those with equal parts.
    fn groups(&self) -> impl Iterator<Item = &[Master]> {
        self.masters.chunk_by(|one, other| one.part == other.part)
    }

    /// Each shared processor with the number of masters on it: equal to within one for equal parts.
    /// Otherwise as many as have its measure, an even part of what is due to all, when each of them
    /// counts as the first one does. So the run at the end of a group has some of the next one, and
    /// these do not crowd out the last of the group; what follows is measured anew.
    fn runs(&self) -> Vec<(u32, usize)> {
        let sum = |masters: &[Master]| masters.iter().map(|it| u64::from(it.part)).sum::<u64>();
        let is_one_group = self.groups().nth(1).is_none();
        let mut masters = &self.masters[..];
        let (mut all, mut used, mut begin) = (sum(masters), 0, 0);
        let mut runs = Vec::with_capacity(self.shared.len());
        for (at, &id) in self.shared.iter().enumerate() {
            let left = self.shared.len() - at;
            let Some(part) = masters.first().map(|master| u64::from(master.part)) else { break };
            let upto = all * (at + 1 - begin) as u64 / (self.shared.len() - begin) as u64;
            let measure = upto.saturating_sub(used);
            // One that is on one processor at all leaves one for each of the others.
            let most = masters.len() - (left - 1).min(masters.len() - 1);
            let length = match left {
                1 => masters.len(),
                _ if is_one_group => masters.len().div_ceil(left),
                _ => usize::try_from(measure / part).unwrap_or(usize::MAX).clamp(1, most),
            };
            let (run, others) = masters.split_at(length);
            used += part * length as u64;
            masters = others;
            if masters.first().is_some_and(|next| u64::from(next.part) != part)
                || run.last().is_some_and(|last| u64::from(last.part) != part)
            {
                (all, used, begin) = (sum(masters), 0, at + 1);
            }
            runs.push((id, length));
        }
        runs
    }

    /// The masters so that as many as possible are on the processor from which they come.
    fn near_home(&self, came_from: impl Fn(usize) -> Option<u32>) -> Vec<Master> {
        let mut runs: BTreeMap<u32, (usize, Vec<Master>)> =
            self.runs().into_iter().map(|(id, length)| (id, (length, Vec::new()))).collect();
        let mut elsewhere = VecDeque::new();
        for master in &self.masters {
            match came_from(master.tenant)
                .and_then(|id| runs.get_mut(&id))
                .filter(|(length, run)| run.len() < *length)
            {
                Some((_, run)) => run.push(*master),
                None => elsewhere.push_back(*master),
            }
        }
        let mut order = Vec::new();
        for id in &self.shared {
            let Some((length, run)) = runs.get(id) else { continue };
            order.extend(run);
            let holes = length - run.len();
            order.extend(elsewhere.drain(..holes.min(elsewhere.len())));
        }
        order.extend(elsewhere);
        order
    }
}
