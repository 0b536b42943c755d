//! `run --placement`: where the pages of an unmodified program come to be, by the policy that it
//! inherits.

use platform::file;
use platform::numa::{self, Policy};

use crate::cli::Placement;

/// The nodes that have memory.
const NODES: &str = "/sys/devices/system/node/has_memory";

/// Gives the calling thread the policy, which a program that it becomes inherits. An error says
/// why the program begins without one.
pub(crate) fn set(placement: Placement) -> Result<(), String> {
    let text = file::text(NODES).map_err(|error| format!("{NODES}: {error}"))?;
    let nodes = nodes(text.trim()).ok_or_else(|| format!("{NODES} says `{}`", text.trim()))?;
    let (policy, nodes) = chosen(placement, &nodes)?;
    numa::set_thread_policy(policy, nodes).map_err(|error| error.to_string())
}

fn nodes(text: &str) -> Option<Vec<u32>> {
    let mut nodes = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        nodes.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
    }
    Some(nodes)
}

/// The kernel's policy for a scheme.
fn chosen(placement: Placement, nodes: &[u32]) -> Result<(Policy, &[u32]), String> {
    if nodes.len() < 2 {
        return Err("this machine has one memory node, on which every placement is the same".into());
    }
    match placement {
        Placement::FirstTouch => Ok((Policy::Local, &[])),
        Placement::RoundRobin => Ok((Policy::Interleave, nodes)),
        Placement::WorstCase => Ok((Policy::Preferred, &nodes[..1])),
        Placement::Random => Err("no policy of the kernel places pages at random; the drop-in \
                                  OpenMP library does so in its programs, with \
                                  UPM_PLACEMENT=random in the environment"
            .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_are_policies_of_the_kernel_but_the_random_one() {
        let nodes = [0, 2];
        assert_eq!(chosen(Placement::RoundRobin, &nodes), Ok((Policy::Interleave, &nodes[..])));
        assert_eq!(chosen(Placement::WorstCase, &nodes), Ok((Policy::Preferred, &nodes[..1])));
        assert_eq!(chosen(Placement::FirstTouch, &nodes), Ok((Policy::Local, &[][..])));
        assert!(chosen(Placement::Random, &nodes).unwrap_err().contains("random"));
    }

    #[test]
    fn lists_of_nodes_are_read() {
        assert_eq!(nodes("0-1,3"), Some(vec![0, 1, 3]));
        assert_eq!((nodes("0"), nodes("x")), (Some(vec![0]), None));
    }

    #[test]
    fn one_node_has_one_placement() {
        assert!(chosen(Placement::WorstCase, &[0]).unwrap_err().contains("one memory node"));
    }
}
