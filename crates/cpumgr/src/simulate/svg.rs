//! A picture of a timeline: a row per processor, a colour per program.

use std::collections::BTreeMap;

use policies::sim::{Activity, Interval, Outcome, Timeline};
use svg::Document;
use svg::node::element::{Rectangle, Text, Title};

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 48.0;
/// Told apart also by readers that see red and green alike; the demo's timeline begins with the
/// same.
const HUES: [&str; 10] = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#666666",
    "#882255", "#999933",
];
/// Words that are not what the picture is about.
const PALE: &str = "#555";

/// The picture. Under an unbound policy no program has a processor, and each thread of each program
/// has a row instead.
pub(super) fn draw(timeline: &Timeline, outcome: &Outcome) -> String {
    let bound = |interval: &Interval| interval.cpu.is_some();
    let threads: usize = timeline.tracks.iter().map(|track| track.virtual_processors.len()).sum();
    let by_processor = timeline
        .tracks
        .iter()
        .flat_map(|track| track.virtual_processors.iter().flatten())
        .any(bound);
    let rows = if by_processor { timeline.processors as usize } else { threads };
    let row_height = (640.0 / rows.max(1) as f64).clamp(2.0, 24.0);
    let height = TOP + row_height * rows as f64 + 40.0;
    let scale = (WIDTH - LEFT - 10.0) / (timeline.end.max(1) as f64);

    let mut colours: BTreeMap<&str, &str> = BTreeMap::new();
    for track in &timeline.tracks {
        let next = HUES[colours.len() % HUES.len()];
        colours.entry(&track.program).or_insert(next);
    }
    let mut picture = Document::new()
        .set("width", WIDTH)
        .set("height", height.round())
        .set("font-family", "sans-serif")
        .set("font-size", 12)
        .add(Rectangle::new().set("width", "100%").set("height", "100%").set("fill", "white"))
        .add(
            text(LEFT, 16.0, format!("{} under {}", outcome.workload, outcome.policy))
                .set("font-size", 16),
        );
    let mut x = LEFT;
    for (program, colour) in &colours {
        picture = picture.add(bar(x, 24.0, 10.0, 10.0, colour)).add(text(x + 14.0, 33.0, *program));
        x += 30.0 + 7.5 * program.chars().count() as f64;
    }
    let mut row = 0;
    for track in &timeline.tracks {
        let colour = colours[track.program.as_str()];
        for list in &track.virtual_processors {
            for interval in list {
                let at =
                    if by_processor { interval.cpu.map(|cpu| cpu as usize) } else { Some(row) };
                let (Some(at), Some(opacity)) = (at, opacity(interval.activity)) else { continue };
                let (x, y) = (LEFT + interval.begin as f64 * scale, TOP + at as f64 * row_height);
                let width = ((interval.end - interval.begin) as f64 * scale).max(0.1);
                let (begin, end) = (interval.begin as f64 / 1e9, interval.end as f64 / 1e9);
                let title = Title::new(printable(&format!("{} {begin:.3}-{end:.3} s", track.name)));
                let place =
                    bar(x, y, width, row_height * 0.92, colour).set("fill-opacity", opacity);
                picture = picture.add(place.add(title));
            }
            row += 1;
        }
    }
    let what = if by_processor { "processor" } else { "thread" };
    let bottom = TOP + row_height * rows as f64;
    for tick in 0..=10 {
        let time = timeline.end as f64 * f64::from(tick) / 10.0;
        let at = text(LEFT + time * scale, bottom + 16.0, format!("{:.2}", time / 1e9));
        picture = picture.add(at.set("fill", PALE).set("text-anchor", "middle"));
    }
    let legend =
        "time in s; full colour: working, pale: holds the processor without work or shares it";
    let picture = picture
        .add(text(4.0, TOP + 10.0, format!("{what} 0")))
        .add(text(LEFT, bottom + 34.0, legend).set("fill", PALE));
    format!("{picture}\n")
}

/// Words that begin at a place.
fn text(x: f64, y: f64, words: impl Into<String>) -> Text {
    Text::new(printable(&words.into())).set("x", hundredths(x)).set("y", hundredths(y))
}

/// A rectangle of one colour.
fn bar(x: f64, y: f64, width: f64, height: f64, colour: &str) -> Rectangle {
    let [x, y, width, height] = [x, y, width, height].map(hundredths);
    Rectangle::new()
        .set("x", x)
        .set("y", y)
        .set("width", width)
        .set("height", height)
        .set("fill", colour)
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// How strongly an activity is drawn.
fn opacity(activity: Activity) -> Option<f64> {
    match activity {
        Activity::Running => Some(1.0),
        Activity::Refilling => Some(0.7),
        Activity::Sharing | Activity::TimeShared => Some(0.5),
        Activity::Idle => Some(0.3),
        Activity::Absent => None,
    }
}

/// Names come from a file: characters that no document may hold, however they are escaped, are
/// blanks.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_without_control_characters() {
        let words = format!("{}", text(1.0, 2.0, "a<b>&\u{1}c"));
        assert!(words.contains("a&lt;b&gt;&amp; c"), "{words}");
    }
}
