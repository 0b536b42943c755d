//! A kernel's numerical code below loops that one thread runs, without an engine: what
//! `make -C kernels count` counts the instructions of, beside the C kernels.
//!
//! With one repetition the clock is read three times and no more: as the report begins, and at both
//! ends of the timed section. The makefile's script counts between the last two.

use std::ops::Range;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use nanothreads_kernels::loops::Loops;
use nanothreads_kernels::options::Options;
use nanothreads_kernels::parts::Parts;
use nanothreads_kernels::program::Kernel;
use nanothreads_kernels::report::Report;
use nanothreads_kernels::{bt, cg, ep, ft, is, mg};

/// Loops whose pieces are the whole.
struct OneThread;

impl Loops for OneThread {
    fn threads(&self) -> usize {
        1
    }

    fn reduce<R: Send + Sync + Clone>(
        &self,
        range: Range<usize>,
        zero: R,
        body: impl Fn(Range<usize>) -> R + Sync,
        add: impl Fn(R, R) -> R + Sync,
    ) -> R {
        add(zero, body(range))
    }

    fn reduce_parts<P: Parts, R: Send + Sync + Clone>(
        &self,
        parts: P,
        zero: R,
        body: impl Fn(usize, P) -> R + Sync,
        add: impl Fn(R, R) -> R + Sync,
    ) -> R {
        add(zero, body(0, parts))
    }

    fn unequal<T: Send>(
        &self,
        slice: &mut [T],
        chunk_length: usize,
        body: impl Fn(usize, &mut [T]) + Sync,
    ) {
        slice.chunks_mut(chunk_length).enumerate().for_each(|(number, chunk)| body(number, chunk));
    }
}

/// Which one.
#[derive(Clone, Copy, ValueEnum)]
enum Name {
    Bt,
    Cg,
    Ep,
    Ft,
    Is,
    Mg,
}

#[derive(Parser)]
struct Line {
    /// The kernel.
    kernel: Name,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let Line { kernel, options } = Line::parse();
    let run: fn(&OneThread, &Options) -> Report = match kernel {
        Name::Bt => bt::Kernel::run,
        Name::Cg => cg::Kernel::run,
        Name::Ep => ep::Kernel::run,
        Name::Ft => ft::Kernel::run,
        Name::Is => is::Kernel::run,
        Name::Mg => mg::Kernel::run,
    };
    let report = run(&OneThread, &options);
    match report.end(&mut std::io::stdout().lock(), &mut std::io::stderr().lock()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) | Err(_) => ExitCode::FAILURE,
    }
}
