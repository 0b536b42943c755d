//! The page that all programs read: that the manager lives, what it manages, whether a program
//! wants a processor.
//!
//! One page for all programs, so that a sign of life is one store however many programs there are.

use platform::affinity::CpuSet;
use platform::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::grant::CpuLine;
use crate::header::{Header, Kind, Layout};

/// The size of the page.
pub const GLOBAL_SIZE: usize = 4096;
/// The words of a policy's name.
const NAME_WORDS: usize = 4;
/// The longest name of a policy, in bytes; longer ones are cut.
pub const MAX_POLICY: usize = 8 * NAME_WORDS;
/// How many times a reader of the name looks again.
const LOOKS: usize = 8;

/// Signs of life of the manager.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct LifeLine {
    heartbeat_ns: AtomicU64,
    quantum_ns: AtomicU64,
}

impl LifeLine {
    /// The manager's side: "I ran at `now`", on the monotonic clock.
    pub fn beat(&self, now_ns: u64) {
        // ORDERING: Relaxed - a sign of life, publishes nothing.
        self.heartbeat_ns.store(now_ns, Ordering::Relaxed);
    }

    /// When the manager ran last.
    pub fn heartbeat_ns(&self) -> u64 {
        // ORDERING: Relaxed - a sign of life, publishes nothing.
        self.heartbeat_ns.load(Ordering::Relaxed)
    }

    /// The manager's side: the quantum in force.
    pub fn set_quantum_ns(&self, quantum_ns: u64) {
        // ORDERING: Relaxed - a number on its own.
        self.quantum_ns.store(quantum_ns, Ordering::Relaxed);
    }

    /// The quantum in force.
    pub fn quantum_ns(&self) -> u64 {
        // ORDERING: Relaxed - a number on its own.
        self.quantum_ns.load(Ordering::Relaxed)
    }
}

/// The manager's state as numbers.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct StateLine {
    processors: AtomicU32,
    programs: AtomicU32,
    waiting: AtomicU32,
    queued: AtomicU32,
    policy: [AtomicU64; NAME_WORDS],
    reports: AtomicU32,
    domain: AtomicU32,
}

/// One copy of the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Processors that are managed.
    pub processors: u32,
    /// Programs that are managed.
    pub programs: u32,
    /// Programs that could use more processors than they have: the length of the work-list. Not 0:
    /// a program wants a processor.
    pub waiting: u32,
    /// Programs that wait to be started.
    pub queued: u32,
    /// The policy decides by what programs report of their speedups: a program that reports nothing
    /// gets little.
    pub reports: bool,
    /// Programs may join a domain, in which they pass processors to each other.
    pub domain: bool,
}

impl StateLine {
    /// The manager's side. Writes what differs: the line stays in the readers' caches while nothing
    /// changes.
    pub fn set(&self, state: State) {
        let words = [
            (&self.processors, state.processors),
            (&self.programs, state.programs),
            (&self.waiting, state.waiting),
            (&self.queued, state.queued),
            (&self.reports, u32::from(state.reports)),
            (&self.domain, u32::from(state.domain)),
        ];
        for (word, value) in words {
            // ORDERING: Relaxed - numbers on their own; a program that acts on one reads nothing
            // else that the manager wrote.
            if word.load(Ordering::Relaxed) != value {
                word.store(value, Ordering::Relaxed);
            }
        }
    }

    /// The numbers, each on its own.
    pub fn get(&self) -> State {
        // ORDERING: Relaxed, all six - numbers on their own.
        State {
            processors: self.processors.load(Ordering::Relaxed),
            programs: self.programs.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
            queued: self.queued.load(Ordering::Relaxed),
            reports: self.reports(),
            domain: self.domain(),
        }
    }

    /// How many programs could use more than they have. One load.
    #[inline]
    pub fn waiting(&self) -> u32 {
        // ORDERING: Relaxed - a hint: a program that releases a processor that no other wants any
        // more gets it back.
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether the policy decides by reported speedups. One load.
    #[inline]
    pub fn reports(&self) -> bool {
        // ORDERING: Relaxed - a hint: a program that measures for nothing has lost a little time.
        self.reports.load(Ordering::Relaxed) != 0
    }

    /// Whether there is a domain to join. One load.
    #[inline]
    pub fn domain(&self) -> bool {
        // ORDERING: Relaxed - as long as the manager lives the answer is the same.
        self.domain.load(Ordering::Relaxed) != 0
    }

    /// The manager's side: the policy's name, cut after [`MAX_POLICY`] bytes.
    pub fn set_policy(&self, name: &str) {
        let mut bytes = [0; MAX_POLICY];
        let length = name.len().min(MAX_POLICY);
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        for (word, part) in self.policy.iter().zip(bytes.chunks_exact(8)) {
            let part = part.try_into().expect("chunks of eight bytes");
            // ORDERING: Relaxed - a name for people; a reader that meets two names looks again.
            word.store(u64::from_le_bytes(part), Ordering::Relaxed);
        }
    }

    /// The policy's name: for people.
    pub fn policy(&self) -> String {
        let look = || self.policy.each_ref().map(|word| word.load(Ordering::Relaxed));
        let mut words = look();
        for _ in 0..LOOKS {
            let again = look();
            if again == words {
                break;
            }
            words = again;
        }
        let bytes: Vec<u8> = words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .take_while(|byte| *byte != 0)
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Manager to all programs, which map it read-only.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Global {
    /// What this area is. Its slot is the time at which the manager began: another number is
    /// another manager.
    pub header: Header,
    /// That the manager lives.
    pub life: LifeLine,
    /// What it does.
    pub state: StateLine,
    /// The processors that it manages. Written before any program has the page.
    pub cpus: CpuLine,
}

impl Global {
    /// The processors that are managed.
    pub fn managed(&self) -> CpuSet {
        self.cpus.read()
    }
}

// SAFETY: - `repr(C)`, atomics only (see the type).
//         - the size is asserted below and in tests/golden_layout.rs.
unsafe impl Layout for Global {
    const SIZE: usize = GLOBAL_SIZE;
    const KIND: Kind = Kind::Global;

    fn header(&self) -> &Header {
        &self.header
    }
}

// Loom's atomics are larger than words; a model never maps an area.
#[cfg(not(loom))]
const _: () = assert!(size_of::<Global>() <= GLOBAL_SIZE);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_back_and_a_long_one_is_cut() {
        let line = StateLine::default();
        assert_eq!(line.policy(), "");
        line.set_policy("dss-ts");
        assert_eq!(line.policy(), "dss-ts");
        let long = "x".repeat(MAX_POLICY + 5);
        line.set_policy(&long);
        assert_eq!(line.policy(), long[..MAX_POLICY]);
    }

    #[test]
    fn numbers_come_back() {
        let line = StateLine::default();
        let state = State {
            processors: 8,
            programs: 3,
            waiting: 2,
            queued: 1,
            reports: true,
            domain: true,
        };
        line.set(state);
        assert_eq!((line.get(), line.waiting(), line.reports()), (state, 2, true));
    }
}
