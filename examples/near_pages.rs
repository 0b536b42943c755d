//! A program whose pages follow its threads: heat in a plate, by loops that say what they touch. Of
//! the chunks that they give to threads they do so by themselves; what else a body reads it says.
//!
//! `cargo run --release --example near_pages`. On a machine with one memory node it says that there
//! is nothing to move; `near_pages 2` pretends that there are two nodes: then pages move in a table
//! only. Either way it compares its result with a plain loop's.

use anyhow::Context as _;
use nanothreads::{par_chunks_mut, par_for};
use upm::source::Pattern;
use upm::{HotArray, Machine, Parameters, Placement, Settings, Upm};

const ROWS: usize = 512;
const WIDTH: usize = 512;
/// Rows that a thread gets at once.
const CHUNK: usize = 32 * WIDTH;
const STEPS: usize = 20;

/// One step for the rows from `first` on; the plate's border stays as it is.
fn step(old: &[f64], new: &mut [f64], first: usize) {
    for (row, cells) in (first..).zip(new.chunks_mut(WIDTH)) {
        if row == 0 || row + 1 == ROWS {
            continue;
        }
        for (column, cell) in cells.iter_mut().enumerate().take(WIDTH - 1).skip(1) {
            let at = row * WIDTH + column;
            *cell = 0.25 * (old[at - WIDTH] + old[at + WIDTH] + old[at - 1] + old[at + 1]);
        }
    }
}

fn heat(plate: &mut [f64]) {
    plate[..WIDTH].fill(100.0);
}

fn main() -> anyhow::Result<()> {
    let nodes = std::env::args().nth(1);
    let nodes = nodes.map(|text| text.parse()).transpose().context("nodes: a number, 2 to 64")?;
    let machine = Machine::new(Settings { pretended: nodes, ..Settings::default() })?;
    let (topology, mover) = (machine.topology().clone(), machine.mover());
    let array = || HotArray::<f64>::zeroed(ROWS * WIDTH, Placement::FirstTouch, &topology);
    let (mut old, mut new) = (array()?, array()?);
    heat(&mut old);
    heat(&mut new);

    let none = Box::new(upm::NoSource("its loops say what they touch".to_owned()));
    let mut upm = Upm::with(topology.clone(), mover, none, Parameters::default());
    upm.watch(&old)?;
    upm.watch(&new)?;
    let ledger = upm.ledger();
    let (asked, told) = (ledger.clone(), ledger.clone());
    nanothreads::builder()
        .on_chunk(move || asked.is_recording(), move |chunk| told.touched_here(chunk))
        .install()?;
    let mut warmest = 0.0;
    for _step in 0..STEPS {
        upm.iteration(|| {
            par_chunks_mut(&mut new, CHUNK).run(|number, chunk| {
                let first = number * CHUNK / WIDTH;
                let rows = first.saturating_sub(1)..(first + chunk.len() / WIDTH + 1).min(ROWS);
                ledger.elements(&old[rows.start * WIDTH..rows.end * WIDTH]);
                step(&old, chunk, first);
            });
            let rows = Pattern::rows(&new, WIDTH);
            let warmest_of = |numbers: std::ops::Range<usize>| {
                ledger.ran_here(&rows, numbers.clone());
                let cells = &new[numbers.start * WIDTH..numbers.end * WIDTH];
                cells.iter().copied().fold(0.0, f64::max)
            };
            warmest = par_for(1..ROWS - 1).reduce_chunks(0.0, warmest_of, f64::max);
        });
        std::mem::swap(&mut old, &mut new);
    }
    print!("{}", upm.statistics());

    let (mut plain, mut next) = (vec![0.0; ROWS * WIDTH], vec![0.0; ROWS * WIDTH]);
    heat(&mut plain);
    heat(&mut next);
    for _step in 0..STEPS {
        step(&plain, &mut next, 0);
        std::mem::swap(&mut plain, &mut next);
    }
    anyhow::ensure!(plain == old[..], "the result differs from a plain loop's");
    println!("the warmest cell has {warmest:.2}; the result is a plain loop's");
    Ok(())
}
