//! Programs that handle SIGSEGV themselves.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::memory::{by_guards, by_userfault, eager, source_on, sweep, sweep_windows};
use crate::{CHILD, is_child};

use platform::numa::{self, Pages, Protection};
use upm::CounterSource;
use upm::source::{Scope, TrapSource};

/// The program's own page, which its handler opens.
static OWN: AtomicUsize = AtomicUsize::new(0);
/// What its handler was called for.
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// What it found when it was installed late.
static FOUND: AtomicUsize = AtomicUsize::new(0);

extern "C" fn own_handler(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    CALLS.fetch_add(1, SeqCst);
    let page = numa::page_bytes();
    let own = OWN.load(SeqCst);
    // SAFETY: - a page fault of the kernel's has an address.
    let address = unsafe { (*info).si_addr() }.addr();
    if (own..own + page).contains(&address) {
        // SAFETY: - the test's page.
        let _ = unsafe { numa::protect(own..own + page, Protection::ReadWrite) };
        return;
    }
    let found = FOUND.load(SeqCst);
    if found == 0 {
        // SAFETY: - ends the process: a fault that is no one's.
        unsafe { libc::_exit(99) };
    }
    type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
    // SAFETY: - a handler with SA_SIGINFO, as ours is.
    let found = unsafe { std::mem::transmute::<usize, Handler>(found) };
    found(signal, info, context);
}

fn install_own() -> usize {
    install_own_for(libc::SIGSEGV)
}

fn install_own_for(signal: libc::c_int) -> usize {
    // SAFETY: - sigaction is plain data.
    let (mut new, mut old): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    new.sa_sigaction = own_handler as *const () as usize;
    new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: - both are valid; the handler does what a handler may.
    assert_eq!(unsafe { libc::sigaction(signal, &new, &mut old) }, 0);
    old.sa_sigaction
}

/// Records while the program's own page faults, too.
fn record_with_own_faults() {
    let pages = Pages::map(32 * numa::page_bytes()).unwrap();
    let source = source_on(&pages, eager());
    record_beside_own_faults(&pages, source);
}

fn record_beside_own_faults(pages: &Pages, mut source: TrapSource) {
    let page = numa::page_bytes();
    let own = Pages::map(page).unwrap();
    OWN.store(own.first().as_ptr().expose_provenance(), SeqCst);
    source.start(Scope::Iteration).unwrap();
    for round in 1..=5 {
        // SAFETY: - the test's page, which its handler opens.
        unsafe { numa::protect(own.addresses(), Protection::None) }.unwrap();
        let calls = CALLS.load(SeqCst);
        sweep(OWN.load(SeqCst), page);
        assert_eq!(CALLS.load(SeqCst), calls + 1, "in round {round}");
        sweep_windows(&source, pages, 2);
        assert_eq!(CALLS.load(SeqCst), calls + 1, "in round {round}");
    }
    source.stop();
    assert!(source.faults() > 0);
}

#[test]
fn a_handler_of_the_program_gets_its_own_faults_and_no_others() {
    const NAME: &str = "handlers::a_handler_of_the_program_gets_its_own_faults_and_no_others";
    if is_child(NAME) {
        install_own();
        record_with_own_faults();
        let bytes = 32 * numa::page_bytes();
        for (pages, source) in [by_guards(bytes), by_userfault(bytes)].into_iter().flatten() {
            record_beside_own_faults(&pages, source);
        }
    }
}

/// As a program's serial part between two regions may.
#[test]
fn a_handler_that_the_program_installs_in_a_pause_takes_no_faults_away() {
    const NAME: &str =
        "handlers::a_handler_that_the_program_installs_in_a_pause_takes_no_faults_away";
    if !is_child(NAME) {
        return;
    }
    let bytes = 32 * numa::page_bytes();
    let pages = Pages::map(bytes).unwrap();
    let by_rights = source_on(&pages, eager());
    let all = [Some((pages, by_rights)), by_guards(bytes), by_userfault(bytes)];
    for (pages, mut source) in all.into_iter().flatten() {
        // All is armed in each window, also when it is decided.
        source.start(Scope::Phases).unwrap();
        for round in 1..=3 {
            sweep_windows(&source, &pages, 2);
            source.pause();
            for signal in [libc::SIGSEGV, libc::SIGBUS] {
                install_own_for(signal);
            }
            source.resume();
            let faults = source.faults();
            while source.faults() == faults {
                sweep_windows(&source, &pages, 1);
            }
            assert_eq!(CALLS.load(SeqCst), 0, "in round {round}");
        }
        source.stop();
    }
}

#[test]
fn a_handler_that_the_program_installs_later_and_chains_makes_no_circle() {
    const NAME: &str =
        "handlers::a_handler_that_the_program_installs_later_and_chains_makes_no_circle";
    if std::env::var(CHILD).is_ok_and(|wanted| wanted == NAME) {
        let pages = Pages::map(32 * numa::page_bytes()).unwrap();
        let mut source = source_on(&pages, eager());
        source.start(Scope::Iteration).unwrap();
        sweep_windows(&source, &pages, 2);
        source.stop();
        // Ours is what it finds.
        FOUND.store(install_own(), SeqCst);
        for _ in 0..3 {
            record_with_own_faults();
        }
        // A fault of no one: through ours, the program's, ours below it, to the default action.
        println!("and now it dies");
        sweep(8, 1);
        unreachable!("an access to address 8");
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", NAME, "--nocapture", "--test-threads=1"]).env(CHILD, NAME);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(signal, Some(libc::SIGSEGV), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("and now it dies"), "{text}");
}
