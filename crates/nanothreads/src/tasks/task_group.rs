//! Groups whose tasks have settings in common: the size of their stacks, a name, a priority.

use crate::tasks::description::Traits;
use crate::tasks::inherited::{Inherited, Settings};
use crate::tasks::node::Node;
use crate::tasks::scope::{Scope, run_and_join};
use std::borrow::Cow;
use std::fmt;
use std::panic::resume_unwind;

/// A group of tasks that have settings in common; made by [`Scope::task_group`].
#[must_use = "a group does nothing until it is run"]
pub struct TaskGroup<'a, 'scope> {
    scope: &'a Scope<'scope>,
    settings: Settings,
}

impl fmt::Debug for TaskGroup<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskGroup").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl<'scope> Scope<'scope> {
    /// Describes a group ([`Scope::group`]) whose tasks, and theirs, have settings in common: for a
    /// part of a program that recurses deeply, or that reports are to name.
    ///
    /// ```
    /// nanothreads::scope(|s| {
    ///     s.task_group().name("parse").stack_size(8 << 20).run(|s| {
    ///         (0..4).for_each(|_| s.spawn(|_| drop(std::hint::black_box([1_u8; 2 << 20]))));
    ///     });
    /// });
    /// ```
    /// A task that says something itself ([`Scope::task`]) has that; a group inside has what it
    /// does not say from the one around.
    pub fn task_group(&self) -> TaskGroup<'_, 'scope> {
        // SAFETY: - the handle's owner runs below the group.
        let Traits { stack_size, name, priority, .. } = unsafe { Traits::of(self.inherited()) };
        TaskGroup { scope: self, settings: Settings { stack_size, name, priority } }
    }
}

impl TaskGroup<'_, '_> {
    /// Bytes of stack of each task: see [`Task::stack_size`](crate::Task::stack_size). Stacks of a
    /// size of their own are mapped for each task, and not kept.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.settings.stack_size = bytes.max(1);
        self
    }

    /// A name for reports.
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.settings.name = Some(name.into());
        self
    }

    /// The priority of each task: see [`Task::priority`](crate::Task::priority).
    pub fn priority(mut self, priority: i32) -> Self {
        self.settings.priority = priority;
        self
    }

    /// Runs the group, as [`Scope::group`] does. Its tasks cost two allocations each, as described
    /// ones do.
    ///
    /// # Panics
    /// As [`Scope::group`].
    #[track_caller]
    pub fn run<'group, B, R>(self, body: B) -> R
    where
        B: FnOnce(&Scope<'group>) -> R,
    {
        self.scope.group_in(Inherited(&raw const self.settings), body)
    }
}

impl Scope<'_> {
    /// Runs a group with these settings.
    #[track_caller]
    pub(crate) fn group_in<'group, B, R>(&self, settings: Inherited, body: B) -> R
    where
        B: FnOnce(&Scope<'group>) -> R,
    {
        // The group's node lies below the owner's, without a share of it.
        self.assert_current();
        let seat = self.seat();
        let home = u32::try_from(seat.index()).expect("teams have less than 2^32 members");
        let node = Node::running(self.node(), home);
        // SAFETY: - the node is on this frame until its children are done; the handle's owner is
        //           current, on this seat. The settings are on the caller's frame, or above.
        let result = unsafe { run_and_join(&node, seat, self.is_on_fiber(), settings, body) };
        result.unwrap_or_else(|payload| resume_unwind(payload))
    }
}
