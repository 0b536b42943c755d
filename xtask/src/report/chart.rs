//! A chart as inline SVG: one row for each value, a dot at the median and a line from least to
//! most. Colours are the page's classes, so that they follow light and dark.

use svg::Document;
use svg::node::element::{Circle, Group, Line, Text, Title};

use super::data::{Chart, Distance, Label, Unit, Value};

/// Narrow, so that letters stay readable where the page is as wide as a phone.
const WIDTH: f64 = 480.0;
const LEFT: f64 = 148.0;
const RIGHT: f64 = 58.0;
const ROW: f64 = 17.0;
const HEAD: f64 = 20.0;
const FOOT: f64 = 22.0;

/// From values to places.
struct Axis {
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
        Axis { low: low * 0.93, high: high.max(low * 1.2) * 1.07 }
    }

    fn x(&self, value: f64) -> f64 {
        let part = (value / self.low).ln() / (self.high / self.low).ln();
        round(LEFT + part.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT))
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
        all.filter(|tick| (self.low..=self.high).contains(tick)).collect()
    }
}

/// Draws a chart.
pub(crate) fn draw(chart: &Chart) -> String {
    let axis = Axis::of(chart);
    let mut groups: Vec<&str> = Vec::new();
    let mut body = Group::new();
    let mut y = 4.0;
    let mut rows = Group::new();
    for (label, value) in &chart.values {
        if groups.last() != Some(&label.group.as_str()) {
            groups.push(&label.group);
            rows = rows.add(text(0.0, y + 14.0, &label.group, "group"));
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
            .add(text(at, y + 15.0, &shown(chart.unit, tick), "tick").set("text-anchor", "middle"));
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
    let mut group = Group::new().add(text(8.0, middle + 4.0, &name, "name"));
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
        for values in [vec![1.0], vec![1e-3, 1e12], vec![0.0, f64::NAN], vec![5.0, 5.0]] {
            let values =
                values.into_iter().map(|value| (label("x", Some(Distance::Far)), spread(value)));
            let chart = chart(Unit::Nanoseconds, values.collect());
            let axis = Axis::of(&chart);
            for value in [0.0, 1e-9, 1.0, 1e15] {
                assert!((LEFT..=WIDTH - RIGHT).contains(&axis.x(value)), "{value}");
            }
            assert!(axis.ticks().len() < 40);
            draw(&chart);
        }
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
