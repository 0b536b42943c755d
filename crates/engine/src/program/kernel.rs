//! What is said, once, where the kernel is older than the engine was made for.
//!
//! Older kernels lack calls that it has no other way for in all cases (fences of other threads'
//! processors, handles of processes, wake-ups that name a processor), or do them otherwise. Most
//! programs would work, or nearly: so it is told, and not refused.

use platform::kernel::{release, version};
use platform::message::say;

/// The oldest one on which the engine is tested.
const OLDEST: (u32, u32) = (6, 1);

/// Looks, and says it.
pub(super) fn look() {
    if let Some(text) = release().as_deref().and_then(complaint) {
        say(format_args!("nanos: {text}"));
    }
}

fn complaint(release: &str) -> Option<String> {
    let (first, second) = OLDEST;
    (version(release)? < OLDEST).then(|| {
        format!(
            "this kernel is Linux {release}; {first}.{second} or later is needed. What the older \
             one lacks may show as threads that wait longer than they should, or not at all: run a \
             newer kernel, or one thread (builder().threads(1))"
        )
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_are_too_old_are_told_with_what_to_do_and_unknown_ones_are_not() {
        for release in ["6.1.0", "6.18.3-generic", "7.0", "", "weird"] {
            assert_eq!(complaint(release), None, "{release}");
        }
        for release in ["6.0.19", "5.15.0-91-generic", "2.6.78"] {
            let text = complaint(release).expect("older");
            assert!(text.contains(release) && text.contains("6.1 or later"), "{text}");
        }
    }
}
