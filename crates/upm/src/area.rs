//! Hot areas: ranges of memory whose pages may move, and the numbers of these pages.
//!
//! # Invariants
//! I1  Every page that an area touches belongs to exactly one area: the edges are rounded
//!     *outward*. To count and to move a page does nothing to what lies beside the area in it.
//! I2  A page at the border of two areas belongs to the one that was added first.
//! I3  What would make an access fault ([`Span::inner`]) is rounded *inward*: only pages whose
//!     every byte is the area's.
//! I4  Areas share no byte. Pages are numbered in the order in which the areas were added, and
//!     keep their numbers.
//!
//! # Not here
//! Whether anything is mapped there: `upm`.

use std::ops::Range;

/// An area, by the order in which it was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AreaId(pub usize);

/// Why a range is no hot area. Nothing was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AreaError {
    /// It has no byte.
    #[error("hot area at {begin:#x}: its length is 0")]
    Empty {
        /// Its address.
        begin: usize,
    },
    /// It ends beyond the last address.
    #[error("hot area at {begin:#x}: {length} bytes do not fit into the address space")]
    Wraps {
        /// Its address.
        begin: usize,
        /// Its bytes.
        length: usize,
    },
    /// It shares bytes with an area that was added before.
    #[error(
        "hot area at {begin:#x} of {length} bytes overlaps the one at {other:#x} of {other_length} bytes"
    )]
    Overlaps {
        /// Its address.
        begin: usize,
        /// Its bytes.
        length: usize,
        /// The address of the older one.
        other: usize,
        /// The bytes of the older one.
        other_length: usize,
    },
    /// Nothing is mapped at one of its addresses.
    #[error("hot area at {begin:#x} of {length} bytes: nothing is mapped at {hole:#x}")]
    Unmapped {
        /// Its address.
        begin: usize,
        /// Its bytes.
        length: usize,
        /// The first address without memory.
        hole: usize,
    },
    /// It cannot be written, or instructions may be there.
    #[error(
        "hot area at {begin:#x} of {length} bytes: the memory at {at:#x} is not plain memory that may be read and written"
    )]
    Rights {
        /// Its address.
        begin: usize,
        /// Its bytes.
        length: usize,
        /// The first address of the other memory.
        at: usize,
    },
}

/// One area, and the pages that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    bytes: Range<usize>,
    /// The address of its first page.
    base: usize,
    first: usize,
    count: usize,
    page: usize,
    /// Pages that are decided together; a power of two.
    unit: usize,
}

impl Span {
    /// The bytes that the program named.
    pub fn bytes(&self) -> Range<usize> {
        self.bytes.clone()
    }

    /// The numbers of its pages.
    pub fn pages(&self) -> Range<usize> {
        self.first..self.first + self.count
    }

    /// The addresses of its pages, rounded outward (I1).
    pub fn outer(&self) -> Range<usize> {
        self.base..self.base + self.count * self.page
    }

    /// The addresses of the pages that hold nothing but the area (I3); may be empty.
    pub fn inner(&self) -> Range<usize> {
        let begin = self.bytes.start.next_multiple_of(self.page);
        let end = self.bytes.end / self.page * self.page;
        begin..end.max(begin)
    }

    /// How many pages are decided together.
    pub fn unit(&self) -> usize {
        self.unit
    }
}

/// All hot areas of a program.
///
/// # Costs
/// To add one takes a look at all others. To find the page of an address takes a binary search in
/// the areas, to find the address of a page another one; neither allocates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Areas {
    page: usize,
    spans: Vec<Span>,
    /// Those with pages, by address.
    order: Vec<usize>,
    pages: usize,
}

impl Areas {
    /// None yet, on pages of `page` bytes.
    ///
    /// # Panics
    /// `page` is no power of two.
    pub fn new(page: usize) -> Self {
        assert!(page.is_power_of_two(), "the size of a page is a power of two, not {page}");
        Self { page, spans: Vec::new(), order: Vec::new(), pages: 0 }
    }

    /// Adds `length` bytes at `begin`.
    ///
    /// # Errors
    /// See [`AreaError`].
    pub fn add(&mut self, begin: usize, length: usize) -> Result<AreaId, AreaError> {
        if length == 0 {
            return Err(AreaError::Empty { begin });
        }
        let wraps = AreaError::Wraps { begin, length };
        let end = begin.checked_add(length).ok_or(wraps)?;
        let last = end.checked_next_multiple_of(self.page).ok_or(wraps)?;
        let clash = self.spans.iter().find(|span| span.bytes.start < end && begin < span.bytes.end);
        if let Some(Span { bytes: other, .. }) = clash {
            let (other, other_length) = (other.start, other.len());
            return Err(AreaError::Overlaps { begin, length, other, other_length });
        }
        // No byte is shared, so at most the first and the last page have an owner already (I2).
        let mut base = begin / self.page * self.page;
        let mut last = last;
        if self.page_at(base).is_some() {
            base += self.page;
        }
        if last > base && self.page_at(last - self.page).is_some() {
            last -= self.page;
        }
        let count = last.saturating_sub(base) / self.page;
        let id = self.spans.len();
        let (page, first) = (self.page, self.pages);
        self.spans.push(Span { bytes: begin..end, base, first, count, page, unit: 1 });
        if count > 0 {
            let at = self.order.partition_point(|other| self.spans[*other].base < base);
            self.order.insert(at, id);
        }
        self.pages += count;
        Ok(AreaId(id))
    }

    /// Decides `unit` pages together from now on, by their addresses: those of one huge page.
    ///
    /// # Panics
    /// `unit` is no power of two.
    pub fn set_unit(&mut self, area: AreaId, unit: usize) {
        assert!(unit.is_power_of_two(), "a unit is a power of two, not {unit}");
        self.spans[area.0].unit = unit;
    }

    /// How many pages all areas have.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.page
    }

    /// The areas in the order in which they were added.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// The number of the page that holds an address.
    pub fn page_at(&self, address: usize) -> Option<usize> {
        let after = self.order.partition_point(|span| self.spans[*span].base <= address);
        let span = &self.spans[*self.order.get(after.checked_sub(1)?)?];
        let index = (address - span.base) / self.page;
        (index < span.count).then_some(span.first + index)
    }

    /// The address of a page.
    ///
    /// # Panics
    /// There is no such page.
    pub fn address(&self, page: usize) -> usize {
        let after = self.spans.partition_point(|span| span.first <= page);
        let of = self.spans[..after].iter().rev().find(|span| span.pages().contains(&page));
        let span = of.expect("pages are below Areas::pages");
        span.base + (page - span.first) * self.page
    }

    /// The pages that are decided together, in the order of their numbers.
    pub fn units(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.spans.iter().flat_map(move |span| {
            let bytes = span.unit * self.page;
            let mut next = span.first;
            std::iter::from_fn(move || {
                let end = span.first + span.count;
                let address = span.base + (next - span.first) * self.page;
                let rest = (bytes - address % bytes) / self.page;
                let unit = next..(next + rest).min(end);
                next = unit.end;
                (!unit.is_empty()).then_some(unit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: usize = 4096;

    #[test]
    fn one_byte_is_one_page_that_may_move_and_none_that_may_fault() {
        let mut areas = Areas::new(PAGE);
        areas.add(5 * PAGE + 7, 1).unwrap();
        let span = &areas.spans()[0];
        assert_eq!((span.outer(), span.inner().len()), (5 * PAGE..6 * PAGE, 0));
        assert_eq!((areas.pages(), areas.page_at(6 * PAGE - 1)), (1, Some(0)));
        assert_eq!(areas.page_at(6 * PAGE), None);
    }

    #[test]
    fn a_whole_page_is_the_same_both_ways() {
        let mut areas = Areas::new(PAGE);
        areas.add(PAGE, PAGE).unwrap();
        assert_eq!(areas.spans()[0].outer(), PAGE..2 * PAGE);
        assert_eq!(areas.spans()[0].inner(), PAGE..2 * PAGE);
    }

    #[test]
    fn what_is_no_area_says_why() {
        let mut areas = Areas::new(PAGE);
        areas.add(10 * PAGE, 2 * PAGE).unwrap();
        assert_eq!(areas.add(PAGE, 0), Err(AreaError::Empty { begin: PAGE }));
        let begin = usize::MAX - 10;
        assert_eq!(areas.add(begin, 11), Err(AreaError::Wraps { begin, length: 11 }));
        assert_eq!(areas.add(begin, 10), Err(AreaError::Wraps { begin, length: 10 }));
        let text = areas.add(11 * PAGE, PAGE).unwrap_err().to_string();
        assert!(text.contains("overlaps the one at 0xa000 of 8192 bytes"), "{text}");
        assert_eq!((areas.pages(), areas.spans().len()), (2, 1));
    }

    #[test]
    fn a_page_at_a_border_belongs_to_the_first_area() {
        let mut areas = Areas::new(PAGE);
        areas.add(PAGE, PAGE + 100).unwrap();
        areas.add(2 * PAGE + 100, PAGE).unwrap();
        assert_eq!(areas.spans()[1].outer(), 3 * PAGE..4 * PAGE);
        assert_eq!(areas.page_at(2 * PAGE + 200), Some(1));
        // Between two others, in their pages: nothing is left for it.
        areas.add(3 * PAGE + 4000, 10).unwrap();
        assert_eq!((areas.spans()[2].pages().len(), areas.pages()), (0, 3));
        let addresses: Vec<usize> = (0..3).map(|page| areas.address(page)).collect();
        assert_eq!(addresses, [PAGE, 2 * PAGE, 3 * PAGE]);
    }

    #[test]
    fn units_follow_addresses() {
        let mut areas = Areas::new(PAGE);
        let area = areas.add(6 * PAGE, 7 * PAGE).unwrap();
        areas.set_unit(area, 4);
        areas.add(20 * PAGE, 2 * PAGE).unwrap();
        let units: Vec<Range<usize>> = areas.units().collect();
        assert_eq!(units, [0..2, 2..6, 6..7, 7..8, 8..9]);
    }

    proptest! {
        #[test]
        fn every_touched_page_has_one_owner(
            given in proptest::collection::vec((0usize..40 * PAGE, 1usize..9 * PAGE), 1..12),
        ) {
            let mut areas = Areas::new(PAGE);
            let mut owner = [None; 60];
            let mut taken = Vec::new();
            let mut pages = 0;
            for (begin, length) in given {
                let bytes = begin..begin + length;
                let clash = taken.iter().any(|other: &Range<usize>|
                    bytes.clone().any(|byte| other.contains(&byte)));
                let added = areas.add(begin, length);
                prop_assert_eq!(added.is_err(), clash);
                if clash { continue }
                for owner in &mut owner[begin / PAGE..=(begin + length - 1) / PAGE] {
                    if owner.is_none() {
                        *owner = Some(pages);
                        pages += 1;
                    }
                }
                taken.push(bytes);
            }
            prop_assert_eq!(areas.pages(), pages);
            for (index, owner) in owner.into_iter().enumerate() {
                prop_assert_eq!(areas.page_at(index * PAGE + 17), owner);
                if let Some(page) = owner {
                    prop_assert_eq!(areas.address(page), index * PAGE);
                }
            }
            let all: Vec<usize> = areas.units().flatten().collect();
            prop_assert_eq!(all, (0..pages).collect::<Vec<_>>());
        }
    }
}
