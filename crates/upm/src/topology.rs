//! Memory nodes: their numbers, which have memory, and how far they are from each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use platform::affinity::CpuSet;

/// The most nodes of a machine: sets of nodes are one word.
pub const MOST_NODES: usize = 64;

/// A memory node by its place among the nodes of a [`Topology`], from 0. The operating system's
/// number may be another ([`Topology::number`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u8);

impl Node {
    /// As an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The node of an index below [`MOST_NODES`].
    pub fn at(index: usize) -> Self {
        Self(u8::try_from(index).expect("an index is below MOST_NODES"))
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Why there is no topology.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// The machine's could not be read.
    #[error(transparent)]
    Unreadable(#[from] platform::topology::TopologyError),
    /// A set of nodes is one word.
    #[error("topology: {nodes} memory nodes; page migration knows at most {MOST_NODES}")]
    TooMany {
        /// How many there are.
        nodes: usize,
    },
    /// No node has memory.
    #[error("topology: no node has memory")]
    NoMemory,
    /// The matrix has not one number for each pair of nodes, or a distance of 0.
    #[error("topology: {given} distances for {nodes} nodes; expected {}, none of them 0", nodes * nodes)]
    Distances {
        /// How many numbers were given.
        given: usize,
        /// How many nodes there are.
        nodes: usize,
    },
}

/// The nodes of a machine. At least one has memory.
pub trait Topology {
    /// How many nodes there are: processors or memory, or both. At most [`MOST_NODES`].
    fn nodes(&self) -> usize;

    /// The operating system's number of a node.
    fn number(&self, node: Node) -> u32;

    /// Whether pages can be there.
    fn has_memory(&self, node: Node) -> bool;

    /// How far the memory of `to` is from the processors of `from`; never 0. `None`: unknown, for
    /// all pairs.
    fn distance(&self, from: Node, to: Node) -> Option<u32>;

    /// The node of each processor, by the processor's number, where that is not what the system
    /// says; else none.
    fn processors(&self) -> &[Node] {
        &[]
    }

    /// The node with the operating system's number.
    fn node(&self, number: u32) -> Option<Node> {
        (0..self.nodes()).map(Node::at).find(|node| self.number(*node) == number)
    }

    /// The nodes with memory, the nearest to `from` first; equally far ones ascending.
    fn by_distance(&self, from: Node) -> Vec<Node> {
        let mut nodes: Vec<Node> =
            (0..self.nodes()).map(Node::at).filter(|node| self.has_memory(*node)).collect();
        let far = |to: Node| self.distance(from, to).unwrap_or(u32::from(to != from));
        nodes.sort_by_key(|node| (*node != from, far(*node)));
        nodes
    }

    /// How many nodes have memory: where it is one, no page can move.
    fn homes(&self) -> usize {
        (0..self.nodes()).filter(|index| self.has_memory(Node::at(*index))).count()
    }
}

/// A topology that is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableTopology {
    numbers: Vec<u32>,
    memory: u64,
    /// Row after row; empty: unknown.
    distances: Vec<u32>,
    /// Of each processor; empty: as the system says.
    processors: Vec<Node>,
}

impl TableTopology {
    /// `nodes` nodes with memory, numbered from 0. `distances` row after row (from, to); empty when
    /// they are unknown.
    ///
    /// # Errors
    /// No node, too many, or a matrix of another size.
    pub fn new(nodes: usize, distances: &[u32]) -> Result<Self, TopologyError> {
        let numbers = (0..).take(nodes).collect();
        Self::build(numbers, distances.to_vec(), |_| true)
    }

    /// A copy of any topology.
    pub fn of(topology: &dyn Topology) -> Self {
        let all = || (0..topology.nodes()).map(Node::at);
        let numbers = all().map(|node| topology.number(node)).collect();
        let with = all().filter(|node| topology.has_memory(*node));
        let memory = with.fold(0, |set, node| set | 1 << node.0);
        let pairs = all().flat_map(|from| all().map(move |to| (from, to)));
        let distances: Option<_> = pairs.map(|(from, to)| topology.distance(from, to)).collect();
        let processors = topology.processors().to_vec();
        Self { numbers, memory, distances: distances.unwrap_or_default(), processors }
    }

    /// The same without memory at `node`.
    ///
    /// # Errors
    /// Then none would have memory.
    pub fn without_memory(mut self, node: Node) -> Result<Self, TopologyError> {
        self.memory &= !(1 << node.0);
        if self.memory == 0 { Err(TopologyError::NoMemory) } else { Ok(self) }
    }

    /// The same with the node of each processor, by its number, whatever the system says: for a
    /// machine that is pretended.
    #[must_use]
    pub fn with_processors(mut self, nodes: Vec<Node>) -> Self {
        self.processors = nodes;
        self
    }

    fn build(
        numbers: Vec<u32>,
        distances: Vec<u32>,
        has_memory: impl Fn(u32) -> bool,
    ) -> Result<Self, TopologyError> {
        let nodes = numbers.len();
        if nodes > MOST_NODES {
            return Err(TopologyError::TooMany { nodes });
        }
        let is_whole = distances.len() == nodes * nodes && !distances.contains(&0);
        if !distances.is_empty() && !is_whole {
            return Err(TopologyError::Distances { given: distances.len(), nodes });
        }
        let with = numbers.iter().enumerate().filter(|(_, number)| has_memory(**number));
        let memory = with.fold(0, |set, (index, _)| set | 1 << index);
        if memory == 0 {
            return Err(TopologyError::NoMemory);
        }
        Ok(Self { numbers, memory, distances, processors: Vec::new() })
    }
}

impl Topology for TableTopology {
    fn nodes(&self) -> usize {
        self.numbers.len()
    }

    fn number(&self, node: Node) -> u32 {
        self.numbers[node.index()]
    }

    fn has_memory(&self, node: Node) -> bool {
        self.memory & 1 << node.0 != 0
    }

    fn distance(&self, from: Node, to: Node) -> Option<u32> {
        self.distances.get(from.index() * self.nodes() + to.index()).copied()
    }

    fn processors(&self) -> &[Node] {
        &self.processors
    }
}

/// The machine's topology, as it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelTopology(TableTopology);

impl KernelTopology {
    /// Reads the machine. Without node folders all is one node.
    ///
    /// # Errors
    /// A file of `/sys` is garbage, or there are too many nodes.
    pub fn read() -> Result<Self, TopologyError> {
        Self::read_from(Path::new("/sys/devices/system"))
    }

    /// What was read, as a table.
    pub fn into_table(self) -> TableTopology {
        self.0
    }

    /// Reads a tree of the form of `/sys/devices/system`.
    ///
    /// # Errors
    /// As [`KernelTopology::read`].
    pub fn read_from(root: &Path) -> Result<Self, TopologyError> {
        let machine = platform::topology::Topology::read_from(root)?;
        let matrix: BTreeMap<(u32, u32), u32> =
            machine.distances().map(|(from, to, distance)| ((from, to), distance)).collect();
        let mut numbers: BTreeSet<u32> = machine.cpus().iter().map(|cpu| cpu.node).collect();
        numbers.extend(matrix.keys().map(|(from, _)| *from));
        let numbers: Vec<u32> = numbers.into_iter().collect();
        let pairs = numbers.iter().flat_map(|from| numbers.iter().map(move |to| (*from, *to)));
        let distances: Option<Vec<u32>> = pairs.map(|pair| matrix.get(&pair).copied()).collect();
        // A list of nodes has the form of a list of processors. Where the kernel does not say, all
        // nodes are taken to have memory: the mover finds out.
        let listed = platform::file::text(root.join("node/has_memory")).ok();
        let listed = listed.and_then(|text| CpuSet::parse_list(text.trim()).ok());
        let has_memory = |number| {
            listed.as_ref().is_none_or(|set| set.contains(platform::affinity::CpuId(number)))
        };
        let distances = distances.filter(|all| !all.contains(&0)).unwrap_or_default();
        Ok(Self(TableTopology::build(numbers, distances, has_memory)?))
    }
}

impl Topology for KernelTopology {
    fn nodes(&self) -> usize {
        self.0.nodes()
    }

    fn number(&self, node: Node) -> u32 {
        self.0.number(node)
    }

    fn has_memory(&self, node: Node) -> bool {
        self.0.has_memory(node)
    }

    fn distance(&self, from: Node, to: Node) -> Option<u32> {
        self.0.distance(from, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_square_of_nodes_is_ordered_by_distance() {
        let rows = [10, 16, 22, 16, 16, 10, 16, 22, 22, 16, 10, 16, 16, 22, 16, 10];
        let square = TableTopology::new(4, &rows).unwrap();
        assert_eq!(square.by_distance(Node(1)), [1, 0, 2, 3].map(Node));
        let without = square.without_memory(Node(0)).unwrap();
        assert_eq!(without.by_distance(Node(0)), [1, 3, 2].map(Node));
        assert_eq!(without.homes(), 3);
        let placed = without.with_processors(vec![Node(2)]);
        assert_eq!(TableTopology::of(&placed), placed);
        let unknown = TableTopology::new(3, &[]).unwrap();
        assert_eq!(TableTopology::of(&unknown), unknown);
    }

    #[test]
    fn what_is_no_topology_is_an_error() {
        assert!(matches!(TableTopology::new(0, &[]), Err(TopologyError::NoMemory)));
        assert!(matches!(TableTopology::new(65, &[]), Err(TopologyError::TooMany { nodes: 65 })));
        let short = TableTopology::new(2, &[10, 20, 20]);
        assert!(matches!(short, Err(TopologyError::Distances { given: 3, nodes: 2 })));
        assert!(TableTopology::new(2, &[10, 20, 0, 10]).is_err());
    }

    #[test]
    fn the_machine_has_a_node_with_memory() {
        let machine = KernelTopology::read().unwrap();
        assert!(machine.homes() >= 1);
        let node = machine.by_distance(Node(0))[0];
        assert_eq!(machine.node(machine.number(node)), Some(node));
    }
}
