//! Which class a program is in: rules by name, user, group, cgroup or label; the first that fits.

use serde::{Deserialize, Serialize};

/// What a manager knows of a program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subject {
    /// The name of the program.
    pub name: String,
    /// The user's name, or number where it has no name.
    pub user: String,
    /// The names, or numbers, of its groups.
    pub groups: Vec<String>,
    /// The path of its cgroup, from `/` on.
    pub cgroup: String,
    /// What it was started for, as its user says.
    pub label: Option<String>,
}

/// A program is in the class if all that the rule says fits: texts in which `*` stands for any
/// characters, and `?` for one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// The class.
    pub class: String,
    /// The program's name.
    pub name: Option<String>,
    /// The user.
    pub user: Option<String>,
    /// One of its groups.
    pub group: Option<String>,
    /// Its cgroup.
    pub cgroup: Option<String>,
    /// Its label; a program without one does not fit.
    pub label: Option<String>,
}

/// Rules in the order in which they are tried.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rules(pub Vec<Rule>);

/// A rule that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rule {number}: {what}")]
pub struct RuleFault {
    /// Which, from 1.
    pub number: usize,
    /// What there is and what is allowed.
    pub what: String,
}

impl Rules {
    /// The class of a program, if a rule fits.
    #[must_use]
    pub fn class_of(&self, subject: &Subject) -> Option<&str> {
        self.0.iter().find(|rule| rule.fits(subject)).map(|rule| rule.class.as_str())
    }

    /// Says whether each rule names a class that there is, and something that a program has.
    ///
    /// # Errors
    /// The first rule that does not.
    pub fn check<'a>(
        &self,
        classes: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<(), RuleFault> {
        for (number, rule) in (1..).zip(&self.0) {
            if !classes.clone().any(|class| class == rule.class) {
                let known: Vec<&str> = classes.clone().collect();
                let what =
                    format!("no class is called {:?}; there are: {}", rule.class, known.join(", "));
                return Err(RuleFault { number, what });
            }
            let says = [&rule.name, &rule.user, &rule.group, &rule.cgroup, &rule.label];
            if says.iter().all(|it| it.is_none()) {
                let what = "it says nothing of a program; name `name`, `user`, `group`, `cgroup` or \
                            `label` (`name = \"*\"` is for all)";
                return Err(RuleFault { number, what: what.to_owned() });
            }
        }
        Ok(())
    }
}

impl Rule {
    /// Whether all that it says fits.
    #[must_use]
    pub fn fits(&self, subject: &Subject) -> bool {
        let is = |pattern: &Option<String>, text: &str| {
            pattern.as_ref().is_none_or(|pattern| matches(pattern, text))
        };
        let group = |pattern: &String| subject.groups.iter().any(|it| matches(pattern, it));
        let label =
            |pattern: &String| subject.label.as_ref().is_some_and(|it| matches(pattern, it));
        is(&self.name, &subject.name)
            && is(&self.user, &subject.user)
            && is(&self.cgroup, &subject.cgroup)
            && self.group.as_ref().is_none_or(group)
            && self.label.as_ref().is_none_or(label)
    }
}

/// Whether the text is one that the pattern stands for. O(pattern x text).
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // The last star, and up to where it was taken to reach.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, reach)) = star else { return false };
                star = Some((at, reach + 1));
                (p, t) = (at + 1, reach + 1);
            }
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        Subject {
            name: "solver-3d".to_owned(),
            user: "ada".to_owned(),
            groups: vec!["users".to_owned(), "physics".to_owned()],
            cgroup: "/user.slice/batch.scope".to_owned(),
            label: None,
        }
    }

    #[test]
    fn patterns_stand_for_any_characters_or_for_one() {
        for (pattern, text, fits) in [
            ("solver", "solver", true),
            ("solver", "solver-3d", false),
            ("solver*", "solver-3d", true),
            ("*3d", "solver-3d", true),
            ("s*r*d", "solver-3d", true),
            ("s*r*x", "solver-3d", false),
            ("solver-?d", "solver-3d", true),
            ("solver-?", "solver-3d", false),
            ("*", "", true),
            ("", "", true),
            ("?", "", false),
            ("*a*a*a*", "aa", false),
            ("gr\u{fc}n?", "gr\u{fc}n\u{df}", true),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn the_first_rule_that_fits_in_all_it_says_names_the_class() {
        let rule = |class: &str| Rule { class: class.to_owned(), ..Rule::default() };
        let some = |text: &str| Some(text.to_owned());
        let rules = Rules(vec![
            Rule { name: some("solver*"), user: some("bob"), ..rule("bobs") },
            Rule { label: some("*"), ..rule("labelled") },
            Rule { group: some("phys*"), cgroup: some("/user.slice/*"), ..rule("physics") },
            Rule { name: some("*"), ..rule("all") },
        ]);
        assert_eq!(rules.class_of(&subject()), Some("physics"));
        let labelled = Subject { label: some("night"), ..subject() };
        assert_eq!(rules.class_of(&labelled), Some("labelled"));
        assert_eq!(rules.class_of(&Subject { user: "bob".to_owned(), ..labelled }), Some("bobs"));
        assert_eq!(rules.class_of(&Subject::default()), Some("all"));
        assert_eq!(Rules::default().class_of(&subject()), None);

        let classes = ["bobs", "labelled", "physics", "all"];
        assert_eq!(rules.check(classes.into_iter()), Ok(()));
        let fault = rules.check(["bobs"].into_iter()).expect_err("labelled is no class");
        assert_eq!(fault.to_string(), "rule 2: no class is called \"labelled\"; there are: bobs");
        let empty = Rules(vec![rule("bobs")]).check(["bobs"].into_iter());
        assert!(empty.expect_err("it says nothing").to_string().starts_with("rule 1: it says"));
    }
}
