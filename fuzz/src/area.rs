//! Any bytes in `up`: what the manager reads of them is within bounds, and its books stay sound
//! whatever it is told.

use std::os::fd::{AsRawFd, RawFd};

use arena::grant::MAX_CPUS;
use arena::manager::{CheckedRequest, ProgramAreas, ProgramDescriptors};
use cpumgr::ledger::Ledger;
use cpumgr::limits;
use policies::{AppId, Cause, Machine, MachineCpu};

const CPUS: u32 = 6;
const MS: u64 = 1_000_000;

thread_local! {
    /// One pair for all runs: making them takes longer than a run.
    static AREAS: (ProgramAreas, ProgramDescriptors) = {
        let stated = CheckedRequest { requested: 2, max: 4, fixed_team: false, serial: false, lowest: 1, released_ns: 0 };
        ProgramAreas::create(1, stated, 2 * MS, 0).expect("memory for two areas")
    };
}

pub(crate) fn run(input: &[u8], planted: bool) -> u64 {
    AREAS.with(|(areas, descriptors)| run_on(areas, descriptors.in_order()[1].as_raw_fd(), input, planted))
}

fn run_on(areas: &ProgramAreas, up: RawFd, input: &[u8], planted: bool) -> u64 {
    const BEHIND_HEADER: usize = 64 * 1024 - 128;
    static ZEROES: [u8; BEHIND_HEADER] = [0; BEHIND_HEADER];
    // SAFETY: - `ZEROES` lives for ever; the descriptor is a memfd of a fixed size: what does not
    // fit is refused.
    let cleared = unsafe { libc::pwrite(up, ZEROES.as_ptr().cast(), BEHIND_HEADER, 128) };
    assert_eq!(usize::try_from(cleared), Ok(BEHIND_HEADER));
    // The first byte chooses the policy, the second where the bytes go, the rest are the bytes.
    let [choice, place, bytes @ ..] = input else { return 0 };
    let offset = 128 + 8 * i64::from(*place);
    // SAFETY: - `bytes` lives through the call; the descriptor is a memfd of a fixed size: what
    // does not fit is refused.
    let written = unsafe { libc::pwrite(up, bytes.as_ptr().cast(), bytes.len(), offset) };
    if written < 0 {
        return 1;
    }

    let request = areas.request();
    assert!(1 <= request.lowest && request.lowest <= request.requested);
    assert!(request.requested <= request.max && request.max <= MAX_CPUS);
    if planted {
        let given_back = areas.released().len();
        assert!(request.lowest < 2 || given_back < 3, "planted: {given_back} given back below the \
                                                       lowest");
    }
    let released: Vec<u32> = areas.released().iter().map(|cpu| cpu.0).collect();
    assert!(released.iter().all(|cpu| *cpu < MAX_CPUS));
    assert!(areas.vps().all(|vp| vp.tid.0 > 0 && vp.index < arena::layout::MAX_VPS));
    let speedup = areas.report().and_then(|report| Some((report.processors, report.speedup()?)));
    if let Some((processors, speedup)) = speedup {
        assert!(speedup > 0.0 && speedup <= 2.0 * f64::from(processors), "{speedup} on {processors}");
    }
    areas.wake(arena::layout::MAX_VPS);

    let registry = limits::policies();
    let names = registry.names();
    let policy = registry.create(names[usize::from(*choice) % names.len()]).expect("it is listed");
    let cpus = (0..CPUS).map(|id| MachineCpu { id, core: id, llc: 0, node: 0 }).collect();
    let mut ledger = Ledger::new(Machine::new(cpus), 100 * MS, policy);
    for app in 1..=3 {
        ledger.arrive(AppId(app), 4, 4);
    }
    ledger.decide(0, Cause::Arrival);
    ledger.held_before(AppId(1), &released);
    ledger.ask(AppId(1), request.requested);
    ledger.set_lowest(AppId(1), request.lowest);
    ledger.decide(50 * MS, Cause::Request);
    ledger.release(AppId(1), &released, 60 * MS);
    ledger.tick(200 * MS);
    ledger.resume(AppId(1));
    ledger.decide(300 * MS, Cause::Request);
    let mut owners = vec![0; CPUS as usize];
    for app in 1..=3 {
        let holding = ledger.holding(AppId(app)).expect("it is there");
        assert!(!holding.cpus.is_empty() && holding.cpus.iter().all(|cpu| *cpu < CPUS), "{holding:?}");
        for cpu in holding.cpus.iter().filter(|_| !holding.shared) {
            owners[*cpu as usize] += 1;
        }
    }
    assert!(owners.iter().all(|owners| *owners <= 1), "{owners:?}");

    let bucket = |number: u32| u64::from(32 - number.leading_zeros());
    u64::from(*choice % names.len() as u8)
        | bucket(request.requested) << 8
        | bucket(request.lowest) << 16
        | bucket(released.len() as u32) << 24
        | u64::from(speedup.is_some()) << 32
        | (areas.vps().count().min(3) as u64) << 40
        | u64::from(areas.report().is_some()) << 48
}
