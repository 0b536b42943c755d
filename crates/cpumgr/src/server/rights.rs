//! What a client may see and change: it follows from the user that the kernel names for it (V3).

use super::Server;

impl Server {
    /// Client `serial` may change what concerns all programs.
    pub(super) fn may_administer(&self, serial: u64) -> bool {
        let may = |uid: u32| uid == 0 || uid == self.doorman.owner;
        let admins = self.doorman.admins.get();
        // Of the group that is in force, and not of one that was when it connected.
        let is_of = |group: Option<u32>| group.is_some() && group == admins;
        self.connections.get(&serial).is_some_and(|it| may(it.peer.uid) || is_of(it.of_admins))
    }

    /// Client `serial` may see client, place or attached process `other`, and change what is its
    /// own affair.
    pub(super) fn may_see(&self, serial: u64, other: u64) -> bool {
        let owner = self.connections.get(&other).map(|it| it.peer.uid);
        let owner = owner.or_else(|| self.attached.get(&other).map(|it| it.owner));
        let uid = self.connections.get(&serial).map(|it| it.peer.uid);
        self.may_administer(serial) || (uid.is_some() && uid == owner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::Connection;
    use super::super::model::Process;
    use super::super::places::tests::server;
    use super::super::{Ended, Rules};
    use crate::config::Config;

    #[test]
    fn those_of_the_group_that_is_in_force_administer_also_after_it_became_another_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut server = server(dir.path(), None);
        let process = Process::start();
        let serial = server.serials.next();
        let peer = platform::process::Peer { pid: process.pid(), uid: 4711, gid: 4711 };
        let pidfd = platform::process::pidfd_open(process.pid()).unwrap();
        let connection = Connection::new(serial, None, peer, pidfd);
        server.connections.insert(serial, Connection { of_admins: Some(0), ..connection });
        for (text, may) in [("", false), ("admin-group = \"root\"", true), ("", false)] {
            server.set_rules(Rules::of_manager(&Config::parse(text).unwrap(), true));
            assert_eq!(server.may_administer(serial), may, "{text:?}");
        }
        // Of a user's own manager no group administers.
        let config = Config::parse("admin-group = \"root\"").unwrap();
        server.set_rules(Rules::of_manager(&config, false));
        assert!(!server.may_administer(serial));
        server.end(&Ended::Signal);
    }
}
