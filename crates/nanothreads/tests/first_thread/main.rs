//! Cases that need the first thread of their process, which the usual harness keeps for itself:
//! this one runs them there, one after the other.

#[cfg(loom)]
fn main() {}

#[cfg(not(loom))]
#[macro_use]
#[path = "../process/mod.rs"]
mod process;

#[cfg(not(loom))]
mod bound;
#[cfg(all(not(loom), target_arch = "x86_64"))]
mod instructions;

#[cfg(not(loom))]
fn main() -> std::process::ExitCode {
    let bound = bound::a_bound_team_keeps_its_limit_also_when_the_first_thread_is_its_master;
    let mut trials = vec![libtest_mimic::Trial::test(process::name_of(&bound), move || {
        bound();
        Ok(())
    })];
    #[cfg(target_arch = "x86_64")]
    trials.extend(instructions::trials());
    let mut arguments = libtest_mimic::Arguments::from_args();
    // One at a time is what the library runs on the first thread.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, trials).exit_code()
}
