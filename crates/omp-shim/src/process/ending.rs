//! What is written when the program ends by `exit` or by the return of its main function.

use crate::process::message;

/// Registers `report`, which the variable of that name asked for. It runs in forked children that
/// end in this way, too.
pub(crate) fn at_exit(variable: &str, report: extern "C" fn()) {
    // SAFETY: - the function stays: the library is never unloaded.
    let result = unsafe { libc::atexit(report) };
    if result != 0 {
        message::warn(&format!(
            "{variable}: the system takes no more handlers; nothing is reported"
        ));
    }
}
