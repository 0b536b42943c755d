//! What a stack overflow of a nano-thread looks like from outside. Each case runs in a process of
//! its own, which dies.

use crate::process::{again, is_again, name_of, output_of};
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

/// What becomes of this program as the child that does the deed.
fn child(test: &str, environment: &[(&str, &str)]) -> Output {
    let mut command = again(test);
    command.envs(environment.iter().copied());
    output_of(command)
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const SIGSEGV: i32 = 11;
const SIGABRT: i32 = 6;

#[expect(unconditional_recursion, reason = "overflows the stack, on purpose")]
fn descend(level: usize) -> usize {
    let frame = black_box([level; 64]);
    descend(black_box(level + 1)) + frame[level % 64]
}

#[test]
fn an_overflow_names_the_nano_thread_its_stack_and_the_remedy() {
    let test = name_of(&|| ());
    if is_again(test) {
        nanothreads::scope(|s| {
            s.task().spawn(|_| ());
            s.task().name("fractal").stack_size(100_000).spawn(|_| {
                black_box(descend(0));
            });
        });
        return;
    }
    let output = child(test, &[]);
    let text = text(&output);
    assert_eq!(output.status.signal(), Some(SIGSEGV), "{text}");
    assert!(
        text.contains(
            "nano-thread `fractal` (number 2 of member 0) overflowed its stack of 102400 bytes"
        ),
        "{text}"
    );
    assert!(text.contains(".stack_size(bytes)") && text.contains("NANOS_STACK="), "{text}");
}

#[test]
fn an_overflow_on_a_thread_that_rust_did_not_create_is_reported_too() {
    let test = name_of(&|| ());
    if is_again(test) {
        // Without an alternate signal stack the handler could not run: such threads come from C
        // programs.
        std::thread::spawn(|| {
            let none = libc::stack_t {
                ss_sp: std::ptr::null_mut(),
                ss_flags: libc::SS_DISABLE,
                ss_size: 0,
            };
            // SAFETY: - takes the thread's alternate stack out of use, which nothing runs on.
            assert_eq!(unsafe { libc::sigaltstack(&none, std::ptr::null_mut()) }, 0);
            let installed = nanothreads::builder().sizer(engine::sizer::Fixed::new(1)).install();
            assert!(installed.is_ok());
            nanothreads::scope(|s| {
                s.spawn(|_| {
                    black_box(descend(0));
                })
            });
        })
        .join()
        .unwrap();
        return;
    }
    let output = child(test, &[]);
    let text = text(&output);
    assert_eq!(output.status.signal(), Some(SIGSEGV), "{text}");
    assert!(
        text.contains("nano-thread (number 1 of member 0) overflowed its stack of 1048576 bytes"),
        "{text}"
    );
}

#[test]
fn the_environment_sets_the_size_of_stacks() {
    let test = name_of(&|| ());
    if is_again(test) {
        nanothreads::scope(|s| {
            s.spawn(|_| {
                black_box(descend(0));
            })
        });
        return;
    }
    let output = child(test, &[("NANOS_STACK", "2097152")]);
    assert!(text(&output).contains("overflowed its stack of 2097152 bytes"), "{}", text(&output));
    let output = child(test, &[("NANOS_STACK", "a lot")]);
    assert!(
        text(&output).contains("NANOS_STACK=a lot: not a number of bytes"),
        "{}",
        text(&output)
    );
    assert!(text(&output).contains("overflowed its stack of 1048576 bytes"), "{}", text(&output));
}

#[test]
fn the_program_chooses_the_size_of_stacks_and_the_environment_overrides_it() {
    let test = name_of(&|| ());
    if is_again(test) {
        let refused = nanothreads::builder().task_stack_size(100).install();
        assert!(matches!(refused, Err(nanothreads::BuildError::TaskStack { asked: 100, .. })));
        nanothreads::builder().task_stack_size(1 << 19).install().unwrap();
        nanothreads::scope(|s| {
            s.spawn(|_| {
                black_box(descend(0));
            })
        });
        return;
    }
    let output = child(test, &[]);
    assert!(text(&output).contains("overflowed its stack of 524288 bytes"), "{}", text(&output));
    let output = child(test, &[("NANOS_STACK", "2097152")]);
    assert!(text(&output).contains("overflowed its stack of 2097152 bytes"), "{}", text(&output));
}

#[test]
fn faults_of_others_reach_the_handler_that_was_there_before() {
    let test = name_of(&|| ());
    if is_again(test) {
        nanothreads::scope(|s| s.spawn(|_| ()));
        // The main thread of a Rust program: its own overflow is the standard library's to report.
        std::thread::Builder::new()
            .name("foreign".into())
            .spawn(|| {
                black_box(descend(0));
            })
            .unwrap()
            .join()
            .unwrap();
        return;
    }
    let output = child(test, &[]);
    let text = text(&output);
    assert_eq!(output.status.signal(), Some(SIGABRT), "{text}");
    assert!(text.contains("foreign") && text.contains("has overflowed its stack"), "{text}");
    assert!(!text.contains("nano-thread"), "{text}");
}

#[test]
fn a_fault_that_is_no_overflow_ends_the_program_by_its_signal() {
    let test = name_of(&|| ());
    if is_again(test) {
        nanothreads::scope(|s| {
            s.spawn(|_| {
                // SAFETY: - none: the child is to die of this fault.
                unsafe { black_box(8 as *mut u32).write_volatile(1) };
            })
        });
        return;
    }
    let output = child(test, &[]);
    let text = text(&output);
    assert_eq!(output.status.signal(), Some(SIGSEGV), "{text}");
    assert!(!text.contains("overflowed"), "{text}");
}

#[test]
fn a_signal_that_another_process_sends_still_ends_the_program() {
    let test = name_of(&|| ());
    if is_again(test) {
        nanothreads::scope(|s| s.spawn(|_| ()));
        // The standard library's handler takes the first one for a fault, and waits for it to
        // happen again.
        loop {
            // SAFETY: - sends a signal to this process.
            unsafe { libc::kill(libc::getpid(), libc::SIGSEGV) };
        }
    }
    let output = child(test, &[]);
    assert_eq!(output.status.signal(), Some(SIGSEGV), "{}", text(&output));
}

#[test]
fn an_overflow_in_a_group_with_settings_names_the_group() {
    let test = name_of(&|| ());
    if is_again(test) {
        nanothreads::scope(|s| {
            s.task_group().name("deep").stack_size(200_000).run(|s| {
                s.spawn(|s| {
                    s.spawn(|_| {
                        black_box(descend(0));
                    });
                });
            });
        });
        return;
    }
    let output = child(test, &[]);
    let text = text(&output);
    assert_eq!(output.status.signal(), Some(SIGSEGV), "{text}");
    assert!(text.contains("nano-thread `deep` (number "), "{text}");
    assert!(text.contains("overflowed its stack of 200704 bytes"), "{text}");
}
