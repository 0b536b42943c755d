//! Which kernel the program runs on.

use std::ffi::CStr;
use std::mem::MaybeUninit;

/// The kernel's release, as `uname -r` has it. `None` where the system does not say.
///
/// ```
/// # use nanothreads_platform as platform;
/// let release = platform::kernel::release().expect("Linux says it");
/// assert!(platform::kernel::version(&release).is_some_and(|version| version >= (2, 6)));
/// ```
pub fn release() -> Option<String> {
    let mut names = MaybeUninit::<libc::utsname>::uninit();
    // SAFETY: - written by the call before it is read.
    if unsafe { libc::uname(names.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: - the call succeeded.
    let names = unsafe { names.assume_init() };
    // SAFETY: - the kernel ends it by a zero byte within the array.
    let release = unsafe { CStr::from_ptr(names.release.as_ptr()) };
    Some(release.to_string_lossy().into_owned())
}

/// The first two numbers of a release: 6 and 1 of `6.1.0-18-amd64`.
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn versions_are_the_first_two_numbers() {
        for (release, expected) in [
            ("6.1.0-18-amd64", Some((6, 1))),
            ("5.4.0", Some((5, 4))),
            ("6.18", Some((6, 18))),
            ("4.4.0-19041-Microsoft", Some((4, 4))),
            ("6.6-rc1", Some((6, 6))),
            ("6", None),
            ("", None),
            ("linux", None),
            ("99999999999.1", None),
        ] {
            assert_eq!(version(release), expected, "{release:?}");
        }
    }
}
