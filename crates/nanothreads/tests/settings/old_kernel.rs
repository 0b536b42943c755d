//! A kernel that is older than the engine was made for: it is told, once, and the program runs.

use crate::process::{again, is_again, name_of, output_of};
use nanothreads::par_for;
use std::os::unix::process::CommandExt;

/// Has `uname` say 2.6, by the system's own call for programs that cannot read newer numbers.
const UNAME26: libc::c_ulong = 0x0002_0000;

#[test]
fn an_old_kernel_is_told_once_with_what_to_do() {
    let test = name_of(&|| ());
    if is_again(test) {
        for _ in 0..3 {
            assert_eq!(par_for(0..10).reduce(0, |i| i, |a, b| a + b), 45);
        }
        return;
    }
    let mut command = again(test);
    // SAFETY: - between fork and exec: one system call, which takes a number.
    unsafe {
        command.pre_exec(|| {
            if libc::personality(UNAME26) < 0 {
                Err(std::io::Error::last_os_error())
            } else {
                Ok(())
            }
        });
    }
    let output = output_of(command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("nanos: this kernel is Linux 2.6.").count(), 1, "{said}");
    assert!(said.contains("6.1 or later is needed"), "{said}");
}
