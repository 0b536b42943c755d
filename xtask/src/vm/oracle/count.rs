//! What the plugin counted, joined with what the runs told of themselves.

use std::collections::BTreeMap;

use anyhow::{Context, bail};

use super::super::guest::{Outcome, PROCESSORS};

/// How many times the paper's latencies a miss takes by the guest's clock: under the plugin an
/// instruction takes 10 to 15 times the 4 ns of the model.
pub(super) const SLOW: u32 = 12;
pub(super) const NODES: usize = 4;
const PER_NODE: usize = PROCESSORS / NODES;
/// Hops between nodes: a square.
const HOPS: [[usize; NODES]; NODES] = [[0, 1, 2, 1], [1, 0, 1, 2], [2, 1, 0, 1], [1, 2, 1, 0]];

/// A machine whose time is modelled.
pub(super) struct Model {
    pub(super) name: &'static str,
    /// Nanoseconds of a miss, by hops.
    latency: [f64; 3],
    /// Nanoseconds of an instruction that does not miss.
    instruction: f64,
}

/// The paper's latencies (table 1) at 250 MHz and one instruction a cycle; and those of a machine
/// with four sockets of today at 3 GHz and two instructions a cycle. 862 ns are for three hops,
/// which a square does not have.
pub(super) const MODELS: [Model; 2] = [
    Model { name: "origin", latency: [329.0, 564.0, 759.0], instruction: 4.0 },
    Model { name: "modern", latency: [90.0, 140.0, 200.0], instruction: 0.167 },
];

/// One run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    pub(super) kernel: String,
    pub(super) class: String,
    pub(super) placement: String,
    pub(super) engine: String,
    pub(super) iterations: usize,
    /// How often each phase runs in one of them.
    pub(super) repeats: usize,
}

impl Run {
    pub(super) fn name(&self) -> String {
        format!("{}/{}/{}", self.kernel, self.placement, self.engine)
    }
}

/// Instructions and misses by node, of each processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Matrix(Vec<(u64, [u64; NODES])>);

#[expect(clippy::cast_precision_loss, reason = "no count reaches 2^53")]
impl Matrix {
    fn read(numbers: &[u64]) -> anyhow::Result<Self> {
        if numbers.len() != PROCESSORS * (1 + NODES) {
            bail!("a line of {} numbers", numbers.len());
        }
        let each = numbers.chunks(1 + NODES);
        Ok(Self(each.map(|each| (each[0], [each[1], each[2], each[3], each[4]])).collect()))
    }

    /// Misses of each node's processors on each node.
    pub(super) fn nodes(&self) -> [[u64; NODES]; NODES] {
        let mut sums = [[0; NODES]; NODES];
        for (processor, (_, misses)) in self.0.iter().enumerate() {
            for (sum, misses) in sums[processor / PER_NODE].iter_mut().zip(misses) {
                *sum += misses;
            }
        }
        sums
    }

    pub(super) fn instructions(&self) -> u64 {
        self.0.iter().map(|(instructions, _)| instructions).sum()
    }

    pub(super) fn misses(&self) -> u64 {
        self.nodes().iter().flatten().sum()
    }

    /// Per cent of the misses that go to another node.
    pub(super) fn remote(&self) -> f64 {
        let nodes = self.nodes();
        let local: u64 = (0..NODES).map(|node| nodes[node][node]).sum();
        100.0 * (self.misses() - local) as f64 / self.misses().max(1) as f64
    }

    /// Milliseconds: of the processor that takes longest.
    pub(super) fn time(&self, model: &Model) -> f64 {
        let of = |(processor, (instructions, misses)): (usize, &(u64, [u64; NODES]))| {
            let hops = HOPS[processor / PER_NODE];
            let waits = (0..NODES).map(|node| misses[node] as f64 * model.latency[hops[node]]);
            *instructions as f64 * model.instruction + waits.sum::<f64>()
        };
        self.0.iter().enumerate().map(of).fold(0.0, f64::max) * 1e-6
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.0.resize(PROCESSORS, Default::default());
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.0 += theirs.0;
            for (mine, theirs) in mine.1.iter_mut().zip(&theirs.1) {
                *mine += theirs;
            }
        }
    }
}

/// A run with its counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) iterations: Vec<Matrix>,
    /// All iterations, each frame where it costs least.
    pub(super) best: Matrix,
    /// What it printed of itself, by name.
    pub(super) told: BTreeMap<String, String>,
}

impl Counts {
    /// The iterations after the first quarter: what the paper's table 2 is about.
    pub(super) fn late(&self) -> &[Matrix] {
        &self.iterations[self.iterations.len().div_ceil(4)..]
    }

    /// The last third: the steady state.
    pub(super) fn steady(&self) -> Matrix {
        let mut sum = Matrix::default();
        let last = &self.iterations[self.iterations.len() * 2 / 3..];
        last.iter().for_each(|matrix| sum.add(matrix));
        sum
    }

    /// Milliseconds of a steady iteration in which pages moved between its phases, in the model's
    /// time: a move is as much slower in the guest as all else.
    pub(super) fn moving(&self) -> f64 {
        let moving = self.list("moving");
        let last = &moving[moving.len() * 2 / 3..];
        #[expect(clippy::cast_precision_loss, reason = "few iterations")]
        let mean = last.iter().sum::<f64>() / last.len().max(1) as f64;
        mean * 1e3 / f64::from(SLOW)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.told.get(name)?.parse().ok()
    }

    /// A list `[1, 2]` that it printed.
    pub(super) fn list(&self, name: &str) -> Vec<f64> {
        let text = self.told.get(name).map_or("", String::as_str).trim_matches(['[', ']']);
        text.split(", ").filter_map(|word| word.parse().ok()).collect()
    }
}

/// All runs, and the calibration: marked pages, and those that were seen elsewhere.
pub(super) struct Counted {
    pub(super) runs: BTreeMap<(String, String, String), Counts>,
    pub(super) calibration: (u64, u64),
}

/// The plugin's lines with the names of the runs before them, and what the runs told.
pub(super) fn named(
    text: &str,
    runs: &[Run],
    outcomes: &[Outcome],
) -> anyhow::Result<(String, String)> {
    let mut named = String::new();
    for line in text.lines() {
        let (number, rest) = line.split_once(',').context("a line without a run")?;
        if rest.starts_with("calibration") {
            named += &format!("all,all,all,{rest}\n");
            continue;
        }
        let run: usize = number.parse().with_context(|| format!("the plugin wrote `{line}`"))?;
        let run = runs.get(run).context("the plugin counted more runs than there were")?;
        named += &format!("{},{},{},{rest}\n", run.kernel, run.placement, run.engine);
    }
    let mut told = String::new();
    for outcome in outcomes {
        for line in outcome.text.lines().filter_map(|line| line.strip_prefix("oracle: ")) {
            told += &format!("{} {line}\n", outcome.name);
        }
    }
    Ok((named, told))
}

impl Counted {
    pub(super) fn read(text: &str, told: &str) -> anyhow::Result<Self> {
        let mut runs: BTreeMap<_, Counts> = BTreeMap::new();
        let mut calibration = None;
        for line in text.lines() {
            let words: Vec<&str> = line.split(',').collect();
            let [kernel, placement, engine, kind, _, numbers @ ..] = &words[..] else {
                bail!("the plugin wrote `{line}`");
            };
            let numbers = numbers.iter().map(|word| word.parse()).collect::<Result<Vec<u64>, _>>();
            let numbers = numbers.with_context(|| format!("the plugin wrote `{line}`"))?;
            if *kind == "calibration" {
                calibration = numbers.first().copied().zip(numbers.get(1).copied());
                continue;
            }
            let key = ((*kernel).to_owned(), (*placement).to_owned(), (*engine).to_owned());
            let counts = runs.entry(key).or_default();
            let matrix = Matrix::read(&numbers).with_context(|| format!("in `{line}`"))?;
            match *kind {
                "iteration" => counts.iterations.push(matrix),
                "best" => counts.best = matrix,
                _ => {}
            }
        }
        for line in told.lines() {
            let mut words = line.splitn(3, ' ');
            let (Some(run), Some(name), Some(value)) = (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let mut parts = run.split('/').map(str::to_owned);
            if let (Some(kernel), Some(placement), Some(engine)) =
                (parts.next(), parts.next(), parts.next())
                && let Some(counts) = runs.get_mut(&(kernel, placement, engine))
            {
                counts.told.insert(name.to_owned(), value.to_owned());
            }
        }
        let calibration = calibration.context("the plugin did not tell of its calibration")?;
        Ok(Self { runs, calibration })
    }

    pub(super) fn get(&self, kernel: &str, placement: &str, engine: &str) -> Option<&Counts> {
        self.runs.get(&(kernel.to_owned(), placement.to_owned(), engine.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: &str, cell: u64) -> String {
        let each = format!(",1000,{cell},0,0,0").repeat(PROCESSORS);
        format!("cg,worst-case,nothing,{kind},0{each}\n")
    }

    #[test]
    fn remote_misses_are_those_of_other_nodes() {
        let text = line("iteration", 100) + "all,all,all,calibration,0,32,0\n";
        let counted = Counted::read(&text, "cg/worst-case/nothing calls [3, 0]\n").unwrap();
        let counts = counted.get("cg", "worst-case", "nothing").unwrap();
        let matrix = &counts.iterations[0];
        assert_eq!(matrix.misses(), 800);
        assert!((matrix.remote() - 75.0).abs() < 1e-9);
        // The farthest node's processor: 1000 instructions and 100 misses over two hops.
        assert!((matrix.time(&MODELS[0]) - (4e-3 + 75.9e-3)).abs() < 1e-9);
        assert_eq!(counts.list("calls"), [3.0, 0.0]);
    }

    #[test]
    fn counts_without_calibration_or_with_a_torn_line_are_refused() {
        assert!(Counted::read(&line("iteration", 1), "").is_err());
        let torn = "cg,random,upm,iteration,0,1,2,3\nall,all,all,calibration,0,32,0\n";
        assert!(Counted::read(torn, "").is_err());
    }
}
