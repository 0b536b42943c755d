//! What moves pages, and what became of each of them. No page is lost: each page that was to move
//! has one [`Outcome`].
//!
//! # Papers
//! P4 moves pages by memory locality domains; where a node is full its system takes the next one.
//! Here the mover does that ([`Outcome::Elsewhere`]).

mod fault;
mod kernel;
mod table;

pub use fault::{Fault, FaultyMover};
pub use kernel::{KernelMover, MoveCalls, Syscalls};
pub use table::TableMover;

use crate::topology::Node;

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// On this node.
    On(Node),
    /// Nowhere: no thread touched it yet, or the system took it.
    Untouched,
    /// The mover could not tell: the system's error number.
    Unknown(i32),
}

/// Why a page did not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// No memory is there yet.
    Untouched,
    /// The node is full, and so are those that would be better than the page's home.
    NodeFull,
    /// It is in use by a device or by the system at the moment, also after a second try.
    Busy,
    /// Another process has it, too.
    Shared,
    /// The node is not there, or has no memory, or the program may not use it.
    NoNode,
    /// The system refuses the call as such (a filter, a container, a kernel without it).
    Forbidden,
    /// Another answer of the system.
    Other(i32),
}

impl Refusal {
    /// In words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Untouched => "not touched yet",
            Self::NodeFull => "the node is full, and no nearer one has room",
            Self::Busy => "busy or pinned",
            Self::Shared => "shared with another process",
            Self::NoNode => "the node cannot be used",
            Self::Forbidden => "the system refuses to move pages",
            Self::Other(_) => "another answer of the system",
        }
    }
}

/// What became of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is where it should be.
    Moved,
    /// The node was full; it is on this one, which is nearer to it than the page's home was.
    Elsewhere(Node),
    /// It stayed.
    Refused(Refusal),
}

/// A page that is to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The page's address.
    pub address: usize,
    /// Where it is.
    pub from: Node,
    /// Where it should be.
    pub to: Node,
}

/// Moves pages. Nothing may be armed that makes their accesses fault.
pub trait Mover {
    /// Where each page is, by address.
    fn homes(&mut self, pages: &[usize]) -> Vec<Home>;

    /// Moves pages; one outcome for each, in the same order.
    fn migrate(&mut self, steps: &[Step]) -> Vec<Outcome>;

    /// Whether it moves this process's memory, which the kernel may move, too; a table is none.
    fn is_real(&self) -> bool {
        true
    }
}

impl<M: Mover + ?Sized> Mover for Box<M> {
    fn homes(&mut self, pages: &[usize]) -> Vec<Home> {
        (**self).homes(pages)
    }

    fn migrate(&mut self, steps: &[Step]) -> Vec<Outcome> {
        (**self).migrate(steps)
    }

    fn is_real(&self) -> bool {
        (**self).is_real()
    }
}
