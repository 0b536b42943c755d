//! What a client may see and change: it follows from the user that the kernel names for it (V3).

use super::Server;

impl Server {
    /// Client `serial` may change what concerns all programs.
    pub(super) fn may_administer(&self, serial: u64) -> bool {
        let may = |uid: u32| uid == 0 || uid == self.doorman.owner;
        self.connections.get(&serial).is_some_and(|it| may(it.peer.uid) || it.administers)
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
