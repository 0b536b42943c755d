//! `run --placement`: where the pages of an unmodified program come to be, by the policy that it
//! inherits. The kernel has none for the random scheme: the drop-in OpenMP library does that.

use std::path::Path;
use std::process::Command;

use platform::file;
use platform::numa::{self, Policy};

use crate::cli::Placement;
use crate::preload;

/// The nodes that have memory.
const NODES: &str = "/sys/devices/system/node/has_memory";
/// What tells the library the scheme.
const VARIABLE: &str = "UPM_PLACEMENT";

/// A scheme for a program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    scheme: Placement,
    /// The kernel's policy and its nodes; or why there is none, and every placement is the same.
    policy: Result<(Policy, Vec<u32>), String>,
}

/// What `run` is to do about its placement. `missing`: why the program will not have the drop-in
/// library.
///
/// # Errors
/// The program cannot have the scheme: it is not to begin with another one.
pub(crate) fn plan(
    scheme: Placement,
    missing: impl FnOnce() -> Option<String>,
) -> Result<Plan, String> {
    let nodes = file::text(NODES)
        .map_err(|error| format!("{NODES}: {error}"))
        .and_then(|text| nodes(text.trim()).ok_or_else(|| format!("{NODES} says `{text}`")));
    let plan = chosen(scheme, nodes)?;
    if matches!(scheme, Placement::Random(_))
        && plan.policy.is_ok()
        && let Some(why) = missing()
    {
        return Err(format!(
            "--placement {scheme}: the kernel has no random policy; the drop-in OpenMP library \
             does it, and {why}. Or choose round-robin, which spreads pages over all nodes, too"
        ));
    }
    Ok(plan)
}

/// The kernel's policy for a scheme, on these nodes.
fn chosen(scheme: Placement, nodes: Result<Vec<u32>, String>) -> Result<Plan, String> {
    let policy = match (scheme, nodes) {
        (Placement::WorstCase(Some(node)), Ok(nodes)) if !nodes.contains(&node) => {
            let all = nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            return Err(format!(
                "--placement {scheme}: node {node} has no memory; choose one that has: {all}"
            ));
        }
        (_, Err(reason)) => Err(reason),
        (_, Ok(nodes)) if nodes.len() < 2 => {
            Err("this machine has one memory node, on which every placement is the same".into())
        }
        (Placement::FirstTouch, Ok(_)) => Ok((Policy::Local, Vec::new())),
        // The library moves them from there.
        (Placement::RoundRobin | Placement::Random(_), Ok(nodes)) => {
            Ok((Policy::Interleave, nodes))
        }
        (Placement::WorstCase(node), Ok(nodes)) => {
            Ok((Policy::Preferred, vec![node.unwrap_or(nodes[0])]))
        }
    };
    Ok(Plan { scheme, policy })
}

fn nodes(text: &str) -> Option<Vec<u32>> {
    let mut nodes = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        nodes.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
    }
    Some(nodes)
}

impl Plan {
    /// Gives the calling thread the policy, which a program that it becomes inherits, and tells
    /// the drop-in library the scheme: it heeds no older word of the environment.
    pub(crate) fn set(&self, command: &mut Command, program: &Path, warn: &impl Fn(&str)) {
        command.env(VARIABLE, self.word());
        let scheme = self.scheme;
        let set = match &self.policy {
            Ok((policy, nodes)) => {
                numa::set_thread_policy(*policy, nodes).map_err(|error| error.to_string())
            }
            Err(reason) => Err(reason.clone()),
        };
        match set {
            Err(reason) => warn(&format!(
                "--placement {scheme}: {reason}; the program runs with the placement that it finds"
            )),
            Ok(()) if self.waits_for_loop() && !preload::names_openmp(program) => warn(&format!(
                "--placement {scheme}: {} names no OpenMP library: unless an OpenMP library comes \
                 to it in another way, its pages take turns on the nodes, as with round-robin",
                program.display()
            )),
            Ok(()) => {}
        }
    }

    /// The pages are put at random when the library has found the program's outer loop.
    fn waits_for_loop(&self) -> bool {
        matches!(self.scheme, Placement::Random(_))
    }

    /// The scheme in the library's words: its worst case is node 0, which may have no memory.
    fn word(&self) -> String {
        match (self.scheme, &self.policy) {
            (Placement::WorstCase(None), Ok((_, nodes))) => {
                Placement::WorstCase(nodes.first().copied()).to_string()
            }
            (scheme, _) => scheme.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_are_policies_of_the_kernel_and_words_of_the_library() {
        let (both, one, two) = (vec![1, 2], vec![1], vec![2]);
        for (scheme, policy, word) in [
            (Placement::FirstTouch, (Policy::Local, vec![]), "first-touch"),
            (Placement::RoundRobin, (Policy::Interleave, both.clone()), "round-robin"),
            (Placement::Random(None), (Policy::Interleave, both.clone()), "random"),
            (Placement::Random(Some(7)), (Policy::Interleave, both), "random:7"),
            (Placement::WorstCase(None), (Policy::Preferred, one), "worst-case:1"),
            (Placement::WorstCase(Some(2)), (Policy::Preferred, two), "worst-case:2"),
        ] {
            let plan = chosen(scheme, Ok(vec![1, 2])).unwrap();
            assert_eq!((plan.policy.clone(), plan.word().as_str()), (Ok(policy), word), "{scheme}");
        }
    }

    #[test]
    fn a_node_without_memory_is_refused_with_those_that_have_some() {
        let refused = chosen(Placement::WorstCase(Some(9)), Ok(vec![0, 1])).unwrap_err();
        assert!(refused.contains("--placement worst-case:9") && refused.contains("0, 1"));
        let refused = chosen(Placement::WorstCase(Some(1)), Ok(vec![0])).unwrap_err();
        assert!(refused.contains("node 1 has no memory"), "{refused}");
    }

    #[test]
    fn lists_of_nodes_are_read() {
        assert_eq!(nodes("0-1,3"), Some(vec![0, 1, 3]));
        assert_eq!((nodes("0"), nodes("x")), (Some(vec![0]), None));
    }

    #[test]
    fn one_node_has_one_placement() {
        let plan = chosen(Placement::WorstCase(None), Ok(vec![0])).unwrap();
        assert!(plan.policy.as_ref().unwrap_err().contains("one memory node"));
        assert_eq!(plan.word(), "worst-case");
    }
}
