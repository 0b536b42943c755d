//! How a program finds its manager and registers with it.

use super::Managed;
use arena::client::{Client, Hello, SocketChoice, find_socket};
use arena::domain::Domain;
use platform::affinity::CpuSet;
use platform::message::say;
use std::path::Path;
use std::time::Duration;

/// Time that a program spends at most on registering before it goes on without a manager; the
/// watcher's thread then goes on trying.
const REGISTRATION: Duration = Duration::from_millis(500);

/// The manager of this program, if one answers, or has had no time to answer yet. The program's
/// threads stay within `mask`. Not a part of its caller's frame: threads with the smallest stacks
/// come here, and have the rest of them for what sizes teams where there is no manager.
#[inline(never)]
pub(super) fn register(library: &str, processors: usize, mask: &CpuSet) -> Option<Managed> {
    let (path, explicit) = match find_socket() {
        SocketChoice::Off | SocketChoice::None => return None,
        SocketChoice::Explicit(path) => (path, true),
        SocketChoice::Found(path) => (path, false),
    };
    let wanted = u32::try_from(processors).unwrap_or(u32::MAX);
    let hello = Hello {
        max_processors: wanted,
        request: wanted,
        fixed_team: false,
        broker: false,
        library: library.to_owned(),
        // What its threads are bound within (`placement`): explicit places, taskset, a cpuset
        // (D14).
        within: Some(mask.clone()),
    };
    match Client::connect(&path, &hello, REGISTRATION) {
        Ok(client) => Some(managed_by(client, &path)),
        Err(error) => {
            // A manager that had no time for us takes us in later: mask and quota count until then.
            let later = error.may_pass().then(|| Client::expect(&path, &hello).ok()).flatten();
            let until = if later.is_some() { " until it answers" } else { "" };
            // A manager that was named and does not answer is worth a line; one that merely might
            // be there is not.
            if explicit {
                say(format_args!(
                    "nanos: {error}; running without a manager{until} (NANOS_CPUMGR={})",
                    path.display()
                ));
            }
            later.map(Managed::new)
        }
    }
}

/// Follows `client`, in the domain of the manager at `path` if it has one.
fn managed_by(client: Client, path: &Path) -> Managed {
    let has_domain = client.has_domain();
    let managed = Managed::new(client);
    if !has_domain {
        return managed;
    }
    match Domain::join(path, REGISTRATION) {
        Ok(domain) => managed.in_domain(domain),
        Err(error) => managed.outside_domain(&error),
    }
}
