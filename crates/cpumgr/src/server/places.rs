//! How many places of a system's manager one user can have: no user keeps all others out (D10).

use super::Server;
use super::bounds::MAX_OF_USER;

impl Server {
    /// Client `serial` may have no more of what `users` have: the manager's user and the superuser
    /// may have all.
    pub(super) fn has_its_share(&self, serial: u64, users: impl Iterator<Item = u32>) -> bool {
        let uid = self.connections.get(&serial).map(|it| it.peer.uid);
        uid.is_some_and(|uid| self.is_share_of(uid, users))
    }

    /// The same of a user.
    pub(super) fn is_share_of(&self, uid: u32, users: impl Iterator<Item = u32>) -> bool {
        self.places_of(uid).is_some_and(|places| users.filter(|it| *it == uid).count() >= places)
    }

    /// How many programs a user may have; `None`: as many as there is room for.
    pub(super) fn places_of(&self, uid: u32) -> Option<usize> {
        let usual = (uid != 0 && uid != self.doorman.owner).then_some(MAX_OF_USER);
        self.rules.programs_of(uid).map_or(usual, |said| Some(said.min(usual.unwrap_or(said))))
    }

    /// The same of a client, for a refusal.
    pub(super) fn places_of_client(&self, serial: u64) -> usize {
        let uid = self.connections.get(&serial).map(|it| it.peer.uid);
        uid.and_then(|uid| self.places_of(uid)).unwrap_or(MAX_OF_USER)
    }

    pub(super) fn any_programs(&self) -> bool {
        !self.attached.is_empty() || self.connections.values().any(|it| it.program.is_some())
    }

    pub(super) fn programs(&self) -> usize {
        self.connections.values().filter(|it| it.program.is_some()).count() + self.attached.len()
    }

    /// A process is a program, is about to be one, or waits to be one.
    pub(super) fn is_needed(&self) -> bool {
        let running = self.connections.values().any(|it| it.program.is_some() || it.announced);
        running || !self.queue.is_empty() || !self.attached.is_empty()
    }

    /// The users of all programs.
    pub(super) fn owners(&self) -> impl Iterator<Item = u32> + '_ {
        let speak =
            self.connections.values().filter(|it| it.program.is_some()).map(|it| it.peer.uid);
        speak.chain(self.attached.values().map(|it| it.owner))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::fd::OwnedFd;

    use arena::message::{FromManager, RefusedCode, Register, Submit, ToManager};
    use platform::event::Doorbell;
    use platform::process::{Peer, Pid};
    use tokio::sync::mpsc;

    use super::super::model::setup;
    use super::super::*;
    use super::*;
    use crate::api::{Answer, Call, Mailbox};
    use crate::kernel::Linux;
    use crate::settings::{self, Handover, LastEnd, Waiting};

    /// A manager that serves all users, to which only the test talks, and which starts `level`
    /// programs.
    pub(in super::super) fn server(dir: &std::path::Path, level: Option<u32>) -> Server {
        let setup = Setup { public: true, level, ..setup(dir, Box::new(Linux)) };
        Server::with_api(setup, |_, _, _| Ok(Api::without_thread(1)?.0)).unwrap()
    }

    /// Process `pid` of user `uid` connects and says something; the code of the refusal, if it is
    /// one.
    pub(in super::super) fn says(
        server: &mut Server,
        kept: &mut Vec<mpsc::Receiver<Answer>>,
        (pid, uid): (i32, u32),
        what: ToManager,
    ) -> Option<RefusedCode> {
        let (mailbox, mut answers) = Mailbox::with_receiver();
        let serial = server.serials.next();
        let pidfd = OwnedFd::from(Doorbell::new().unwrap());
        server.called(
            serial,
            Call::Opened {
                peer: Peer { pid: Pid(pid), uid, gid: 0 },
                pidfd,
                mailbox,
                of_admins: None,
            },
            0,
        );
        server.called(serial, Call::Said(what), 0);
        server.finish_pass(0);
        let Ok(Answer::Messages(said)) = answers.try_recv() else { panic!("an answer") };
        kept.push(answers);
        match &said[..] {
            [FromManager::Refused(refused)] => Some(refused.code),
            [FromManager::Queued { .. } | FromManager::Announced { .. }] => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_an_idle_manager_hands_on_stays_and_the_next_ones_idleness_forgets_it() {
        let dir = tempfile::tempdir().unwrap();
        let socket = |server: &Server| server.instance.socket().to_owned();
        let mut first = server(dir.path(), Some(3));
        let path = socket(&first);
        first.keep_settings();
        let asker = first.serials.next();
        assert_eq!(first.stop(asker, true), Ok(()));
        let ended = first.over.take().unwrap();
        assert_eq!(ended, Ended::Replaced);
        first.end(&ended);
        let left = settings::left_at(&path).unwrap();
        assert_eq!((left.level(), left.handover.end), (Some(Some(3)), LastEnd::MadeRoom));

        let mut second = server(dir.path(), Some(3));
        second.take_over(&left, 0);
        second.keep_settings();
        second.end(&Ended::Idle);
        assert_eq!(settings::left_at(&path), None);

        // A killed manager's stay.
        let mut third = server(dir.path(), Some(3));
        let handover = Handover::default();
        assert_eq!(handover.end, LastEnd::Killed);
        third.take_over(&settings::Settings { handover, ..left }, 0);
        third.keep_settings();
        third.end(&Ended::Idle);
        assert!(settings::left_at(&path).is_some());
    }

    #[test]
    fn a_program_that_has_not_come_back_yet_keeps_its_place_when_the_next_manager_is_killed_too() {
        let dir = tempfile::tempdir().unwrap();
        let (mut server, mut kept) = (server(dir.path(), Some(0)), Vec::new());
        let own = platform::process::current_pid();
        let parent = nix::unistd::getppid().as_raw();
        let place =
            Waiting { pid: own.0, start: platform::process::start_time(own).unwrap(), since: 1 };
        let mut left = server.settings();
        left.waiting = vec![place.clone()];
        server.take_over(&left, platform::clock::monotonic_ns());
        let what = ToManager::Submit(Submit::plain(1, "", true));
        assert_eq!(
            says(&mut server, &mut kept, (parent, nix::unistd::geteuid().as_raw()), what),
            None
        );
        let waiting = server.settings().waiting;
        assert_eq!(waiting.len(), 2);
        assert_eq!((&waiting[0], waiting[1].pid), (&place, parent));
        server.end(&Ended::Signal);
    }

    #[test]
    fn a_later_process_waits_while_one_that_waited_before_may_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let (mut server, mut kept) = (server(dir.path(), None), Vec::new());
        let own = platform::process::current_pid();
        let mut left = server.settings();
        let start = platform::process::start_time(own).unwrap();
        left.waiting = vec![Waiting { pid: own.0, start, since: 0 }];
        server.take_over(&left, 0);
        let what = ToManager::Submit(Submit::plain(1, "", true));
        assert_eq!(
            says(&mut server, &mut kept, (100, nix::unistd::geteuid().as_raw()), what),
            None
        );
        assert_eq!((server.queue.len(), server.running()), (1, 0), "it has no place before");
        let until = server.admit_again.expect("a time at which the place is given up");
        server.finish_pass(until - 1);
        assert_eq!((server.queue.len(), server.running()), (1, 0), "the place is kept");
        server.finish_pass(until);
        assert_eq!((server.queue.len(), server.running()), (0, 1), "nothing came back");
        server.end(&Ended::Signal);
    }

    #[test]
    fn no_user_has_all_places_but_the_managers_own() {
        let dir = tempfile::tempdir().unwrap();
        let owner = nix::unistd::geteuid().as_raw();
        let (stranger, other) = (owner + 1, owner + 2);
        let submit = || ToManager::Submit(Submit::plain(1, "", true));
        for question in [submit, || ToManager::Announce { attach: true }] {
            let (mut server, mut kept) = (server(dir.path(), Some(0)), Vec::new());
            let mut pid = 100;
            let mut asks = |uid: u32| {
                pid += 1;
                says(&mut server, &mut kept, (pid, uid), question())
            };
            for _ in 0..MAX_OF_USER {
                assert_eq!(asks(stranger), None);
            }
            assert_eq!(asks(stranger), Some(RefusedCode::Full));
            assert_eq!(asks(other), None);
            for _ in MAX_OF_USER + 1..MAX_PROGRAMS {
                assert_eq!(asks(owner), None);
            }
            assert_eq!(asks(owner), Some(RefusedCode::Full), "there are no more");
            server.end(&Ended::Signal);
        }
    }

    #[test]
    fn a_process_has_one_place_in_the_queue_however_often_it_connects() {
        let dir = tempfile::tempdir().unwrap();
        let owner = nix::unistd::geteuid().as_raw();
        let (mut server, mut kept) = (server(dir.path(), Some(0)), Vec::new());
        let mut submits = |pid| {
            let what = ToManager::Submit(Submit::plain(1, "", true));
            says(&mut server, &mut kept, (pid, owner), what)
        };
        assert_eq!(
            (submits(100), submits(100), submits(101)),
            (None, Some(RefusedCode::Malformed), None)
        );
        assert_eq!(server.queue.len(), 2);
        server.end(&Ended::Signal);
    }

    #[test]
    fn a_process_that_is_admitted_again_and_again_is_one_program() {
        let dir = tempfile::tempdir().unwrap();
        let owner = nix::unistd::geteuid().as_raw();
        let (mut server, mut kept) = (server(dir.path(), None), Vec::new());
        for _ in 0..2 * MAX_PROGRAMS {
            let what = ToManager::Submit(Submit::plain(1, "", true));
            assert_eq!(says(&mut server, &mut kept, (100, owner + 1), what), None);
            assert_eq!((server.announced().count(), server.connections.len()), (1, 1));
        }
        let what = ToManager::Announce { attach: true };
        assert_eq!(says(&mut server, &mut kept, (100, owner + 1), what), None);
        assert_eq!((server.announced().count(), server.running(), server.queue.len()), (1, 1, 0));
        server.end(&Ended::Signal);
    }

    #[test]
    fn an_admitted_program_counts_as_an_announced_one() {
        let dir = tempfile::tempdir().unwrap();
        let owner = nix::unistd::geteuid().as_raw();
        let (stranger, other) = (owner + 1, owner + 2);
        let (mut server, mut kept) = (server(dir.path(), None), Vec::new());
        let mut pid = 100;
        let mut submits = |server: &mut Server, uid| {
            pid += 1;
            says(server, &mut kept, (pid, uid), ToManager::Submit(Submit::plain(1, "", true)))
        };
        for _ in 0..MAX_OF_USER {
            assert_eq!(submits(&mut server, stranger), None);
        }
        assert_eq!((server.announced().count(), server.queue.len()), (MAX_OF_USER, 0));
        assert_eq!(submits(&mut server, stranger), Some(RefusedCode::Full));
        assert_eq!(submits(&mut server, other), None);
        for _ in MAX_OF_USER + 1..MAX_PROGRAMS + 3 {
            assert_eq!(submits(&mut server, owner), None);
        }
        assert_eq!(
            (server.announced().count(), server.queue.len()),
            (MAX_PROGRAMS, 3),
            "the last ones wait"
        );
        server.end(&Ended::Signal);
    }

    #[test]
    fn why_an_announced_process_is_refused_is_kept_for_status() {
        let dir = tempfile::tempdir().unwrap();
        let owner = nix::unistd::geteuid().as_raw();
        let (mut server, mut kept) = (server(dir.path(), None), Vec::new());
        let what = ToManager::Announce { attach: true };
        assert_eq!(says(&mut server, &mut kept, (100, owner), what), None);
        let register = Register {
            layout: 7,
            max_processors: 1,
            request: 1,
            fixed_team: false,
            broker: false,
            library: String::new(),
            held: None,
            within: None,
        };
        let what = ToManager::Register(register);
        assert_eq!(says(&mut server, &mut kept, (100, owner), what), Some(RefusedCode::Version));
        let reason = server.announced().find_map(|it| it.reason.clone());
        assert!(reason.as_ref().is_some_and(|it| it.contains("layout version 7")), "{reason:?}");
        server.end(&Ended::Signal);
    }
}
