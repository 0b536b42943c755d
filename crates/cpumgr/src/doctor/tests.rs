//! How findings are shown.

use super::*;

#[test]
fn findings_are_lines_with_their_remedies_below() {
    let findings = Findings {
        findings: vec![
            Finding::well("kernel", "Linux 6"),
            Finding::note("quota", "1.5 of 4\x1b", "raise it"),
            Finding::wrong("library", "no", "mend it"),
        ],
    };
    assert_eq!(
        findings.text(Style::plain()),
        "well  kernel         Linux 6\n\
         note  quota          1.5 of 4\\u{1b}\n                     -> raise it\n\
         WRONG library        no\n                     -> mend it\n"
    );
}

#[test]
fn pools_say_which_of_them_follow() {
    let none = Pools { of: "7".into(), findings: Vec::new(), pools: Vec::new() };
    assert!(none.text(Style::plain()).contains("bound to its processors from outside"));
    let pool = |name: &str, follows| Pool {
        name: name.into(),
        version: (name == "TBB").then(|| "2021.8".into()),
        file: "/f".into(),
        follows,
        says: "because".into(),
    };
    let pools = Pools {
        of: "7".into(),
        findings: vec![Finding::well("mask", "all")],
        pools: vec![pool("OpenMP", Follows::Yes), pool("TBB", Follows::Bound)],
    };
    assert_eq!(
        pools.text(Style::plain()),
        "7:\nwell  mask           all\nfollows    OpenMP     /f\n           -> because\n\
         keeps size TBB        /f (2021.8)\n           -> because\n"
    );
}
