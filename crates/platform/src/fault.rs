//! System calls that fail when a test wants them to. Without feature `faults` there is nothing
//! here.
//!
//! `NANOS_FAULT=CALL=ERRNO@N` lets the N-th call of that name (as
//! [`SysError::call`](crate::SysError::call) says it) fail with that number:
//! `NANOS_FAULT=epoll_ctl=12@3`. The call itself was made: what it did stays done, what it gave is
//! dropped. With `@N+` the N-th and all after it fail.

use crate::error::SysResult;

/// The outcome of a call, or the fault that is wanted in its place.
#[inline]
pub fn or<T>(call: &'static str, outcome: SysResult<T>) -> SysResult<T> {
    #[cfg(feature = "faults")]
    if let Some(errno) = wanted::strike(call) {
        return Err(crate::SysError::new(call, errno));
    }
    #[cfg(not(feature = "faults"))]
    let _ = call;
    outcome
}

#[cfg(feature = "faults")]
mod wanted {
    use crate::lock::Once;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct InjectedFault {
        call: String,
        errno: i32,
        left: AtomicU64,
        /// All that follow fail, too.
        for_good: bool,
    }

    fn parse(text: &str) -> Option<InjectedFault> {
        let (call, rest) = text.rsplit_once('=')?;
        let (errno, turn) = rest.split_once('@')?;
        let (turn, for_good) = match turn.strip_suffix('+') {
            Some(turn) => (turn, true),
            None => (turn, false),
        };
        Some(InjectedFault {
            call: call.into(),
            errno: errno.parse().ok()?,
            left: AtomicU64::new(turn.parse().ok()?),
            for_good,
        })
    }

    /// The number with which this call fails, if it is its turn.
    pub(super) fn strike(call: &str) -> Option<i32> {
        static FAULT: Once<Option<InjectedFault>> = Once::new();
        let fault =
            FAULT.get_or_init(|| std::env::var("NANOS_FAULT").ok().and_then(|text| parse(&text)));
        let fault = fault.as_ref().filter(|fault| fault.call == call)?;
        // ORDERING: Relaxed - a counter of its own; whichever thread counts to zero fails.
        let before = fault
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        let strikes = before == Ok(1) || (fault.for_good && before.is_err());
        if strikes {
            crate::message::say(format_args!("NANOS_FAULT strikes {call}"));
        }
        strikes.then_some(fault.errno)
    }
}
