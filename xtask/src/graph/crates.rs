//! The dependency rule between the crates of this workspace, checked over `cargo metadata`.
//!
//! # Not here
//! Dependencies on crates of the registry: those are reviewed where they stand, in the root
//! `Cargo.toml`.

use std::collections::BTreeSet;

use anyhow::bail;

use crate::metadata::{self, Dependency};

/// Which crate may use which, and why. A crate without a row is refused: a new one states its place
/// first.
const RULES: &[Rule] = &[
    Rule {
        package: "nanothreads-platform",
        may_use: &[],
        reason: "platform is the leaf: it uses nothing of ours",
    },
    Rule {
        package: "nanothreads-arena",
        may_use: &["nanothreads-platform"],
        reason: "arena is the protocol alone: it uses platform",
    },
    Rule {
        package: "nanothreads-policies",
        may_use: &[],
        reason: "policies are pure: they use nothing of ours",
    },
    Rule {
        package: "nanothreads-engine",
        may_use: &["nanothreads-platform", "nanothreads-arena"],
        reason: "the engine uses platform and arena; sizers and observers come in through its \
                 traits",
    },
    Rule {
        package: "nanothreads",
        may_use: &[
            "nanothreads-platform",
            "nanothreads-arena",
            "nanothreads-engine",
            "nanothreads-asat",
        ],
        reason: "the safe library stands on the engine, and may size teams by asat; its tests \
                 speak the manager's protocol",
    },
    Rule {
        package: "nanothreads-orx",
        may_use: &["nanothreads"],
        reason: "a companion crate knows the library's public API alone",
    },
    Rule {
        package: "nanothreads-rayon",
        may_use: &["nanothreads"],
        reason: "a companion crate knows the library's public API alone",
    },
    Rule {
        package: "cpumgr",
        may_use: &["nanothreads-platform", "nanothreads-arena", "nanothreads-policies"],
        reason: "the manager never runs on the engine that it manages",
    },
    Rule {
        package: "nanothreads-asat",
        may_use: &["nanothreads-platform", "nanothreads-engine"],
        reason: "asat implements the engine's TeamSizer on platform",
    },
    Rule {
        package: "nanothreads-upm",
        may_use: &["nanothreads-platform"],
        reason: "upm knows threads, pages and nodes, and no runtime: it uses platform",
    },
    Rule {
        package: "omp-shim",
        may_use: &[
            "nanothreads-platform",
            "nanothreads-arena",
            "nanothreads-engine",
            "nanothreads-asat",
            "nanothreads-upm",
        ],
        reason: "omp-shim stands on the engine, beside the safe library",
    },
    Rule {
        package: "nanothreads-kernels",
        may_use: &["nanothreads"],
        reason: "the kernels are programs of a user: they know the library's public API alone",
    },
    Rule {
        package: "nanos-transfers",
        may_use: &["nanothreads-platform", "nanothreads-engine", "nanothreads"],
        reason: "what is counted uses what it counts, and peers",
    },
    Rule { package: "xtask", may_use: &[], reason: "xtask must build when the workspace does not" },
    Rule {
        package: "nanos",
        may_use: &[
            "nanothreads-platform",
            "nanothreads-arena",
            "nanothreads-policies",
            "nanothreads-engine",
            "nanothreads",
            "nanothreads-orx",
            "nanothreads-rayon",
            "nanothreads-asat",
            "nanothreads-upm",
        ],
        reason: "benches and examples use the libraries; nothing uses programs and omp-shim",
    },
];

struct Rule {
    package: &'static str,
    may_use: &'static [&'static str],
    reason: &'static str,
}

/// What the graph looks like when the rule holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    crates: usize,
    edges: usize,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} crates, {} dependencies between them, all allowed", self.crates, self.edges)
    }
}

/// Checks one document of `cargo metadata --no-deps`. Every forbidden edge and every crate without
/// a rule is named.
pub(crate) fn check(document: &str) -> anyhow::Result<Summary> {
    let packages = metadata::packages(document)?;
    let members: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let mut edges = 0;
    let mut faults = Vec::new();
    for package in &packages {
        let Some(rule) = RULES.iter().find(|rule| rule.package == package.name) else {
            faults.push(format!(
                "{}: no rule says what it may use; add its row to xtask/src/graph/crates.rs",
                package.name
            ));
            continue;
        };
        // A library whose tests have all of its features depends on itself.
        let is_itself = |dependency: &Dependency| {
            dependency.name == package.name && dependency.kind.as_deref() == Some("dev")
        };
        for dependency in package.dependencies.iter().filter(|dependency| {
            members.contains(dependency.name.as_str()) && !is_itself(dependency)
        }) {
            edges += 1;
            if !rule.may_use.contains(&dependency.name.as_str()) {
                let kind = dependency
                    .kind
                    .as_ref()
                    .map_or(String::new(), |kind| format!(" ({kind} dependency)"));
                faults.push(format!(
                    "{} -> {}{kind}: forbidden, for {}",
                    package.name, dependency.name, rule.reason
                ));
            }
        }
    }
    if faults.is_empty() {
        Ok(Summary { crates: members.len(), edges })
    } else {
        bail!("the dependency rule is broken:\n  {}", faults.join("\n  "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A dependency: the package's name and its kind.
    type Edge<'a> = (&'a str, Option<&'a str>);

    fn document(packages: &[(&str, &[Edge])]) -> String {
        let packages: Vec<_> = packages
            .iter()
            .map(|(name, dependencies)| {
                let dependencies: Vec<_> = dependencies
                    .iter()
                    .map(|(name, kind)| serde_json::json!({"name": name, "kind": kind, "req": "*"}))
                    .collect();
                serde_json::json!({"name": name, "targets": [], "dependencies": dependencies})
            })
            .collect();
        serde_json::json!({"packages": packages, "version": 1}).to_string()
    }

    #[test]
    fn allowed_edges_and_registry_crates_pass() {
        let text = document(&[
            ("nanothreads-platform", &[("libc", None)]),
            ("nanothreads-arena", &[("nanothreads-platform", None), ("serde", None)]),
            ("nanothreads", &[("nanothreads-platform", None), ("nanothreads-arena", None)]),
        ]);
        assert_eq!(check(&text).unwrap(), Summary { crates: 3, edges: 3 });
    }

    #[test]
    fn a_planted_edge_is_named_with_its_rule() {
        let text = document(&[("cpumgr", &[("nanothreads", None)]), ("nanothreads", &[])]);
        let message = check(&text).unwrap_err().to_string();
        assert!(message.contains("cpumgr -> nanothreads:"), "{message}");
        assert!(message.contains("never runs on the engine that it manages"), "{message}");
    }

    #[test]
    fn tests_may_use_their_own_library() {
        let own = |kind| document(&[("nanothreads", &[("nanothreads", kind)])]);
        assert_eq!(check(&own(Some("dev"))).unwrap(), Summary { crates: 1, edges: 0 });
        assert!(check(&own(None)).is_err());
    }

    #[test]
    fn test_dependencies_obey_the_rule_too() {
        let text =
            document(&[("nanothreads-policies", &[("cpumgr", Some("dev"))]), ("cpumgr", &[])]);
        let message = check(&text).unwrap_err().to_string();
        assert!(message.contains("nanothreads-policies -> cpumgr (dev dependency)"), "{message}");
    }

    #[test]
    fn nothing_may_use_the_programs() {
        for user in RULES {
            for program in
                ["cpumgr", "omp-shim", "nanothreads-kernels", "nanos-transfers", "xtask", "nanos"]
            {
                let edge: &[Edge] = &[(program, None)];
                let text = document(&[(user.package, edge), (program, &[])]);
                assert!(check(&text).is_err(), "{} -> {program} passed", user.package);
            }
        }
    }

    #[test]
    fn xtask_uses_no_crate_of_the_workspace() {
        for rule in RULES.iter().filter(|rule| rule.package != "xtask") {
            let edge: &[Edge] = &[(rule.package, None)];
            let text = document(&[("xtask", edge), (rule.package, &[])]);
            assert!(check(&text).is_err(), "xtask -> {} passed", rule.package);
        }
    }

    #[test]
    fn a_crate_without_a_rule_is_refused() {
        let message = check(&document(&[("newcomer", &[])])).unwrap_err().to_string();
        assert!(message.contains("newcomer: no rule"), "{message}");
    }

    #[test]
    fn every_fault_is_reported_at_once() {
        let text = document(&[
            ("nanothreads-policies", &[("nanothreads-platform", None)]),
            ("nanothreads-platform", &[("nanothreads-policies", None)]),
        ]);
        let message = check(&text).unwrap_err().to_string();
        assert_eq!(message.matches("forbidden").count(), 2, "{message}");
    }

    #[test]
    fn a_document_of_another_shape_is_an_error() {
        assert!(check("{}").is_err());
        assert!(check("not json").is_err());
    }
}
