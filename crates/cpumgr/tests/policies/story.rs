//! A manager on stage, and the story that its trace tells.

use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use platform::affinity::{CpuId, CpuSet};
use platform::clock::monotonic_ns;
use serde::Deserialize;

use crate::support::{Manager, Program, cpumgr, errors, eventually};

/// What a program has by a line of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) cpus: CpuSet,
    pub(crate) shared: bool,
}

/// What each program has from a time on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) t_ns: u64,
    /// By process.
    pub(crate) parts: BTreeMap<u32, Part>,
}

impl Moment {
    /// The programs that have processors of their own.
    pub(crate) fn owners(&self) -> BTreeSet<u32> {
        self.parts.iter().filter(|(_, part)| !part.shared).map(|(pid, _)| *pid).collect()
    }

    /// How many processors of its own a program has.
    pub(crate) fn own(&self, pid: u32) -> usize {
        self.parts.get(&pid).filter(|part| !part.shared).map_or(0, |part| part.cpus.len())
    }
}

#[derive(Deserialize)]
struct Line {
    t_ns: u64,
    event: String,
    pid: u32,
    cpus: Vec<u32>,
    shared: bool,
    #[serde(default)]
    lost: u64,
}

/// A manager, what it manages, and its trace.
pub(crate) struct Stage {
    pub(crate) manager: Manager,
    pub(crate) cpus: CpuSet,
    _dir: tempfile::TempDir,
    trace: std::path::PathBuf,
    story: RefCell<Story>,
}

/// What was read of the trace.
#[derive(Default)]
struct Story {
    /// Bytes.
    read: u64,
    moments: Vec<Moment>,
}

impl Stage {
    /// A manager of `cpus`; `policy` is a name, and values for its parameters.
    pub(crate) fn set(policy: &[&str], quantum: &str, cpus: CpuSet) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let trace = dir.path().join("trace.jsonl");
        let list = cpus.to_string();
        let trace_file = trace.to_str().unwrap();
        let options =
            ["--policy", policy[0], "--cpus", &list, "--quantum", quantum, "--trace", trace_file];
        let stage = Self {
            manager: Manager::start(&options),
            cpus,
            _dir: dir,
            trace,
            story: RefCell::default(),
        };
        if policy.len() > 1 {
            stage.policy(&policy[1..]);
        }
        stage
    }

    /// P.
    pub(crate) fn processors(&self) -> u32 {
        self.cpus.len() as u32
    }

    /// Another policy, or other values for its parameters.
    pub(crate) fn policy(&self, words: &[&str]) {
        let output = cpumgr()
            .args(["policy", "--socket"])
            .arg(self.manager.socket())
            .args(words)
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?}: {}", errors(&output));
    }

    /// Programs that ask for `requests` processors and use all that they get, in order of arrival.
    pub(crate) fn programs(&self, requests: &[u32]) -> Vec<Program> {
        let start = |request: &u32| {
            let mut program = self.manager.program(*request, *request);
            assert_eq!(program.ask(&format!("spinners {request}")), "spinning");
            program
        };
        requests.iter().map(start).collect()
    }

    /// The moments of the trace from a time on; the first one begins there.
    pub(crate) fn moments(&self, from: u64) -> Vec<Moment> {
        let story = self.story();
        let later = story.moments.partition_point(|moment| moment.t_ns <= from);
        let parts =
            story.moments[..later].last().map_or_else(BTreeMap::new, |now| now.parts.clone());
        let first = Moment { t_ns: from, parts };
        [first].into_iter().chain(story.moments[later..].iter().cloned()).collect()
    }

    /// All moments so far, with what the trace has now. Of each that has another one after it,
    /// checks what holds for every policy but `none`: a processor that is not shared has one
    /// program, and a program that has nothing of its own has a shared one.
    fn story(&self) -> RefMut<'_, Story> {
        let mut story = self.story.borrow_mut();
        let mut trace = File::open(&self.trace).unwrap();
        trace.seek(SeekFrom::Start(story.read)).unwrap();
        let mut text = String::new();
        trace.read_to_string(&mut text).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        story.read += whole.len() as u64;
        for line in whole.lines() {
            let line: Line = serde_json::from_str(line).unwrap();
            assert_eq!(line.lost, 0, "the trace lost lines");
            match story.moments.last() {
                Some(last) if line.t_ns <= last.t_ns => {}
                Some(last) => {
                    self.check(last);
                    let next = Moment { t_ns: line.t_ns, ..last.clone() };
                    story.moments.push(next);
                }
                None => story.moments.push(Moment { t_ns: line.t_ns, parts: BTreeMap::new() }),
            }
            let parts = &mut story.moments.last_mut().unwrap().parts;
            match line.event.as_str() {
                "allocation" => {
                    let cpus = line.cpus.iter().copied().map(CpuId).collect();
                    parts.insert(line.pid, Part { cpus, shared: line.shared });
                }
                "exit" => {
                    parts.remove(&line.pid);
                }
                _ => {}
            }
        }
        story
    }

    fn check(&self, moment: &Moment) {
        let mut taken = CpuSet::new();
        for (pid, part) in &moment.parts {
            assert!(
                !part.cpus.is_empty() && part.cpus.is_subset(&self.cpus),
                "{pid} in {moment:?}"
            );
            if part.shared {
                continue;
            }
            assert!(
                part.cpus.is_disjoint(&taken),
                "two programs have a processor of their own: {moment:?}"
            );
            taken = taken.union(&part.cpus);
        }
    }

    /// The last moment, or the one before it where they come faster than one can look, as soon as
    /// they are as wanted.
    pub(crate) fn until(&self, what: &str, wanted: impl Fn(&Moment) -> bool) -> Moment {
        eventually(what, || {
            let look = || {
                let story = self.story();
                let mut latest = story.moments.iter().rev().cloned();
                (latest.next(), latest.next())
            };
            let last = look().0.filter(&wanted)?;
            // Lines of the last one may be missing: of one that is still the last, and of one that
            // has another one after it, they are not.
            let (again, before) = look();
            let again = again.filter(&wanted)?;
            if again == last { Some(again) } else { before.filter(&wanted) }
        })
    }

    /// The moments from now on, as soon as there are enough. However slow the machine: they only
    /// must keep coming.
    pub(crate) fn watch(&self, moments: usize) -> Vec<Moment> {
        self.watch_from(monotonic_ns(), moments)
    }

    /// The same as soon as the times of programs in them differ by less than `bound`, or five times
    /// as many: one turn during which the machine stood still is lost in later ones, and what is
    /// uneven by itself stays so.
    pub(crate) fn watch_until_even(
        &self,
        moments: usize,
        bound: f64,
        times: impl Fn(&[Moment]) -> BTreeMap<u32, f64>,
    ) -> Vec<Moment> {
        let begin = monotonic_ns();
        let mut seen = Vec::new();
        for part in 1..=5 {
            seen = self.watch_from(begin, part * moments);
            if spread(&times(&seen)) < bound {
                break;
            }
        }
        seen
    }

    fn watch_from(&self, begin: u64, moments: usize) -> Vec<Moment> {
        let mut seen = Vec::new();
        while seen.len() <= moments {
            let before = seen.len();
            seen = eventually("there is another moment", || {
                let mut seen = self.moments(begin);
                // The last one has not ended, and lines of it may be missing.
                seen.pop();
                (seen.len() > before).then_some(seen)
            });
        }
        seen
    }
}

/// Which programs had turns one after the other: the owners of each moment, without repetitions.
pub(crate) fn turns(moments: &[Moment]) -> Vec<BTreeSet<u32>> {
    let mut turns: Vec<_> = moments.iter().map(Moment::owners).collect();
    turns.dedup();
    turns
}

/// The processor time of each program: a shared processor counts in parts, and no moment as more
/// than `longest`, in ns.
pub(crate) fn processor_time(moments: &[Moment], longest: u64) -> BTreeMap<u32, f64> {
    let mut times = BTreeMap::new();
    for pair in moments.windows(2) {
        let passed = (pair[1].t_ns - pair[0].t_ns).min(longest) as f64;
        let users =
            |cpu: CpuId| pair[0].parts.values().filter(|part| part.cpus.contains(cpu)).count();
        for (pid, part) in &pair[0].parts {
            *times.entry(*pid).or_insert(0.0) +=
                part.cpus.iter().map(|cpu| passed / users(cpu) as f64).sum::<f64>();
        }
    }
    times
}

/// The largest of these relative to the smallest, less 1.
pub(crate) fn spread(times: &BTreeMap<u32, f64>) -> f64 {
    let least = times.values().copied().fold(f64::INFINITY, f64::min);
    times.values().copied().fold(0.0, f64::max) / least - 1.0
}
