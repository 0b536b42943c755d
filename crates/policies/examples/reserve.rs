//! A policy of one's own: a part of the processors is kept for interactive programs, also against
//! masters that share. `cargo run -p nanothreads-policies --example reserve`.

use policies::*;

parameters! {
    /// Parameters of `reserve`.
    pub struct ReserveParameters {
        /// Processors kept for interactive programs, in per cent.
        "percent" percent: u32 = 25, 0 => 90;
    }
}

/// Keeps processors for interactive programs.
#[derive(Default)]
pub struct Reserve {
    parameters: ReserveParameters,
    quick: DssTs,
    others: DssTs,
}

impl Policy for Reserve {
    configurable!();

    fn name(&self) -> &'static str {
        "reserve"
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        let all = snapshot.processors;
        if all < 2 {
            return self.others.decide(snapshot);
        }
        let is_quick = |app: &AppView| app.program == Some(AppView::number_of("editor"));
        let (quick, others): (Vec<AppView>, _) =
            snapshot.apps.iter().partition(|app| is_quick(app));
        let kept = (all * self.parameters.percent).div_ceil(100).clamp(1, all - 1);
        let wanted = others.iter().fold(0, |sum: u32, app| sum.saturating_add(app.wants()));
        let rest = wanted.min(all - kept);
        let part = |apps, processors| Snapshot { apps, processors, ..*snapshot };
        let mut quick = self.quick.decide(&part(&quick, all - rest)).allocations.into_iter();
        let mut others = self.others.decide(&part(&others, rest)).allocations.into_iter();
        let next = |app| if is_quick(app) { quick.next() } else { others.next() };
        Decision::everybody_waits(snapshot, snapshot.apps.iter().filter_map(next).collect())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut registry = Registry::with_builtin();
    registry
        .register("reserve", "a part for interactive programs", || Box::<Reserve>::default())?;
    let programs = ["editor", "hog"]
        .map(|name| (name.to_owned(), sim::Program::new(2, sim::Span::from_ms(100))));
    let jobs = vec![sim::Job::new("hog", 8, 1), sim::Job::new("editor", 1, 1)];
    let workload = sim::Workload::new(sim::MachineSpec::flat(4), programs.into(), jobs);
    for policy in ["reserve", DEFAULT_POLICY] {
        let outcome = sim::simulate(&workload, &registry, &sim::Options::policy(policy))?;
        let editor = outcome.executions.iter().find(|it| it.program == "editor");
        println!(
            "{policy}: the editor answers after {} ms",
            editor.map_or(0, |it| it.response() / 1_000_000)
        );
    }
    Ok(())
}
