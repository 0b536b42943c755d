//! A picture of a timeline: a row per processor, a colour per program, and below it how many
//! programs wait to start.

use std::collections::BTreeMap;

use policies::Nanos;
use policies::sim::{Activity, Interval, Outcome, Timeline};
use svg::Document;
use svg::node::element::{Line, Polyline, Rectangle, Text, Title};

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 76.0;
/// Room for half of the last number below the time.
const RIGHT: f64 = 30.0;
/// Room for the title, and for each line of the legend.
const TITLE: f64 = 28.0;
const LEGEND_LINE: f64 = 18.0;
/// Room for the marks of arrivals.
const MARKS: f64 = 14.0;
/// Of the curve of programs that wait.
const QUEUE: f64 = 46.0;
/// Words closer than this to each other cannot be read.
const LINE: f64 = 14.0;
/// The width of a letter, about.
const LETTER: f64 = 7.0;
/// No more numbers than this below the time.
const MOST_TICKS: f64 = 12.0;
/// Told apart also by readers that see red and green alike; the demo's timeline begins with the
/// same.
const HUES: [&str; 10] = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#666666",
    "#882255", "#999933",
];
/// Words that are not what the picture is about.
const PALE: &str = "#555";

/// Where things are.
struct Frame {
    rows: usize,
    row_height: f64,
    top: f64,
    /// Pixels per ns.
    scale: f64,
}

impl Frame {
    fn x(&self, time: Nanos) -> f64 {
        LEFT + time as f64 * self.scale
    }

    fn y(&self, row: usize) -> f64 {
        self.top + row as f64 * self.row_height
    }

    fn bottom(&self) -> f64 {
        self.y(self.rows)
    }
}

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
    let colours = colours(timeline);
    let legend = legend(&colours);
    let lines = legend.last().map_or(0.0, |(_, y, _)| *y + LEGEND_LINE);
    let frame = Frame {
        rows,
        row_height: (640.0 / rows.max(1) as f64).clamp(2.0, 24.0),
        top: TITLE + lines + MARKS,
        scale: (WIDTH - LEFT - RIGHT) / (timeline.end.max(1) as f64),
    };
    let height = frame.bottom() + 42.0 + QUEUE + 24.0;
    let mut picture = Document::new()
        .set("width", WIDTH)
        .set("height", height.round())
        .set("font-family", "sans-serif")
        .set("font-size", 12)
        .add(Rectangle::new().set("width", "100%").set("height", "100%").set("fill", "white"))
        .add(
            text(LEFT, 18.0, format!("{} under {}", outcome.workload, outcome.policy))
                .set("font-size", 16),
        );
    for (x, y, (program, colour)) in &legend {
        let y = TITLE + y;
        picture =
            picture.add(bar(*x, y, 10.0, 10.0, colour)).add(text(x + 14.0, y + 9.0, *program));
    }
    picture = bars(picture, &frame, timeline, &colours, by_processor);
    picture = row_names(picture, &frame, timeline, by_processor);
    picture = ticks(picture, &frame, timeline.end);
    picture = arrivals(picture, &frame, outcome);
    format!("{picture}\n")
}

/// A colour for each program. Those of the palette first, then others that differ in hue from their
/// neighbours and in lightness from the next round.
fn colours(timeline: &Timeline) -> BTreeMap<&str, String> {
    let mut colours: BTreeMap<&str, String> = BTreeMap::new();
    for track in &timeline.tracks {
        let number = colours.len();
        colours.entry(&track.program).or_insert_with(|| match HUES.get(number) {
            Some(hue) => (*hue).to_owned(),
            // By the golden angle no hue comes twice.
            None => {
                let lightness = [40, 60, 75][number % 3];
                format!("hsl({:.1},60%,{lightness}%)", (number as f64 * 137.508) % 360.0)
            }
        });
    }
    colours
}

/// Places of the legend's entries, in as many lines as they need.
fn legend<'a>(colours: &'a BTreeMap<&str, String>) -> Vec<(f64, f64, (&'a str, &'a str))> {
    let (mut x, mut y) = (LEFT, 0.0);
    let mut places = Vec::new();
    for (program, colour) in colours {
        let width = 30.0 + LETTER * program.chars().count() as f64;
        if x > LEFT && x + width > WIDTH - RIGHT {
            (x, y) = (LEFT, y + LEGEND_LINE);
        }
        places.push((x, y, (*program, colour.as_str())));
        x += width;
    }
    places
}

fn bars(
    mut picture: Document,
    frame: &Frame,
    timeline: &Timeline,
    colours: &BTreeMap<&str, String>,
    by_processor: bool,
) -> Document {
    let mut row = 0;
    let mut names = Vec::new();
    for track in &timeline.tracks {
        let colour = &colours[track.program.as_str()];
        for (vp, list) in track.virtual_processors.iter().enumerate() {
            for interval in list {
                let at =
                    if by_processor { interval.cpu.map(|cpu| cpu as usize) } else { Some(row) };
                let (Some(at), Some(opacity)) = (at, opacity(interval.activity)) else { continue };
                let (x, y) = (frame.x(interval.begin), frame.y(at));
                let width = ((interval.end - interval.begin) as f64 * frame.scale).max(0.1);
                let (begin, end) = (interval.begin as f64 / 1e9, interval.end as f64 / 1e9);
                let title = Title::new(printable(&format!("{} {begin:.3}-{end:.3} s", track.name)));
                let place =
                    bar(x, y, width, frame.row_height * 0.92, colour).set("fill-opacity", opacity);
                picture = picture.add(place.add(title));
                // Copies of a program have one colour: where there is room the master's bar says
                // which one it is.
                let room = LETTER * (track.name.chars().count() + 1) as f64;
                if vp == 0 && width > room && frame.row_height >= LINE {
                    names.push((x + 3.0, y + frame.row_height * 0.5 + 4.0, track.name.as_str()));
                }
            }
            row += 1;
        }
    }
    for (x, y, name) in names {
        let outlined = text(x, y, name).set("font-size", 11).set("paint-order", "stroke");
        picture = picture.add(outlined.set("stroke", "white").set("stroke-width", 2));
    }
    picture
}

/// Numbers of processors, or names of programs, beside as many rows as there is room for.
fn row_names(
    mut picture: Document,
    frame: &Frame,
    timeline: &Timeline,
    by_processor: bool,
) -> Document {
    let what = if by_processor { "processor" } else { "threads of" };
    picture = picture.add(text(4.0, frame.top - 4.0, what).set("fill", PALE));
    let beside = |row: usize, name: String| {
        let y = frame.y(row) + frame.row_height.min(LINE) / 2.0 + 4.0;
        text(LEFT - 5.0, y, name).set("text-anchor", "end").set("fill", PALE)
    };
    if by_processor {
        let mut step = 1;
        while step as f64 * frame.row_height < LINE {
            step *= 2;
        }
        for row in (0..frame.rows).step_by(step) {
            picture = picture.add(beside(row, row.to_string()));
        }
        return picture;
    }
    let (mut row, mut last) = (0, f64::NEG_INFINITY);
    for track in &timeline.tracks {
        if frame.y(row) - last >= LINE {
            let most = (LEFT / LETTER) as usize - 1;
            picture = picture.add(beside(row, track.name.chars().take(most).collect()));
            last = frame.y(row);
        }
        row += track.virtual_processors.len();
    }
    picture
}

/// The distance of ticks, 1, 2 or 5 times a power of ten, such that there are at most
/// [`MOST_TICKS`] in `length`; and how many decimals tell them apart.
fn tick(length: f64) -> (f64, usize) {
    let least = (length / MOST_TICKS).max(1e-9);
    let power = 10_f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|it| it * power).into_iter().find(|it| *it >= least);
    let step = step.unwrap_or(10.0 * power);
    // At most nine decimals: no time is shorter than a ns.
    let decimals = (-step.log10() - 1e-9).ceil().clamp(0.0, 9.0) as usize;
    (step, decimals)
}

fn ticks(mut picture: Document, frame: &Frame, end: Nanos) -> Document {
    let (step, decimals) = tick(end as f64 / 1e9);
    let bottom = frame.bottom();
    let mut number = 0_u32;
    loop {
        let time = step * f64::from(number);
        if time * 1e9 > end as f64 * (1.0 + 1e-9) {
            break;
        }
        let x = LEFT + time * 1e9 * frame.scale;
        let words = text(x, bottom + 17.0, format!("{time:.decimals$}"));
        picture = picture
            .add(line((x, bottom), (x, bottom + 5.0)))
            .add(words.set("fill", PALE).set("text-anchor", "middle"));
        number += 1;
    }
    let legend =
        "time in s; full colour: working, pale: holds the processor without work or shares it";
    picture
        .add(line((LEFT, bottom), (WIDTH - RIGHT, bottom)))
        .add(text(LEFT, bottom + 33.0, legend).set("fill", PALE))
}

/// A mark for each arrival above the rows, and below them how many programs have come and not
/// started.
fn arrivals(mut picture: Document, frame: &Frame, outcome: &Outcome) -> Document {
    let mut steps: BTreeMap<Nanos, i64> = BTreeMap::new();
    let mut came: BTreeMap<Nanos, u32> = BTreeMap::new();
    for execution in &outcome.executions {
        *steps.entry(execution.arrival).or_insert(0) += 1;
        *steps.entry(execution.started).or_insert(0) -= 1;
        *came.entry(execution.arrival).or_insert(0) += 1;
    }
    for (time, number) in &came {
        let x = frame.x(*time);
        let mark = line((x, frame.top - 9.0), (x, frame.top - 1.0)).set("stroke", "black");
        let words = format!("{number} at {:.3} s", *time as f64 / 1e9);
        picture = picture.add(mark.add(Title::new(words)));
    }
    let mut waiting = 0;
    let levels: Vec<(Nanos, i64)> = steps
        .into_iter()
        .map(|(time, change)| {
            waiting += change;
            (time, waiting)
        })
        .collect();
    let most = levels.iter().map(|(_, level)| *level).max().unwrap_or(0);
    let (floor, ceiling) = (frame.bottom() + 42.0 + QUEUE, frame.bottom() + 42.0);
    let y = |level: i64| floor - (QUEUE - 4.0) * level as f64 / most.max(1) as f64;
    let mut points = vec![(LEFT, y(0))];
    for (time, level) in levels {
        let before = points.last().map_or(y(0), |point| point.1);
        points.extend([(frame.x(time), before), (frame.x(time), y(level))]);
    }
    points.push((WIDTH - RIGHT, points.last().map_or(y(0), |point| point.1)));
    let points: Vec<String> =
        points.iter().map(|(x, y)| format!("{},{}", hundredths(*x), hundredths(*y))).collect();
    let curve = Polyline::new()
        .set("points", points.join(" "))
        .set("fill", "none")
        .set("stroke", "#0072b2")
        .set("stroke-width", 1.5);
    let beside = |y: f64, words: String| {
        text(LEFT - 5.0, y + 4.0, words).set("text-anchor", "end").set("fill", PALE)
    };
    picture = picture
        .add(line((LEFT, floor), (WIDTH - RIGHT, floor)))
        .add(curve)
        .add(beside(floor, "0".to_owned()));
    if most > 0 {
        picture = picture.add(beside(ceiling + 4.0, most.to_string()));
    }
    let legend = "programs that wait to start; marks above the rows: programs that come";
    picture.add(text(LEFT, floor + 16.0, legend).set("fill", PALE))
}

fn line(from: (f64, f64), to: (f64, f64)) -> Line {
    Line::new()
        .set("x1", hundredths(from.0))
        .set("y1", hundredths(from.1))
        .set("x2", hundredths(to.0))
        .set("y2", hundredths(to.1))
        .set("stroke", PALE)
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
    use std::collections::BTreeSet;

    use policies::sim::{Job, MachineSpec, Options, Program, Span, Workload, simulate};
    use policies::{Needs, Registry};

    use super::*;

    /// Thirty programs on 64 processors, two at a time, each of 100 ms.
    fn picture(policy: &str) -> String {
        let names: Vec<String> = (0..30).map(|i| format!("program-{i:02}")).collect();
        let program = Program::new(32, Span::from_ms(3_200));
        let programs = names.iter().map(|name| (name.clone(), program.clone())).collect();
        let jobs = names.iter().map(|name| Job::new(name, 1, 1)).collect();
        let mut workload = Workload::new(MachineSpec::flat(64), programs, jobs);
        workload.manager.level = Some(2);
        let registry = Registry::with_builtin_for(Needs::EVERYTHING);
        let options = Options { timeline: true, ..Options::policy(policy) };
        let outcome = simulate(&workload, &registry, &options).expect("it can be simulated");
        draw(outcome.timeline.as_ref().expect("it was asked for"), &outcome)
    }

    /// The values of an attribute.
    fn values(picture: &str, name: &str) -> Vec<f64> {
        let begin = format!(" {name}=\"");
        let parts = picture.split(&begin).skip(1);
        parts.filter_map(|part| part.split('"').next()?.parse().ok()).collect()
    }

    #[test]
    fn names_are_escaped_and_without_control_characters() {
        let words = format!("{}", text(1.0, 2.0, "a<b>&\u{1}c"));
        assert!(words.contains("a&lt;b&gt;&amp; c"), "{words}");
    }

    #[test]
    fn nothing_lies_outside_the_picture_and_colours_differ() {
        for policy in ["dss", "none"] {
            let picture = picture(policy);
            assert!(values(&picture, "x").iter().all(|x| (0.0..WIDTH - 20.0).contains(x)));
            let height = values(&picture, "height")[0];
            assert!(values(&picture, "y").iter().all(|y| (0.0..height).contains(y)), "{policy}");
            let fills: BTreeSet<&str> = picture
                .split("<rect fill=\"")
                .skip(1)
                .filter_map(|part| part.split('"').next())
                .collect();
            // Thirty, and the white below them.
            assert!(fills.len() >= 30, "{} {policy}", fills.len());
        }
    }

    #[test]
    fn rows_ticks_arrivals_and_the_queue_are_named() {
        let picture = picture("dss");
        // 64 rows of 10 pixels: every other one has room for its number.
        for row in ["\n0\n", "\n2\n", "\n62\n"] {
            assert!(picture.contains(row), "{row}");
        }
        // 1.5 s: a tick each 0.2 s.
        assert!(picture.contains("\n0.2\n") && picture.contains("\n1.4\n"), "{picture}");
        assert!(picture.contains("30 at 0.000 s"), "thirty come at once");
        assert!(picture.contains("\n28\n"), "two of them start at once");
    }

    #[test]
    fn ticks_are_round_and_few() {
        for (length, step, decimals) in
            [(54.0, 5.0, 0), (1.5, 0.2, 1), (0.0123, 0.002, 3), (1000.0, 100.0, 0), (12.0, 1.0, 0)]
        {
            let (found, digits) = tick(length);
            assert!((found - step).abs() < step * 1e-9, "{length}: {found}");
            assert_eq!(digits, decimals, "{length}");
        }
    }
}
