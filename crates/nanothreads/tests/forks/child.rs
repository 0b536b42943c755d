//! A forked child uses parallel regions of its own (D13): outside a region, and from inside one.

use crate::forked::{assert_in_child, assert_right, forked, leave};
use engine::sizer::Fixed;
use nanothreads::papers::Dispatch;
use nanothreads::{broadcast, groups, par_for};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};

fn members() -> u32 {
    let count = AtomicU32::new(0);
    broadcast(|_| {
        count.fetch_add(1, Relaxed);
    });
    count.into_inner()
}

// One test: what it forks would otherwise be a copy of a process in which another test is in a
// region.
#[test]
fn a_child_has_regions_of_its_own() {
    own_process!();
    let dispatch = if module_path!().ends_with("::child_broadcast") {
        Dispatch::Broadcast
    } else {
        Dispatch::Lines
    };
    assert!(nanothreads::builder().dispatch(dispatch).sizer(Fixed::new(3)).install().is_ok());
    assert_eq!(members(), 3);
    for _ in 0..10 {
        assert_in_child("has the settings that the parent was given", || members() == 3);
        assert_eq!(members(), 3, "the parent's team is untouched");
    }
    // From inside a region the child is a lone thread that may fork regions, too.
    broadcast(|member| {
        if member.id == 0 {
            assert_in_child("is a lone thread that may fork regions", || members() == 3);
        }
    });
    // So is the child of a group's master, be it the caller or a worker; it may divide
    // its own processors.
    for forking in 0..2 {
        let sizes = groups().weights(&[2, 1]).map(|group| {
            if group.index() == forking {
                assert_in_child("of a group's master may divide its own processors", || {
                    let outer = members();
                    let inner: u32 = groups().equal(2).map(|_| members()).into_iter().sum();
                    outer >= 1 && inner >= outer.max(2)
                });
            }
            members()
        });
        assert_eq!(sizes, [2, 1], "the parent's groups are untouched");
        assert_eq!(members(), 3);
    }
    // A reduction out of which parent and child come: the child must not take what stands in other
    // members' lines.
    let parent = std::process::id();
    let pid = AtomicI32::new(0);
    let sum = par_for(0..3).reduce(
        0,
        |i| {
            if i == 0 {
                pid.store(forked(), Relaxed);
            }
            1
        },
        |a, b| a + b,
    );
    if std::process::id() != parent {
        leave(sum == 1);
    }
    assert_right(pid.into_inner(), "has its own result");
    assert_eq!(sum, 3, "the parent has all three");
}
