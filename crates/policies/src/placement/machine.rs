//! What a placement is told of the machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One logical processor. `core`, `llc` and `node` are any numbers that are equal for processors
/// that share a core, a last-level cache, a memory node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineCpu {
    /// The operating system's number.
    pub id: u32,
    /// Its core, unique in the machine; hardware threads of a core share it.
    pub core: u32,
    /// Its last-level cache, unique in the machine.
    pub llc: u32,
    /// Its memory node.
    pub node: u32,
}

/// How far two memory nodes are from each other: the firmware's numbers, 10 within a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distances(BTreeMap<u32, BTreeMap<u32, u32>>);

/// Within a node, and between two of which nothing is known: as the firmware's tables have it.
const NEAR: u32 = 10;
const FAR: u32 = 20;

impl Distances {
    /// Sets the distance from one node to another.
    pub fn set(&mut self, from: u32, to: u32, distance: u32) {
        self.0.entry(from).or_default().insert(to, distance);
    }

    /// Nothing is known.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The distance from one node to another; where nothing is known, 10 within a node and 20
    /// beyond.
    #[must_use]
    pub fn between(&self, from: u32, to: u32) -> u32 {
        let known = self.0.get(&from).and_then(|row| row.get(&to)).copied();
        known.unwrap_or(if from == to { NEAR } else { FAR })
    }
}

/// How fast processors are, in classes: of the fastest ones nothing need be said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speeds(BTreeMap<u32, u32>);

impl Speeds {
    /// Sets the class of a processor: 0 for the fastest ones, larger numbers for slower ones. It is
    /// its core's: of hardware threads of a core that differ the one with the lowest id counts.
    pub fn set(&mut self, cpu: u32, class: u32) {
        if class == 0 {
            self.0.remove(&cpu);
        } else {
            self.0.insert(cpu, class);
        }
    }

    /// The class of a processor.
    #[must_use]
    pub fn class_of(&self, cpu: u32) -> u32 {
        self.0.get(&cpu).copied().unwrap_or(0)
    }
}

/// The managed processors that are online: exactly the P of
/// [`Snapshot::processors`](crate::Snapshot::processors). Under a quota below the number of
/// processors the manager chooses P of them; sharing masters use all that are here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// In any order; an id that comes twice counts once.
    pub cpus: Vec<MachineCpu>,
    /// Between memory nodes; may be empty.
    #[serde(default)]
    pub distances: Distances,
    /// Of processors, also of those that are not here now; empty where all are equally fast.
    #[serde(default)]
    pub speeds: Speeds,
}

impl Machine {
    /// These processors, equally fast; nothing is known of distances between nodes.
    #[must_use]
    pub fn new(cpus: Vec<MachineCpu>) -> Self {
        Self { cpus, ..Self::default() }
    }
}

/// In which order the hardware threads of a core are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Smt {
    /// Whole cores first, fast ones before slow ones and near ones before far ones; siblings of
    /// busy ones last.
    #[default]
    Spread,
    /// Fast processors first, near ones before far ones, siblings of busy ones before idle cores.
    Pack,
}
