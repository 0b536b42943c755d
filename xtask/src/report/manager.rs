//! The page of a manager that runs, in a real browser: programs and processors are there, the last
//! minutes are drawn, no script fails, and nothing is asked for but of the manager.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use super::browser::{Browser, Trouble, View};
use super::look::WIDTHS;
use crate::setup::{Workspace, must_succeed};

/// Letters below this are hard to read (pixels).
const SMALLEST: f64 = 11.0;

/// Runs in the page: waits for the manager's first answer that names the program, and for its area
/// in the last minutes, which needs two samples; 20 s at most.
const LOOK: &str = r##"new Promise(done => {
    const begin = Date.now();
    const look = () => {
        const rows = [...document.querySelectorAll("#programs tr")].map(it => it.textContent);
        const past = [...document.querySelectorAll("#past polygon")].map(it => {
            const { width, height } = it.getBoundingClientRect();
            return [width, height];
        });
        const isThere = rows.some(it => it.includes("sleep")) && past.length > 0;
        if (!isThere && Date.now() - begin < 20000)
            return setTimeout(look, 100);
        const root = document.documentElement;
        const all = [...document.querySelectorAll("body *")].filter(it =>
            it.checkVisibility() && [...it.childNodes].some(part => part.nodeType === 3 && part.data.trim()));
        done(JSON.stringify({
            rows,
            past,
            processors: [...document.querySelectorAll("#cpus div")].map(it => it.textContent),
            state: document.getElementById("state").textContent,
            beyond: Math.max(root.scrollWidth, document.body.scrollWidth) - root.clientWidth,
            smallest: all.map(it => parseFloat(getComputedStyle(it).fontSize))
                .reduce((a, b) => Math.min(a, b), 1000),
        }));
    };
    look();
})"##;

/// A page that shows the same and has one of each fault.
const PLANTED: &str =
    "<!DOCTYPE html><html><head><meta charset='utf-8'><link rel='icon' href='data:,'>
<meta name='viewport' content='width=device-width'></head><body><p id='state'>no manager</p>
<table><tbody id='programs'><tr><td style='font-size: 4px'>sleep</td></tr></tbody></table>
<div id='cpus'></div><svg id='past'><polygon points='0,0 60,0'/></svg>
<div style='width: 3000px'>wide</div>
<img src='http://elsewhere.invalid/a.png'><script>nothing.at.all()</script></body></html>";

/// What the page showed.
#[derive(Debug, Deserialize)]
struct Shown {
    rows: Vec<String>,
    /// Width and height of each area in the last minutes.
    past: Vec<(f64, f64)>,
    processors: Vec<String>,
    state: String,
    beyond: f64,
    smallest: f64,
}

/// A process that is gone with the check.
struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Looks at planted faults, then at the page in each width, light and dark. Returns how many checks
/// passed.
pub(super) fn look(workspace: &Workspace, browser: &mut Browser) -> anyhow::Result<u64> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let planted = folder.path().join("planted.html");
    std::fs::write(&planted, PLANTED).context("cannot write the planted page")?;
    let address = format!("file://{}", planted.display());
    let view = View { width: WIDTHS[0], is_dark: false };
    let (shown, trouble) = browser.open(&address, &address, view, LOOK)?;
    let found = faults(&serde_json::from_str(&shown)?, &trouble);
    for planted in ["script", "asked for", "wider", "letters", "no processor", "last minutes"] {
        ensure!(
            found.iter().any(|fault| fault.contains(planted)),
            "a planted fault was not reported (`{planted}`): {found:?}"
        );
    }
    println!("manager: all planted faults are reported");

    must_succeed(&mut workspace.cargo(["build", "--package", "cpumgr"]))?;
    let program = workspace.target.join("debug/cpumgr");
    let (_manager, address) = start(&program, &folder.path().join("app.sock"))?;
    let sleeps = Command::new("sleep").arg("600").spawn().context("cannot start sleep")?;
    let sleeps = Kept(sleeps);
    let mut attach = Command::new(&program);
    attach.args(["attach", &sleeps.0.id().to_string(), "--socket"]);
    must_succeed(attach.arg(folder.path().join("app.sock")))?;
    let mut passed = 1;
    for width in WIDTHS {
        for is_dark in [false, true] {
            let (shown, trouble) =
                browser.open(&address, &address, View { width, is_dark }, LOOK)?;
            let shown: Shown = serde_json::from_str(&shown).context("what the page said")?;
            let found = faults(&shown, &trouble);
            if !found.is_empty() {
                bail!(
                    "the manager's page, {width} wide, dark {is_dark}:\n  {}",
                    found.join("\n  ")
                );
            }
            println!(
                "manager, {width} wide, {}: {} processors, {:?}",
                if is_dark { "dark" } else { "light" },
                shown.processors.len(),
                shown.state
            );
            passed += 1;
        }
    }
    Ok(passed)
}

/// A manager that listens, and the address of its page.
fn start(program: &Path, socket: &Path) -> anyhow::Result<(Kept, String)> {
    let mut command = Command::new(program);
    command.arg("daemon").arg("--socket").arg(socket).args(["--listen", "127.0.0.1:0"]);
    command.args(["--config", "none", "--strangers", "ignore"]);
    command.env_remove("CPUMGR_LOG").stdin(Stdio::null()).stderr(Stdio::piped());
    let mut child = Kept(command.spawn().context("cannot start the manager")?);
    let errors = child.0.stderr.take().context("no pipe from the manager")?;
    let mut log = BufReader::new(errors);
    let mut line = String::new();
    loop {
        line.clear();
        if log.read_line(&mut line).context("cannot read the manager's log")? == 0 {
            bail!("the manager ended before it listened");
        }
        let is_it = line.contains("listens for browsers");
        if let Some((_, address)) = line.rsplit_once("address=").filter(|_| is_it) {
            let address = format!("http://{}/", address.trim());
            // What it logs later is read by no other, and must not stop it.
            std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
            return Ok((child, address));
        }
    }
}

/// What is wrong with the page as it is shown.
fn faults(shown: &Shown, trouble: &Trouble) -> Vec<String> {
    let errors = trouble.errors.iter().map(|it| format!("error of a script or of the page: {it}"));
    let mut faults: Vec<String> = errors.collect();
    faults.extend(trouble.requests.iter().map(|asked| format!("it asked for {asked}")));
    if !shown.rows.iter().any(|row| row.contains("sleep")) {
        faults.push(format!("the program is not shown: {:?}", shown.rows));
    }
    if !shown.processors.iter().any(|it| it.contains("sleep")) {
        faults.push(format!("no processor has the program: {:?}", shown.processors));
    }
    if !shown.past.iter().any(|(width, height)| *width > 1.0 && *height > 1.0) {
        faults.push(format!("the last minutes have no area: {:?}", shown.past));
    }
    if shown.beyond > 0.0 {
        faults.push(format!("it is {} pixels wider than the window", shown.beyond));
    }
    if shown.smallest < SMALLEST {
        faults.push(format!("letters of {:.1} pixels, least {SMALLEST}", shown.smallest));
    }
    faults
}
