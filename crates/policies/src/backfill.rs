//! EASY backfilling: which jobs of a queue start now, when jobs say how long they run at most.
//!
//! # Rule
//! Jobs start in their order as long as they fit. The first one that does not fit, the *head*, has
//! a reservation: the earliest time at which enough processors are free for it, if every job that
//! runs ends at its limit. A job after it starts now where that does not delay the head: it is over
//! by then, or it takes processors that the head leaves free then.
//!
//! A *rigid* job has a fixed number of processors, a *moldable* one any number in its range that it
//! keeps from its start on: the largest that is free and delays nothing.
//!
//! A job that needs more than there is for it at any time waits, and all others pass it.
//!
//! Jobs may be of classes ([`Part`]). What a class keeps is free for its own jobs only, though one
//! processor is always left to jobs of others. Where it cannot be said when its class has room for
//! a job under its maximum, that job is no head: it waits for its class, later jobs of its class do
//! not pass it, those of others do.
//!
//! Jobs may be of owners with a cap ([`Cap`]). One that does not fit below its owner's cap is no
//! head either: it waits for its owner's other jobs, later ones of its owner do not pass it, those
//! of others do. The head counts below its owner's cap with what it needs. Others that wait do not
//! count: what holds them up is no matter of their owner.
//!
//! # Invariants
//! - Q1 As long as no job runs beyond its limit, the head starts at its reservation at the latest,
//!   and no later plan moves that reservation back; but one that stands before it in the queue and
//!   waited for its class or below a cap comes first when there is room.
//! - Q2 The jobs that run and start have no more processors together than there are, and those of a
//!   class no more than its maximum. Those of an owner that start have no more than is left to it.
//! - Q3 Where a job without a limit runs and has processors that the head needs, the head has no
//!   reservation. Then a job of another class passes it on what that class keeps, which the head
//!   never has; any other job could delay it.
//!
//! # Not here
//! Which users come first (`fair_share`). What ends jobs that run beyond their limit: the manager.
//! Priorities of classes: the order of the queue is the caller's.

use crate::snapshot::Nanos;

/// What a class of jobs has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The most processors of its jobs together.
    pub most: u32,
    /// Processors that no other jobs have.
    pub kept: u32,
    /// The same beside what runs now, where that is less: each class with programs has a processor
    /// for their masters before any class has its minimum. Later jobs are promised nothing of the
    /// difference, which comes and goes with programs.
    pub kept_now: u32,
}

impl Part {
    /// Of a class that keeps the same whatever runs.
    #[must_use]
    pub fn new(most: u32, kept: u32) -> Self {
        Self { most, kept, kept_now: kept }
    }
}

/// What an owner of jobs may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    /// The most processors of its jobs together.
    pub most: u32,
    /// What is left of that beside what runs.
    pub left: u32,
}

/// A job that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    /// Its processors.
    pub processors: u32,
    /// When it ends at the latest; `None`: it has no limit.
    pub until: Option<Nanos>,
    /// Its class, by its place among the parts; `None`: of no class.
    pub class: Option<usize>,
}

/// A job that waits. Its range is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// The fewest processors with which it starts.
    pub least: u32,
    /// The most that it uses; `least` for a rigid job.
    pub most: u32,
    /// For how long it runs at most; `None`: it does not say.
    pub limit: Option<Nanos>,
    /// As of [`Running`].
    pub class: Option<usize>,
    /// Whose it is, by its place among the caps; `None`: its owner has no cap.
    pub owner: Option<usize>,
}

/// When the head of the queue starts at the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    /// Which job, by its place in the queue.
    pub job: usize,
    /// When.
    pub at: Nanos,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The jobs that start, by their places in the queue, and their processors.
    pub starts: Vec<(usize, u32)>,
    /// The reservation of the head, where one waits and it has one.
    pub reserved: Option<Reservation>,
}

/// Processors of each class at a time.
struct Books<'a> {
    processors: u32,
    parts: &'a [Part],
    /// Of a part what it keeps then.
    keeps: fn(&Part) -> u32,
    used: u64,
    /// By class.
    used_by: Vec<u64>,
    /// What classes keep and do not use, together.
    kept: u64,
}

impl<'a> Books<'a> {
    fn new(
        processors: u32,
        parts: &'a [Part],
        keeps: fn(&Part) -> u32,
        running: &[Running],
    ) -> Self {
        let kept = parts.iter().map(|part| u64::from(keeps(part))).sum();
        let used_by = vec![0; parts.len()];
        let mut books = Self { processors, parts, keeps, used: 0, used_by, kept };
        running.iter().for_each(|it| books.take(it.class, it.processors));
        books
    }

    /// As nothing but jobs that run and end makes them: what classes keep is all of it. So no
    /// program that comes or goes moves a promise back.
    fn later(processors: u32, parts: &'a [Part], running: &[Running]) -> Self {
        Self::new(processors, parts, |part| part.kept, running)
    }

    /// What the class keeps and does not use.
    fn gap(&self, class: Option<usize>) -> u64 {
        let Some(class) = class.filter(|class| *class < self.parts.len()) else { return 0 };
        u64::from((self.keeps)(&self.parts[class])).saturating_sub(self.used_by[class])
    }

    fn change(&mut self, class: Option<usize>, change: impl Fn(u64) -> u64) {
        self.used = change(self.used);
        self.kept -= self.gap(class);
        if let Some(used) = class.and_then(|class| self.used_by.get_mut(class)) {
            *used = change(*used);
        }
        self.kept += self.gap(class);
    }

    fn take(&mut self, class: Option<usize>, processors: u32) {
        self.change(class, |used| used + u64::from(processors));
    }

    fn give(&mut self, class: Option<usize>, processors: u32) {
        self.change(class, |used| used.saturating_sub(u64::from(processors)));
    }

    /// What is free for a class, but for its maximum.
    fn free(&self, class: Option<usize>) -> u32 {
        let all = u64::from(self.processors);
        // One is left to jobs of others.
        let others = (self.kept - self.gap(class)).min(all.saturating_sub(1));
        u32::try_from(all.saturating_sub(others).saturating_sub(self.used))
            .expect("it is at most `processors`, a u32")
    }

    /// What a class may have more by its maximum.
    fn below_maximum(&self, class: Option<usize>) -> u32 {
        let Some(class) = class.filter(|class| *class < self.parts.len()) else { return u32::MAX };
        let room = u64::from(self.parts[class].most).saturating_sub(self.used_by[class]);
        u32::try_from(room).expect("it is at most the maximum, a u32")
    }

    /// What a job of the class may have.
    fn room(&self, class: Option<usize>) -> u32 {
        self.free(class).min(self.below_maximum(class))
    }

    /// The most of `class`, up to `most`, that leave `wanted` for a job of class `head`.
    fn beside(&self, class: Option<usize>, most: u32, head: Option<usize>, wanted: u32) -> u32 {
        if class == head {
            return most.min(self.room(head).saturating_sub(wanted));
        }
        // Its class's maximum is nothing to the head. What a class takes of what it keeps is not
        // the head's, but for what is kept in vain.
        let spare = u64::from(self.free(head).saturating_sub(wanted));
        let in_vain = self.kept_in_vain(head);
        let own = (self.gap(class) + spare).saturating_sub(in_vain).max(spare);
        let room = if spare < in_vain { spare } else { own };
        most.min(u32::try_from(room).unwrap_or(u32::MAX))
    }

    /// What others keep that the head may have all the same, for one is left to it.
    fn kept_in_vain(&self, head: Option<usize>) -> u64 {
        let others = self.kept - self.gap(head);
        others.saturating_sub(u64::from(self.processors).saturating_sub(1))
    }

    /// What a job of the class takes without less being free for `head`.
    fn own_gap(&self, class: Option<usize>, head: Option<usize>) -> u32 {
        let gap = if self.kept_in_vain(head) == 0 { self.gap(class) } else { 0 };
        u32::try_from(gap).unwrap_or(u32::MAX)
    }
}

/// The first job that does not fit.
struct Head<'a> {
    class: Option<usize>,
    wanted: u32,
    /// From when on it fits, and the books of then, where that can be said.
    reserved: Option<(Nanos, Books<'a>)>,
}

/// The most that a job of the class can ever have.
#[must_use]
pub fn most_ever(processors: u32, parts: &[Part], class: Option<usize>) -> u32 {
    Books::later(processors, parts, &[]).room(class)
}

/// What starts now on `processors`, of which `running` have theirs; classes have their `parts`.
/// O(n log n) for the jobs that run and for each class with a maximum, O(n) for those that wait.
#[must_use]
pub fn plan(
    now: Nanos,
    processors: u32,
    parts: &[Part],
    running: &[Running],
    queue: &[Job],
) -> Plan {
    plan_below(now, processors, parts, &[], running, queue)
}

/// The same where owners have `caps`.
#[must_use]
pub fn plan_below(
    now: Nanos,
    processors: u32,
    parts: &[Part],
    caps: &[Cap],
    running: &[Running],
    queue: &[Job],
) -> Plan {
    let mut caps = caps.to_vec();
    let mut books = Books::new(processors, parts, |part| part.kept_now.min(part.kept), running);
    let mut plan = Plan::default();
    let mut ends: Vec<Running> = running.to_vec();
    let empty = Books::later(processors, parts, &[]);
    let over = |limit: Option<Nanos>| limit.map(|limit| now.saturating_add(limit));
    // Classes that have a job that waits for the class itself.
    let mut is_full = vec![false; parts.len()];
    let mut head: Option<Head<'_>> = None;
    for (place, job) in queue.iter().enumerate() {
        let Job { class, limit, .. } = *job;
        let full = class.and_then(|class| is_full.get(class)).copied().unwrap_or(false);
        let (least, most) = (job.least.max(1), job.most.max(job.least).max(1));
        if full || least > empty.room(class) {
            continue;
        }
        let mut cap = job.owner.and_then(|owner| caps.get_mut(owner));
        if let Some(cap) = cap.as_mut().filter(|cap| least > cap.left) {
            // One that may begin when others have ended is not passed by its owner's.
            cap.left = if least > cap.most { cap.left } else { 0 };
            continue;
        }
        let most = cap.as_ref().map_or(most, |cap| most.min(cap.left));
        let mut take = |processors| {
            if let Some(cap) = cap.as_mut() {
                cap.left = cap.left.saturating_sub(processors);
            }
        };
        let mut room = most.min(books.room(class));
        let is_over = |at: Nanos| over(limit).is_some_and(|end| end <= at);
        match &head {
            None if least > room => {
                let reserved = reserve(now, &books, &mut ends, class, least);
                let of_class = class.and_then(|class| is_full.get_mut(class));
                match (&reserved, of_class) {
                    // It waits for its class, and it cannot be said for how long.
                    (None, Some(full)) if least > books.below_maximum(class) => *full = true,
                    _ => {
                        let at = reserved.as_ref().map(|(at, _)| *at);
                        plan.reserved = at.map(|at| Reservation { job: place, at });
                        head = Some(Head { class, wanted: least, reserved });
                        take(least);
                    }
                }
                continue;
            }
            None => ends.push(Running { processors: room, until: over(limit), class }),
            Some(Head { reserved: Some((at, _)), .. }) if is_over(*at) => {}
            // What outlasts the reservation takes what the head leaves.
            Some(Head { class: of, wanted, reserved: Some((_, later)) }) => {
                room = later.beside(class, room, *of, *wanted);
            }
            Some(head) if head.class == class => continue,
            Some(head) => room = room.min(books.own_gap(class, head.class)),
        }
        if least > room {
            continue;
        }
        take(room);
        books.take(class, room);
        if let Some(Head { reserved: Some((at, later)), .. }) = &mut head
            && !is_over(*at)
        {
            later.take(class, room);
        }
        plan.starts.push((place, room));
    }
    plan
}

/// When there are `wanted` processors for a job of the class, and the books of then. `None`: it
/// cannot be said.
fn reserve<'a>(
    now: Nanos,
    books: &Books<'a>,
    ends: &mut [Running],
    class: Option<usize>,
    wanted: u32,
) -> Option<(Nanos, Books<'a>)> {
    ends.sort_by_key(|it| it.until.unwrap_or(Nanos::MAX));
    let mut later = Books::later(books.processors, books.parts, ends);
    let mut at = None;
    for it in ends.iter() {
        let Some(until) = it.until else { break };
        let until = until.max(now);
        // All that end at that time are gone then.
        if at.is_some_and(|at| until > at) {
            break;
        }
        later.give(it.class, it.processors);
        if later.room(class) >= wanted {
            at = Some(until);
        }
    }
    at.map(|at| (at, later))
}
