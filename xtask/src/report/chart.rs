//! A chart as inline SVG: one row for each value, a dot at the median and a line from least to
//! most. Colours are the page's classes, so that they follow light and dark.

use svg::Document;
use svg::node::element::{Circle, Group, Line, Text, Title};

use super::data::{Chart, Label, Unit, Value};
use crate::measure::Distance;

/// Narrow, so that letters stay readable where the page is as wide as a phone.
const WIDTH: f64 = 360.0;
/// Room for names: as much as they need, within this.
const NAMES: [f64; 2] = [90.0, 168.0];
/// Width of a letter, roughly, and what a name needs besides.
const LETTER: f64 = 6.3;
const BESIDE_NAME: f64 = 16.0;
/// Between the middles of two marks of the axis: less, and their words overlap.
const LEAST_GAP: f64 = 40.0;
const RIGHT: f64 = 54.0;
const ROW: f64 = 17.0;
const HEAD: f64 = 20.0;
const FOOT: f64 = 22.0;

/// From values to places.
struct Axis {
    /// Where it begins.
    left: f64,
    low: f64,
    high: f64,
}

impl Axis {
    /// Logarithmic; half a tick of room at both ends.
    fn of(chart: &Chart) -> Axis {
        let ends = chart.values.iter().flat_map(|(_, value)| match value {
            Value::Measured(spread) => vec![spread.least, spread.most],
            Value::Above(least) => vec![*least],
            Value::Wrong(_) => Vec::new(),
        });
        let mut ends: Vec<f64> = ends.filter(|end| end.is_finite() && *end > 0.0).collect();
        if chart.unit == Unit::Ratio || ends.is_empty() {
            ends.push(1.0);
        }
        let low = ends.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ends.iter().copied().fold(0.0, f64::max);
        let names = chart.values.iter().map(|(label, _)| label.engine.chars().count());
        let longest = names.max().unwrap_or(0) as f64 * LETTER + BESIDE_NAME;
        let left = longest.clamp(NAMES[0], NAMES[1]);
        Axis { left, low: low * 0.93, high: high.max(low * 1.2) * 1.07 }
    }

    /// As much of a name as fits beside the axis.
    fn fitting(&self, name: &str) -> String {
        let room = ((self.left - BESIDE_NAME) / LETTER).round() as usize;
        if name.chars().count() <= room {
            return name.to_owned();
        }
        name.chars().take(room.saturating_sub(1)).chain(['…']).collect()
    }

    fn x(&self, value: f64) -> f64 {
        // What is no more than nothing has no place on a logarithmic axis: it is at its beginning.
        let part = (value / self.low).max(f64::MIN_POSITIVE).ln() / (self.high / self.low).ln();
        round(self.left + part.clamp(0.0, 1.0) * (WIDTH - self.left - RIGHT))
    }

    /// Values with a mark: 1, 2 and 5 of each power of ten, finer where few would be seen.
    fn ticks(&self) -> Vec<f64> {
        let steps: &[f64] = match self.high / self.low {
            wide if wide > 100.0 => &[1.0],
            wide if wide > 4.0 => &[1.0, 2.0, 5.0],
            _ => &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
        };
        let powers = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
        let mut kept: Vec<f64> = Vec::new();
        for tick in all.filter(|tick| (self.low..=self.high).contains(tick)) {
            // The ideal has its mark in any case.
            let is_near = |last: &f64| self.x(tick) - self.x(*last) < LEAST_GAP;
            if !kept.last().is_some_and(is_near) {
                kept.push(tick);
            } else if (tick - 1.0).abs() < 1e-9 {
                kept.pop();
                kept.push(tick);
            }
        }
        kept
    }
}

/// Draws a chart.
pub(crate) fn draw(chart: &Chart) -> String {
    let axis = Axis::of(chart);
    let mut last = None;
    let mut body = Group::new();
    let mut y = 4.0;
    let mut rows = Group::new();
    for (label, value) in &chart.values {
        // Near and far are groups of their own.
        let group = (&label.group, label.distance);
        if last.replace(group) != Some(group) {
            let said = match label.distance {
                Some(distance) => format!("{}, {}", label.group, distance.name()),
                None => label.group.clone(),
            };
            rows = rows.add(text(0.0, y + 14.0, &said, "group"));
            y += HEAD;
        }
        rows = rows.add(row(&axis, chart.unit, label, value, y));
        y += ROW;
    }
    for tick in axis.ticks() {
        let at = axis.x(tick);
        let is_ideal = chart.unit == Unit::Ratio && (tick - 1.0).abs() < 1e-9;
        let class = if is_ideal { "ideal" } else { "grid" };
        body = body
            .add(line(at, at, 2.0, y, class))
            .add(text(at, y + 15.0, &mark(chart.unit, tick), "tick").set("text-anchor", "middle"));
    }
    Document::new()
        .set("viewBox", (0, 0, WIDTH as i32, (y + FOOT) as i32))
        .set("role", "img")
        .set("aria-label", chart.title.as_str())
        .add(body)
        .add(rows)
        .to_string()
}

fn row(axis: &Axis, unit: Unit, label: &Label, value: &Value, y: f64) -> Group {
    let middle = y + ROW / 2.0;
    let far = label.distance == Some(Distance::Far);
    let name = match label.distance {
        Some(distance) => format!("{}, {}", label.engine, distance.name()),
        None => label.engine.clone(),
    };
    let fitting = axis.fitting(&label.engine);
    let mut group = Group::new().add(text(8.0, middle + 4.0, &fitting, "name"));
    let said = match value {
        Value::Measured(spread) => {
            let class = if far { "far" } else { "near" };
            let [least, most] = [spread.least, spread.most].map(|end| axis.x(end));
            group = group.add(line(least, most, middle, middle, class)).add(
                Circle::new()
                    .set("cx", axis.x(spread.median))
                    .set("cy", middle)
                    .set("r", 4)
                    .set("class", class),
            );
            let ends = [spread.least, spread.most].map(|end| shown(unit, end));
            group = group.add(Title::new(format!(
                "{name}: {} ({} to {}, {} runs)",
                shown(unit, spread.median),
                ends[0],
                ends[1],
                spread.runs
            )));
            shown(unit, spread.median)
        }
        Value::Above(least) => format!("> {}", shown(unit, *least)),
        Value::Wrong(_) => "wrong".to_owned(),
    };
    let class = if matches!(value, Value::Measured(_)) { "value" } else { "bad" };
    group.add(text(WIDTH - RIGHT + 6.0, middle + 4.0, &said, class))
}

/// A round value: without zeros that say nothing.
fn mark(unit: Unit, value: f64) -> String {
    let said = shown(unit, value);
    let (number, of) =
        said.split_once(' ').map_or((said.as_str(), ""), |(number, of)| (number, of));
    let short = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    [short, of].join(" ").trim().to_owned()
}

/// A value with its unit.
pub(crate) fn shown(unit: Unit, value: f64) -> String {
    let digits = |value: f64| match value {
        large if large >= 99.95 => format!("{large:.0}"),
        middle if middle >= 9.995 => format!("{middle:.1}"),
        small => format!("{small:.2}"),
    };
    match unit {
        Unit::Ratio => digits(value),
        Unit::Nanoseconds if value < 1e3 => format!("{} ns", digits(value)),
        Unit::Nanoseconds if value < 1e6 => format!("{} µs", digits(value * 1e-3)),
        Unit::Nanoseconds if value < 1e9 => format!("{} ms", digits(value * 1e-6)),
        Unit::Nanoseconds => format!("{} s", digits(value * 1e-9)),
    }
}

fn text(x: f64, y: f64, said: &str, class: &str) -> Text {
    Text::new(said).set("x", round(x)).set("y", round(y)).set("class", class)
}

fn line(x1: f64, x2: f64, y1: f64, y2: f64, class: &str) -> Line {
    let line = Line::new().set("x1", round(x1)).set("x2", round(x2));
    line.set("y1", round(y1)).set("y2", round(y2)).set("class", class)
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::super::data::Label;
    use super::*;
    use crate::measure::Spread;

    fn label(engine: &str, distance: Option<Distance>) -> Label {
        Label { group: "2 copies <&>".into(), engine: engine.into(), distance }
    }

    fn chart(unit: Unit, values: Vec<(Label, Value)>) -> Chart {
        Chart { title: "c/cg".into(), unit, values }
    }

    fn spread(median: f64) -> Value {
        Value::Measured(Spread { median, least: median * 0.9, most: median * 1.3, runs: 3 })
    }

    #[test]
    fn every_value_has_its_row_and_what_is_no_value_says_so() {
        let drawn = draw(&chart(
            Unit::Ratio,
            vec![
                (label("managed", None), spread(1.02)),
                (label("libgomp", None), Value::Above(5.0)),
                (label("libomp", None), Value::Wrong("exit status: 1".into())),
            ],
        ));
        assert_eq!(drawn.matches("<circle").count(), 1);
        for part in ["managed", "1.02", "&gt; 5.00", "wrong", "2 copies &lt;&amp;&gt;", "ideal"] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
    }

    #[test]
    fn places_stay_within_the_chart_whatever_the_values_are() {
        for values in
            [vec![1.0], vec![1e-3, 1e12], vec![0.0, f64::NAN], vec![5.0, 5.0], vec![-3.0, 2.0]]
        {
            let values =
                values.into_iter().map(|value| (label("x", Some(Distance::Far)), spread(value)));
            let chart = chart(Unit::Nanoseconds, values.collect());
            let axis = Axis::of(&chart);
            for value in [-5.0, f64::NAN, 0.0, 1e-9, 1.0, 1e15] {
                assert!((axis.left..=WIDTH - RIGHT).contains(&axis.x(value)), "{value}");
            }
            assert!(axis.ticks().len() < 40);
            assert!(!draw(&chart).contains("=\"NaN"));
        }
    }

    #[test]
    fn near_and_far_have_a_heading_each_and_long_names_are_cut() {
        let of =
            |distance| (label("a name that is much longer than its room", distance), spread(9.0));
        let values =
            vec![of(Some(Distance::Near)), of(Some(Distance::Near)), of(Some(Distance::Far))];
        let drawn = draw(&chart(Unit::Nanoseconds, values));
        assert_eq!(drawn.matches("class=\"group\"").count(), 2);
        assert!(drawn.contains("&gt;, near") && drawn.contains("&gt;, far"), "{drawn}");
        assert!(drawn.contains("a name that is much lon…"), "{drawn}");
    }

    #[test]
    fn marks_of_the_axis_do_not_overlap_and_the_ideal_has_one() {
        for high in [1.01, 1.3, 3.0, 5.0, 80.0, 1e4] {
            let values = vec![(label("x", None), spread(0.8)), (label("x", None), spread(high))];
            let axis = Axis::of(&chart(Unit::Ratio, values));
            let ticks = axis.ticks();
            assert!(ticks.contains(&1.0), "{ticks:?}");
            assert!(ticks.windows(2).all(|two| axis.x(two[1]) - axis.x(two[0]) >= LEAST_GAP));
        }
        assert_eq!(mark(Unit::Ratio, 1.2), "1.2");
        assert_eq!(mark(Unit::Nanoseconds, 1e4), "10 µs");
        assert_eq!(mark(Unit::Nanoseconds, 200.0), "200 ns");
    }

    #[test]
    fn times_are_shown_in_the_unit_that_fits() {
        let shown = |value| shown(Unit::Nanoseconds, value);
        assert_eq!(
            [75.19, 2530.0, 1.5e6, 2.1e9].map(shown),
            ["75.2 ns", "2.53 µs", "1.50 ms", "2.10 s"]
        );
    }
}
