//! What the demo's runs gave; from it the ideal, the cap of each run, and what is worth repeating.
//! Pure: time comes in as numbers.

use std::time::Duration;

use super::plan::{Program, Runtime, Selection, Step};

/// No run takes more than this times its ideal.
const CAP: f64 = 15.0;
/// A run that behaves may take this much longer than expected before its time is missing elsewhere.
const SLACK: f64 = 1.2;
/// A run that should behave gets at least this multiple of its ideal: killed, it would say nothing
/// about the miss.
const PATIENCE: f64 = 4.0;

/// What one run gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Mean turnaround of its copies, in seconds.
    pub(crate) mean: f64,
    /// Turnaround of the slowest copy.
    pub(crate) worst: f64,
    /// Processor time of all copies.
    pub(crate) cpu: f64,
    /// Some copies were killed at the cap: `mean` and `worst` are lower bounds.
    pub(crate) capped: bool,
    /// All results right; `None`: unknown, for some copies were killed and the rest was right.
    pub(crate) correct: Option<bool>,
}

/// Everything measured so far.
pub(crate) struct Record {
    /// What is measured.
    pub(crate) selection: Selection,
    /// Processors that a program may use.
    pub(crate) processors: usize,
    /// One copy alone takes about this long; the expectation until there are samples.
    expected_alone: f64,
    samples: Vec<(Step, Sample)>,
}

impl Record {
    /// An empty record.
    pub(crate) fn new(selection: Selection, processors: usize, expected_alone: f64) -> Record {
        Record { selection, processors, expected_alone, samples: Vec::new() }
    }

    /// Adds what a run gave.
    pub(crate) fn add(&mut self, step: Step, sample: Sample) {
        self.samples.push((step, sample));
    }

    /// All runs of a step.
    pub(crate) fn of(&self, step: Step) -> Vec<Sample> {
        self.samples.iter().filter(|(other, _)| *other == step).map(|(_, sample)| *sample).collect()
    }

    /// The median over a step's runs, value by value; wrong once = wrong, capped once = a lower
    /// bound.
    pub(crate) fn median(&self, step: Step) -> Option<Sample> {
        let samples = self.of(step);
        let all = |value: fn(&Sample) -> f64| middle(samples.iter().map(value).collect());
        Some(Sample {
            mean: all(|sample| sample.mean)?,
            worst: all(|sample| sample.worst)?,
            cpu: all(|sample| sample.cpu)?,
            capped: samples.iter().any(|sample| sample.capped),
            correct: if samples.iter().any(|sample| sample.correct == Some(false)) {
                Some(false)
            } else if samples.iter().all(|sample| sample.correct == Some(true)) {
                Some(true)
            } else {
                None
            },
        })
    }

    /// The turnaround that perfect sharing would give: max(T_best of one copy on all processors, K
    /// x T1b / P).
    pub(crate) fn ideal(&self, program: Program, copies: usize) -> f64 {
        let one_thread = self.median(Step::OneThread(program)).map(|sample| sample.mean);
        self.ideal_by(program, copies, one_thread)
    }

    /// The same by this T1b.
    fn ideal_by(&self, program: Program, copies: usize, one_thread: Option<f64>) -> f64 {
        let alone = Runtime::ALL
            .iter()
            .filter_map(|&runtime| self.median(Step::Copies(program, runtime, 1)))
            .filter(|sample| !sample.capped)
            .map(|sample| sample.mean)
            .min_by(f64::total_cmp)
            .unwrap_or(self.expected_alone);
        let one_thread = one_thread.unwrap_or(self.expected_alone * self.processors as f64);
        alone.max(copies as f64 * one_thread / self.processors as f64)
    }

    /// The yardsticks of a program that were taken last before sample `at`, and first after it:
    /// their mean.
    fn yardstick_at(&self, program: Program, at: usize) -> Option<f64> {
        let (before, after) = self.samples.split_at(at);
        let is_one = |(step, _): &&(Step, Sample)| *step == Step::OneThread(program);
        let near: Vec<f64> = before
            .iter()
            .rev()
            .find(is_one)
            .into_iter()
            .chain(after.iter().find(is_one))
            .map(|it| it.1.mean)
            .collect();
        (!near.is_empty()).then(|| near.iter().sum::<f64>() / near.len() as f64)
    }

    /// How long a run of this step should take when all goes well.
    fn expected(&self, step: Step) -> f64 {
        match step {
            // Its copies run on a processor each: the time of P copies that share all.
            Step::OneThread(program) => self.ideal(program, self.processors),
            Step::Copies(program, _, copies) => self.ideal(program, copies),
        }
    }

    /// The cap of the first of `todo`, when `left` seconds are there for all of them.
    ///
    /// Fifteen times the ideal; or less, where time is short. Runs that may collapse share what the
    /// others leave: all of them get the same multiple of their ideals. A run that should behave
    /// may take what the rest does not need.
    pub(crate) fn cap(&self, todo: &[Step], left: f64) -> Duration {
        let Some(&step) = todo.first() else {
            return Duration::ZERO;
        };
        let sum = |collapsing: bool| {
            let steps = todo.iter().filter(|step| step.may_collapse() == collapsing);
            steps.map(|&step| self.expected(step)).sum::<f64>()
        };
        let expected = self.expected(step);
        let (collapsing, behaving) = (sum(true), sum(false) * SLACK);
        let multiple = if step.may_collapse() {
            ((left - behaving) / collapsing).clamp(SLACK, CAP)
        } else {
            let others = behaving - expected * SLACK + collapsing * SLACK;
            ((left - others) / expected).clamp(PATIENCE, CAP)
        };
        Duration::from_secs_f64(expected * multiple)
    }

    /// How long a demo takes in which every collapsing run may go on to fifteen times its ideal.
    pub(crate) fn time_for_full_caps(&self) -> Duration {
        let seconds =
            |step: &Step| self.expected(*step) * if step.may_collapse() { CAP } else { SLACK };
        Duration::from_secs_f64(self.selection.round().iter().map(seconds).sum())
    }

    /// Was any run killed before fifteen times its ideal, because the time was short?
    pub(crate) fn was_cut_short(&self) -> bool {
        let early = |(step, sample): &(Step, Sample)| {
            sample.capped && self.ratio(*step, sample) < CAP * 0.95
        };
        self.samples.iter().any(early)
    }

    /// A yardstick that was taken before is not taken again when the time is over.
    pub(crate) fn can_do_without(&self, step: Step, left: f64) -> bool {
        matches!(step, Step::OneThread(_))
            && !self.of(step).is_empty()
            && self.expected(step) > left
    }

    /// May this step be repeated in the `left` seconds? Not when an earlier run of it hit the cap.
    pub(crate) fn worth_repeating(&self, step: Step, left: f64) -> bool {
        let last = self.of(step).last().map_or(f64::INFINITY, |sample| sample.worst);
        let capped = self.of(step).iter().any(|sample| sample.capped);
        !capped && last * SLACK <= left
    }

    /// The ratio of a sample to the ideal by all that is known.
    fn ratio(&self, step: Step, sample: &Sample) -> f64 {
        match step {
            Step::OneThread(_) => 1.0,
            Step::Copies(_, _, copies) => sample.mean / self.ideal(step.program(), copies),
        }
    }

    /// The ratios of all runs of a step to the ideals by the yardsticks next to each of them.
    pub(crate) fn ratios(&self, step: Step) -> Vec<f64> {
        let Step::Copies(program, _, copies) = step else {
            return vec![1.0; self.of(step).len()];
        };
        let runs = self.samples.iter().enumerate().filter(|(_, (other, _))| *other == step);
        let ratio = |(at, (_, sample)): (usize, &(Step, Sample))| {
            sample.mean / self.ideal_by(program, copies, self.yardstick_at(program, at))
        };
        runs.map(ratio).collect()
    }

    /// The median of these.
    pub(crate) fn median_ratio(&self, step: Step) -> Option<f64> {
        middle(self.ratios(step))
    }
}

/// The work that makes one copy take `target` seconds, from what a run of `work` took at best.
pub(crate) fn scaled_work(work: u64, took: f64, target: f64) -> u64 {
    // The smallest time that is told apart from nothing: a clock that says 0 must not ask for
    // endless work.
    let work = work as f64 * target / took.max(1e-6);
    work.ceil().max(1.0) as u64
}

fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[count / 2]),
        count => Some((values[count / 2 - 1] + values[count / 2]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::plan::USUAL_COPIES;

    const BOTH: [Runtime; 2] = [Runtime::Libgomp, Runtime::Nanos];

    fn usual() -> Selection {
        Selection::new(&Program::USUAL, &USUAL_COPIES, &BOTH)
    }

    fn sample(mean: f64) -> Sample {
        Sample { mean, worst: mean, cpu: mean, capped: false, correct: Some(true) }
    }

    fn record(processors: usize, alone: f64, one_thread: f64) -> Record {
        let mut record = Record::new(usual(), processors, 9.0);
        for program in Program::USUAL {
            record.add(Step::OneThread(program), sample(one_thread));
            record.add(Step::Copies(program, Runtime::Libgomp, 1), sample(alone));
            record.add(Step::Copies(program, Runtime::Nanos, 1), sample(alone * 1.1));
        }
        record
    }

    #[test]
    fn the_ideal_is_the_larger_of_best_alone_and_fair_share() {
        let record = record(2, 3.0, 5.0);
        // 1 copy: max(3, 1 x 5 / 2); 2 copies: max(3, 2 x 5 / 2); 4 copies: 4 x 5 / 2.
        assert_eq!(record.ideal(Program::Cg, 1), 3.0);
        assert_eq!(record.ideal(Program::Cg, 2), 5.0);
        assert_eq!(record.ideal(Program::Lu, 4), 10.0);
    }

    #[test]
    fn a_run_is_compared_with_the_yardsticks_beside_it() {
        let mut record = record(2, 3.0, 6.0);
        let step = Step::Copies(Program::Cg, Runtime::Nanos, 4);
        assert_eq!(record.median_ratio(step), None);
        // The machine got slower by half, and stays so from then on.
        for mean in [18.0, 18.9, 17.1] {
            record.add(Step::OneThread(Program::Cg), sample(9.0));
            record.add(step, sample(mean));
            record.add(Step::OneThread(Program::Lu), sample(1.0));
            record.add(Step::OneThread(Program::Cg), sample(9.0));
        }
        let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
        assert!(
            record
                .ratios(step)
                .into_iter()
                .zip([1.0, 1.05, 0.95])
                .all(|(one, other)| near(one, other))
        );
        assert_eq!(record.median_ratio(step), Some(1.0));
        // In between: the mean of both sides; the last one has one side.
        record.add(step, sample(18.0));
        record.add(Step::OneThread(Program::Cg), sample(3.0));
        record.add(step, sample(6.0));
        assert!(near(record.ratios(step)[3], 18.0 / 12.0) && near(record.ratios(step)[4], 1.0));
    }

    #[test]
    fn best_alone_may_come_from_either_runtime() {
        let mut record = record(2, 3.0, 2.0);
        record.add(Step::Copies(Program::Cg, Runtime::Nanos, 1), sample(0.1));
        record.add(Step::Copies(Program::Cg, Runtime::Nanos, 1), sample(2.5));
        // nanos: the median of 3.3, 0.1, 2.5.
        assert_eq!(record.ideal(Program::Cg, 1), 2.5);
    }

    #[test]
    fn with_time_enough_the_cap_is_fifteen_ideals() {
        let record = record(2, 3.0, 6.0);
        let todo = [Step::Copies(Program::Cg, Runtime::Libgomp, 2)];
        assert_eq!(record.cap(&todo, 1000.0), Duration::from_secs(90));
    }

    #[test]
    fn when_time_is_short_collapsing_runs_share_what_the_others_leave() {
        let record = record(2, 3.0, 6.0);
        let todo = [
            Step::Copies(Program::Cg, Runtime::Libgomp, 2),
            Step::Copies(Program::Cg, Runtime::Nanos, 4),
            Step::Copies(Program::Lu, Runtime::Libgomp, 4),
        ];
        // 104.4 s left, 12 x 1.2 reserved for nanos: 90 s for ideals of 6 and 12, so 5 times each.
        assert_eq!(record.cap(&todo, 104.4).as_secs_f32(), 30.0);
    }

    #[test]
    fn a_run_that_should_behave_leaves_the_rest_its_time_but_is_never_cut_short() {
        let record = record(2, 3.0, 6.0);
        let nanos = Step::Copies(Program::Cg, Runtime::Nanos, 2);
        let todo = [nanos, Step::Copies(Program::Cg, Runtime::Nanos, 4)];
        // 74.4 s left, 12 x 1.2 for the other: 60 s.
        assert_eq!(record.cap(&todo, 74.4).as_secs_f32(), 60.0);
        assert_eq!(record.cap(&todo, 1000.0), Duration::from_secs(90));
        assert_eq!(record.cap(&todo, 1.0), Duration::from_secs(24));
    }

    #[test]
    fn all_runs_at_their_cap_stay_inside_the_time() {
        let record = record(2, 3.2, 6.4);
        let todo = usual().round();
        let mut left = 300.0;
        for at in 0..todo.len() {
            left -= if todo[at].may_collapse() {
                record.cap(&todo[at..], left).as_secs_f64()
            } else {
                record.expected(todo[at]) * SLACK
            };
        }
        assert!(left > -1e-6, "{left} s left");
    }

    #[test]
    fn runs_that_were_killed_early_are_known_and_what_it_takes_to_let_them_go_on() {
        let mut record = record(2, 3.0, 6.0);
        assert!(!record.was_cut_short());
        let step = Step::Copies(Program::Cg, Runtime::Libgomp, 2);
        record.add(step, Sample { capped: true, correct: None, ..sample(89.0) });
        assert!(!record.was_cut_short());
        record.add(step, Sample { capped: true, correct: None, ..sample(30.0) });
        assert!(record.was_cut_short());
        // A program: 7 yardsticks of 6, 1 copy twice 3, nanos 6 + 9 + 12, all x 1.2; libgomp (6 + 9
        // + 12) x 15.
        assert_eq!(record.time_for_full_caps().as_secs_f32(), 2.0 * (75.0 * 1.2 + 27.0 * 15.0));
    }

    #[test]
    fn a_median_of_runs_keeps_the_bad_news() {
        let mut record = Record::new(usual(), 2, 3.0);
        let step = Step::Copies(Program::Lu, Runtime::Libgomp, 3);
        assert!(record.median(step).is_none());
        record.add(step, sample(4.0));
        record.add(step, Sample { capped: true, correct: None, ..sample(20.0) });
        record.add(step, sample(5.0));
        let median = record.median(step).unwrap();
        assert_eq!((median.mean, median.capped, median.correct), (5.0, true, None));
        assert!(!record.worth_repeating(step, 1000.0));
        record.add(step, Sample { correct: Some(false), ..sample(5.0) });
        assert_eq!(record.median(step).unwrap().correct, Some(false));
    }

    #[test]
    fn repeats_happen_only_where_they_fit() {
        let record = record(2, 4.0, 6.0);
        let step = Step::Copies(Program::Cg, Runtime::Libgomp, 1);
        assert!(record.worth_repeating(step, 4.8));
        assert!(!record.worth_repeating(step, 4.7));
        assert!(
            !record.worth_repeating(Step::Copies(Program::Cg, Runtime::Nanos, 4), 1e9),
            "never ran: unknown time"
        );
    }

    #[test]
    fn only_further_yardsticks_are_left_out_when_time_is_over() {
        let record = record(2, 3.0, 6.0);
        assert!(record.can_do_without(Step::OneThread(Program::Cg), 5.9));
        assert!(!record.can_do_without(Step::OneThread(Program::Cg), 6.1));
        assert!(!record.can_do_without(Step::Copies(Program::Cg, Runtime::Nanos, 4), 0.0));
        assert!(!Record::new(usual(), 2, 3.0).can_do_without(Step::OneThread(Program::Cg), 0.0));
    }

    #[test]
    fn work_scales_with_the_target() {
        assert_eq!(scaled_work(10, 0.5, 3.0), 60);
        assert_eq!(scaled_work(10, 0.0, 3.0), 30_000_000);
        assert_eq!(scaled_work(1, 100.0, 3.0), 1);
    }
}
