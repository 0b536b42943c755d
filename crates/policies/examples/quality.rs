//! All policies against each other on random workloads:
//! `cargo run --release -p nanothreads-policies --example quality`.
//!
//! 100 workloads by a fixed rule: 8 to 64 processors, 2 to 12 copies of 1 to 4 programs with serial
//! phases, changing requests, speedup curves from poor to linear, arrivals over some seconds. Other
//! workloads, and other parameters: `-- 1000 pdpa.min-efficiency=0.6` begins with number 1000. Each
//! row: response time and makespan relative to the default policy on the same workload (geometric
//! means), mean slowdown against the machine alone, fairness, how often a policy is the best, and
//! what it moves.

use std::collections::BTreeMap;

use policies::sim::{
    Curve, Job, MachineSpec, Options, Outcome, Pattern, Phase, Program, SimError, Span, Workload,
    simulate,
};
use policies::{DEFAULT_POLICY, Needs, Registry, Settings};

const WORKLOADS: u64 = 100;

/// Numbers by a fixed rule (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn between(&mut self, low: u64, high: u64) -> u32 {
        u32::try_from(low + self.below(high - low + 1)).unwrap_or(u32::MAX)
    }
}

fn program(dice: &mut Dice, processors: u32) -> Program {
    let work = Span::from_ms(u64::from(dice.between(200, 2_000)));
    let parallel = Phase::parallel(work, dice.between(5, 500));
    let (phases, pattern) = match dice.below(4) {
        0 => (
            vec![Phase::serial(Span::from_ms(u64::from(dice.between(5, 100)))), parallel],
            Pattern::Alternate,
        ),
        1 => (vec![parallel], Pattern::Diamond),
        _ => (vec![parallel], Pattern::Constant),
    };
    let curve = match dice.below(4) {
        0 => Curve::Linear,
        1 => Curve::Amdahl { serial: f64::from(dice.between(1, 30)) / 100.0 },
        _ => Curve::Downey {
            parallelism: f64::from(dice.between(2, 48)),
            variance: f64::from(dice.between(0, 20)) / 10.0,
        },
    };
    Program {
        iterations: dice.between(5, 30),
        phases,
        pattern,
        curve,
        refill: Span::from_us(u64::from(dice.between(0, 3_000))),
        ..Program::new(dice.between(1, u64::from(processors)), Span::from_ms(1))
    }
}

fn workload(seed: u64) -> Workload {
    let mut dice = Dice(seed);
    let processors = [8, 16, 32, 64][dice.below(4) as usize];
    let names: Vec<String> = (0..=dice.below(4)).map(|i| format!("p{i}")).collect();
    let programs: BTreeMap<String, Program> =
        names.iter().map(|name| (name.clone(), program(&mut dice, processors))).collect();
    let jobs = names.iter().map(|name| Job {
        every: Span::from_ms(u64::from(dice.between(0, 1_000))),
        ..Job::new(name, dice.between(2, 3), dice.between(1, 2))
    });
    let jobs = jobs.collect();
    let machine = MachineSpec {
        per_cache: Some(8),
        per_node: Some(processors.min(16)),
        ..MachineSpec::flat(processors)
    };
    Workload::new(machine, programs, jobs)
}

#[derive(Default)]
struct Sums {
    response: f64,
    makespan: f64,
    slowdown: f64,
    fairness: f64,
    best: u32,
    migrations: u64,
    reallocations: u64,
}

/// The number of the first workload, and parameters of policies, as the command line has them.
fn arguments() -> Option<(u64, BTreeMap<String, Settings>)> {
    let (mut first, mut parameters) = (0, BTreeMap::<String, Settings>::new());
    for word in std::env::args().skip(1) {
        match word.split_once('=') {
            None => first = word.parse().ok()?,
            Some((key, value)) => {
                let (policy, key) = key.split_once('.')?;
                let settings = parameters.entry(policy.to_owned()).or_default();
                settings.insert(key.to_owned(), value.parse().ok()?);
            }
        }
    }
    Some((first, parameters))
}

fn main() -> Result<(), SimError> {
    let Some((first, parameters)) = arguments() else {
        eprintln!("usage: quality [FIRST] [POLICY.PARAMETER=VALUE ...]");
        std::process::exit(2);
    };
    let registry = Registry::with_builtin_for(Needs::EVERYTHING);
    let names = registry.names();
    let mut sums: BTreeMap<&str, Sums> =
        names.iter().map(|name| (*name, Sums::default())).collect();
    for seed in first..first.saturating_add(WORKLOADS) {
        let workload = Workload { parameters: parameters.clone(), ..workload(seed) };
        let outcomes: Vec<Outcome> = names
            .iter()
            .map(|name| simulate(&workload, &registry, &Options::policy(name)))
            .collect::<Result<_, SimError>>()?;
        let usual =
            names.iter().position(|name| *name == DEFAULT_POLICY).expect("the default is a policy");
        let (usual_response, usual_makespan) =
            (outcomes[usual].response(), outcomes[usual].makespan() as f64);
        let best = outcomes.iter().map(Outcome::response).fold(f64::INFINITY, f64::min);
        for (name, outcome) in names.iter().zip(&outcomes) {
            let sum = sums.get_mut(name).expect("there is a sum for each policy");
            sum.response += (outcome.response() / usual_response).ln();
            sum.makespan += (outcome.makespan() as f64 / usual_makespan).ln();
            sum.slowdown += outcome.slowdown();
            sum.fairness += outcome.fairness();
            sum.best += u32::from(outcome.response() <= best * 1.001);
            sum.migrations += outcome.migrations;
            sum.reallocations += outcome.reallocations;
        }
    }
    println!(
        "policy    response  makespan  slowdown  fairness  best of {WORKLOADS}  reallocations  migrations"
    );
    let each = WORKLOADS as f64;
    for (name, sum) in &sums {
        println!(
            "{name:9} {:8.2} {:9.2} {:9.2} {:9.3} {:12} {:14} {:11}",
            (sum.response / each).exp(),
            (sum.makespan / each).exp(),
            sum.slowdown / each,
            sum.fairness / each,
            sum.best,
            sum.reallocations,
            sum.migrations
        );
    }
    Ok(())
}
