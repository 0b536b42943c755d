//! A headless browser that opens a page and says what it saw: the check that the report is what its
//! readers get.
//!
//! It is driven over a pipe (messages of the DevTools protocol, each ended by a zero byte), so that
//! no port is opened, and it can find no host: what a page asks a network for fails, and is noted.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::measure::Dialogue;
use crate::setup::find_program;

/// Names under which browsers with this protocol are installed.
const PROGRAMS: [&str; 4] =
    ["chromium-headless-shell", "chromium", "google-chrome", "chromium-browser"];
/// Longer than any page takes to open.
const LONGEST: Duration = Duration::from_secs(60);

/// A running browser.
pub(crate) struct Browser {
    dialogue: Dialogue,
    sent: u64,
    /// Messages that came while another one was waited for.
    kept: Vec<Value>,
    _profile: TempDir,
}

/// How a page is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) width: u32,
    pub(crate) is_dark: bool,
}

/// What should not be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trouble {
    /// Errors of scripts and of the browser about the page.
    pub(crate) errors: Vec<String>,
    /// Addresses other than the page's own that were asked for.
    pub(crate) requests: Vec<String>,
}

/// What the browser saw.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Seen {
    /// Width and height of every plot.
    pub(crate) plots: Vec<(f64, f64)>,
    /// Size of the smallest letters in plots, as shown.
    pub(crate) smallest: f64,
    /// How much wider the page is than the window.
    pub(crate) beyond: f64,
    /// Lightness of paper and ink, 0 to 1.
    pub(crate) paper: f64,
    pub(crate) ink: f64,
    /// Errors of scripts and of the browser about the page.
    #[serde(skip)]
    pub(crate) errors: Vec<String>,
    /// Addresses other than the page's that were asked for.
    #[serde(skip)]
    pub(crate) requests: Vec<String>,
}

/// Runs in the page.
const LOOK: &str = r#"(() => {
    const lightness = (colour) => {
        const parts = colour.match(/[0-9.]+/g).map(Number);
        return (0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]) / 255;
    };
    const boxes = [...document.querySelectorAll("svg")].map((it) => it.getBoundingClientRect());
    const letters = [...document.querySelectorAll("svg text")].map((it) =>
        parseFloat(getComputedStyle(it).fontSize) * it.getScreenCTM().a);
    const style = getComputedStyle(document.body);
    const root = document.documentElement;
    return JSON.stringify({
        plots: boxes.map((it) => [it.width, it.height]),
        smallest: letters.reduce((a, b) => Math.min(a, b), 1000),
        beyond: Math.max(root.scrollWidth, document.body.scrollWidth) - root.clientWidth,
        paper: lightness(style.backgroundColor),
        ink: lightness(style.color),
    });
})()"#;

impl Browser {
    /// The program, if there is one; an error says how to get it.
    pub(crate) fn find() -> anyhow::Result<PathBuf> {
        PROGRAMS.iter().find_map(|name| find_program(name)).context(
            "no headless browser is here: sudo apt-get install -y --no-install-recommends \
             chromium-headless-shell",
        )
    }

    /// Starts it with a profile of its own.
    pub(crate) fn start(program: &Path) -> anyhow::Result<Browser> {
        let profile = tempfile::tempdir().context("cannot make a temporary folder")?;
        // Its two ends of the protocol are the descriptors 3 and 4.
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh"]);
        command.arg(program).args(["--headless", "--remote-debugging-pipe", "--disable-gpu"]);
        // It makes its own prison as another user than root only; it opens nothing but our page.
        command.args(["--no-sandbox", "--disable-dev-shm-usage", "--no-first-run"]);
        command.args(["--disable-background-networking", "--hide-scrollbars"]);
        command.arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1");
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        let dialogue = Dialogue::start(&mut command)
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Browser { dialogue, sent: 0, kept: Vec::new(), _profile: profile })
    }

    /// Opens a page and looks at it.
    pub(crate) fn look(&mut self, page: &Path, view: View) -> anyhow::Result<Seen> {
        let address = format!("file://{}", page.display());
        let (found, trouble) = self.open(&address, &address, view, LOOK)?;
        let mut seen: Seen = serde_json::from_str(&found).context("what the page said")?;
        (seen.errors, seen.requests) = (trouble.errors, trouble.requests);
        Ok(seen)
    }

    /// Opens a page, runs a script in it and returns the text that this says, or promises. What is
    /// asked for below `own` is the page's own affair.
    pub(crate) fn open(
        &mut self,
        address: &str,
        own: &str,
        view: View,
        script: &str,
    ) -> anyhow::Result<(String, Trouble)> {
        self.kept.clear();
        let target = self.ask(None, "Target.createTarget", json!({"url": "about:blank"}))?;
        let target = text(&target, "/targetId")?;
        let attach = json!({"targetId": target, "flatten": true});
        let session = text(&self.ask(None, "Target.attachToTarget", attach)?, "/sessionId")?;
        let tab = Some(session.as_str());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.ask(tab, &format!("{domain}.enable"), json!({}))?;
        }
        let metrics = json!({"width": view.width, "height": 900, "deviceScaleFactor": 1,
            "mobile": view.width < 600});
        self.ask(tab, "Emulation.setDeviceMetricsOverride", metrics)?;
        let scheme = if view.is_dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.ask(tab, "Emulation.setEmulatedMedia", media)?;
        self.ask(tab, "Page.navigate", json!({"url": address}))?;
        self.until(|message| message["method"] == "Page.loadEventFired")?;
        let ask = json!({"expression": script, "returnByValue": true, "awaitPromise": true});
        let found = self.ask(tab, "Runtime.evaluate", ask)?;
        let found = text(&found, "/result/value").with_context(|| found.to_string())?;
        let mut trouble = Trouble::default();
        self.ask(None, "Target.closeTarget", json!({"targetId": target}))?;
        for message in &self.kept {
            let says = |place: &str| message.pointer(place).and_then(Value::as_str);
            match message["method"].as_str() {
                Some("Runtime.exceptionThrown") => {
                    trouble.errors.push(message["params"]["exceptionDetails"].to_string());
                }
                Some("Log.entryAdded") if says("/params/entry/level") == Some("error") => {
                    trouble.errors.push(message["params"]["entry"].to_string());
                }
                Some("Network.requestWillBeSent") => {
                    let asked = says("/params/request/url").unwrap_or_default();
                    if !asked.starts_with(own) && !asked.starts_with("data:") {
                        trouble.requests.push(asked.to_owned());
                    }
                }
                _ => {}
            }
        }
        Ok((found, trouble))
    }

    /// Sends a command and returns its result.
    fn ask(&mut self, tab: Option<&str>, method: &str, params: Value) -> anyhow::Result<Value> {
        self.sent += 1;
        let id = self.sent;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = tab {
            message["sessionId"] = session.into();
        }
        let shown = || format!("the browser, {method}");
        self.dialogue.say((message.to_string() + "\0").as_bytes()).with_context(shown)?;
        let answer = self.until(|message| message["id"] == id).with_context(shown)?;
        match answer.get("error") {
            Some(fault) => bail!("the browser refuses {method}: {fault}"),
            None => Ok(answer["result"].clone()),
        }
    }

    /// Waits for a message; the others are kept.
    fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        let limit = Instant::now() + LONGEST;
        loop {
            let said = self.dialogue.hear(0, limit)?;
            let said = said.with_context(|| format!("no answer in {LONGEST:?}"))?;
            let message: Value = serde_json::from_str(&said).context("what the browser said")?;
            if is_it(&message) {
                return Ok(message);
            }
            self.kept.push(message);
        }
    }
}

fn text(value: &Value, place: &str) -> anyhow::Result<String> {
    let text = value.pointer(place).and_then(Value::as_str);
    text.map(str::to_owned).with_context(|| format!("no {place} in what the browser said"))
}
