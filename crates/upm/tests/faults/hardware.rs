//! Samples by the processor, or where it has none, by the one event of the kernel that names
//! addresses, too: page faults.

use platform::affinity::{CpuSet, affinity, current_cpu, set_affinity};
use platform::numa::{self, Advice, Pages};
use platform::sampling::Event;
use platform::skip;
use upm::source::{HardwareSource, Scope};
use upm::{Areas, CounterSource, Counters, Node, TableTopology};

use crate::memory::sweep;

/// A source that samples the first touch of each page; processor i is on node i modulo two.
fn by_page_faults(pages: &Pages) -> Option<HardwareSource> {
    let mut source = match HardwareSource::with(Event::page_faults()) {
        Ok(source) => source,
        Err(error) => {
            skip!("{error}");
            return None;
        }
    };
    // A huge page would be one fault.
    let _small = numa::advise(pages.addresses(), Advice::NoHugePages);
    let mut areas = Areas::new(numa::page_bytes());
    areas.add(pages.addresses().start, pages.addresses().len()).unwrap();
    let processors = (0..4096).map(|cpu| Node::at(cpu % 2)).collect();
    let topology = TableTopology::new(2, &[]).unwrap().with_processors(processors);
    // SAFETY: - this source touches no memory.
    unsafe { source.attach(&areas, &topology) }.unwrap();
    Some(source)
}

fn rows(source: &mut HardwareSource) -> Vec<[u64; 2]> {
    let mut counters = Counters::default();
    source.snapshot(&mut counters);
    (0..counters.pages()).map(|page| counters.page(page).try_into().unwrap()).collect()
}

#[test]
fn threads_are_sampled_while_recorded_also_those_that_came_since_each_on_its_node() {
    let page = numa::page_bytes();
    let pages = Pages::map(30 * page).unwrap();
    let Some(mut source) = by_page_faults(&pages) else { return };
    let begin = pages.first().as_ptr().expose_provenance();
    sweep(begin, 5 * page);
    source.start(Scope::Iteration).unwrap();
    let before = affinity(None).unwrap();
    let here = current_cpu();
    set_affinity(None, &CpuSet::single(here)).unwrap();
    sweep(begin + 5 * page, 10 * page);
    set_affinity(None, &before).unwrap();
    // A thread that begins now is seen from the next look on.
    let (look, is_looked) = std::sync::mpsc::channel::<()>();
    let (ready, is_ready) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let later = scope.spawn(move || {
            ready.send(()).unwrap();
            is_looked.recv().unwrap();
            sweep(begin + 15 * page, 5 * page);
        });
        is_ready.recv().unwrap();
        source.resume();
        look.send(()).unwrap();
        later.join().unwrap();
    });
    source.stop();
    sweep(begin + 20 * page, 10 * page);
    let rows = rows(&mut source);
    let own = usize::try_from(here.0).unwrap() % 2;
    for (index, row) in rows.iter().enumerate() {
        // A read that finds no page, then a write.
        let is_counted = (1..=2).contains(&(row[0] + row[1]));
        assert_eq!(is_counted, (5..20).contains(&index), "page {index}: {row:?}");
        assert!(is_counted || *row == [0, 0], "page {index}: {row:?}");
        assert!(!(5..15).contains(&index) || row[1 - own] == 0, "page {index}: {row:?}");
    }
    assert!(source.tally().samples >= 15 && source.tally().lost == 0);
}

#[test]
fn iterations_without_a_sample_of_the_areas_are_a_failure_that_says_so() {
    let pages = Pages::map(4 * numa::page_bytes()).unwrap();
    let Some(mut source) = by_page_faults(&pages) else { return };
    let mut iterations = 0;
    while source.failure().is_none() && iterations < 100 {
        assert!(!source.is_enough());
        source.start(Scope::Iteration).unwrap();
        source.stop();
        iterations += 1;
    }
    let why = source.failure().unwrap();
    assert!(why.contains("none of them of a page of the areas"), "{why}");
}

#[test]
fn what_the_processor_or_the_kernel_does_not_allow_is_said_in_words() {
    match HardwareSource::open() {
        Ok(source) => assert_eq!(source.name(), "hardware samples"),
        Err(error) => {
            let text = error.to_string();
            println!("{text}");
            assert!(text.contains(' ') && text.contains("process") || text.contains("permitted"));
        }
    }
}
