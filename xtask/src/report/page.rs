//! The page: one HTML file that fetches nothing and runs nothing.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::change::{Change, Changes};
use super::chart::{draw, shown};
use super::data::{Chart, Section, Unit, Value};

/// Changes that are shown.
const MOST_CHANGES: usize = 60;

/// Light and dark by the reader's setting; tables scroll by themselves where the page is narrow.
const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1b1d21; --pale: #6b7280; --paper: #fff; --line: #d7dbe0;
  --near: #1f6feb; --far: #b35900; --bad: #b3261e; --good: #1a7f37; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e6ea; --pale: #98a1ac; --paper: #14171b;
  --line: #353b43; --near: #6aa7ff; --far: #ffb066; --bad: #ff8a80; --good: #63d07f; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; color: var(--ink);
  background: var(--paper); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
h3 { font-size: 1rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h1, h2, p, li, summary, nav { overflow-wrap: anywhere; } .about { color: var(--pale); margin: 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr));
  gap: 1.5rem; margin-top: 1rem; }
figure { margin: 0; } svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--ink); font-size: 12px; } svg .group { font-weight: 600; }
svg .tick, svg .value { fill: var(--pale); } svg .bad { fill: var(--bad); }
svg .grid { stroke: var(--line); } svg .ideal { stroke: var(--good); stroke-width: 2; }
svg circle.near { fill: var(--near); } svg line.near { stroke: var(--near); stroke-width: 2; }
svg circle.far { fill: var(--paper); stroke: var(--far); stroke-width: 2; }
svg line.far { stroke: var(--far); stroke-width: 2; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .875rem; }
th, td { padding: .2rem .6rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; } .bad { color: var(--bad); }
.good { color: var(--good); } nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; } a \
{ color: var(--near); }
details > summary { cursor: pointer; color: var(--pale); }
";

/// A chart as a file of its own, in the page's colours.
pub(crate) fn picture(chart: &Chart) -> String {
    let drawn = draw(chart);
    let style = format!("<style>{STYLE}</style>");
    match drawn.find('>') {
        Some(head) => format!("{}{style}{}", &drawn[..=head], &drawn[head + 1..]),
        None => drawn,
    }
}

/// Makes the page of these records; `changes` against others, when there are some.
pub(crate) fn page(sections: &[Section], changes: Option<&Changes>) -> String {
    let title = "NANOS: what was measured";
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                // Without an icon of its own a browser asks a server for one.
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                p class="about" {
                    "A dot is the median of the runs, a line goes from the least to the most. "
                    "Full dots: processors near each other (one round trip of a cache line takes \
                     at "
                    "most 150 ns), open dots: far."
                }
                nav {
                    @for (index, section) in sections.iter().enumerate() {
                        a href={ "#s" (index) } { (section.title) }
                    }
                    @if changes.is_some() { a href="#changes" { "changes" } }
                }
                @for (index, one) in sections.iter().enumerate() { (section(index, one)) }
                @if let Some(changes) = changes { (changed(changes)) }
            }
        }
    }
    .into_string()
}

fn section(index: usize, section: &Section) -> Markup {
    html! {
        section id={ "s" (index) } {
            h2 { (section.title) }
            @for line in &section.about { p class="about" { (line) } }
            @if !section.missed.is_empty() {
                details open[section.missed.len() <= 10] {
                    summary { (section.missed.len()) " bars missed" }
                    ul { @for line in &section.missed { li { (line) } } }
                }
            }
            div class="charts" {
                @for chart in &section.charts {
                    figure {
                        h3 { (chart.title) }
                        (PreEscaped(draw(chart)))
                    }
                }
            }
            @if !section.charts.is_empty() {
                details {
                    summary { "as a table" }
                    div class="scroll" { (table(&section.charts)) }
                }
            }
        }
    }
}

fn table(charts: &[Chart]) -> Markup {
    html! {
        table {
            thead { tr {
                @for head in ["case", "of", "engine", "distance", "median", "least", "most", "runs"] {
                    th { (head) }
                }
            } }
            tbody {
                @for chart in charts {
                    @for (label, value) in &chart.values {
                        tr {
                            td { (chart.title) }
                            td { (label.group) }
                            td { (label.engine) }
                            td { (label.distance.map_or("", |distance| distance.name())) }
                            (cells(chart.unit, value))
                        }
                    }
                }
            }
        }
    }
}

fn cells(unit: Unit, value: &Value) -> Markup {
    html! {
        @match value {
            Value::Measured(spread) => {
                td { (shown(unit, spread.median)) }
                td { (shown(unit, spread.least)) }
                td { (shown(unit, spread.most)) }
                td { (spread.runs) }
            }
            Value::Above(least) => td class="bad" colspan="4" {
                "ended at the cap, above " (shown(unit, *least))
            },
            Value::Wrong(what) => td class="bad" colspan="4" { (what) },
        }
    }
}

fn changed(Changes { all, notes }: &Changes) -> Markup {
    html! {
        section id="changes" {
            h2 { "What changed" }
            p class="about" {
                "Values that both records have: changed outcomes, then medians, the largest change \
                 first"
                @if all.len() > MOST_CHANGES { "; " (MOST_CHANGES) " of " (all.len()) }
                ". Apart: no run of the one lies within the runs of the other, and each has two or \
                 more."
            }
            @for note in notes { p class="about" { (note) } }
            div class="scroll" {
                table {
                    thead { tr {
                        @for head in ["case", "of", "engine", "distance", "now / before", "apart"] {
                            th { (head) }
                        }
                    } }
                    tbody {
                        @for change in all.iter().take(MOST_CHANGES) {
                            tr {
                                td { (change.chart) }
                                td { (change.label.group) }
                                td { (change.label.engine) }
                                td { (change.label.distance.map_or("", |it| it.name())) }
                                td class=[class(change)] { (difference(change)) }
                                td { @if change.is_apart() { "yes" } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn difference(change: &Change) -> String {
    let outcome = |value: &Value| match value {
        Value::Measured(spread) => format!("{:.3}", spread.median),
        Value::Above(least) => format!("ended at the cap, above {least:.3}"),
        Value::Wrong(what) => format!("WRONG: {what}"),
    };
    match change.ratio() {
        Some(ratio) => format!("{ratio:.3}"),
        None => format!("{} now, {} before", outcome(&change.now), outcome(&change.before)),
    }
}

/// Green or red where it is more than noise.
fn class(change: &Change) -> Option<&'static str> {
    let is_bad = change.ratio().map_or(!matches!(change.now, Value::Measured(_)), |it| it > 1.0);
    (change.is_apart() || change.ratio().is_none()).then_some(if is_bad { "bad" } else { "good" })
}

#[cfg(test)]
mod tests {
    use super::super::data::Label;
    use super::*;
    use crate::measure::{Distance, Spread};

    fn sections() -> Vec<Section> {
        let label = Label {
            group: "bound".into(),
            engine: "<script>alert(1)</script>".into(),
            distance: Some(Distance::Near),
        };
        let value = Value::Measured(Spread { median: 75.0, least: 70.0, most: 90.0, runs: 3 });
        let chart =
            Chart { title: "empty".into(), unit: Unit::Nanoseconds, values: vec![(label, value)] };
        vec![Section {
            title: "fork_join".into(),
            about: vec!["2 x a processor".into()],
            charts: vec![chart],
            missed: vec!["empty: 1.2, bar 1.1".into()],
            ..Section::default()
        }]
    }

    #[test]
    fn a_picture_is_a_file_of_its_own_with_its_colours() {
        let chart = Chart { title: "one".to_owned(), unit: Unit::Ratio, values: Vec::new() };
        let file = picture(&chart);
        assert!(file.starts_with("<svg") && file.trim_end().ends_with("</svg>"), "{file}");
        assert!(file.contains("xmlns=\"http://www.w3.org/2000/svg\""), "{file}");
        assert!(file.contains("--near: #1f6feb"), "{file}");
    }

    #[test]
    fn the_page_has_its_plots_and_asks_no_server_for_anything() {
        let page = page(&sections(), None);
        assert_eq!(page.matches("<svg").count(), 1);
        for absent in ["<script", "http:", "https:", "url(", "@import", "src="] {
            // The only address is the name of SVG itself, which is not fetched.
            let page = page.replace("http://www.w3.org/2000/svg", "");
            assert!(!page.contains(absent), "{absent}");
        }
        assert!(page.contains("prefers-color-scheme: dark") && page.contains("name=\"viewport\""));
        assert!(page.contains("1 bars missed") && !page.contains("id=\"changes\""));
    }

    #[test]
    fn changes_are_coloured_where_they_are_more_than_noise() {
        let label = sections()[0].charts[0].values[0].0.clone();
        let of = |median: f64, runs| {
            Value::Measured(Spread { median, least: median, most: median, runs })
        };
        let change = |now| Change {
            chart: "fork_join: empty".into(),
            label: label.clone(),
            before: of(100.0, 2),
            now,
        };
        let wrong = Value::Wrong("exit status: 1".into());
        let all = vec![change(wrong), change(of(130.0, 2)), change(of(99.0, 1))];
        let notes = vec!["c/cg: class W now, and A before".into()];
        let text = page(&sections(), Some(&Changes { all, notes }));
        assert!(text.contains("<td class=\"bad\">1.300</td>"));
        assert!(text.contains("<td>0.990</td>"));
        assert!(text.contains("<td class=\"bad\">WRONG: exit status: 1 now, 100.000 before</td>"));
        assert!(text.contains("<p class=\"about\">c/cg: class W now, and A before</p>"));
    }
}
