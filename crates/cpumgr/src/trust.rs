//! Whether another user can change what is about to be loaded into programs.
//!
//! # Rules
//! Of a file, of each directory on its way, and of each symbolic link there and what it leads to:
//! 1. It belongs to this user, to the superuser, or to the owner of the root directory (in a user
//!    namespace the superuser outside has another number, which is that of all users that are not
//!    known inside).
//! 2. No other user may write it: its mode lets neither all users write nor a group, unless that is
//!    the user's own (of the same name and its primary one).
//! 3. A directory in which all users may write, but in which only owners remove and rename (sticky,
//!    as /tmp), may be on the way: what comes after it has rule 1. It may not hold the file: the
//!    loader looks for other libraries beside that one, and any user could put there what is not
//!    there yet (`libm.so.6`, `glibc-hwcaps`).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::stat::Mode;
use nix::unistd::{Gid, Group, Uid, User, getegid, geteuid};

/// Whose files are trusted.
#[derive(Debug)]
struct Trust {
    user: u32,
    /// The owner of the root directory.
    root: u32,
    /// The user's own group.
    group: Option<u32>,
    /// This is the superuser, with its own group: what group 0 may write is its own.
    is_root: bool,
}

/// What a directory or file is on the way to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// To something else, or the file itself.
    Way,
    /// The directory of the file.
    Holder,
}

/// Why a file should not be loaded by programs of this user, naming what is wrong and whose it is;
/// `None` when it may be.
pub(crate) fn objection(file: &Path) -> Option<String> {
    Trust::of_process().objection(file)
}

impl Trust {
    fn of_process() -> Self {
        let user = geteuid();
        let root = fs::metadata("/").map_or(0, |data| data.uid());
        Self {
            user: user.as_raw(),
            root,
            group: own_group(user),
            is_root: user.is_root() && getegid().as_raw() == 0,
        }
    }

    fn objection(&self, file: &Path) -> Option<String> {
        let Ok(named) = std::path::absolute(file) else {
            return Some(format!("{} cannot be found", file.display()));
        };
        match file.canonicalize() {
            Ok(meant) => {
                let ways = [named.as_path(), meant.as_path()];
                let parts = ways.into_iter().flat_map(Path::ancestors);
                // The directory of each link is on one of the two ways only where no link leads to
                // another one.
                let on_the_way = parts
                    .chain(self.between(&named).iter().flat_map(|it| it.ancestors()))
                    .find_map(|it| self.of_part(it, Role::Way));
                let holders = [
                    named.parent().and_then(|it| it.canonicalize().ok()),
                    meant.parent().map(Path::to_owned),
                ];
                on_the_way.or_else(|| {
                    holders.iter().flatten().find_map(|it| self.of_part(it, Role::Holder))
                })
            }
            Err(error) => Some(format!("{} cannot be looked at: {error}", file.display())),
        }
    }

    /// What the links on a way name, one after the other.
    fn between(&self, way: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut parts: Vec<PathBuf> = way.ancestors().map(Path::to_owned).collect();
        // The kernel follows 40 of them.
        while let Some(part) = parts.pop().filter(|_| found.len() < 40) {
            if let Ok(target) = fs::read_link(&part) {
                let target = part.parent().unwrap_or(Path::new("/")).join(target);
                parts.extend(target.ancestors().map(Path::to_owned));
                found.push(target);
            }
        }
        found
    }

    /// What is wrong with one file, directory or link.
    fn of_part(&self, part: &Path, role: Role) -> Option<String> {
        let shown = part.display();
        let data = match fs::symlink_metadata(part) {
            Ok(data) => data,
            Err(error) => return Some(format!("{shown} cannot be looked at: {error}")),
        };
        if ![self.user, 0, self.root].contains(&data.uid()) {
            return Some(format!("{shown} belongs to {}", name_of(data.uid())));
        }
        let mode = Mode::from_bits_truncate(data.mode());
        // A link's own mode says nothing, and a user that may write in a sticky directory changes
        // nothing that is ours there.
        let is_sticky = data.is_dir() && mode.contains(Mode::S_ISVTX);
        if data.is_symlink() || (is_sticky && role == Role::Way) {
            return None;
        }
        if mode.contains(Mode::S_IWOTH) {
            return Some(format!("every user may write {shown} (mode {:o})", data.mode() & 0o7777));
        }
        let is_ours = Some(data.gid()) == self.group || (data.gid() == 0 && self.is_root);
        let others = mode.contains(Mode::S_IWGRP) && !is_ours;
        others.then(|| {
            format!("group {} may write {shown} (mode {:o})", data.gid(), data.mode() & 0o7777)
        })
    }
}

/// The group that only this user is in, as far as the names say.
fn own_group(user: Uid) -> Option<u32> {
    let user = User::from_uid(user).ok()??;
    let group = Group::from_gid(user.gid).ok()??;
    let is_own = group.name == user.name && group.mem.iter().all(|member| *member == user.name);
    (is_own && Gid::from_raw(group.gid.as_raw()) == getegid()).then(|| group.gid.as_raw())
}

/// A user for people.
pub(crate) fn name_of(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => format!("user {} ({uid})", user.name),
        _ => format!("user {uid}"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_only_this_user_and_the_superuser_may_write_is_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("lib/nanos");
        fs::create_dir_all(&place).unwrap();
        let file = place.join("libgomp.so.1");
        fs::write(&file, "").unwrap();
        // Below /tmp, most often, in which all users may write, and remove their own files.
        assert_eq!(objection(&file), None);
        for (part, mode) in
            [(file.as_path(), 0o646), (&place, 0o757), (dir.path(), 0o777), (&place, 0o1777)]
        {
            let before = fs::metadata(part).unwrap().mode();
            set_mode(part, mode);
            let said =
                objection(&file).unwrap_or_else(|| panic!("{} with mode {mode:o}", part.display()));
            assert!(
                said.contains(&part.display().to_string()) && said.contains("every user"),
                "{said}"
            );
            set_mode(part, before & 0o7777);
        }
        // On the way only.
        set_mode(dir.path(), 0o1777);
        assert_eq!(objection(&file), None);
        // Nor where a link's directory is the one that the loader looks into.
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(objection(&link).is_some_and(|it| it.contains("every user")));
        assert!(
            objection(&place.join("nothing")).is_some_and(|it| it.contains("cannot be looked at"))
        );
    }

    #[test]
    fn a_link_is_as_good_as_what_it_leads_through() {
        let dir = tempfile::tempdir().unwrap();
        let [open, safe] = ["open", "safe"].map(|name| dir.path().join(name));
        fs::create_dir(&open).unwrap();
        fs::create_dir(&safe).unwrap();
        fs::write(safe.join("file"), "").unwrap();
        let link = |from: &Path, to: &Path| std::os::unix::fs::symlink(to, from).unwrap();
        link(&dir.path().join("good"), &safe.join("file"));
        // The one in the middle may be replaced by any user.
        link(&open.join("middle"), &safe.join("file"));
        link(&dir.path().join("bad"), &open.join("middle"));
        set_mode(&open, 0o777);
        assert_eq!(objection(&dir.path().join("good")), None);
        assert!(objection(&dir.path().join("bad")).is_some_and(|it| it.contains("open")));
    }

    #[test]
    fn a_strangers_file_and_what_a_group_may_write_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let data = fs::metadata(&file).unwrap();
        let trust = |user, group| Trust { user, root: 0, group, is_root: false };
        let way = |trust: Trust| trust.of_part(&file, Role::Way);
        set_mode(&file, 0o664);
        let (user, gid) = (data.uid(), data.gid());
        assert_eq!(way(trust(user, Some(gid))), None, "its own group");
        let grouped = way(trust(user, None));
        assert!(grouped.is_some_and(|it| it.contains("group")), "group 0 is not each user's own");
        let grouped = way(Trust { is_root: true, ..trust(user, None) });
        assert_eq!(grouped.is_none(), gid == 0, "{grouped:?}");
        if user != 0 {
            assert!(way(trust(user + 1, None)).is_some_and(|it| it.contains("belongs to")));
        } else {
            nix::unistd::chown(&file, Some(Uid::from_raw(1002)), None).unwrap();
            let said = objection(&file);
            assert!(
                said.as_ref().is_some_and(|it| it.contains("belongs to") && it.contains("1002")),
                "{said:?}"
            );
        }
    }
}
