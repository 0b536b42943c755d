//! A picture of a timeline: a row per processor, a colour per program.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use policies::sim::{Activity, Interval, Outcome, Timeline};

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 48.0;
const HUES: [&str; 10] =
    ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#ff9da7", "#9c755f", "#bab0ac"];

/// The picture. Under an unbound policy nobody has a processor, and each thread of each program has a row instead.
pub(super) fn draw(timeline: &Timeline, outcome: &Outcome) -> String {
    let bound = |interval: &Interval| interval.cpu.is_some();
    let threads: usize = timeline.tracks.iter().map(|track| track.virtual_processors.len()).sum();
    let by_processor = timeline.tracks.iter().flat_map(|track| track.virtual_processors.iter().flatten()).any(bound);
    let rows = if by_processor { timeline.processors as usize } else { threads };
    let row_height = (640.0 / rows.max(1) as f64).clamp(2.0, 24.0);
    let height = TOP + row_height * rows as f64 + 40.0;
    let scale = (WIDTH - LEFT - 10.0) / (timeline.end.max(1) as f64);

    let mut colours: BTreeMap<&str, &str> = BTreeMap::new();
    for track in &timeline.tracks {
        let next = HUES[colours.len() % HUES.len()];
        colours.entry(&track.program).or_insert(next);
    }
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height:.0}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"16\" \
         font-size=\"14\">{} under {}</text>\n",
        escaped(&outcome.workload),
        escaped(&outcome.policy)
    );
    let mut x = LEFT;
    for (program, colour) in &colours {
        let _infallible = writeln!(
            svg,
            "<rect x=\"{x:.0}\" y=\"24\" width=\"10\" height=\"10\" fill=\"{colour}\"/><text x=\"{:.0}\" \
             y=\"33\">{}</text>",
            x + 14.0,
            escaped(program)
        );
        x += 30.0 + 7.5 * program.chars().count() as f64;
    }
    let mut row = 0;
    for track in &timeline.tracks {
        let colour = colours[track.program.as_str()];
        for list in &track.virtual_processors {
            for interval in list {
                let at = if by_processor { interval.cpu.map(|cpu| cpu as usize) } else { Some(row) };
                let (Some(at), Some(opacity)) = (at, opacity(interval.activity)) else { continue };
                let (x, y) = (LEFT + interval.begin as f64 * scale, TOP + at as f64 * row_height);
                let width = ((interval.end - interval.begin) as f64 * scale).max(0.1);
                let _infallible = writeln!(
                    svg,
                    "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{:.2}\" fill=\"{colour}\" \
                     fill-opacity=\"{opacity}\"><title>{} {:.3}-{:.3} s</title></rect>",
                    row_height * 0.92,
                    escaped(&track.name),
                    interval.begin as f64 / 1e9,
                    interval.end as f64 / 1e9
                );
            }
            row += 1;
        }
    }
    let what = if by_processor { "processor" } else { "thread" };
    let bottom = TOP + row_height * rows as f64;
    for tick in 0..=10 {
        let time = timeline.end as f64 * f64::from(tick) / 10.0;
        let _infallible = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{:.2}</text>",
            LEFT + time * scale,
            bottom + 16.0,
            time / 1e9
        );
    }
    let _infallible = writeln!(
        svg,
        "<text x=\"4\" y=\"{:.0}\">{what} 0</text>\n<text x=\"{LEFT}\" y=\"{:.0}\">time in s; full colour: working, \
         pale: holds the processor without work or shares it</text>\n</svg>",
        TOP + 10.0,
        bottom + 34.0
    );
    svg
}

/// How strongly an activity is drawn.
fn opacity(activity: Activity) -> Option<&'static str> {
    match activity {
        Activity::Running => Some("1"),
        Activity::Refilling => Some("0.7"),
        Activity::Sharing | Activity::TimeShared => Some("0.5"),
        Activity::Idle => Some("0.3"),
        Activity::Absent => None,
    }
}

fn escaped(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '&' => "&amp;".to_owned(),
            '"' => "&quot;".to_owned(),
            c if c.is_control() => " ".to_owned(),
            c => c.to_string(),
        })
        .collect()
}
