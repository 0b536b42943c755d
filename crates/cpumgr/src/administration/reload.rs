//! `cpumgr reload`: the manager reads its configuration anew.

use arena::client::{ConnectError, Connection};
use arena::message::{Control, FromManager, ToManager};

use super::ANSWER;
use crate::cli::SocketArgs;
use crate::error::Error;
use crate::escape::printable;
use crate::output::complain;
use crate::socket;

/// `cpumgr reload`: returns when what the configuration says is so.
///
/// # Errors
/// When there is no manager, or its configuration has a mistake: then all is as it was.
pub fn reload(args: &SocketArgs) -> Result<(), Error> {
    let socket = socket::to_ask(args.socket.as_deref())?;
    let connection = Connection::open(&socket, ANSWER)?;
    connection.send(&ToManager::Control(Control::Reload))?;
    match connection.receive()?.0 {
        FromManager::Reloaded { later, notes } => {
            notes.iter().for_each(|note| complain(&printable(note)));
            if !later.is_empty() {
                let keys = printable(&later.join(", "));
                complain(&format!("{keys}: what changed there holds from `cpumgr restart` on"));
            }
            Ok(())
        }
        FromManager::Refused(refused) => {
            Err(ConnectError::Refused { path: socket, refused }.into())
        }
        other => Err(connection.broken(format!("it answered `reload` with {other:?}")).into()),
    }
}
