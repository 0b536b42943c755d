//! What the manager does about threads, by user: looks at masks, and threads bound.
//!
//! # Protocol
//! 1. Whatever is asked of the kernel about a process's threads is charged to its user
//!    (`kernel::Counted`).
//! 2. Of a user that owes, attached processes are not looked at, no process is attached, and
//!    squeezes wait (its threads run on in turn with others'): until it is paid. Doorbells are
//!    heard all the same. What is taken from its programs is others' all the same.

use policies::AppId;

use super::Server;

impl Server {
    /// What was asked of the kernel since the last such call was about threads of user `uid`.
    pub(super) fn charge(&mut self, uid: u32, now: u64) {
        let work = self.kernel.work();
        self.looks.charge(uid, work, now);
    }

    /// Whose program or attached process that is.
    pub(super) fn owner_of(&self, app: AppId) -> Option<u32> {
        let owner = self.connections.get(&app.0).map(|it| it.peer.uid);
        owner.or_else(|| self.attached.get(&app.0).map(|it| it.owner))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    use arena::message::ToManager;
    use nix::errno::Errno;
    use platform::affinity::{CpuSet, Tid};
    use platform::process::Peer;
    use platform::{SysError, SysResult};
    use policies::Registry;

    use super::super::bounds::OWN;
    use super::super::model::{Masks, Process, ledger, setup};
    use super::super::{Api, Server, Setup};
    use crate::api::{Call, Mailbox};
    use crate::kernel::Kernel;
    use crate::surprises::tests::logged;

    const SECOND: u64 = 1_000_000_000;

    /// Masks that only the manager changes, and how often it asked for one or set one.
    #[derive(Clone, Debug, Default)]
    pub(in crate::server) struct Asked(Arc<Mutex<(u64, BTreeMap<i32, CpuSet>)>>, Arc<AtomicBool>);

    impl Kernel for Asked {
        fn affinity(&self, tid: Tid) -> SysResult<CpuSet> {
            let mut asked = self.0.lock().unwrap();
            asked.0 += 1;
            if self.1.load(Ordering::Relaxed) {
                return Err(SysError::new("sched_getaffinity", Errno::EPERM as i32));
            }
            Ok(asked.1.entry(tid.0).or_insert_with(Masks::all).clone())
        }

        fn set_affinity(&self, tid: Tid, cpus: &CpuSet) -> SysResult<()> {
            let mut asked = self.0.lock().unwrap();
            asked.0 += 1;
            asked.1.insert(tid.0, cpus.clone());
            Ok(())
        }
    }

    impl Asked {
        fn take(&self) -> u64 {
            std::mem::take(&mut self.0.lock().unwrap().0)
        }
    }

    pub(in crate::server) fn server(dir: &std::path::Path, kernel: &Asked, quantum: u64) -> Server {
        let mut books = ledger(Registry::with_builtin().create("dss-ts").unwrap());
        books.set_quantum(quantum, 0);
        let setup = Setup { ledger: books, ..setup(dir, Box::new(kernel.clone())) };
        Server::with_api(setup, |_, _, _| Ok(Api::without_thread(1)?.0)).unwrap()
    }

    /// Whatever is due, until this time; how many passes that took.
    pub(in crate::server) fn pass_until(server: &mut Server, end: u64) -> u64 {
        let mut passes = 0;
        while let Some(now) = server.next_deadline().filter(|time| *time <= end) {
            assert_eq!(server.pass(&[], now).unwrap(), None);
            passes += 1;
            assert!(passes < 100_000, "it does not come to rest");
        }
        passes
    }

    #[test]
    fn threads_that_nothing_touches_cost_the_same_at_every_quantum() {
        let process = Process::start();
        let uid = nix::unistd::geteuid().as_raw();
        let dir = tempfile::tempdir().unwrap();
        for quantum in [1_000_000, 100_000_000] {
            let kernel = Asked::default();
            let mut server = server(dir.path(), &kernel, quantum);
            let begin = server.started;
            server.attach(uid, process.pid(), begin).unwrap();
            server.finish_pass(begin);
            pass_until(&mut server, begin + SECOND);
            let threads = kernel.0.lock().unwrap().1.len() as u64;
            kernel.take();
            let passes = pass_until(&mut server, begin + 11 * SECOND);
            let asked = kernel.take();
            // Each thread some ten times in ten seconds, and ten counts a second.
            assert!(
                asked <= 10 * threads,
                "{asked} looks at {threads} threads at a quantum of {quantum} ns"
            );
            assert!(
                asked >= 5 * threads,
                "{asked} looks at {threads} threads: a thread that binds itself is not found"
            );
            assert!(passes <= 250, "{passes} passes");
            server.end(&super::super::Ended::Signal);
        }
    }

    #[test]
    fn a_user_that_owes_waits_with_its_threads_and_has_them_looked_at_when_it_is_paid() {
        let process = Process::start();
        let uid = nix::unistd::geteuid().as_raw();
        let dir = tempfile::tempdir().unwrap();
        let kernel = Asked::default();
        let mut server = server(dir.path(), &kernel, 100_000_000);
        let begin = server.started;
        let owes = |server: &mut Server, now: u64| {
            server.looks.charge(uid, OWN.burst + 5 * SECOND / OWN.unit_ns, now);
            server.looks.free_at(uid, now)
        };
        let paid = owes(&mut server, begin);
        let refused = server.attach(uid, process.pid(), begin).unwrap_err();
        assert!(refused.contains("has to wait: try again in 5 s"), "{refused}");
        assert_eq!(kernel.take(), 0);
        server.attach(uid, process.pid(), paid).unwrap();
        server.finish_pass(paid);
        pass_until(&mut server, paid + SECOND);

        let now = paid + SECOND;
        let paid = owes(&mut server, now);
        kernel.take();
        pass_until(&mut server, paid - 1);
        assert_eq!(kernel.take(), 0, "it owes");
        pass_until(&mut server, paid + 2 * SECOND);
        assert!(kernel.take() > 0);
        server.end(&super::super::Ended::Signal);
    }

    #[test]
    fn an_attached_process_that_cannot_be_looked_at_is_named_once_until_it_could_be() {
        let process = Process::start();
        let uid = nix::unistd::geteuid().as_raw();
        let dir = tempfile::tempdir().unwrap();
        let kernel = Asked::default();
        let mut server = server(dir.path(), &kernel, 100_000_000);
        let mut now = server.started;
        server.attach(uid, process.pid(), now).unwrap();
        for round in 0..2 {
            kernel.1.store(true, Ordering::Relaxed);
            let lines = logged(|| {
                pass_until(&mut server, now + 20 * SECOND);
            });
            let of_it: Vec<_> = lines.iter().filter(|it| it.contains("looked at")).collect();
            assert_eq!(of_it.len(), 1, "round {round}: {lines:?}");
            kernel.1.store(false, Ordering::Relaxed);
            pass_until(&mut server, now + 40 * SECOND);
            now += 40 * SECOND;
        }
        server.end(&super::super::Ended::Signal);
    }

    /// A process of this user is announced now, and becomes its program by exec.
    fn announce(server: &mut Server, process: &Process, uid: u32, now: u64) {
        let (mailbox, _answers) = Mailbox::with_receiver();
        let serial = server.serials.next();
        let peer = Peer { pid: process.pid(), uid, gid: 0 };
        let pidfd = platform::process::pidfd_open(process.pid()).unwrap();
        server.called(serial, Call::Opened { peer, of_admins: None, pidfd, mailbox }, now);
        server.called(serial, Call::Said(ToManager::Announce { attach: true }), now);
        server.called(serial, Call::Closed, now);
        server.finish_pass(now);
        server.note_due();
    }

    #[test]
    fn looks_at_announced_processes_are_charged_and_a_user_that_owes_is_not_looked_at() {
        let process = Process::start();
        let uid = nix::unistd::geteuid().as_raw();
        let dir = tempfile::tempdir().unwrap();
        let mut server = server(dir.path(), &Asked::default(), 100_000_000);
        let begin = server.started;
        announce(&mut server, &process, uid, begin);
        let look = |server: &Server| server.announced().find_map(|it| Some(it.look.as_ref()?.at));

        // Nothing is left of the burst when it is looked at first: each of its two threads, and
        // their list.
        let first = look(&server).expect("it is to be looked at");
        server.looks.charge(uid, OWN.burst, first);
        assert!(server.looks.is_free(uid, first));
        pass_until(&mut server, first);
        let owes = server.looks.free_at(uid, first) - first;
        assert!(owes >= 3 * OWN.unit_ns, "its threads were looked at for nothing: {owes}");

        // Until more is paid than that it is left alone, however often its time comes.
        server.looks.charge(uid, 20 * SECOND / OWN.unit_ns, first);
        let paid = server.looks.free_at(uid, first);
        let passes = pass_until(&mut server, paid - 1);
        assert!(passes >= 5, "its time came {passes} times");
        assert_eq!(server.looks.free_at(uid, first), paid, "it owes");
        assert!(server.attached.is_empty());

        // Its two threads sleep: it is attached at the second look of a window.
        pass_until(&mut server, paid + 5 * SECOND);
        assert_eq!(server.attached.len(), 1);
        server.end(&super::super::Ended::Signal);
    }

    #[test]
    fn what_is_asked_about_threads_is_charged_to_their_user() {
        let process = Process::start();
        let uid = nix::unistd::geteuid().as_raw();
        let dir = tempfile::tempdir().unwrap();
        let mut server = server(dir.path(), &Asked::default(), 100_000_000);
        let begin = server.started;
        // Nothing is left of the burst.
        server.looks.charge(uid, OWN.burst, begin);
        assert!(server.looks.is_free(uid, begin));
        server.attach(uid, process.pid(), begin).unwrap();
        let paid = server.looks.free_at(uid, begin);
        assert!(paid > begin, "it is attached for nothing");
        server.finish_pass(paid);
        // To what they are to be bound is written down first.
        while server.keeper.as_ref().unwrap().done() == 0 {
            std::thread::yield_now();
        }
        let later = server.looks.free_at(uid, paid) + 1_000_000;
        server.looks.charge(uid, 1_000_000 / OWN.unit_ns, later);
        assert!(server.looks.is_free(uid, later));
        server.finish_pass(later);
        assert!(!server.looks.is_free(uid, later), "its threads are bound for nothing");
        server.end(&super::super::Ended::Signal);
    }
}
