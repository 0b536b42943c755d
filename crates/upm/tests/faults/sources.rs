//! The first source that can be used, and why others could not.

use std::sync::Arc;

use platform::numa::{self, Pages};
use upm::source::{AutoSource, Ledger, Scope, SourceError, TrapParameters, TrapSource};
use upm::{Areas, CounterSource, Node, SourceKind, TableTopology};

fn attached(mut source: AutoSource, pages: &Pages) -> (AutoSource, Result<(), SourceError>) {
    let mut areas = Areas::new(numa::page_bytes());
    areas.add(pages.addresses().start, pages.addresses().len()).unwrap();
    let topology = TableTopology::new(2, &[]).unwrap().with_processors(vec![Node(0); 4096]);
    // SAFETY: - each test drops the source before its memory.
    let outcome = unsafe { source.attach(&areas, &topology) };
    (source, outcome)
}

fn names(source: &AutoSource) -> Vec<&'static str> {
    source.declined().iter().map(|declined| declined.source).collect()
}

#[test]
fn private_memory_is_sampled_by_rights_and_each_source_before_says_why_not() {
    let pages = Pages::map(4 * numa::page_bytes()).unwrap();
    let auto = AutoSource::new(None, TrapParameters::default());
    let (mut auto, outcome) = attached(auto, &pages);
    assert_eq!((outcome, auto.kind()), (Ok(()), Some(SourceKind::Rights)));
    assert_eq!(auto.name(), "access rights");
    let declined = auto.declined();
    assert!(declined[0].why.contains("do not say what they touch"), "{declined:?}");
    let before = &SourceKind::ORDER[..SourceKind::ORDER.len() - 2];
    let before: Vec<&str> = before.iter().map(|kind| kind.name()).collect();
    assert_eq!(names(&auto), before);
    auto.start(Scope::Iteration).unwrap();
    auto.stop();
}

#[test]
fn shared_memory_has_guards_where_the_kernel_has_them() {
    let pages = Pages::map_shared(4 * numa::page_bytes()).unwrap();
    let auto = AutoSource::new(None, TrapParameters::default());
    let (auto, outcome) = attached(auto, &pages);
    assert_eq!(outcome, Ok(()));
    let has = TrapSource::by_guards(TrapParameters::default()).is_ok();
    assert_eq!(auto.kind() == Some(SourceKind::Guards), has, "{:?}", auto.declined());
}

#[test]
fn loops_come_first_and_are_declined_when_none_said_anything() {
    let pages = Pages::map(4 * numa::page_bytes()).unwrap();
    let ledger = Arc::new(Ledger::default());
    let auto = AutoSource::new(None, TrapParameters::default()).with_ledger(ledger.clone());
    let (mut auto, outcome) = attached(auto, &pages);
    assert_eq!((outcome, auto.kind()), (Ok(()), Some(SourceKind::Loops)));
    for _ in 0..2 {
        auto.start(Scope::Iteration).unwrap();
        ledger.touched(0, pages.addresses());
        auto.stop();
        assert!(auto.is_enough() && auto.caps().is_exact);
    }
    let (mut auto, _) = attached(auto, &pages);
    auto.start(Scope::Iteration).unwrap();
    // Of other memory.
    ledger.touched(0, 0..4096);
    auto.stop();
    assert!(!auto.is_enough());
    auto.start(Scope::Iteration).unwrap();
    auto.stop();
    assert_eq!((auto.kind(), auto.caps().is_exact), (Some(SourceKind::Rights), false));
    assert!(auto.declined()[0].why.contains("no loop said"), "{:?}", auto.declined());
}

#[test]
fn the_only_one_that_is_wanted_is_tried_alone_and_none_says_so() {
    let pages = Pages::map(numa::page_bytes()).unwrap();
    let of = |kind| attached(AutoSource::new(Some(kind), TrapParameters::default()), &pages);
    assert_eq!(of(SourceKind::Rights).0.kind(), Some(SourceKind::Rights));
    for kind in [SourceKind::Loops, SourceKind::None] {
        let (mut auto, outcome) = of(kind);
        assert_eq!((auto.kind(), names(&auto)), (None, vec![kind.name()]));
        let text = outcome.unwrap_err().to_string();
        assert!(text.starts_with(kind.name()), "{text}");
        assert!(auto.start(Scope::Iteration).is_err() && !auto.is_enough());
    }
}
