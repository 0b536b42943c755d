//! A program on each engine: what it works on, the forms that users write, whether a result is that
//! of one thread.

use crate::harness::closing::ONE;
use crate::harness::place::Row;
use crate::harness::sample::Subject;
use crate::harness::situation::Situation;
use crate::harness::{Case, Engine, Runtime, regions};
use std::cell::Cell;
use std::hint::black_box;
use std::ops::Range;
use std::rc::Rc;

/// A program from `W` to `R`.
pub(crate) struct Program<W, R> {
    pub name: &'static str,
    /// Makes what it works on, outside the time.
    pub input: fn() -> W,
    /// The program on one thread.
    pub one: fn(W) -> R,
    /// Whether a result (the first) is as good as that of one thread.
    pub is_right: fn(&R, &R) -> bool,
    /// Ours first.
    pub forms: Vec<(&'static str, Form<W, R>)>,
}

/// The program as a user of an engine writes it.
pub(crate) enum Form<W, R> {
    /// On one thread, for comparison.
    One(fn(W) -> R),
    Ours(fn(W) -> R),
    /// Inside a pool of which the calling thread is a member: no program is slower there.
    Rayon(fn(W) -> R),
    Chili(fn(&mut chili::Scope<'static>, W) -> R),
    ForkUnion(fn(&mut fork_union::ThreadPool, W) -> R),
    /// What makes its threads itself: orx-parallel, the standard library.
    Plain(fn(W) -> R),
}

/// The program in each situation.
pub(crate) fn cases<W: Send + 'static, R: Send + 'static>(mut program: Program<W, R>) -> [Case; 3] {
    program.forms.push((ONE, Form::One(program.one)));
    let program = Rc::new(program);
    Situation::ALL.map(|situation| {
        let engine = |(number, (name, form)): (usize, &(&'static str, Form<W, R>))| {
            let program = Rc::clone(&program);
            let runtime =
                if matches!(form, Form::Ours(_)) { Runtime::Ours } else { Runtime::Crate };
            let mut engine = Engine::new(*name, runtime, move |row| program.subject(number, row));
            engine.rows = &[Row::Unbound];
            engine
        };
        // What one thread takes is of interest where it is alone.
        let is_meant =
            |form: &Form<W, R>| situation == Situation::Idle || !matches!(form, Form::One(_));
        let forms = program.forms.iter().enumerate().filter(|(_, (_, form))| is_meant(form));
        Case {
            name: format!("{}, {}", program.name, situation.name()),
            measure: situation.measure(),
            extras: &[],
            engines: forms.map(engine).collect(),
            bar: None,
        }
    })
}

impl<W: Send + 'static, R: Send + 'static> Program<W, R> {
    fn subject(&self, number: usize, row: Row) -> Result<Subject, String> {
        Ok(match self.forms[number].1 {
            Form::One(run) | Form::Plain(run) => self.checked(run),
            Form::Ours(run) => {
                regions::configure(row);
                self.checked(run)
            }
            Form::Rayon(run) => {
                let pool = regions::rayon_inside()?;
                self.checked(move |work| pool.install(move || run(work)))
            }
            Form::Chili(run) => {
                let mut scope = regions::chili();
                self.checked(move |work| run(&mut scope, work))
            }
            Form::ForkUnion(run) => {
                let mut pool =
                    fork_union::ThreadPool::try_spawn(2).map_err(|error| format!("{error:?}"))?;
                self.checked(move |work| run(&mut pool, work))
            }
        })
    }

    /// Each call has an input of its own, and each result is compared with that of one thread, both
    /// outside the time.
    fn checked(&self, mut run: impl FnMut(W) -> R + 'static) -> Subject {
        let (input, is_right) = (self.input, self.is_right);
        let expected = (self.one)(input());
        let work = Rc::new(Cell::new(None));
        let result = Rc::new(Cell::new(None));
        let wrong = Rc::new(Cell::new(0_u32));
        let look = {
            let (result, wrong) = (Rc::clone(&result), Rc::clone(&wrong));
            move || {
                let last: Option<R> = result.take();
                if last.is_some_and(|last| !is_right(&last, &expected)) {
                    wrong.set(wrong.get() + 1);
                }
            }
        };
        let look = Rc::new(look);
        let (next, last) = (Rc::clone(&work), Rc::clone(&look));
        let prepare = move || {
            last();
            next.set(Some(input()));
        };
        let call = move || {
            let work = work.take().expect("each call is prepared");
            result.set(Some(black_box(run(black_box(work)))));
        };
        let check = move |calls| {
            look();
            match wrong.get() {
                0 => Ok(()),
                wrong => Err(format!("{wrong} of {calls} results are not those of one thread")),
            }
        };
        Subject::new(call, check).prepared_by(prepare)
    }
}

/// One value of a range by joins of chili, in parts of at most `grain`.
pub(crate) fn halves<R: Send>(
    scope: &mut chili::Scope<'_>,
    range: Range<usize>,
    grain: usize,
    part: &(impl Fn(Range<usize>) -> R + Sync),
    combine: &(impl Fn(R, R) -> R + Sync),
) -> R {
    if range.len() <= grain {
        return part(range);
    }
    let middle = range.start.midpoint(range.end);
    let (a, b) = scope.join(
        |scope| halves(scope, range.start..middle, grain, part, combine),
        |scope| halves(scope, middle..range.end, grain, part, combine),
    );
    combine(a, b)
}

/// Work that depends on its number, and that no compiler can shorten: some 60 ns, or 20 beside the
/// same for other numbers.
pub(crate) fn grain(number: usize) -> u64 {
    steps(number, 40)
}

/// The same of so many steps.
pub(crate) fn steps(number: usize, count: u32) -> u64 {
    let mut state = number as u64 | 1 << 40;
    for _ in 0..count {
        state = state.wrapping_mul(6_364_136_223_846_793_005).rotate_left(17) ^ 0x5851;
    }
    state
}

/// Results of which each bit is that of one thread.
pub(crate) fn equal<R: PartialEq>(a: &R, b: &R) -> bool {
    a == b
}

/// Equal up to the order of summation.
pub(crate) fn near(a: &[f64], b: &[f64]) -> bool {
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0);
    a.len() == b.len() && a.iter().zip(b).all(near)
}
