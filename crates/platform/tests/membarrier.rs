//! The fence pair as programs have it: the choice is made while the process has one thread.
//! (Without the test harness, which starts threads before it runs a test, so that both sides would
//! use fences.)
//!
//! What loom cannot judge, because it has fences on both sides.

#[cfg(loom)]
fn main() {}

#[cfg(not(loom))]
fn main() {
    alone::run();
}

#[cfg(not(loom))]
mod alone {
    use nanothreads_platform::membarrier::{
        INTERVAL, heavy, heavy_if_due, is_asymmetric, light, prepare,
    };
    use std::hint::spin_loop;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;
    use std::sync::atomic::{
        AtomicU32,
        Ordering::{AcqRel, Acquire, Relaxed},
    };
    use std::time::Instant;

    /// Says what a child of this program is to do.
    const CHILD: &str = "NANOS_TEST_MEMBARRIER";

    pub(super) fn run() {
        prepare();
        if !is_asymmetric() {
            return nanothreads_platform::skip!("this kernel has no private expedited membarrier");
        }
        match std::env::var(CHILD).as_deref() {
            Ok("heavy") => without_the_call(heavy),
            Ok(_) => {
                without_the_call(|| assert_eq!(heavy_if_due(), None, "a thread's first one is due"))
            }
            Err(_) => {}
        }
        a_sleeper_s_barrier_is_a_call_of_the_kernel();
        a_thread_has_one_barrier_in_an_interval_and_may_sleep_for_the_rest_of_it();
        at_least_one_of_waker_and_sleeper_sees_the_other_s_write();
    }

    /// Takes the call from this process, and issues a barrier: that it cannot be had must be
    /// noticed.
    fn without_the_call(barrier: impl FnOnce()) -> ! {
        if let Err(error) = refuse_membarrier() {
            println!("cannot filter: {error}");
            std::process::exit(0);
        }
        barrier();
        println!("the barrier was never asked for");
        std::process::exit(1)
    }

    fn refuse_membarrier() -> std::io::Result<()> {
        const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
        const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
        let step = |code, jt, k| libc::sock_filter { code, jt, jf: 0, k };
        // The number of the call is the first word of what a filter sees.
        let mut steps = [
            step(LOAD, 0, 0),
            step(IF_EQUAL, 1, u32::try_from(libc::SYS_membarrier).expect("a small number")),
            step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
            step(RETURN, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned()),
        ];
        let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        // SAFETY: - takes numbers only.
        let own = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        // SAFETY: - the program and its steps outlive the call.
        let set = unsafe {
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
        };
        if own == 0 && set == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    }

    fn a_sleeper_s_barrier_is_a_call_of_the_kernel() {
        for barrier in ["heavy", "heavy_if_due"] {
            let own = std::env::current_exe().expect("the path of this test");
            let output = Command::new(own).env(CHILD, barrier).output().expect("it runs again");
            let (out, err) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            if out.starts_with("cannot filter") {
                nanothreads_platform::skip!("{out}");
                continue;
            }
            assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{barrier}: {out}{err}");
            assert!(err.contains("the kernel withdrew membarrier"), "{barrier}: {out}{err}");
        }
    }

    fn a_thread_has_one_barrier_in_an_interval_and_may_sleep_for_the_rest_of_it() {
        // A thread of its own: the first barrier is due at once.
        let outcomes = std::thread::spawn(|| {
            let begin = Instant::now();
            let outcomes: Vec<_> = (0..2000).map(|_| heavy_if_due()).collect();
            (outcomes, begin.elapsed())
        });
        let (outcomes, took) = outcomes.join().expect("it does not panic");
        assert_eq!(outcomes[0], None);
        assert!(outcomes.iter().flatten().all(|rest| *rest <= INTERVAL));
        let barriers = outcomes.iter().filter(|outcome| outcome.is_none()).count() as u128;
        assert!(barriers <= took.as_millis() + 1, "{barriers} barriers in {took:?}");
    }

    /// The store-buffering litmus, whose forbidden outcome two processors show some hundred times
    /// in `ROUNDS` rounds where one side has no fence.
    fn at_least_one_of_waker_and_sleeper_sees_the_other_s_write() {
        const ROUNDS: u32 = 30_000;
        let (condition, word, ready) = (Apart::default(), Apart::default(), Apart::default());
        let side = |barrier: fn(), mine: &Apart, other: &Apart| -> Vec<bool> {
            let rounds = 1..=ROUNDS;
            let seen = rounds.map(|round| {
                let mut looks = 0_u32;
                ready.0.fetch_add(1, AcqRel);
                while ready.0.load(Acquire) < 2 * round {
                    looks += 1;
                    // Where the other one has no processor it needs this one.
                    if looks.is_multiple_of(1000) { std::thread::yield_now() } else { spin_loop() }
                }
                mine.0.store(round, Relaxed);
                barrier();
                other.0.load(Relaxed) >= round
            });
            seen.collect()
        };
        let (woken, looked) = std::thread::scope(|scope| {
            let waker = scope.spawn(|| side(light, &condition, &word));
            let sleeper = side(heavy, &word, &condition);
            (waker.join().expect("it does not panic"), sleeper)
        });
        let lost =
            woken.iter().zip(&looked).filter(|(waker, sleeper)| !**waker && !**sleeper).count();
        assert_eq!(lost, 0, "neither saw the other, of {ROUNDS} rounds");
    }

    /// A word on a line of its own.
    #[derive(Default)]
    #[repr(align(128))]
    struct Apart(AtomicU32);
}
