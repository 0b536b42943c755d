//! What the environment says of page migration, for programs that say nothing themselves.

use crate::placement::Placement;
use crate::source::SourceKind;
use crate::topology::{MOST_NODES, Node};

/// The variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `UPM`: pages of a program that does not ask for it follow its threads.
    pub is_on: bool,
    /// `UPM_REPORT`: what was done is written at the program's end.
    pub reports: bool,
    /// `UPM_PLACEMENT`: where pages are put at first.
    pub placement: Option<Placement>,
    /// `UPM_CRITICAL_PAGES`: how many pages move before a phase.
    pub critical_pages: usize,
    /// `UPM_SOURCE`: this source alone counts references; else the first that can be used.
    pub source: Option<SourceKind>,
    /// `UPM_NODES`: so many nodes are pretended, and no page really moves.
    pub pretended: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        let critical_pages = crate::Parameters::default().critical_pages;
        Self {
            is_on: false,
            reports: false,
            placement: None,
            critical_pages,
            source: None,
            pretended: None,
        }
    }
}

/// The variables that [`Settings::from_environment`] reads, for lists of them.
pub const VARIABLES: [&str; 6] =
    ["UPM", "UPM_REPORT", "UPM_PLACEMENT", "UPM_CRITICAL_PAGES", "UPM_SOURCE", "UPM_NODES"];

const SWITCH: &str = "on or off";
const PLACEMENTS: &str = "first-touch, round-robin, random, random:SEED, worst-case or \
                          worst-case:NODE with a node below 64";

impl Settings {
    /// What the variables say that `get` knows. The second value has a line for each wrong one,
    /// which then changes nothing.
    pub fn from_environment(get: &dyn Fn(&str) -> Option<String>) -> (Self, Vec<String>) {
        let mut complaints = Vec::new();
        let mut own = Self::default();
        let mut read = |name: &str, wanted: &str, take: &mut dyn FnMut(&str) -> Option<()>| {
            if let Some(text) = get(name)
                && take(&text.trim().to_ascii_lowercase()).is_none()
            {
                complaints.push(format!(
                    "Invalid value for environment variable {name}: \"{}\" (must be {wanted}); it is ignored",
                    text.escape_default()
                ));
            }
        };
        read("UPM", SWITCH, &mut |text| switch(text).map(|is_on| own.is_on = is_on));
        read("UPM_REPORT", SWITCH, &mut |text| switch(text).map(|reports| own.reports = reports));
        read("UPM_PLACEMENT", PLACEMENTS, &mut |text| {
            placement(text).map(|placement| own.placement = Some(placement))
        });
        read("UPM_CRITICAL_PAGES", "a number from 1 to 1000000", &mut |text| {
            let pages = text.parse().ok().filter(|pages| (1..=1_000_000).contains(pages))?;
            own.critical_pages = pages;
            Some(())
        });
        let kinds = SourceKind::ORDER.map(SourceKind::word).join(", ");
        read("UPM_SOURCE", &format!("auto, {kinds}"), &mut |text| {
            own.source = if text == "auto" { None } else { Some(SourceKind::of(text)?) };
            Some(())
        });
        read("UPM_NODES", "a number from 2 to 64", &mut |text| {
            let nodes = text.parse().ok().filter(|nodes| (2..=MOST_NODES).contains(nodes))?;
            own.pretended = Some(nodes);
            Some(())
        });
        (own, complaints)
    }

    /// Each variable with the value that leads to these settings; empty: not set.
    pub fn shown(&self) -> [(&'static str, String); 6] {
        let switch = |is_on: bool| if is_on { "on" } else { "off" }.to_owned();
        let placement = match self.placement {
            None => String::new(),
            Some(Placement::FirstTouch) => "first-touch".to_owned(),
            Some(Placement::RoundRobin) => "round-robin".to_owned(),
            Some(Placement::Random(seed)) => format!("random:{seed}"),
            Some(Placement::WorstCase(node)) => format!("worst-case:{node}"),
        };
        [
            ("UPM", switch(self.is_on)),
            ("UPM_REPORT", switch(self.reports)),
            ("UPM_PLACEMENT", placement),
            ("UPM_CRITICAL_PAGES", self.critical_pages.to_string()),
            ("UPM_SOURCE", self.source.map_or("auto", SourceKind::word).to_owned()),
            ("UPM_NODES", self.pretended.map_or_else(String::new, |nodes| nodes.to_string())),
        ]
    }
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "on" | "1" | "true" => Some(true),
        "off" | "0" | "false" => Some(false),
        _ => None,
    }
}

/// The node of the worst case is the operating system's number, as the others are told apart by it.
fn placement(text: &str) -> Option<Placement> {
    match text.split_once(':').map_or((text, None), |(scheme, rest)| (scheme, Some(rest))) {
        ("first-touch", None) => Some(Placement::FirstTouch),
        ("round-robin", None) => Some(Placement::RoundRobin),
        ("random", seed) => seed.unwrap_or("1").parse().ok().map(Placement::Random),
        ("worst-case", node) => {
            let node = node.unwrap_or("0").parse::<u8>().ok()?;
            (usize::from(node) < MOST_NODES).then_some(Placement::WorstCase(Node(node)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> (Settings, Vec<String>) {
        Settings::from_environment(&|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn what_is_shown_leads_to_the_same_settings() {
        assert_eq!(read(&[]), (Settings::default(), vec![]));
        let placements = [
            None,
            Some(Placement::FirstTouch),
            Some(Placement::RoundRobin),
            Some(Placement::Random(7)),
            Some(Placement::WorstCase(Node(3))),
        ];
        for placement in placements {
            let pretended = Some(4);
            let source = SourceKind::of("rights");
            let (is_on, reports, critical_pages) = (true, true, 5);
            let settings =
                Settings { is_on, reports, placement, critical_pages, source, pretended };
            let shown = settings.shown();
            assert_eq!(shown.each_ref().map(|(name, _)| *name), VARIABLES);
            let set: Vec<(&str, &str)> = shown
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .filter(|(_, value)| !value.is_empty())
                .collect();
            assert_eq!(read(&set), (settings, vec![]));
        }
        assert_eq!(read(&[("UPM_PLACEMENT", " Random ")]).0.placement, Some(Placement::Random(1)));
    }

    #[test]
    fn garbage_brings_one_line_that_names_it_and_changes_nothing() {
        for (name, value) in [
            ("UPM", "yes please"),
            ("UPM", ""),
            ("UPM_REPORT", "2"),
            ("UPM_PLACEMENT", "worst"),
            ("UPM_PLACEMENT", "worst-case:64"),
            ("UPM_PLACEMENT", "first-touch:1"),
            ("UPM_PLACEMENT", "random:x"),
            ("UPM_CRITICAL_PAGES", "0"),
            ("UPM_SOURCE", "pebs"),
            ("UPM_NODES", "1"),
            ("UPM_NODES", "65"),
        ] {
            let (settings, complaints) = read(&[(name, value)]);
            assert_eq!(complaints.len(), 1, "{name}={value}");
            assert!(complaints[0].contains(&format!("{name}: \"{value}\"")), "{complaints:?}");
            assert_eq!(settings, Settings::default(), "{name}={value}");
            assert!(VARIABLES.contains(&name));
        }
    }
}
