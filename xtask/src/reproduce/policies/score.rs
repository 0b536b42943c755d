//! How near the simulator's answers are to what is published, counted over all rows.

use std::collections::BTreeMap;
use std::fmt;

use super::{Answer, Row};

/// How many of something lie within 10, 25 and 50 % of what is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Within {
    all: usize,
    near: [usize; 3],
}

impl Within {
    fn of(pairs: &[(f64, f64)]) -> Self {
        let off = |(published, simulated): &(f64, f64)| (simulated / published - 1.0).abs();
        let within = |most: f64| pairs.iter().filter(|pair| off(pair) <= most).count();
        Self { all: pairs.len(), near: [0.10, 0.25, 0.50].map(within) }
    }
}

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [ten, quarter, half] = self.near;
        write!(f, "{ten:>3} {quarter:>3} {half:>3} of {:>3}", self.all)
    }
}

/// How near the simulator is to the papers, over all rows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Score {
    native: Within,
    managed: Within,
    p0_managed: Within,
    ratios: Within,
    winners: (usize, usize),
    named_winners: (usize, usize),
    /// Of policies compared with each other.
    contrasts: Within,
    directions: (usize, usize),
}

/// What the score must not fall below: within 10, 25 and 50 %, or winners.
pub(super) const HELD: [(&str, [usize; 3]); 5] = [
    ("native times", [16, 24, 35]),
    ("managed times of P0", [18, 24, 24]),
    ("ratios", [16, 25, 39]),
    ("winners", [41; 3]),
    ("directions", [5; 3]),
];

impl Score {
    pub(super) fn of(answers: &[Answer<'_>]) -> Self {
        let (rows, contrasts): (Vec<_>, Vec<_>) =
            answers.iter().partition(|answer| answer.is_native());
        // Two policies are compared with one native time.
        let native: BTreeMap<_, _> = rows
            .iter()
            .map(|it| {
                ((&it.row.workload, it.row.copies, &it.row.program), (it.row.native, it.native))
            })
            .collect();
        let managed = |only: &dyn Fn(&Row) -> bool| {
            let cells: Vec<(f64, f64)> = rows
                .iter()
                .filter(|it| only(it.row))
                .map(|it| (it.row.managed, it.managed))
                .collect();
            Within::of(&cells)
        };
        let ratios = |list: &[&Answer<'_>]| {
            let pairs: Vec<(f64, f64)> =
                list.iter().map(|it| (it.published(), it.simulated())).collect();
            Within::of(&pairs)
        };
        let winners = |list: &[&Answer<'_>], only: &dyn Fn(&Row) -> bool| {
            let all = || list.iter().filter(|it| only(it.row));
            (all().filter(|it| it.has_same_winner()).count(), all().count())
        };
        let same_side = |it: &&&Answer<'_>| (it.published() - 1.0) * (it.simulated() - 1.0) >= 0.0;
        Self {
            native: Within::of(&native.into_values().collect::<Vec<_>>()),
            managed: managed(&|_| true),
            p0_managed: managed(&|row| row.table.starts_with("P0")),
            ratios: ratios(&rows),
            winners: winners(&rows, &|_| true),
            named_winners: winners(&rows, &|row| row.named),
            contrasts: ratios(&contrasts),
            directions: (contrasts.iter().filter(same_side).count(), contrasts.len()),
        }
    }

    /// What fell.
    pub(super) fn lost(&self) -> Vec<String> {
        let (winners, directions) = (self.winners.0, self.directions.0);
        let found = [
            self.native.near,
            self.p0_managed.near,
            self.ratios.near,
            [winners; 3],
            [directions; 3],
        ];
        HELD.iter()
            .zip(found)
            .filter(|((_, held), found)| held.iter().zip(found).any(|(held, found)| found < held))
            .map(|((what, held), found)| format!("{what}: {found:?}; held are {held:?}"))
            .collect()
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "score                     10  25  50 %")?;
        writeln!(f, "native times             {}", self.native)?;
        writeln!(f, "managed times            {}", self.managed)?;
        writeln!(f, "managed times of P0      {}", self.p0_managed)?;
        writeln!(f, "ratios native / managed  {}", self.ratios)?;
        writeln!(f, "ratios of two policies   {}", self.contrasts)?;
        writeln!(f, "winners                  {} of {}", self.winners.0, self.winners.1)?;
        let (named, all) = self.named_winners;
        writeln!(f, "  where the paper names a cause: {named} of {all}")?;
        writeln!(f, "better of two policies   {} of {}", self.directions.0, self.directions.1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::row;
    use super::super::tests::{LINE, answer_of};
    use super::*;

    #[test]
    fn the_score_counts_every_row_and_a_fall_is_told() {
        let lines = [
            LINE.to_owned(),
            LINE.replace("606", "1.05").replace("132", "1").replace("yes", "no"),
            LINE.replace("none,606,132", "ssw-dss,120,100"),
        ];
        let rows: Vec<Row> = lines.iter().map(|line| row(line).expect("it is a row")).collect();
        // 4.59 and 4.0; 1.05 (even) and 4.0; 1.2 and 1.02.
        let answers: Vec<Answer<'_>> =
            rows.iter().zip([4.0, 4.0, 1.02]).map(|(row, native)| answer_of(row, native)).collect();
        let score = Score::of(&answers);
        assert_eq!((score.winners, score.named_winners), ((1, 2), (1, 1)));
        assert_eq!(score.ratios, Within { all: 2, near: [0, 1, 1] });
        assert_eq!(score.contrasts, Within { all: 1, near: [0, 1, 1] });
        assert_eq!(score.directions, (1, 1));
        assert!(score.to_string().contains("winners                  1 of 2"), "{score}");
        let lost = score.lost();
        assert!(lost.iter().any(|text| text.starts_with("winners: [1, 1, 1]; held")), "{lost:?}");
        assert!(!answers[0].is_apart() && answers[1].is_apart());
    }
}
