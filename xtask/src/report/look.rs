//! The lane `report`: the manager's page (`manager`), and the page of records, as a real browser
//! shows it, wide and narrow, in the light and in the dark. Before that the same check has to
//! report faults that are planted.

use std::path::Path;

use anyhow::{Context, bail, ensure};

use super::browser::{Browser, Seen, View};
use super::change::changes;
use super::data::{self, Section};
use super::page;
use crate::measure::Household;
use crate::setup::Workspace;
use crate::skips;

/// A phone's width, and a desk's.
pub(super) const WIDTHS: [u32; 2] = [390, 1280];
/// Letters below this are hard to read (pixels).
const SMALLEST: f64 = 11.0;

/// A page with one of each fault.
const PLANTED: &str = "<!DOCTYPE html><html><head><meta charset='utf-8'>
<meta name='viewport' content='width=device-width'><style>body { color: #000; background: #fff }
</style><link rel='icon' href='data:,'></head><body><img src='http://elsewhere.invalid/a.png'>
<div style='width: 3000px'>wide</div><svg width='0' height='0'><text font-size='3'>x</text></svg>
<script>nothing.at.all()</script></body></html>";

/// A record of two benches and one of a suite with everything that a page can have.
const BENCH: &str = "case,engine,row,round,rtt_before_ns,rtt_after_ns,time_ns\n\
                     an empty loop,ours,bound,0,50,60,100\nan empty loop,ours,bound,1,50,60,130\n\
                     an empty loop,ours,bound,2,300,310,400\nan empty loop,a peer with a long \
                     name,bound,0,300,310,900000\n\
                     a case whose name is much longer than a phone is wide and has no \
                     end,ours,unbound,0,50,50,7\n";
const SUITE: &str = include_str!("suite.csv");

/// Looks at the planted faults, at a page of everything, and at that of the usual records. Returns
/// how many checks passed.
pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<u64> {
    let program = match Browser::find() {
        Ok(program) => program,
        Err(fault) => {
            skips::note(format_args!("report: {fault:#}"));
            return Ok(0);
        }
    };
    let _household = Household::take_over()?;
    let mut browser = Browser::start(&program)?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        anyhow::Ok(path)
    };
    let planted = write("planted.html", PLANTED)?;
    must_report(&mut browser, &planted)?;

    let read = |name: &str, text: &str| data::read(&write(name, text)?);
    let bench = read("fork_join.csv", BENCH)?;
    let suite = read("suite.csv", SUITE)?;
    let before = [read("2026-01-01-fork_join.csv", &BENCH.replace(",130", ",330"))?];
    let everything = [bench, suite];
    let changes = changes(&everything, &before);
    ensure!(!changes.all.is_empty(), "the page of everything shows no change");
    let page_of = |sections: &[Section]| page::page(sections, Some(&changes));
    let mut passed = 1;
    passed += look(&mut browser, &write("everything.html", &page_of(&everything))?, &everything)?;
    let usual: Vec<Section> =
        super::usual(workspace)?.iter().map(|path| data::read(path)).collect::<Result<_, _>>()?;
    let text = page::page(&usual, None);
    passed += look(&mut browser, &write("usual.html", &text)?, &usual)?;
    passed += super::manager::look(workspace, &mut browser)?;
    Ok(passed)
}

/// Fails unless each planted fault is seen.
fn must_report(browser: &mut Browser, page: &Path) -> anyhow::Result<()> {
    let seen = browser.look(page, View { width: WIDTHS[0], is_dark: true })?;
    let found = faults(&seen, 1, true);
    for planted in ["script", "asked for", "wider", "has no size", "letters", "not dark"] {
        ensure!(
            found.iter().any(|fault| fault.contains(planted)),
            "a planted fault was not reported (`{planted}`): {found:?}"
        );
    }
    println!("all planted faults are reported");
    Ok(())
}

/// Looks at a page in every way.
fn look(browser: &mut Browser, page: &Path, sections: &[Section]) -> anyhow::Result<u64> {
    let plots = sections.iter().map(|section| section.charts.len()).sum();
    let name = page.file_stem().unwrap_or_default().display();
    let mut passed = 0;
    for width in WIDTHS {
        for is_dark in [false, true] {
            let seen = browser.look(page, View { width, is_dark })?;
            let scheme = if is_dark { "dark" } else { "light" };
            let found = faults(&seen, plots, is_dark);
            if !found.is_empty() {
                bail!("{name}, {width} wide, {scheme}:\n  {}", found.join("\n  "));
            }
            println!(
                "{name}, {width} wide, {scheme}: {plots} plots, letters of {:.1} pixels and more",
                seen.smallest
            );
            passed += 1;
        }
    }
    Ok(passed)
}

/// What is wrong with a page as it is shown.
fn faults(seen: &Seen, plots: usize, is_dark: bool) -> Vec<String> {
    let mut faults: Vec<String> = seen
        .errors
        .iter()
        .map(|error| format!("error of a script or of the page: {error}"))
        .collect();
    faults.extend(seen.requests.iter().map(|asked| format!("it asked for {asked}")));
    if seen.plots.len() != plots {
        faults.push(format!("{} plots, and there should be {plots}", seen.plots.len()));
    }
    for (index, (width, height)) in seen.plots.iter().enumerate() {
        if *width < 100.0 || *height < 20.0 {
            faults.push(format!("plot {index} has no size: {width} x {height}"));
        }
    }
    if seen.beyond > 0.0 {
        faults.push(format!("it is {} pixels wider than the window", seen.beyond));
    }
    if seen.smallest < SMALLEST {
        faults.push(format!("letters of {:.1} pixels, least {SMALLEST}", seen.smallest));
    }
    let is_shown_dark = seen.paper < 0.3 && seen.ink > 0.6;
    let is_shown_light = seen.paper > 0.8 && seen.ink < 0.3;
    match is_dark {
        true if !is_shown_dark => faults.push("it is not dark where that is wished".to_owned()),
        false if !is_shown_light => faults.push("it is not light where that is wished".to_owned()),
        _ => {}
    }
    faults
}
