//! Domain mode: an area that the programs of one user share, in which an idle processor passes
//! itself to another program directly (M6), without the manager in between. The original's way;
//! opt-in, because every program of the domain can write what it wants there. The protected way
//! (release to the manager) is the default.
//!
//! # Protocol
//! 1. The manager gives each program of the domain a line. Into the lines of the first two of the
//!    work-list it writes their rank and how many processors each could use beyond what it has.
//!    (Two, because the first may be the giver, or have all that it wants by now.)
//! 2. *Pass.* A virtual processor that has nothing to run while another program wants a processor
//!    takes one from the wish of the first other line ([`Domain::pass`]), notes its processor in
//!    that line as given and as moved, wakes the thread that sleeps there, and parks.
//! 3. *Take.* From now on until it has landed the processor is *in the air*: the giver counts it
//!    out of its grant ([`Domain::passed`]), the receiver into its own ([`Domain::coming`]): the
//!    next region is larger, and a virtual processor that had none runs there. A program that only
//!    waits for one takes it ([`Domain::take`]).
//! 4. *Settle.* The manager reads what moved, when the giver's ring has come to it, at the latest
//!    at the end of the quantum, writes it into its books as far as the giver had the processor and
//!    the receiver wanted one, publishes both grants, and clears what moved: it has *landed*
//!    ([`MemberLine::land`]). What it does not believe it takes back from the receiver, as any
//!    processor (ask, grace, squeeze).
//! 5. *Again.* A program that another manager took in joins that one's domain
//!    ([`Domain::join_again`]): its line is nowhere while the new area is put in the old one's
//!    place, so that nothing comes and nothing is passed. What was in the air under the old manager
//!    is the new one's to give.
//!
//! # Invariants
//! - D1 A given processor is taken once: the thread that clears its bit has it.
//! - D2 No more processors are given to a line than its wish said.
//! - D3 No program waits for another, and nothing in the area is an index or a pointer that is not
//!   checked.
//! - D4 The manager does nothing because of the area that the books do not allow: the worst that a
//!   program of the domain can do is what one user's programs can do to each other anyway (D10).
//! - D5 A processor that is believed is in the air or in the receiver's grant from its pass on,
//!   without a gap, for a reader that looks at the air first: it lands after the grants. A process
//!   that does not follow the protocol may clear it earlier: then the grant holds.
//!
//! # Races
//! Two givers, one wish: A and B find that one is wanted. One exchange succeeds, the other reads 0
//! and goes on to the next line.
//!
//! A pass and a new grant: A passes processor 3 while the manager gives 3 to C. The receiver runs
//! on 3 beside C until the manager settles: it finds that A did not have 3 any more, and takes it
//! back from the receiver.
//!
//! A pass and its landing: A passes 3 to B, the manager publishes A's grant without and B's with
//! it, and clears the bit. B looks at the air and finds 3, then at its grant, and finds 3 again:
//! that is one. B looks at the air and finds it landed: then its grant has it. With the bit cleared
//! before the grants B would find 3 in neither, and A would count it as its own again.
//!
//! A processor that is passed twice: 3 is cleared by the landing of the first pass, and a second
//! one is lost, if the same giver passed it again before that. It does not: what it passed is none
//! of its own while it is in the air.
//!
//! A look and another area: A reads its line's number, B puts the new area in place, A reads that
//! number's line there, which may be another program's. A finds that the number is not the same any
//! more, and takes nothing for coming; where it is the same, the line is A's in both areas.
//!
//! A pass and a sleeper: A notes the processor, fences and looks whether a thread sleeps; B marks
//! that it sleeps, fences and looks for a processor. One of them sees the other (`park`).
//!
//! # Access
//! `slot`, `wish` (up): the manager. `wish` (down), `given` (set), `moved` (set): any program of
//! the domain. `given` (clear): the receiver. `moved` (clear): the manager. What a program passed
//! is in its own memory.
//!
//! # Papers
//! P2 section 3.3: an idle processor looks for work in its program, then assigns itself to one of
//! the work-list. There the area held all programs' data; here it holds only what a pass needs, and
//! grants stay in protected areas.

use platform::affinity::CpuId;
use platform::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::grant::{CPU_WORDS, MAX_CPUS};
use crate::header::{Header, Kind, Layout};
use crate::park::ParkWord;

/// Programs of one domain; loom explores two.
#[cfg(not(loom))]
pub const MAX_MEMBERS: usize = 64;
/// Programs of one domain; loom explores two.
#[cfg(loom)]
pub const MAX_MEMBERS: usize = 2;
const WISH_BITS: u32 = 16;
const WISH_MASK: u32 = (1 << WISH_BITS) - 1;
/// The size of the area.
pub const DOMAIN_SIZE: usize = 7 * 4096;

/// One program of the domain.
#[derive(Debug, Default)]
#[cfg_attr(not(loom), repr(C, align(128)))]
pub struct MemberLine {
    /// The program's number in the manager's life; 0: no program's line.
    slot: AtomicU64,
    /// Bits 0-15: processors wanted; bits 16-31: the rank, 1 for the first of the work-list.
    wish: AtomicU32,
    /// Where a virtual processor of the program sleeps that waits for a processor.
    pub park: ParkWord,
    given: [AtomicU64; CPU_WORDS],
    moved: [AtomicU64; CPU_WORDS],
}

impl MemberLine {
    /// The manager's side: whose line this is, how many processors that program could use beyond
    /// what it has, and which place it has in the work-list (1: the first). No program gives to a
    /// line that wants none.
    pub fn offer(&self, slot: u64, rank: u32, wants: u32) {
        let wish =
            if wants == 0 { 0 } else { rank.min(WISH_MASK) << WISH_BITS | wants.min(WISH_MASK) };
        // ORDERING: Relaxed, both - numbers on their own: a program that acts on an old one gives a
        // processor that the manager takes back, or gives none.
        if self.slot.load(Ordering::Relaxed) != slot {
            self.slot.store(slot, Ordering::Relaxed);
        }
        if self.wish.load(Ordering::Relaxed) != wish {
            self.wish.store(wish, Ordering::Relaxed);
        }
    }

    /// Whose line this is.
    pub fn slot(&self) -> u64 {
        // ORDERING: Relaxed - a number on its own.
        self.slot.load(Ordering::Relaxed)
    }

    /// How many processors the program could use, less what was given to it since.
    pub fn wants(&self) -> u32 {
        // ORDERING: Relaxed - a hint.
        self.wish.load(Ordering::Relaxed) & WISH_MASK
    }

    /// Its rank, when it wants a processor.
    fn rank(&self) -> Option<u32> {
        // ORDERING: Relaxed - a hint: `give` decides.
        let wish = self.wish.load(Ordering::Relaxed);
        (wish & WISH_MASK > 0).then_some(wish >> WISH_BITS)
    }

    /// Whether it is the first of the work-list, even if others have given it all that it wants.
    fn is_first(&self) -> bool {
        // ORDERING: Relaxed - a hint: the manager's books decide.
        self.wish.load(Ordering::Relaxed) >> WISH_BITS == 1
    }

    /// Step 2 for this line. False: it wants none.
    pub fn give(&self, cpu: CpuId) -> bool {
        let (word, bit) = place(cpu);
        let less = |wish: u32| (wish & WISH_MASK > 0).then(|| wish - 1);
        // ORDERING: Relaxed - D2 needs the exchange and nothing before or after it.
        if word >= CPU_WORDS
            || self.wish.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err()
        {
            return false;
        }
        // ORDERING(domain.move): Release - what ran on the processor before; pairs with
        // ORDERING(domain.settle).
        self.moved[word].fetch_or(bit, Ordering::Release);
        // ORDERING(domain.give): Release - as above; pairs with ORDERING(domain.take). After
        // `moved`, so that a thread that has taken a processor finds it noted there.
        self.given[word].fetch_or(bit, Ordering::Release);
        // After that (`park.wake`).
        self.park.wake();
        true
    }

    /// Step 3 for this line: a processor, if one was given.
    pub fn take(&self) -> Option<CpuId> {
        for (index, word) in self.given.iter().enumerate() {
            // ORDERING: Relaxed - a look; the exchange below decides.
            let mut seen = word.load(Ordering::Relaxed);
            while seen != 0 {
                let bit = seen & seen.wrapping_neg();
                // ORDERING(domain.take): Acquire - what ran on the processor before; pairs with
                // ORDERING(domain.give).
                let before = word.fetch_and(!bit, Ordering::Acquire);
                if before & bit != 0 {
                    return Some(CpuId(index as u32 * 64 + bit.trailing_zeros()));
                }
                // A sibling was faster.
                seen = before & !bit;
            }
        }
        None
    }

    /// Steps 3 and 4: the processors that were given and have not landed. To be read before the
    /// grant.
    pub fn coming(&self) -> Vec<CpuId> {
        let mut coming = Vec::new();
        for (index, word) in self.moved.iter().enumerate() {
            // ORDERING(domain.settle): Acquire - what ran on the processor before; pairs with
            // ORDERING(domain.move). And that a processor that has landed is in the grant; pairs
            // with ORDERING(domain.land).
            let mut bits = word.load(Ordering::Acquire);
            while bits != 0 {
                coming.push(CpuId(index as u32 * 64 + bits.trailing_zeros()));
                bits &= bits - 1;
            }
        }
        coming
    }

    /// Whether a processor was given and has not landed.
    pub fn is_coming(&self, cpu: CpuId) -> bool {
        let (word, bit) = place(cpu);
        // ORDERING(domain.landed): Acquire - that it is in no grant of the giver any more; pairs
        // with ORDERING(domain.land).
        self.moved.get(word).is_some_and(|word| word.load(Ordering::Acquire) & bit != 0)
    }

    /// Step 4, the manager's side, after the grants: what the books say of `cpu` is all that there
    /// is to know.
    pub fn land(&self, cpu: CpuId) {
        let (word, bit) = place(cpu);
        if let Some(word) = self.moved.get(word) {
            // ORDERING(domain.land): Release - the grants; pairs with ORDERING(domain.settle) and
            // ORDERING(domain.landed).
            word.fetch_and(!bit, Ordering::Release);
        }
    }

    /// The manager's side: no program's line any more. What was given and not taken belongs to
    /// none.
    pub fn clear(&self) {
        self.offer(0, 0, 0);
        for word in self.given.iter().chain(&self.moved) {
            // ORDERING: Relaxed - the program that used the line is gone.
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// The word and the bit of a processor; a word beyond the last one for a processor that the arena
/// cannot name.
fn place(cpu: CpuId) -> (usize, u64) {
    if cpu.0 < MAX_CPUS { ((cpu.0 / 64) as usize, 1 << (cpu.0 % 64)) } else { (CPU_WORDS, 0) }
}

/// Gives `cpu` to that of these lines that wants one and has the first rank, but not to line `own`.
/// To none where the first of the work-list is no program of the domain: it has that one's turn.
/// The giver's side of step 2.
pub fn pass(members: &[MemberLine], own: usize, cpu: CpuId) -> Option<usize> {
    if !members.iter().any(MemberLine::is_first) {
        return None;
    }
    let others = members.iter().enumerate().filter(|(index, _)| *index != own);
    let (_, index) = others.filter_map(|(index, member)| Some((member.rank()?, index))).min()?;
    members[index].give(cpu).then_some(index)
}

mod mapped {
    use platform::lock::Mutex;
    use std::os::fd::{AsFd, OwnedFd};
    use std::path::Path;
    use std::sync::{MutexGuard, PoisonError};
    use std::time::Duration;

    use platform::SysResult;
    use platform::affinity::CpuId;
    use platform::shm::SharedMemory;
    use platform::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::{DOMAIN_SIZE, Header, Kind, Layout, MAX_MEMBERS, MemberLine};
    use crate::area::Area;
    use crate::client::{ConnectError, Connection};
    use crate::message::{Heard, Said};

    /// The whole area.
    #[derive(Debug)]
    #[repr(C)]
    pub(super) struct Lines {
        /// What this area is. Its slot is the time at which the manager began.
        header: Header,
        /// The programs, in the order in which they are looked at.
        members: [MemberLine; MAX_MEMBERS],
    }

    // SAFETY: - `repr(C)`, atomics only.
    //         - the size is asserted below.
    unsafe impl Layout for Lines {
        const SIZE: usize = DOMAIN_SIZE;
        const KIND: Kind = Kind::Domain;

        fn header(&self) -> &Header {
            &self.header
        }
    }

    // Loom's atomics are larger than words; a model never maps an area.
    #[cfg(not(loom))]
    const _: () = assert!(size_of::<Lines>() <= DOMAIN_SIZE);

    /// The manager's end.
    #[derive(Debug)]
    pub struct DomainArea {
        area: Area<Lines>,
        descriptor: OwnedFd,
    }

    impl DomainArea {
        /// An area without programs, of a manager that began at `now_ns`.
        ///
        /// # Errors
        /// When the system has no memory or no descriptors left.
        pub fn create(now_ns: u64) -> SysResult<Self> {
            let memory = SharedMemory::create("nanos-domain", DOMAIN_SIZE)?;
            let area = Area::<Lines>::new(memory.map_read_write()?);
            area.header.write(Kind::Domain, DOMAIN_SIZE, now_ns);
            Ok(Self { area, descriptor: memory.into() })
        }

        /// The lines.
        pub fn members(&self) -> &[MemberLine] {
            &self.area.members
        }

        /// What programs get: they can write.
        pub fn descriptor(&self) -> impl AsFd + '_ {
            self.descriptor.as_fd()
        }
    }

    /// No line.
    const NOWHERE: usize = usize::MAX;

    /// A program's end.
    #[derive(Debug)]
    pub struct Domain {
        area: Area<Lines>,
        /// The program's line; [`NOWHERE`] while the area is exchanged. Changed under the lock of
        /// `passed`.
        own: AtomicUsize,
        /// What was passed, and to which line. While a thread has the lock the area is not
        /// exchanged.
        passed: Mutex<Vec<(usize, CpuId)>>,
        /// There may be something.
        has_passed: AtomicBool,
    }

    /// Asks the manager at `path` for a line and the area.
    fn enter(path: &Path, timeout: Duration) -> Result<(usize, Area<Lines>), ConnectError> {
        let connection = Connection::open(path, timeout)?;
        connection.say(&Said::Join)?;
        let (line, mut descriptors) = match connection.hear()? {
            (Heard::Joined { line }, descriptors) => (line as usize, descriptors),
            (Heard::Refused(refused), _) => {
                return Err(ConnectError::Refused { path: path.to_owned(), refused });
            }
            (other, _) => {
                return Err(connection
                    .broken(format!("it answered the client that wanted to join with {other:?}")));
            }
        };
        let (Some(descriptor), true) = (descriptors.pop(), line < MAX_MEMBERS) else {
            return Err(connection.broken(format!("line {line} of its domain, or no descriptor")));
        };
        let area = Area::<Lines>::receive(descriptor, true);
        let area = area.map_err(|error| connection.broken(error.to_string()))?;
        Ok((line, area))
    }

    impl Domain {
        /// Joins the domain of the manager at `path`, with which this process is registered. After
        /// [`Client::registrations`](crate::client::Client::registrations) has changed the area is
        /// another manager's: [`Domain::join_again`].
        ///
        /// # Errors
        /// When there is no manager, or it has no domain, or no room, or this process is not
        /// registered.
        pub fn join(path: &Path, timeout: Duration) -> Result<Self, ConnectError> {
            let (line, area) = enter(path, timeout)?;
            Ok(Self {
                area,
                own: AtomicUsize::new(line),
                passed: Mutex::default(),
                has_passed: AtomicBool::new(false),
            })
        }

        /// Step 5: the same in the domain of the manager that is at `path` now, which took this
        /// process in. Other threads go on using this, and find the new area.
        ///
        /// # Errors
        /// As [`Domain::join`], or when the new area cannot be put in the old one's place: then the
        /// program has no line.
        pub fn join_again(&self, path: &Path, timeout: Duration) -> Result<(), ConnectError> {
            let (line, area) = enter(path, timeout)?;
            let mut passed = self.in_the_air();
            passed.clear();
            // ORDERING: Relaxed, both - under the lock; a thread that looks without it passes
            // nothing, and has a hint.
            self.has_passed.store(false, Ordering::Relaxed);
            self.own.store(NOWHERE, Ordering::Relaxed);
            let replaced = self.area.replace(area);
            replaced.map_err(|source| ConnectError::System {
                path: path.to_owned(),
                source: source.into(),
            })?;
            // ORDERING(domain.again): Release - the new area; pairs with ORDERING(domain.own).
            self.own.store(line, Ordering::Release);
            Ok(())
        }

        /// The program's line, if it has one now.
        fn own(&self) -> Option<usize> {
            // ORDERING(domain.own): Acquire - the area that the line is in; pairs with
            // ORDERING(domain.again).
            Some(self.own.load(Ordering::Acquire)).filter(|own| *own != NOWHERE)
        }

        /// Passes a processor of this program's grant to the first program that wants one: it is
        /// not ours from now on, and the virtual processor that used it parks. False: no program of
        /// the domain wants one.
        pub fn pass(&self, cpu: CpuId) -> bool {
            let mut passed = self.in_the_air();
            if passed.iter().any(|(_, it)| *it == cpu) {
                return true;
            }
            let line = self.own().and_then(|own| super::pass(&self.area.members, own, cpu));
            passed.extend(line.map(|line| (line, cpu)));
            // ORDERING: Relaxed - a hint: a sibling that misses it counts one processor too many
            // for a moment.
            self.has_passed.store(!passed.is_empty(), Ordering::Relaxed);
            line.is_some()
        }

        /// Step 3, the giver's side: what this program passed and has not landed. To be read before
        /// the grant. Cost while nothing is in the air: a load.
        pub fn passed(&self) -> Vec<CpuId> {
            // ORDERING: Relaxed - see `pass`.
            if !self.has_passed.load(Ordering::Relaxed) {
                return Vec::new();
            }
            let passed = self.in_the_air();
            // ORDERING: Relaxed - under the lock.
            self.has_passed.store(!passed.is_empty(), Ordering::Relaxed);
            passed.iter().map(|(_, cpu)| *cpu).collect()
        }

        /// What was passed, without what has landed.
        fn in_the_air(&self) -> MutexGuard<'_, Vec<(usize, CpuId)>> {
            // The list is whole at every point where a panic could leave it.
            let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
            passed.retain(|(line, cpu)| self.area.members[*line].is_coming(*cpu));
            passed
        }

        /// Step 3, the receiver's side: what was passed to this program and has not landed. To be
        /// read before the grant. Cost while nothing is in the air: a load for each 64 processors.
        pub fn coming(&self) -> Vec<CpuId> {
            let Some(own) = self.own() else { return Vec::new() };
            let coming = self.area.members[own].coming();
            // What was read is Acquire, so this is not read earlier: see the races.
            if self.own() == Some(own) { coming } else { Vec::new() }
        }

        /// A processor that was passed to this program: the caller binds itself to it, and has it
        /// until a grant says otherwise. The next grants name it.
        pub fn take(&self) -> Option<CpuId> {
            self.area.members[self.own()?].take()
        }

        /// Waits for a processor, at most `timeout`; the caller must be ready to find none.
        pub fn wait(&self, timeout: Duration) -> Option<CpuId> {
            let own = &self.area.members[self.own()?];
            own.park.prepare();
            if let Some(cpu) = own.take() {
                own.park.cancel();
                return Some(cpu);
            }
            own.park.sleep(Some(timeout));
            own.take()
        }

        /// Whether another program of the domain wants a processor. Some loads.
        pub fn is_wanted(&self) -> bool {
            let own = self.own();
            let others =
                self.area.members.iter().enumerate().filter(|(index, _)| Some(*index) != own);
            others.into_iter().any(|(_, member)| member.wants() > 0)
        }
    }
}

pub use mapped::{Domain, DomainArea};

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn line(rank: u32, wants: u32) -> MemberLine {
        let line = MemberLine::default();
        line.offer(1, rank, wants);
        line
    }

    #[test]
    fn a_processor_is_given_as_often_as_one_is_wanted_and_taken_once() {
        let line = line(1, 2);
        assert!(line.give(CpuId(3)) && line.give(CpuId(1000)) && !line.give(CpuId(4)));
        assert_eq!(
            (line.take(), line.take(), line.take()),
            (Some(CpuId(3)), Some(CpuId(1000)), None)
        );
        assert_eq!(
            line.coming(),
            [CpuId(3), CpuId(1000)],
            "it is in the air until it has landed, whichever side took it"
        );
        line.land(CpuId(3));
        line.land(CpuId(5000));
        assert_eq!((line.coming(), line.is_coming(CpuId(3))), (vec![CpuId(1000)], false));
        assert!(
            !MemberLine::default().give(CpuId(5000)),
            "what the arena cannot name cannot be given"
        );
    }

    #[test]
    fn nothing_is_passed_over_the_head_of_a_program_outside_the_domain() {
        let lines = [line(0, 0), line(2, 1)];
        assert_eq!(pass(&lines, 0, CpuId(1)), None);
        lines[1].offer(1, 1, 1);
        assert_eq!(pass(&lines, 0, CpuId(1)), Some(1));
    }

    #[test]
    fn the_first_other_line_that_wants_one_has_it() {
        let lines = [line(1, 1), line(2, 0), line(3, 1), line(2, 1)];
        assert_eq!(pass(&lines, 0, CpuId(1)), Some(3));
        assert_eq!(pass(&lines, 0, CpuId(2)), Some(2));
        assert_eq!(pass(&lines, 0, CpuId(3)), None, "its own wish is none for itself");
        lines[2].clear();
        assert_eq!((lines[2].slot(), lines[2].take(), lines[2].coming()), (0, None, Vec::new()));
    }
}
