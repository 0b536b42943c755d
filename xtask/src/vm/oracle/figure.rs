//! The paper's figures and its table 2, of counts: CSV, and bars as SVG.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;

use super::count::{Counted, Counts, MODELS, Matrix};
use super::judge::mean;
use super::plan::{ENGINES, KERNELS, PLACEMENTS};

const FIGURES: [Figure; 3] = [
    Figure {
        name: "figure-1",
        title: "Placement without migration, and with the kernel's",
        engines: &["nothing", "kernel"],
        placements: &PLACEMENTS,
    },
    Figure {
        name: "figure-4",
        title: "Placement and migration",
        engines: &["nothing", "kernel", "upm"],
        placements: &PLACEMENTS,
    },
    Figure {
        name: "figure-5",
        title: "Record-replay from first touch",
        engines: &["nothing", "kernel", "upm", "record-replay"],
        placements: &["first-touch"],
    },
];

struct Figure {
    name: &'static str,
    title: &'static str,
    engines: &'static [&'static str],
    placements: &'static [&'static str],
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
    text += "migrations,planned,replayed\n";
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
        let _ = writeln!(text, "{migrations},{},{}", number("planned"), number("replayed"));
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
    let mut text = "kernel,placement,slowdown_percent,first_call_percent,migrations\n".to_owned();
    for kernel in &KERNELS {
        let Some(base) = counted.get(kernel.name, "first-touch", "nothing") else { continue };
        for placement in &PLACEMENTS[1..] {
            let Some(upm) = counted.get(kernel.name, placement, "upm") else { continue };
            let slowdown = 100.0 * (mean(upm.late()) / mean(&base.iterations) - 1.0);
            let calls = upm.list("calls");
            let all: f64 = calls.iter().sum();
            let first = 100.0 * calls.first().copied().unwrap_or(0.0) / all.max(1.0);
            let _ = writeln!(text, "{},{placement},{slowdown:.2},{first:.1},{all}", kernel.name);
        }
    }
    text
}

/// Steady modelled time of each run of the figure.
fn bars(counted: &Counted, figure: &Figure) -> Vec<Bar> {
    let mut bars = Vec::new();
    for kernel in &KERNELS {
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
                    value: mean(steady) / base,
                });
            }
        }
    }
    bars
}

/// Bars from left to right, with a line at 1.
fn picture(figure: &Figure, bars: &[Bar]) -> String {
    const COLOURS: [&str; 4] = ["#8c8c8c", "#d08a2e", "#2f6fb0", "#3c9a5f"];
    const HEIGHT: f64 = 200.0;
    const BAR: f64 = 11.0;
    let highest = bars.iter().map(|bar| bar.value).fold(1.0, f64::max);
    let scale = HEIGHT / highest;
    let mut body = String::new();
    let mut x = 46.0;
    let mut before: Option<&Bar> = None;
    for bar in bars {
        let is_new_group = before.is_none_or(|last| last.group != bar.group);
        if is_new_group || before.is_none_or(|last| last.label != bar.label) {
            x += if is_new_group { 22.0 } else { 7.0 };
            let _ = writeln!(
                body,
                "<text x=\"{x:.0}\" y=\"252\" font-size=\"10\" transform=\"rotate(40 {x:.0} 252)\">\
                 {}</text>",
                bar.label
            );
        }
        if is_new_group {
            let _ = writeln!(
                body,
                "<text x=\"{x:.0}\" y=\"32\" font-size=\"12\">{}</text>",
                bar.group.to_uppercase()
            );
        }
        let high = bar.value * scale;
        let _ = writeln!(
            body,
            "<rect x=\"{x:.0}\" y=\"{:.1}\" width=\"{}\" height=\"{high:.1}\" fill=\"{}\">\
             <title>{} {} {}: {:.3}</title></rect>",
            40.0 + HEIGHT - high,
            BAR - 1.0,
            COLOURS[bar.engine],
            bar.group,
            bar.label,
            ENGINES[bar.engine],
            bar.value
        );
        x += BAR;
        before = Some(bar);
    }
    let width = x + 70.0;
    let one = 40.0 + HEIGHT - scale;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} 330\" \
         font-family=\"sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"8\" y=\"16\" font-size=\"13\">{}: modelled time of an iteration, first touch \
         without migration = 1</text>\n<line x1=\"40\" x2=\"{:.0}\" y1=\"{one:.1}\" \
         y2=\"{one:.1}\" stroke=\"#444\" stroke-dasharray=\"3 3\"/>\n<text x=\"18\" \
         y=\"{:.1}\" font-size=\"10\">1</text>\n<text x=\"8\" y=\"44\" \
         font-size=\"10\">{highest:.2}</text>\n",
        figure.title,
        width - 10.0,
        one + 3.0
    );
    for (number, engine) in figure.engines.iter().enumerate() {
        let colour =
            ENGINES.iter().position(|name| name == engine).map_or("#000", |at| COLOURS[at]);
        let x = 46 + 110 * number;
        let _ = writeln!(
            text,
            "<rect x=\"{x}\" y=\"312\" width=\"10\" height=\"10\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"321\" font-size=\"11\">{engine}</text>",
            x + 14
        );
    }
    text + &body + "</svg>\n"
}
