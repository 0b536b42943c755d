//! The machine that a program's settings speak of: its nodes and what moves pages, or a pretended
//! one, on which the whole path runs without a node and no page really moves.

use platform::SysResult;
use platform::numa::{self, Policy};

use crate::mover::{Home, KernelMover, Mover, Outcome, Step, TableMover};
use crate::placement::Placement;
use crate::settings::Settings;
use crate::topology::{KernelTopology, Node, TableTopology, Topology, TopologyError};

/// Processors of a pretended machine.
const PROCESSORS: usize = 4096;

/// See the module head.
#[derive(Clone, Debug)]
pub struct Machine {
    topology: TableTopology,
    settings: Settings,
}

/// The engine on such a machine.
pub type Engine = crate::Upm<'static, TableTopology, Box<dyn Mover + Send>>;

impl Machine {
    /// The one that the settings speak of. A pretended one has processor i on node i modulo the
    /// number of nodes.
    ///
    /// # Errors
    /// The real one's nodes cannot be read.
    pub fn new(settings: Settings) -> Result<Self, TopologyError> {
        let topology = match settings.pretended {
            None => KernelTopology::read()?.into_table(),
            Some(nodes) => TableTopology::new(nodes, &[])?
                .with_processors((0..PROCESSORS).map(|cpu| Node::at(cpu % nodes)).collect()),
        };
        Ok(Self { topology, settings })
    }

    /// Its nodes.
    pub fn topology(&self) -> &TableTopology {
        &self.topology
    }

    /// No page really moves.
    pub fn is_pretended(&self) -> bool {
        self.settings.pretended.is_some()
    }

    /// What moves pages there. On a pretended machine they are at first where the settings'
    /// placement puts them, and on the first node without one.
    pub fn mover(&self) -> Box<dyn Mover + Send> {
        if self.is_pretended() {
            let placement = self.settings.placement.unwrap_or(Placement::FirstTouch);
            let nodes = self.topology.nodes();
            return Box::new(PretendedMover { table: TableMover::default(), placement, nodes });
        }
        Box::new(KernelMover::new(self.topology.clone()))
    }

    /// Pages that the calling thread touches from now on, and the threads that it starts, are put
    /// by the scheme, where the program does not say otherwise. The kernel knows no random one:
    /// such pages take turns first, and [`Machine::scatter`] is for them when they are there.
    ///
    /// # Errors
    /// The kernel's; `EINVAL`: the node of the worst case has no memory.
    pub fn place(&self, placement: Placement) -> SysResult<()> {
        let topology = &self.topology;
        if topology.homes() < 2 || self.is_pretended() {
            return Ok(());
        }
        let nodes = topology.by_distance(Node(0));
        let mut numbers: Vec<u32> = nodes.iter().map(|node| topology.number(*node)).collect();
        numbers.sort_unstable();
        match placement {
            Placement::FirstTouch => numa::set_thread_policy(Policy::Local, &[]),
            Placement::RoundRobin | Placement::Random(_) => {
                numa::set_thread_policy(Policy::Interleave, &numbers)
            }
            Placement::WorstCase(node) => {
                let number = u32::from(node.0);
                if !numbers.contains(&number) {
                    return Err(platform::SysError::new("set_mempolicy", libc::EINVAL));
                }
                numa::set_thread_policy(Policy::Preferred, &[number])
            }
        }
    }

    /// Puts pages that are there on random nodes; returns how many moved.
    pub fn scatter(&self, pages: &[usize], seed: u64) -> usize {
        if self.is_pretended() || self.topology.homes() < 2 {
            return 0;
        }
        let mut nodes = self.topology.by_distance(Node(0));
        nodes.sort_unstable();
        let targets = crate::placement::random_nodes(pages.len(), &nodes, seed);
        let mut mover = self.mover();
        let homes = mover.homes(pages);
        let steps: Vec<Step> = pages
            .iter()
            .zip(targets)
            .zip(homes)
            .filter_map(|((address, to), home)| match home {
                Home::On(from) if from != to => Some(Step { address: *address, from, to }),
                _ => None,
            })
            .collect();
        let outcomes = mover.migrate(&steps);
        outcomes.iter().filter(|outcome| !matches!(outcome, Outcome::Refused(_))).count()
    }
}

/// A table in which each page has a home.
struct PretendedMover {
    table: TableMover,
    placement: Placement,
    nodes: usize,
}

impl PretendedMover {
    fn settle(&mut self, address: usize) {
        if self.table.home(address).is_some() {
            return;
        }
        let page = address / numa::page_bytes();
        let node = match self.placement {
            Placement::FirstTouch => Node(0),
            Placement::RoundRobin => Node::at(page % self.nodes),
            Placement::WorstCase(node) => Node::at(node.index() % self.nodes),
            Placement::Random(seed) => {
                let all: Vec<Node> = (0..self.nodes).map(Node::at).collect();
                let seed = seed.wrapping_add(u64::try_from(page).unwrap_or(0));
                crate::placement::random_nodes(1, &all, seed)[0]
            }
        };
        self.table.place(address, node);
    }
}

impl Mover for PretendedMover {
    fn homes(&mut self, pages: &[usize]) -> Vec<Home> {
        pages.iter().for_each(|page| self.settle(*page));
        self.table.homes(pages)
    }

    fn migrate(&mut self, steps: &[Step]) -> Vec<Outcome> {
        steps.iter().for_each(|step| self.settle(step.address));
        self.table.migrate(steps)
    }

    fn is_real(&self) -> bool {
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn on_a_pretended_machine_each_page_has_the_home_of_the_scheme_and_moves_in_a_table() {
        let page = numa::page_bytes();
        let pages = [8 * page, 9 * page, 10 * page];
        for (placement, expected) in [
            (None, [0, 0, 0]),
            (Some(Placement::RoundRobin), [0, 1, 0]),
            (Some(Placement::WorstCase(Node(1))), [1, 1, 1]),
        ] {
            let settings = Settings { pretended: Some(2), placement, ..Settings::default() };
            let machine = Machine::new(settings).unwrap();
            let mut mover = machine.mover();
            assert_eq!(mover.homes(&pages), expected.map(|node| Home::On(Node(node))));
            let step = Step { address: pages[2], from: Node(expected[2]), to: Node(1) };
            assert_eq!(mover.migrate(&[step]), [Outcome::Moved]);
            assert_eq!(mover.homes(&pages[2..]), [Home::On(Node(1))]);
        }
    }
}
