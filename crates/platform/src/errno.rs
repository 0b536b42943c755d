//! The calling thread's error number, and the numbers' names.

/// The number of the last call that failed.
pub(crate) fn last() -> libc::c_int {
    // SAFETY: - the C library's place for the calling thread's number.
    unsafe { *libc::__errno_location() }
}

/// Makes the next look at the number find this one.
pub(crate) fn set(number: libc::c_int) {
    // SAFETY: - the C library's place for the calling thread's number.
    unsafe { *libc::__errno_location() = number }
}

/// The name of a number in the system's headers; `None` for one that no call made here gives.
pub(crate) fn name(number: libc::c_int) -> Option<&'static str> {
    macro_rules! names {
        ($($name:ident)*) => { [$((libc::$name, stringify!($name))),*] };
    }
    // The names, not the system's table of texts: those depend on its language.
    static NAMES: &[(libc::c_int, &str)] = &names![
        EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP ENODATA ETIME EOVERFLOW EBADMSG EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETDOWN ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN ETOOMANYREFS ETIMEDOUT ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE EDQUOT ECANCELED EOWNERDEAD ENOTRECOVERABLE EPROTO EREMOTEIO EHWPOISON
    ];
    NAMES.iter().find(|(of, _)| *of == number).map(|(_, name)| *name)
}
