//! Scopes: nano-threads that borrow from the caller and may create more; the scope ends when all
//! have.
//!
//! A scope forks a region on all processors that the program has now. Member 0, the caller, runs
//! the scope's body on its own stack; the other members, and the caller whenever it waits, run
//! nano-threads ([`crate::tasks`]). Members that find none run halves of joins that others offer,
//! and so take part in loops and scopes inside tasks, and inside the body ([`crate::parts`]).

use crate::join;
use crate::parts;
use crate::tasks::body::Body;
use crate::tasks::depend::Table;
use crate::tasks::description::{ScopeId, Traits};
use crate::tasks::descriptor::{Nano, NanoPtr};
use crate::tasks::inherited::Inherited;
use crate::tasks::node::{Node, Phase, TaskWait, Waiter};
use crate::tasks::scheduler::Scheduler;
use crate::tasks::seat::{Seat, Start};
use crate::tasks::watch;
use engine::local::local;
use engine::panics::{NoUnwinding, Payload, discard};
use engine::work::Member;
use std::cell::{RefCell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::thread;

/// Where nano-threads are created: the handle of a scope's body, of a nano-thread, or of a group.
/// What is created with it is its child.
///
/// A handle stays on its thread (it is neither `Send` nor `Sync`): [`Scope::spawner`] makes one
/// that travels.
///
/// ```compile_fail,E0277
/// nanothreads::scope(|s| {
///     nanothreads::par_for(0..4).run(|_| s.spawn(|_| ())); // a handle on other threads
/// });
/// ```
///
/// # While a nano-thread waits
/// A nano-thread that calls [`wait`](Self::wait), [`yield_now`](Self::yield_now),
/// [`suspend`](Self::suspend) or [`group`](Self::group) leaves its kernel thread to other
/// nano-threads of the scope, and goes on later on the same one.
/// - **Waits of one kernel thread nest**: what is started there while a nano-thread waits ends
///   before that one goes on, as calls do, and as rayon's waits do. So whatever counts on the calls
///   of a thread to end in the reverse order of their beginning stays right: thread-locals that are
///   set for the time of a call (`scoped_tls`), guards that put an old value back. Two nano-threads
///   that wait *for each other* may stop for ever by it: one that waits for what another one does
///   after its own wait, a child that depends on a task which waits below on the same thread.
///   Waits for children, and for events from other threads, always end.
///   [`Task::suspendable`](crate::Task::suspendable) is the way out, for tasks whose author
///   promises that they hold nothing of that kind.
/// - **A lock**, or a `RefCell` borrow of thread-local storage, must not be held across them
///   either, if other nano-threads want it: one of the same kernel thread would wait for ever, or
///   panic.
/// - **`std::thread::panicking`**: one that waits while it unwinds (in a destructor) leaves it true
///   for all that run meanwhile on its kernel thread. A `Mutex` that they unlock may be poisoned
///   though no task panicked with it, or not be poisoned though one did. (With rayon's waits it is
///   the same.)
/// - **Memory**: a nano-thread that waits keeps its stack, and each stack is two mappings, of which
///   Linux allows a process `vm.max_map_count`, 65530 by default: about 32,000 nano-threads can
///   wait at once. (The engine says so on stderr, once.) Tasks beyond run on their member's own
///   stack, and keep what they have of it while they wait: what is below them cannot go on before
///   they have ended. Programs with that many at once may deadlock, or overflow that stack.
///   Remedies: a larger `vm.max_map_count` (`sysctl`), or fewer at once: spawn them in portions, or
///   say what a task waits for by [`depends_on`](crate::Task::depends_on), for one that has not
///   begun needs no stack.
pub struct Scope<'scope> {
    node: *const Node,
    scheduler: NonNull<Scheduler>,
    member: usize,
    /// The nano-thread whose handle this is; `None`: that of a scope's body on a kernel thread.
    owner: Option<NanoPtr>,
    /// It is on a fiber, which it may leave.
    is_on_fiber: bool,
    /// What its tasks have that say nothing themselves.
    inherited: Inherited,
    /// Made by the first task with dependences by address.
    pub(crate) table: RefCell<Option<Box<Table>>>,
    /// Tasks may hold references into `'scope` mutably: the lifetime must not shrink.
    invariant: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("member", &self.member).finish_non_exhaustive()
    }
}

/// Runs `body` on the caller, and the tasks that it spawns on all processors that the program has
/// now; returns when all of them, and those that they spawned, are done.
///
/// ```
/// let mut numbers = [1, 2, 3, 4];
/// let (left, right) = numbers.split_at_mut(2);
/// nanothreads::scope(|s| {
///     s.spawn(|_| left[0] = 10);
///     s.spawn(|s| {
///         right[0] = 30;
///         s.spawn(|_| right[1] = 40);
///     });
/// });
/// assert_eq!(numbers, [10, 2, 30, 40]);
/// ```
/// Inside a half of a [`join`](fn@crate::join), or a task or the body of another scope, threads of
/// those that have nothing to do run this scope's tasks, too. Inside other regions it has the
/// processors that are reserved for inner regions, often one; [`Scope::group`] uses all those of
/// the scope around.
///
/// A scope also waits for each [`Spawner`](crate::Spawner) and [`Completion`](crate::Completion)
/// that was made in it. So do not return one from `body`, or keep it in a place that outlives the
/// scope: the scope would wait for what only its own end could drop, for ever. (A line on stderr
/// says so after some seconds: [`Builder::report_waits`](crate::Builder::report_waits).)
///
/// What tasks must not hold while they wait (locks), how their waits nest, and how many can wait
/// at once (about 32,000): [while a nano-thread waits](Scope#while-a-nano-thread-waits). Cost: a
/// region; with tasks some allocations (4 for 10 plain tasks, some 15 for 200; on one thread 2 and
/// 13).
///
/// A child that is forked inside a task, or inside the body while there are tasks, may use scopes
/// of its own, but the tasks are its parent's: it must not add to them, by a spawner neither. It is
/// ended with a report when it does, when it waits for them, or leaves its task, also the last one
/// (D13). Its copies of completions and cancellers do nothing; what its own thread made in a body
/// without tasks it may drop, and leave the scope.
///
/// # Panics
/// With the payload of the body or the first task that panics, after all tasks are done.
#[track_caller]
pub fn scope<'scope, B, R>(body: B) -> R
where
    B: FnOnce(&Scope<'scope>) -> R,
{
    let team = parts::reserve(local().wish());
    // Shared with completions and spawners on foreign threads, which may still be waking us when
    // all is done.
    let workers = team.own().map_or(&[][..], |own| local().members(own.size()));
    let scheduler = Scheduler::take(team.size(), workers);
    let run = ScopeRegion {
        scheduler: &scheduler,
        body: UnsafeCell::new(Some(body)),
        result: UnsafeCell::new(None),
    };
    // SAFETY: - `call` gets the run, which outlives the join, and shares only the scheduler among
    //           members; it does not unwind.
    unsafe { parts::run_work(&team, call::<B, R>, ptr::from_ref(&run).cast()) };
    let result = run.result.into_inner().expect("member 0 left the result");
    Scheduler::give_back(scheduler);
    match result {
        Ok(value) => value,
        Err(payload) => resume_unwind(payload),
    }
}

/// What the members of a scope's region work on.
struct ScopeRegion<'a, B, R> {
    scheduler: &'a Arc<Scheduler>,
    /// Member 0's.
    body: UnsafeCell<Option<B>>,
    /// Member 0's.
    result: UnsafeCell<Option<thread::Result<R>>>,
}

/// # Safety
/// - `data` points to a live `ScopeRegion<B, R>`; member 0 is the thread that made it.
unsafe fn call<'scope, B, R>(data: *const (), member: Member)
where
    B: FnOnce(&Scope<'scope>) -> R,
{
    let run = data.cast::<ScopeRegion<B, R>>();
    // SAFETY: - caller's contract; this field is shared by all members.
    let scheduler: &Arc<Scheduler> = unsafe { (*run).scheduler };
    // Also in a team of one: tasks use what its caller's frame holds.
    let guard = NoUnwinding::enter();
    // SAFETY: - the calling thread is this member until the region ends.
    let seat = unsafe { scheduler.seat(member.id as usize) };
    seat.enter(call::<B, R>, data);
    // Joins inside are the scope's.
    let _here = seat.join_seat().map(join::at);
    if member.id != 0 {
        seat.work_as_member(|| scheduler.has_ended());
        guard.leave();
        return;
    }
    // SAFETY: - caller's contract: member 0's field.
    let body = unsafe { &mut *(*run).body.get() }.take().expect("a region runs once");
    let node = Node::running(ptr::null(), 0);
    // SAFETY: - the node is on this frame until all its children are done; the seat is ours.
    let result = unsafe { run_and_join(&node, seat, false, Inherited::NONE, body) };
    scheduler.end();
    seat.retire();
    // SAFETY: - caller's contract: member 0's field.
    unsafe { *(*run).result.get() = Some(result) };
    guard.leave();
}

/// Runs `body` with a handle of `node`, then waits for its children. A panic of the body goes
/// before those of children.
///
/// # Safety
/// - `node` is running, and its owner's, which runs on `seat`, the caller's; `is_on_fiber` as in
///   [`Scope::new`]. `inherited` lives as long as the node's children.
pub(crate) unsafe fn run_and_join<'scope, B, R>(
    node: &Node,
    seat: Seat,
    is_on_fiber: bool,
    inherited: Inherited,
    body: B,
) -> thread::Result<R>
where
    B: FnOnce(&Scope<'scope>) -> R,
{
    // SAFETY: - caller's contract.
    let handle = unsafe { Scope::new(node, seat, is_on_fiber, inherited) };
    // The caller gets the panic before it sees what the closure captured.
    let result = catch_unwind(AssertUnwindSafe(|| body(&handle)));
    let scheduler = seat.scheduler();
    // The scope's own handle: tasks and groups hold it open.
    let is_watched = node.up.is_null() && scheduler.doors.open() > 0;
    let watched =
        if is_watched { watch::begin(node, &scheduler.doors, scheduler.place) } else { None };
    let child = handle.join();
    drop(watched);
    scheduler.end_targets(node);
    match (result, child) {
        (Ok(value), None) => Ok(value),
        (Err(payload), child) => {
            discard(child);
            Err(payload)
        }
        (Ok(value), Some(payload)) => {
            discard(value);
            Err(payload)
        }
    }
}

impl<'scope> Scope<'scope> {
    /// # Safety
    /// - `node` is running, outlives the handle, and `seat` is that of its home, the caller's. It
    ///   belongs to what is current there, which is on a fiber if `is_on_fiber`.
    #[inline]
    unsafe fn new(node: *const Node, seat: Seat, is_on_fiber: bool, inherited: Inherited) -> Self {
        Self {
            node,
            scheduler: NonNull::from(seat.scheduler()),
            member: seat.index(),
            owner: seat.current(),
            is_on_fiber,
            inherited,
            table: RefCell::default(),
            invariant: PhantomData,
        }
    }

    /// Adds a task. It may run on any member of the scope's team, also before this call returns.
    /// Cost: one push to a lock-free queue; for 64 tasks one atomic add and, at most, one lock; an
    /// allocation when the closure captures more than 48 bytes, or what is aligned to more than 8.
    /// While it is queued it takes at most 64 bytes beside its captures, which are rounded up to
    /// 16; some 74 for a moment when the queue grows.
    ///
    /// What a task captures travels to another thread:
    /// ```compile_fail,E0277
    /// let counter = std::rc::Rc::new(1);
    /// nanothreads::scope(|s| s.spawn(move |_| drop(counter))); // an Rc on another thread
    /// ```
    /// What it creates stays on its own, also while it waits:
    /// ```
    /// nanothreads::scope(|s| s.spawn(|s| {
    ///     let counter = std::rc::Rc::new(1);
    ///     s.yield_now();
    ///     assert_eq!(*counter, 1);
    /// }));
    /// ```
    #[inline]
    #[track_caller]
    pub fn spawn<F: FnOnce(&Scope<'scope>) + Send + 'scope>(&self, task: F) {
        if !self.inherited.is_none() {
            return self.spawn_with_settings(task);
        }
        self.assert_running();
        self.node().share_for_child();
        let seat = self.seat();
        let memory = (seat.free_lists(), &self.scheduler().store);
        let (creator, number) = (self.creator(), seat.next_number());
        // SAFETY: - the node's owner waits for the task, and `'scope` outlives the owner's wait.
        let nano = unsafe { NanoPtr::plain(memory, self.node, creator, number, call_of(task)) };
        seat.enqueue_plain(nano);
    }

    /// As `spawn`, in a group that has settings.
    #[cold]
    #[track_caller]
    fn spawn_with_settings<F: FnOnce(&Scope<'scope>) + Send + 'scope>(&self, task: F) {
        self.task().spawn(task);
    }

    /// Waits for all children of this handle, and their children. Meanwhile the processor runs
    /// other nano-threads of the scope: a nano-thread leaves its stack and is resumed on the same
    /// thread. What must not be held meanwhile (locks), and how many can wait:
    /// [while a nano-thread waits](Self#while-a-nano-thread-waits).
    ///
    /// ```
    /// let mut sum = 0;
    /// let (mut a, mut b) = (0, 0);
    /// nanothreads::scope(|s| {
    ///     s.group(|s| {
    ///         s.spawn(|_| a = 1);
    ///         s.spawn(|_| b = 2);
    ///         s.wait();
    ///     });
    ///     sum = a + b;
    /// });
    /// assert_eq!(sum, 3);
    /// ```
    ///
    /// # Panics
    /// With the payload of the first child that panicked since the last wait, after all are done.
    /// At once where another nano-thread than the handle's calls it.
    #[track_caller]
    pub fn wait(&self) {
        if let Some(payload) = self.join() {
            resume_unwind(payload);
        }
    }

    /// Lets other nano-threads that are ready run first. What must not be held meanwhile:
    /// [while a nano-thread waits](Self#while-a-nano-thread-waits).
    pub fn yield_now(&self) {
        match self.switchable() {
            Some(waiter) => {
                self.seat().note_yield();
                // SAFETY: - it runs now, and this is its stack.
                unsafe { TaskWait::of_yield(waiter) };
            }
            None => self.seat().run_another(),
        }
    }

    /// Waits for the children; the payload of the first one that panicked.
    #[track_caller]
    pub(crate) fn join(&self) -> Option<Payload> {
        self.assert_current();
        let node = self.node();
        let leave = |wait: &TaskWait| match wait.waiter() {
            // SAFETY: - it runs now, and this is its stack. Only this thread resumes it, so it does
            //           not matter when the last child tells it.
            Some(waiter) => unsafe { (*waiter.fiber).suspend() },
            None => {
                // The children use what the caller would free.
                let guard = NoUnwinding::enter();
                self.seat().work_until(|| wait.is_signalled());
                guard.leave();
            }
        };
        node.await_children(|| self.switchable(), leave);
        if let Some(table) = &mut *self.table.borrow_mut() {
            table.clear();
        }
        node.take_panic()
    }

    /// A new task, which holds a share of the handle's node.
    #[track_caller]
    pub(crate) fn create<F: FnOnce(&Scope<'scope>) + Send + 'scope>(
        &self,
        task: F,
        traits: Traits,
    ) -> Arc<Nano> {
        self.assert_running();
        self.node().share_for_child();
        let seat = self.seat();
        // SAFETY: - the node's owner waits for the task, and `'scope` outlives the owner's wait.
        let body = unsafe { body_of(task) };
        let described = (traits, self.id());
        Nano::new(self.node, body, described, self.creator(), seat.next_number())
    }

    fn id(&self) -> ScopeId {
        ScopeId::of(self.scheduler.as_ptr())
    }

    fn creator(&self) -> u32 {
        u32::try_from(self.member).unwrap_or(u32::MAX)
    }

    pub(crate) fn node(&self) -> &Node {
        // SAFETY: - `new`'s contract: outlives the handle.
        unsafe { &*self.node }
    }

    /// The node's address, for children: it leads to what is around the node, too.
    pub(crate) fn address(&self) -> *const Node {
        self.node
    }

    pub(crate) fn scheduler(&self) -> &Scheduler {
        // SAFETY: - outlives the region that the handle's thread is in.
        unsafe { self.scheduler.as_ref() }
    }

    pub(crate) fn seat(&self) -> Seat<'_> {
        // SAFETY: - `new`'s contract; the handle stays on its thread.
        unsafe { self.scheduler().seat(self.member) }
    }

    /// The nano-thread that the caller is, if its stack may be left now. Not on a kernel thread's
    /// own stack, and not while a region that it forked is open on this kernel thread.
    pub(crate) fn switchable(&self) -> Option<Waiter> {
        let seat = self.seat();
        let nano = self.owner.filter(|&nano| self.is_on_fiber && seat.can_switch_from(nano))?;
        Some(Waiter { nano, fiber: seat.resumed() })
    }

    pub(crate) fn inherited(&self) -> Inherited {
        self.inherited
    }

    pub(crate) fn is_on_fiber(&self) -> bool {
        self.is_on_fiber
    }

    /// Panics if the owner waits: safe code cannot get here then, unless it smuggled a handle to
    /// another nano-thread.
    #[inline]
    #[track_caller]
    pub(crate) fn assert_running(&self) {
        if self.node().phase() != Phase::Running {
            self.refuse();
        }
    }

    /// Panics if the caller is not the owner: likewise. Another nano-thread's wait would give up
    /// the owner's shares, and so would the owner's end.
    #[inline]
    #[track_caller]
    pub(crate) fn assert_current(&self) {
        if self.node().phase() != Phase::Running || self.seat().current() != self.owner {
            self.refuse();
        }
    }

    #[cold]
    #[track_caller]
    fn refuse(&self) -> ! {
        let phase = self.node().phase();
        panic!(
            "a Scope was used from another nano-thread while its own one waits or is suspended (it \
             is {phase:?}): give tasks their own handle, or a spawner"
        );
    }
}

/// The closure of a task, as descriptors hold it.
///
/// # Safety
/// - It is called with a pointer to a [`Start`], or dropped, before `'scope` ends.
pub(crate) unsafe fn body_of<'scope, F: FnOnce(&Scope<'scope>) + Send + 'scope>(task: F) -> Body {
    // SAFETY: - caller's contract.
    unsafe { Body::new(call_of(task)) }
}

/// What a body calls with a pointer to its start: it makes the handle.
/// It is to be called, or dropped, as [`body_of`] says.
pub(crate) fn call_of<'scope, F: FnOnce(&Scope<'scope>) + Send + 'scope>(
    task: F,
) -> impl FnOnce(*const ()) + Send + 'scope {
    move |start: *const ()| {
        // SAFETY: - `seat::call_body` passes the start of the nano-thread that the caller is.
        let start: &Start<'_> = unsafe { &*start.cast() };
        // SAFETY: - its own node, which runs, on its home's thread.
        let inherited = unsafe { start.nano.get() }.inherited();
        // SAFETY: - as above; the settings are those of a group that waits for this nano-thread.
        let scope =
            unsafe { Scope::new(start.nano.node(), start.seat, start.is_on_fiber, inherited) };
        task(&scope);
    }
}
