//! Which copy had which processor, and when: the manager's trace, drawn as one SVG file that needs
//! nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;
use svg::Document;
use svg::node::element::{Group, Rectangle, Text, Title};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 70.0;
const ROW: f64 = 26.0;
const GAP: f64 = 4.0;
const HEAD: f64 = 30.0;
const FOOT: f64 = 34.0;
/// One colour per copy, told apart also by readers that see red and green alike; the manager's
/// pictures have the same.
const COLOURS: [&str; 6] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"];
/// Words that are not what the picture is about.
const PALE: &str = "#555";

/// One line of the manager's trace.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Event {
    t_ns: u64,
    event: String,
    pid: i32,
    #[serde(default)]
    cpus: Vec<u32>,
}

/// The manager's trace, in order of time.
pub(crate) struct Trace {
    events: Vec<Event>,
}

/// A measured run in which the manager took part.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// What ran, as a heading.
    pub(crate) title: String,
    /// Begin and end on the trace's clock.
    pub(crate) begin_ns: u64,
    /// See `begin_ns`.
    pub(crate) end_ns: u64,
    /// The copies, in order of start.
    pub(crate) pids: Vec<i32>,
}

/// A stretch of time in which a copy had a processor.
#[derive(Debug, PartialEq)]
struct Span {
    cpu: u32,
    copy: usize,
    begin_ns: u64,
    end_ns: u64,
    /// Among how many it was shared in turn, and this copy's place among them.
    lanes: (usize, usize),
}

impl Trace {
    /// Reads the file; a last line that is still being written is left for later.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Trace> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the trace {}", path.display()))?;
        Trace::parse(&text).with_context(|| format!("in the trace {}", path.display()))
    }

    /// How many grants it tells of.
    pub(crate) fn allocations(&self) -> usize {
        self.events.iter().filter(|event| event.event == "allocation").count()
    }

    fn parse(text: &str) -> anyhow::Result<Trace> {
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut events = Vec::new();
        for (index, line) in whole.lines().enumerate() {
            // Lines about the manager itself have no process.
            let value: serde_json::Value = serde_json::from_str(line)
                .with_context(|| format!("line {} is not JSON: {line}", index + 1))?;
            if value.get("pid").is_some_and(serde_json::Value::is_number) {
                let event = Event::deserialize(&value)
                    .with_context(|| format!("line {}: {line}", index + 1))?;
                events.push(event);
            }
        }
        events.sort_by_key(|event| event.t_ns);
        Ok(Trace { events })
    }

    /// Those of the window's copies that the manager never heard of.
    pub(crate) fn strangers(&self, window: &Window) -> Vec<i32> {
        let known: BTreeSet<i32> = self.inside(window).map(|event| event.pid).collect();
        window.pids.iter().copied().filter(|pid| !known.contains(pid)).collect()
    }

    fn inside<'a>(&'a self, window: &'a Window) -> impl Iterator<Item = &'a Event> {
        self.events.iter().filter(|event| (window.begin_ns..=window.end_ns).contains(&event.t_ns))
    }

    fn spans(&self, window: &Window) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let mut holders: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
        let mut now = window.begin_ns;
        let mut draw = |holders: &BTreeMap<u32, BTreeSet<usize>>, from: u64, to: u64| {
            for (&cpu, copies) in holders.iter().filter(|_| to > from) {
                for (place, &copy) in copies.iter().enumerate() {
                    let next = Span {
                        cpu,
                        copy,
                        begin_ns: from,
                        end_ns: to,
                        lanes: (copies.len(), place),
                    };
                    // Nothing changed for this processor: one long span, not one per event of
                    // another copy.
                    let last =
                        spans.iter_mut().rev().find(|span| span.cpu == cpu && span.copy == copy);
                    match last.filter(|span| span.end_ns == from && span.lanes == next.lanes) {
                        Some(span) => span.end_ns = to,
                        None => spans.push(next),
                    }
                }
            }
        };
        for event in self.inside(window) {
            let Some(copy) = window.pids.iter().position(|&pid| pid == event.pid) else {
                continue;
            };
            draw(&holders, now, event.t_ns);
            now = event.t_ns;
            for copies in holders.values_mut() {
                copies.remove(&copy);
            }
            if event.event != "exit" {
                for &cpu in &event.cpus {
                    holders.entry(cpu).or_default().insert(copy);
                }
            }
        }
        draw(&holders, now, window.end_ns);
        spans
    }
}

/// Draws all windows below each other; `processors` are the rows.
pub(crate) fn draw(trace: &Trace, windows: &[Window], processors: &[u32]) -> String {
    let rows: BTreeSet<u32> = processors
        .iter()
        .copied()
        .chain(trace.events.iter().flat_map(|event| event.cpus.iter().copied()))
        .collect();
    let panel = HEAD + rows.len() as f64 * ROW + FOOT;
    let height = 64.0 + panel * windows.len() as f64;
    let heading =
        text(12.0, 24.0, "Processors of the programs under the manager").set("font-size", 16);
    let legend =
        "One colour per copy; a processor that is shared in turn is drawn in lanes, one per copy.";
    let mut picture = Document::new()
        .set("viewBox", (0, 0, WIDTH, height))
        .set("width", WIDTH)
        .set("height", height)
        .set("font-family", "sans-serif")
        .set("font-size", 12)
        .add(Rectangle::new().set("width", "100%").set("height", "100%").set("fill", "white"))
        .add(heading)
        .add(text(12.0, 44.0, legend).set("fill", PALE));
    for (index, window) in windows.iter().enumerate() {
        picture = picture.add(panel_of(trace, window, &rows, 64.0 + panel * index as f64));
    }
    format!("{picture}\n")
}

/// Words that begin at a place.
fn text(x: f64, y: f64, words: impl Into<String>) -> Text {
    Text::new(words).set("x", tenths(x)).set("y", tenths(y))
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

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn panel_of(trace: &Trace, window: &Window, rows: &BTreeSet<u32>, top: f64) -> Group {
    let length = (window.end_ns - window.begin_ns).max(1) as f64;
    let x = |t_ns: u64| LEFT + (t_ns - window.begin_ns) as f64 / length * (WIDTH - LEFT - 16.0);
    let y =
        |cpu: u32| top + HEAD + rows.iter().position(|&row| row == cpu).unwrap_or(0) as f64 * ROW;
    let mut panel =
        Group::new().add(text(12.0, top + 18.0, window.title.as_str()).set("font-weight", "bold"));
    for &cpu in rows {
        panel = panel.add(text(12.0, y(cpu) + 15.0, format!("cpu {cpu}"))).add(bar(
            LEFT,
            y(cpu),
            WIDTH - LEFT - 16.0,
            ROW - GAP,
            "#eee",
        ));
    }
    for span in trace.spans(window) {
        let lane = (ROW - GAP) / span.lanes.0 as f64;
        let at = |t_ns: u64| (t_ns - window.begin_ns) as f64 * 1e-9;
        let title = format!(
            "copy {} (pid {}), cpu {}, {:.3} s to {:.3} s",
            span.copy + 1,
            window.pids[span.copy],
            span.cpu,
            at(span.begin_ns),
            at(span.end_ns)
        );
        let width = (x(span.end_ns) - x(span.begin_ns)).max(0.3);
        let colour = COLOURS[span.copy % COLOURS.len()];
        let place =
            bar(x(span.begin_ns), y(span.cpu) + lane * span.lanes.1 as f64, width, lane, colour);
        panel = panel.add(place.add(Title::new(title)));
    }
    let axis = top + HEAD + rows.len() as f64 * ROW;
    for second in ticks(length * 1e-9) {
        let at = x(window.begin_ns + (second * 1e9) as u64);
        panel = panel.add(
            text(at, axis + 14.0, format!("{second} s"))
                .set("fill", PALE)
                .set("text-anchor", "middle"),
        );
    }
    panel
}

/// Round times along an axis of this many seconds, about ten of them.
fn ticks(seconds: f64) -> Vec<f64> {
    let rough = (seconds / 10.0).max(1e-3);
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .iter()
        .map(|m| m * power)
        .find(|&step| step >= rough)
        .unwrap_or(rough);
    // Rounded to what is printed: 0.30000000000000004 is no tick.
    (0..=(seconds / step) as usize).map(|i| (i as f64 * step * 1000.0).round() / 1000.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use svg::node::element::tag::Type;
    use svg::parser;

    const TRACE: &str = r#"{"t_ns":5,"event":"start","cpus":[0,1]}
{"t_ns":100,"event":"arrival","pid":7,"name":"cg","cpus":[0,1],"shared":false}
{"t_ns":200,"event":"allocation","pid":7,"name":"cg","cpus":[0],"shared":true}
{"t_ns":200,"event":"arrival","pid":8,"name":"cg","cpus":[0],"shared":true}
{"t_ns":250,"event":"arrival","pid":99,"name":"other","cpus":[1],"shared":false}
{"t_ns":300,"event":"exit","pid":7,"name":"cg","cpus":[],"shared":false}
{"t_ns":900,"event":"exi"#;

    fn window() -> Window {
        Window { title: "cg, 2 copies <&>".into(), begin_ns: 50, end_ns: 400, pids: vec![7, 8] }
    }

    #[test]
    fn spans_follow_the_events_of_the_copies() {
        let spans = Trace::parse(TRACE).unwrap().spans(&window());
        let span = |cpu, copy, begin_ns, end_ns, lanes| Span { cpu, copy, begin_ns, end_ns, lanes };
        assert_eq!(
            spans,
            [
                span(0, 0, 100, 200, (1, 0)),
                span(1, 0, 100, 200, (1, 0)),
                span(0, 0, 200, 300, (2, 0)),
                span(0, 1, 200, 300, (2, 1)),
                span(0, 1, 300, 400, (1, 0)),
            ]
        );
    }

    #[test]
    fn a_copy_that_never_registered_is_a_stranger() {
        let trace = Trace::parse(TRACE).unwrap();
        assert!(trace.strangers(&window()).is_empty());
        assert_eq!(trace.strangers(&Window { pids: vec![7, 12], ..window() }), [12]);
        // The same process outside the window does not count.
        assert_eq!(trace.strangers(&Window { begin_ns: 301, ..window() }), [7, 8]);
    }

    #[test]
    fn a_broken_line_is_named() {
        let fault = Trace::parse("{\"t_ns\":1}\nnonsense\n").err().unwrap();
        assert!(format!("{fault:#}").contains("line 2 is not JSON: nonsense"), "{fault:#}");
        let fault = Trace::parse("{\"pid\":1,\"event\":\"x\"}\n").err().unwrap();
        assert!(format!("{fault:#}").contains("t_ns"), "{fault:#}");
    }

    #[test]
    fn the_drawing_is_whole_and_escaped() {
        let trace = Trace::parse(TRACE).unwrap();
        let drawn = draw(&trace, &[window(), window()], &[0, 1]);
        assert!(drawn.starts_with("<svg ") && drawn.ends_with("</svg>\n"));
        assert_eq!(drawn.matches("cg, 2 copies &lt;&amp;&gt;").count(), 2);
        assert_eq!(drawn.matches("<title>copy ").count(), 10);
        assert!(!drawn.contains("href") && !drawn.contains("<script"));
        // What is read again is what was drawn: a rectangle for each row and each span, and the
        // ground.
        let rectangles = svg::read(&drawn).unwrap().filter(|event| {
            matches!(event, parser::Event::Tag("rect", Type::Start | Type::Empty, _))
        });
        assert_eq!(rectangles.count(), 1 + 2 * (2 + 5));
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(3.3), [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]);
        assert_eq!(ticks(12.0).last(), Some(&12.0));
    }
}
