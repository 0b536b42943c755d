//! `cpumgr release`: what a killed manager left attached gets its masks back, for the service
//! manager that runs it after the end of the service (`ExecStopPost=`).
//!
//! # Protocol
//! 1. After an end that was no success: one that was has put the masks back, or left them for the
//!    next manager, which comes at once.
//! 2. No manager has the socket meanwhile. The notes stay, so that the next one, if there is one,
//!    attaches the same processes again.

use crate::cli::SocketArgs;
use crate::error::Error;
use crate::instance::Instance;
use crate::kernel::Linux;
use crate::{log, masks, socket};

/// How the service ended, as the service manager says it.
const RESULT: &str = "SERVICE_RESULT";

/// `cpumgr release`.
///
/// # Errors
/// When a manager runs at the socket, or its directory cannot be used.
pub fn release(args: &SocketArgs) -> Result<(), Error> {
    log::start();
    if std::env::var_os(RESULT).is_some_and(|result| result == "success") {
        return Ok(());
    }
    let socket = socket::to_serve(args.socket.as_deref(), false)?;
    // The service manager may listen there: what counts is whether a manager has the lock.
    let claimed = Instance::claim_with(&socket, true)?;
    masks::put_back(claimed.socket(), &Linux);
    Ok(())
}
