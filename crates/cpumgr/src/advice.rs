//! Advice: whether turns or sharing would give the programs that run the better mean turnaround.

use arena::message::ProgramStatus;
use policies::sim::{Forecast, Seen, forecast};

/// What to expect of turns and of sharing, from what these programs ask for and reported; `None`
/// where there is nothing to choose.
pub(crate) fn of(programs: &[ProgramStatus], processors: u32) -> Option<Forecast> {
    let seen: Vec<Seen> = programs
        .iter()
        .map(|program| {
            // A program in a serial phase asks for one processor and has threads for more.
            let request = program.request.max(program.vps).min(program.max);
            Seen { name: program.name.clone(), request, speedup: program.speedup }
        })
        .collect();
    forecast(&seen, processors)
        .inspect_err(|error| tracing::debug!(%error, "no forecast"))
        .ok()
        .flatten()
}

/// The advice as a line.
pub(crate) fn line(advice: &Forecast) -> String {
    let Forecast { programs, measured, sharing, turns, submitted } = advice;
    let better = if advice.prefers_turns() {
        "turns would be better (policy turnaround)"
    } else if advice.prefers_submission() {
        "sharing is better for programs that run, turns for submitted ones (policy turnaround)"
    } else {
        "sharing is better"
    };
    format!(
        "{better}: mean turnaround of the {programs} programs {turns:.2} in turns, {sharing:.2} \
         shared, {submitted:.2} submitted; 1 is the mean time alone ({measured} measured, equal \
         work assumed)\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(speedups: &[Option<(f64, u32)>], processors: u32) -> Option<Forecast> {
        let seen: Vec<Seen> = speedups
            .iter()
            .map(|speedup| Seen {
                name: "solver".to_owned(),
                request: processors,
                speedup: *speedup,
            })
            .collect();
        forecast(&seen, processors).unwrap()
    }

    #[test]
    fn programs_that_scale_are_better_off_in_turns() {
        let advice = seen(&[Some((7.8, 8)); 4], 8).unwrap();
        assert!(advice.prefers_turns() && advice.submitted < 0.66 * advice.sharing, "{advice:?}");
        let text = line(&advice);
        assert!(text.starts_with("turns would be better (policy turnaround): "), "{text}");
        assert!(text.contains(" (4 measured, equal work assumed)\n"), "{text}");
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn programs_that_do_not_scale_are_better_off_sharing() {
        let advice = seen(&[Some((2.0, 8)), Some((1.9, 8)), Some((2.1, 7)), None], 8).unwrap();
        assert_eq!((advice.programs, advice.measured), (4, 3));
        let advice = seen(&[Some((2.0, 8)); 4], 8).unwrap();
        assert!(!advice.prefers_turns(), "{advice:?}");
        assert!(line(&advice).starts_with("sharing is better"), "{advice:?}");
    }

    #[test]
    fn where_there_is_nothing_to_choose_nothing_is_said() {
        assert_eq!(seen(&[None], 8), None);
        assert_eq!(seen(&[None; 33], 8), None);
        assert_eq!(seen(&[], 0), None);
        let fits = Seen { name: "solver".to_owned(), request: 4, speedup: None };
        assert_eq!(forecast(&[fits.clone(), fits], 8).unwrap(), None);
        // What a program reports may be anything.
        let odd = [Some((f64::NAN, 8)), Some((-1.0, 4)), Some((1e300, 2)), Some((0.0, 0))];
        assert!(seen(&odd, 8).is_some_and(|it| it.sharing.is_finite()));
    }
}
