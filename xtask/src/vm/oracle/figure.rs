//! The paper's figures and its table 2, of counts: CSV, and bars as SVG.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;
use svg::Document;
use svg::node::element::{Group, Line, Rectangle, Text, Title};

use super::count::{Counted, Counts, MODELS, Matrix};
use super::judge::mean;
use super::plan::{ENGINES, KERNELS, MIGRATING, PLACEMENTS};

const COLOURS: [&str; 5] = ["#8c8c8c", "#d08a2e", "#2f6fb0", "#7d5ba6", "#3c9a5f"];
/// Above the highest bar, and of it, and of a bar's width with what is between two.
const TOP: f64 = 40.0;
const HEIGHT: f64 = 200.0;
const BAR: f64 = 11.0;

const FIGURES: [Figure; 4] = [
    Figure {
        name: "figure-1",
        title: "Placement without migration, and with the kernel's",
        engines: &["nothing", "kernel"],
        placements: &PLACEMENTS,
        is_long: false,
    },
    Figure {
        name: "figure-4",
        title: "Placement and migration",
        engines: &["nothing", "kernel", "upm", "sampled"],
        placements: &PLACEMENTS,
        is_long: false,
    },
    Figure {
        name: "figure-5",
        title: "Record-replay from first touch",
        engines: &["nothing", "kernel", "upm", "record-replay"],
        placements: &["first-touch"],
        is_long: false,
    },
    Figure {
        name: "figure-6",
        title: "Record-replay of phases that are four times longer",
        engines: &["nothing", "kernel", "upm", "record-replay"],
        placements: &["first-touch"],
        is_long: true,
    },
];

struct Figure {
    name: &'static str,
    title: &'static str,
    engines: &'static [&'static str],
    placements: &'static [&'static str],
    /// Of the kernel whose phases are longer, or of all others.
    is_long: bool,
}

/// A bar: what it is of, and modelled time against first touch without migration.
struct Bar {
    group: String,
    label: String,
    engine: usize,
    value: f64,
}

/// Writes all of them.
pub(super) fn draw(counted: &Counted, output: &Path) -> anyhow::Result<()> {
    let write = |name: &str, text: String| {
        let file = output.join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
    };
    write("runs.csv", runs(counted))?;
    write("matrices.csv", matrices(counted))?;
    write("table-2.csv", table(counted))?;
    for figure in &FIGURES {
        let bars = bars(counted, figure);
        if bars.is_empty() {
            continue;
        }
        let mut text = "kernel,placement,engine,time_against_first_touch\n".to_owned();
        for bar in &bars {
            let engine = ENGINES[bar.engine];
            let _ = writeln!(text, "{},{},{engine},{:.4}", bar.group, bar.label, bar.value);
        }
        write(&format!("{}.csv", figure.name), text)?;
        write(&format!("{}.svg", figure.name), picture(figure, &bars))?;
    }
    println!("counts, table and figures: {}", output.display());
    Ok(())
}

/// One line a run: the means of all counted iterations, and of the last third.
fn runs(counted: &Counted) -> String {
    let mut text = "kernel,placement,engine,iterations,remote_first,remote_steady,".to_owned();
    for model in &MODELS {
        let name = model.name;
        let _ = write!(text, "{name}_ms_mean,{name}_ms_steady,");
    }
    text += "moving_ms_steady,migrations,planned,replayed\n";
    for ((kernel, placement, engine), counts) in &counted.runs {
        let Counts { iterations, .. } = counts;
        let first = iterations.first().map_or(0.0, Matrix::remote);
        let _ = write!(
            text,
            "{kernel},{placement},{engine},{},{first:.2},{:.2},",
            iterations.len(),
            counts.steady().remote()
        );
        for model in &MODELS {
            let time = |part: &[Matrix]| {
                part.iter().map(|matrix| matrix.time(model)).sum::<f64>() / count(part)
            };
            let last = &iterations[iterations.len() * 2 / 3..];
            let _ = write!(text, "{:.4},{:.4},", time(iterations), time(last));
        }
        let migrations = counts.list("calls").iter().sum::<f64>();
        let migrations = migrations + counts.list("balanced").iter().sum::<f64>();
        let number = |name| counts.number(name).unwrap_or(0);
        let (moving, planned, replayed) = (counts.moving(), number("planned"), number("replayed"));
        let _ = writeln!(text, "{moving:.4},{migrations},{planned},{replayed}");
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "few iterations")]
fn count(part: &[Matrix]) -> f64 {
    part.len().max(1) as f64
}

/// The steady matrices: misses of each node's processors on each node.
fn matrices(counted: &Counted) -> String {
    let mut text = "kernel,placement,engine,processors_of,node_0,node_1,node_2,node_3\n".to_owned();
    for ((kernel, placement, engine), counts) in &counted.runs {
        for (node, row) in counts.steady().nodes().iter().enumerate() {
            let row = row.map(|cell| cell.to_string()).join(",");
            let _ = writeln!(text, "{kernel},{placement},{engine},{node},{row}");
        }
    }
    for kernel in &KERNELS {
        let Some(counts) = counted.get(kernel.name, "first-touch", "nothing") else { continue };
        for (node, row) in counts.best.nodes().iter().enumerate() {
            let row = row.map(|cell| cell.to_string()).join(",");
            let _ = writeln!(text, "{},best,static,{node},{row}", kernel.name);
        }
    }
    text
}

/// The paper's: slowdown in the last three quarters against first touch without migration (here
/// also against the best static placement), and the first call's share of the migrations.
fn table(counted: &Counted) -> String {
    let mut text =
        "kernel,placement,engine,slowdown_percent,first_call_percent,migrations\n".to_owned();
    for kernel in &KERNELS {
        let Some(base) = counted.get(kernel.name, "first-touch", "nothing") else { continue };
        for placement in &PLACEMENTS[1..] {
            for engine in MIGRATING {
                let Some(upm) = counted.get(kernel.name, placement, engine) else { continue };
                let slowdown = 100.0 * (mean(upm.late()) / mean(&base.iterations) - 1.0);
                let calls = upm.list("calls");
                let all: f64 = calls.iter().sum();
                let first = 100.0 * calls.first().copied().unwrap_or(0.0) / all.max(1.0);
                let name = kernel.name;
                let _ =
                    writeln!(text, "{name},{placement},{engine},{slowdown:.2},{first:.1},{all}");
            }
        }
    }
    text
}

/// Steady modelled time of each run of the figure, with that of moves between phases.
fn bars(counted: &Counted, figure: &Figure) -> Vec<Bar> {
    let mut bars = Vec::new();
    for kernel in KERNELS.iter().filter(|kernel| kernel.is_long() == figure.is_long) {
        let Some(base) = counted.get(kernel.name, "first-touch", "nothing") else { continue };
        for placement in figure.placements {
            for engine in figure.engines {
                let Some(counts) = counted.get(kernel.name, placement, engine) else { continue };
                let steady = &counts.iterations[counts.iterations.len() * 2 / 3..];
                let base = mean(&base.iterations[base.iterations.len() * 2 / 3..]);
                bars.push(Bar {
                    group: kernel.name.to_owned(),
                    label: (*placement).to_owned(),
                    engine: ENGINES.iter().position(|name| name == engine).unwrap_or(0),
                    value: (mean(steady) + counts.moving()) / base,
                });
            }
        }
    }
    bars
}

/// Bars from left to right, with a line at 1.
fn picture(figure: &Figure, bars: &[Bar]) -> String {
    let highest = bars.iter().map(|bar| bar.value).fold(1.0, f64::max);
    let scale = HEIGHT / highest;
    let mut body = Group::new();
    let mut x = 46.0;
    let mut before: Option<&Bar> = None;
    for bar in bars {
        let is_new_group = before.is_none_or(|last| last.group != bar.group);
        if is_new_group || before.is_none_or(|last| last.label != bar.label) {
            x += if is_new_group { 22.0 } else { 7.0 };
            let label = text(x, HEIGHT + 52.0, 10, &bar.label);
            body = body.add(label.set("transform", format!("rotate(40 {x} {})", HEIGHT + 52.0)));
        }
        if is_new_group {
            body = body.add(text(x, 32.0, 12, &bar.group.to_uppercase()));
        }
        let high = tenths(bar.value * scale);
        let title =
            format!("{} {} {}: {:.3}", bar.group, bar.label, ENGINES[bar.engine], bar.value);
        let drawn = Rectangle::new()
            .set("x", x)
            .set("y", tenths(TOP + HEIGHT - high))
            .set("width", BAR - 1.0)
            .set("height", high)
            .set("fill", COLOURS[bar.engine]);
        body = body.add(drawn.add(Title::new(title)));
        x += BAR;
        before = Some(bar);
    }
    let width = x + 70.0;
    let one = tenths(TOP + HEIGHT - scale);
    let title = format!(
        "{}: modelled time of an iteration, first touch without migration = 1",
        figure.title
    );
    let mut legend = Group::new();
    let mut left = 46.0;
    for engine in figure.engines {
        let at = ENGINES.iter().position(|name| name == engine).unwrap_or(0);
        let square = Rectangle::new()
            .set("x", left)
            .set("y", HEIGHT + 112.0)
            .set("width", 10)
            .set("height", 10)
            .set("fill", COLOURS[at]);
        legend = legend.add(square).add(text(left + 14.0, HEIGHT + 121.0, 11, engine));
        left += 110.0;
    }
    let ground = Rectangle::new().set("width", "100%").set("height", "100%").set("fill", "white");
    let line = Line::new()
        .set("x1", TOP)
        .set("x2", width - 10.0)
        .set("y1", one)
        .set("y2", one)
        .set("stroke", "#444")
        .set("stroke-dasharray", "3 3");
    let drawn = Document::new()
        .set("viewBox", (0, 0, width, HEIGHT + 130.0))
        .set("font-family", "sans-serif")
        .add(ground)
        .add(text(8.0, 16.0, 13, &title))
        .add(line)
        .add(text(18.0, one + 3.0, 10, "1"))
        .add(text(8.0, TOP + 4.0, 10, &format!("{highest:.2}")))
        .add(legend)
        .add(body);
    format!("{drawn}\n")
}

fn text(x: f64, y: f64, size: u32, what: &str) -> Text {
    Text::new(what).set("x", x).set("y", y).set("font-size", size)
}

/// Short numbers.
fn tenths(value: f64) -> f64 {
    (10.0 * value).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bar_is_a_rectangle_as_high_as_its_value() {
        let bar = |group: &str, engine, value| Bar {
            group: group.into(),
            label: "first-touch".into(),
            engine,
            value,
        };
        let bars = [bar("cg", 0, 1.0), bar("cg", 2, 0.5), bar("ft", 0, 2.0)];
        let drawn = picture(&FIGURES[1], &bars);
        let mut heights = Vec::new();
        let mut titles = 0;
        for event in svg::read(&drawn).unwrap() {
            match event {
                svg::parser::Event::Tag("rect", _, attributes) => {
                    let number = |key| attributes.get(key).and_then(|it| it.parse::<f64>().ok());
                    if let (Some(y), Some(height)) = (number("y"), number("height")) {
                        heights.push((y, height));
                    }
                }
                svg::parser::Event::Tag("title", ..) => titles += 1,
                svg::parser::Event::Error(error) => panic!("{error}"),
                _ => {}
            }
        }
        // Two tags for each title.
        assert_eq!(titles, 2 * bars.len());
        let ends: Vec<_> = heights.iter().filter(|(y, high)| y + high == TOP + HEIGHT).collect();
        let highs: Vec<f64> = ends.iter().map(|(_, high)| *high).collect();
        assert_eq!(highs, [100.0, 50.0, 200.0]);
        assert!(drawn.contains("CG") && drawn.contains("FT"), "{drawn}");
    }
}
