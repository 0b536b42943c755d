//! Descriptions of tasks: dependences, priority, name, stack size.

use crate::tasks::depend::Access;
use crate::tasks::description::{ScopeId, Traits};
use crate::tasks::descriptor::{Nano, NanoPtr};
use crate::tasks::scope::Scope;
use std::borrow::Cow;
use std::fmt;
use std::ptr;
use std::sync::Arc;

/// A task to be spawned; made by [`Scope::task`].
///
/// # Dependences by address
/// [`reads`](Self::reads), [`writes`](Self::writes), [`excludes`](Self::excludes) and
/// [`shares`](Self::shares) name values that the task uses. The address is the key; nothing is
/// borrowed, and the value is not touched. Tasks of the *same handle* run as if in the order of
/// creation wherever one of two that name the same value changes it:
/// ```
/// use nanothreads::DataCell;
/// let (a, b) = (DataCell::new(2), DataCell::new(0));
/// nanothreads::scope(|s| {
///     s.task().writes(&a).spawn(|_| *a.write() += 1);
///     s.task().reads(&a).writes(&b).spawn(|_| *b.write() = *a.read() * 10);
///     s.task().writes(&a).spawn(|_| *a.write() = 0);
/// });
/// assert_eq!((a.into_inner(), b.into_inner()), (0, 30));
/// ```
/// [`DataCell`](crate::DataCell) makes such values accessible without a lock, and checks that the
/// dependences named are enough. Of a slice or a structure the first byte's address is the key:
/// parts are not compared with the whole.
///
/// # When a predecessor panics
/// Its successors are not run: they are dropped, and so are theirs. A cancelled predecessor counts
/// as done.
#[must_use = "a task does nothing until it is spawned"]
pub struct Task<'a, 'scope> {
    scope: &'a Scope<'scope>,
    accesses: Vec<(usize, Access)>,
    predecessors: Vec<TaskRef>,
    traits: Traits,
}

impl fmt::Debug for Task<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("accesses", &self.accesses)
            .field("predecessors", &self.predecessors)
            .field("traits", &self.traits)
            .finish_non_exhaustive()
    }
}

impl<'scope> Scope<'scope> {
    /// Describes a task that needs more than a closure: dependences, a priority, a name, the size
    /// of its stack.
    ///
    /// ```
    /// use std::sync::Mutex;
    /// let log = Mutex::new(Vec::new());
    /// nanothreads::scope(|s| {
    ///     let first = s.task().spawn(|_| log.lock().unwrap().push(1));
    ///     s.task().depends_on(&first).spawn(|_| log.lock().unwrap().push(2));
    /// });
    /// assert_eq!(log.into_inner().unwrap(), [1, 2]);
    /// ```
    pub fn task(&self) -> Task<'_, 'scope> {
        Task::new(self)
    }
}

impl<'a, 'scope> Task<'a, 'scope> {
    pub(crate) fn new(scope: &'a Scope<'scope>) -> Self {
        // SAFETY: - the handle's owner runs below the group whose settings these are.
        let traits = unsafe { Traits::of(scope.inherited()) };
        Self { scope, accesses: Vec::new(), predecessors: Vec::new(), traits }
    }

    /// The task starts when `predecessor` is finished.
    ///
    /// A task is finished after its children, so what the creator of this task waits for must not
    /// be waited for here. Only the direct case is found (below). A task A whose child depends on
    /// B, where B depends on A, waits for ever: B for the end of A, A for its child, the child for
    /// B. So do longer rings of that kind, and nothing reports them: let children depend on
    ///    siblings, or on tasks that do not depend on their creator or its ancestors.
    ///
    /// # Panics
    /// If `predecessor` is not finished and belongs to another scope, or is the creator or one of
    /// its ancestors, which wait for this task.
    #[track_caller]
    pub fn depends_on(mut self, predecessor: &TaskRef) -> Self {
        if predecessor.0.is_finished() && !predecessor.0.is_skipped() {
            return self;
        }
        assert!(
            predecessor.0.is_finished() || predecessor.0.is_of(ScopeId::of(self.scope.scheduler())),
            "depends_on: the predecessor is a task of another scope, whose members may all be \
             waiting for this one; spawn both in one scope, or end the other scope first"
        );
        assert!(
            !self.is_below(&predecessor.0),
            "depends_on: the predecessor is the task that creates this one, or an ancestor of it, \
             and is not finished before its children are; depend on a sibling instead"
        );
        self.predecessors.push(predecessor.clone());
        self
    }

    fn is_below(&self, ancestor: &Nano) -> bool {
        let mut node: *const _ = self.scope.node();
        while !node.is_null() {
            if ptr::eq(node, &ancestor.node) {
                return true;
            }
            // SAFETY: - a node holds a share of the node above it, and the handle's owner runs.
            node = unsafe { (*node).up };
        }
        false
    }

    /// The task reads `value`: after the older tasks that change it, before the younger ones.
    pub fn reads<T: ?Sized>(self, value: &T) -> Self {
        self.accesses(Access::Read, value)
    }

    /// The task writes or changes `value`: after all older tasks that use it, before all younger
    /// ones.
    pub fn writes<T: ?Sized>(self, value: &T) -> Self {
        self.accesses(Access::Write, value)
    }

    /// The task changes `value`, in any order with neighbours that exclude each other by it, but
    /// never at the same time.
    ///
    /// ```
    /// use nanothreads::DataCell;
    /// let cell = DataCell::new(0);
    /// let sum = &cell;
    /// nanothreads::scope(|s| {
    ///     for i in 1..=10 {
    ///         s.task().excludes(sum).spawn(move |_| *sum.write() += i);
    ///     }
    /// });
    /// assert_eq!(cell.into_inner(), 55);
    /// ```
    pub fn excludes<T: ?Sized>(self, value: &T) -> Self {
        self.accesses(Access::Exclude, value)
    }

    /// The task changes `value`, in any order with neighbours that share it, also at the same time:
    /// they agree among themselves by atomics or locks.
    pub fn shares<T: ?Sized>(self, value: &T) -> Self {
        self.accesses(Access::Share, value)
    }

    /// The task uses `value` as `access` says.
    pub fn accesses<T: ?Sized>(mut self, access: Access, value: &T) -> Self {
        self.accesses.push((ptr::from_ref(value).addr(), access));
        self
    }

    /// Ready tasks with a higher priority start first; 0 is that of ordinary tasks. Cost: one lock
    /// for each task whose priority is not 0.
    pub fn priority(mut self, priority: i32) -> Self {
        self.traits.priority = priority;
        self
    }

    /// A name for reports.
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.traits.name = Some(name.into());
        self
    }

    /// Bytes of stack, in the place of the default: 1 MiB, what
    /// [`Builder::task_stack_size`](crate::Builder::task_stack_size) or the environment's
    /// `NANOS_STACK` says. Memory is used only as far as the stack is touched. At least 16 KiB,
    /// which has no room for the backtrace of a panic.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.traits.stack_size = bytes.max(1);
        self
    }

    /// While the task waits, those that were started before it on its thread may go on, and it may
    /// go on whenever its own wait is over. Without this the waits of one thread nest: see
    /// [while a nano-thread waits](Scope#while-a-nano-thread-waits). For tasks that wait for each
    /// other, and for many that wait for events from outside.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    /// let turn = AtomicU32::new(0);
    /// let turn = &turn;
    /// nanothreads::scope(|s| {
    ///     for own in 0..2 {
    ///         // SAFETY: - the task holds nothing but its own variables while it yields.
    ///         unsafe { s.task().suspendable() }.spawn(move |s| {
    ///             for round in 0..3 {
    ///                 while turn.load(SeqCst) != 2 * round + own {
    ///                     s.yield_now();
    ///                 }
    ///                 turn.fetch_add(1, SeqCst);
    ///             }
    ///         });
    ///     }
    /// });
    /// assert_eq!(turn.load(SeqCst), 6);
    /// ```
    ///
    /// # Safety
    /// - Whenever the task waits ([`Scope::wait`], [`Scope::yield_now`], [`Scope::suspend`],
    ///   [`Scope::group`]), no call is open in it that counts on the calls of its thread to end in
    ///   the reverse order of their beginning, or on thread-locals being the same after the wait:
    ///   a thread-local that is set for the time of a call (`scoped_tls`), a guard that puts an old
    ///   value back.
    pub unsafe fn suspendable(mut self) -> Self {
        self.traits.is_suspendable = true;
        self
    }

    /// Creates the task. It starts when its dependences allow. Cost beyond that of
    /// [`Scope::spawn`]: two allocations; with [`depends_on`](Self::depends_on),
    /// [`reads`](Self::reads) or [`writes`](Self::writes) three, with [`excludes`](Self::excludes)
    /// four.
    #[track_caller]
    pub fn spawn<F: FnOnce(&Scope<'scope>) + Send + 'scope>(mut self, task: F) -> TaskRef {
        let scope = self.scope;
        let nano = scope.create(task, self.traits);
        let reference = TaskRef(Arc::clone(&nano));
        let this = NanoPtr::new(nano);
        for predecessor in &self.predecessors {
            // SAFETY: - we create it, and hold its share.
            unsafe { reference.0.follow(this, &predecessor.0) };
        }
        if !self.accesses.is_empty() {
            // SAFETY: - as above.
            unsafe {
                scope.table.borrow_mut().get_or_insert_default().register(
                    &reference.0,
                    this,
                    &mut self.accesses,
                )
            };
        }
        if reference.0.node.inputs.release(1) {
            let mut ready = None;
            let seat = scope.seat();
            // SAFETY: - that was the last share.
            unsafe { scope.scheduler().inputs_are_there(Some(seat), this, &mut ready) };
            if let Some(ready) = ready {
                seat.enqueue(ready);
            }
        }
        reference
    }
}

/// A task that was spawned, to be named as a predecessor. Keeps the descriptor's memory, not the
/// task.
#[derive(Clone)]
pub struct TaskRef(Arc<Nano>);

impl TaskRef {
    /// True when the task's closure and all tasks that it spawned are done.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl fmt::Debug for TaskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskRef").field("is_finished", &self.is_finished()).finish_non_exhaustive()
    }
}
