//! Memory policies for hot areas that have none. The kernel's balancing moves pages of memory
//! without a policy by itself, against the engine, and the mover's queries do not find what it has
//! marked.
//!
//! # Rule
//! Each mapping of an area that has no policy of its own is given `Local`, which places pages as
//! without one, and is given back when the engine ends. Left as they are:
//! - memory that has a policy: the program's, or its array's. Balancing leaves it alone already;
//! - all memory where the calling thread has a policy (`UPM_PLACEMENT`, `cpumgr run --placement`,
//!   `numactl`): it holds for memory without one, balancing leaves that alone, and pages that were
//!   not touched yet are to be placed by it.
//!
//! # Limits
//! - Pages at the edges of an area that hold something else, too, keep their policy.
//! - Balancing that is told to heed policies (`MPOL_F_NUMA_BALANCING`) is the program's own wish.
//!
//! # Cost
//! Two system calls for each mapping of an area when it is named, and two when the engine ends. The
//! kernel cuts a mapping at the area's edges where it goes on beyond them.

use std::ops::Range;

use platform::numa::{self, MappedRange, Policy};

/// See the module head.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    given: Vec<Range<usize>>,
}

/// What became of an area's pages that had no policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    /// They have one now.
    pub(crate) kept: usize,
    /// The system refused it: balancing may move them, too.
    pub(crate) exposed: usize,
}

impl Policies {
    /// Gives it to whole pages, whose mappings these are.
    pub(crate) fn give(&mut self, mappings: &[MappedRange], pages: Range<usize>) -> Given {
        let mut given = Given::default();
        if numa::has_policy(None) == Ok(true) {
            return given;
        }
        for mapping in mappings {
            let begin = mapping.addresses.start.max(pages.start);
            let end = mapping.addresses.end.min(pages.end);
            if begin >= end || numa::has_policy(Some(begin)) == Ok(true) {
                continue;
            }
            let count = (end - begin) / numa::page_bytes();
            match numa::bind(begin..end, Policy::Local, &[]) {
                Ok(()) => {
                    self.given.push(begin..end);
                    given.kept += count;
                }
                Err(_) => given.exposed += count,
            }
        }
        given
    }
}

impl Drop for Policies {
    fn drop(&mut self) {
        for pages in self.given.drain(..) {
            // Where the program has unmapped it meanwhile, what is there now is left alone if it
            // has no policy, or cannot be asked.
            if numa::has_policy(Some(pages.start)) == Ok(true) {
                let _unmapped_in_part = numa::bind(pages, Policy::Default, &[]);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use platform::numa::Pages;

    #[test]
    fn memory_without_a_policy_has_one_until_the_end_and_other_memory_keeps_its_own() {
        let page = numa::page_bytes();
        let pages = Pages::map(6 * page).unwrap();
        let Range { start, end } = pages.addresses();
        if let Err(error) = numa::has_policy(Some(start)) {
            return platform::skip!("this system does not tell of policies: {error}");
        }
        let own = start + 4 * page..end;
        numa::bind(own.clone(), Policy::Preferred, &[0]).unwrap();
        let of = |address| numa::has_policy(Some(address)).unwrap();
        let mut policies = Policies::default();
        let mappings = numa::mappings(start..end).unwrap();
        // Not the first page.
        let given = policies.give(&mappings, start + page..end);
        assert_eq!(given, Given { kept: 3, exposed: 0 });
        assert_eq!((of(start), of(start + page), of(own.start)), (false, true, true));
        drop(policies);
        assert_eq!((of(start + page), of(own.start)), (false, true));
        std::thread::spawn(move || {
            numa::set_thread_policy(Policy::Preferred, &[0]).unwrap();
            let given = Policies::default().give(&mappings, start..end);
            assert_eq!(given, Given::default());
        })
        .join()
        .unwrap();
    }
}
