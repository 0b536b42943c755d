//! What the library shows on request: the environment, and where threads may run.

use crate::frame::Frame;
use crate::query;
use crate::query::places;
use crate::schedule::{Kind, Schedule};
use crate::settings::device;
use crate::settings::{ALLOCATORS, Bind, Offload};
use crate::settings::{SUPPORTED_LEVELS, settings};
use engine::Waiting;
use platform::affinity::{self, current_tid};
use platform::lock::{Mutex, Once};
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::PoisonError;

/// affinity-format-var when nothing else is said.
const FORMAT: &str = "level %L thread %i affinity %A";

fn format_variable() -> &'static Mutex<String> {
    static VARIABLE: Once<Mutex<String>> = Once::new();
    VARIABLE.get_or_init(|| {
        let given = settings().environment.affinity_format.clone();
        Mutex::new(given.unwrap_or_else(|| FORMAT.to_owned()))
    })
}

/// affinity-format-var.
pub(crate) fn affinity_format() -> String {
    format_variable().lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Sets affinity-format-var.
pub(crate) fn set_affinity_format(format: String) {
    *format_variable().lock().unwrap_or_else(PoisonError::into_inner) = format;
}

/// Shows where the thread may run, by `format` or by the control variable.
pub(crate) fn affinity(frame: &Frame, format: Option<&str>) {
    let mut line = capture(frame, format);
    line.push('\n');
    // One write, so that the lines of a team do not mix. A closed stderr must not stop the program.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The text that [`affinity()`] shows. An empty format means the control variable.
pub(crate) fn capture(frame: &Frame, format: Option<&str>) -> String {
    match format {
        Some(format) if !format.is_empty() => expand(format, |field| value(frame, field)),
        _ => expand(&affinity_format(), |field| value(frame, field)),
    }
}

/// The fields of a format: short and long names.
const FIELDS: [(char, &str); 10] = [
    ('t', "team_num"),
    ('T', "num_teams"),
    ('L', "nesting_level"),
    ('n', "thread_num"),
    ('N', "num_threads"),
    ('a', "ancestor_tnum"),
    ('H', "host"),
    ('P', "process_id"),
    ('i', "native_thread_id"),
    ('A', "thread_affinity"),
];

fn value(frame: &Frame, field: char) -> String {
    let team = frame.team();
    match field {
        't' => team.league().number.to_string(),
        'T' => team.league().count.to_string(),
        'L' => team.level().to_string(),
        'n' => frame.id.to_string(),
        'N' => frame.size.to_string(),
        'a' => query::ancestor(frame, query::int(team.level()) - 1).to_string(),
        'H' => host(),
        'P' => std::process::id().to_string(),
        'i' => current_tid().0.to_string(),
        'A' => affinity::affinity(None)
            .map_or_else(|error| format!("({error})"), |mask| mask.to_string()),
        _ => "undefined".to_owned(),
    }
}

fn host() -> String {
    let name = platform::file::text("/proc/sys/kernel/hostname");
    name.map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned())
}

/// Replaces `%[[[0].]width]field` and `%{name}` in `format`.
fn expand(format: &str, value: impl Fn(char) -> String) -> String {
    let mut out = String::new();
    let mut rest = format.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if rest.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let zeros = rest.next_if_eq(&'0').is_some();
        let right = rest.next_if_eq(&'.').is_some();
        let mut width = 0_usize;
        while let Some(digit) = rest.peek().and_then(|c| c.to_digit(10)) {
            rest.next();
            width = (width * 10 + digit as usize).min(4096);
        }
        let text = match rest.next() {
            None => break,
            Some('{') => {
                let name: String = rest.by_ref().take_while(|c| *c != '}').collect();
                let field =
                    FIELDS.iter().find(|(_, long)| *long == name).map_or('?', |(short, _)| *short);
                value(field)
            }
            Some(field) => value(field),
        };
        pad(&mut out, &text, width, right, zeros);
    }
    out
}

fn pad(out: &mut String, text: &str, width: usize, right: bool, zeros: bool) {
    let missing = width.saturating_sub(text.chars().count());
    let is_number = text.trim_start_matches('-').chars().all(|c| c.is_ascii_digit());
    if !right {
        out.push_str(text);
        out.extend(std::iter::repeat_n(' ', missing));
    } else if zeros && is_number {
        let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
        out.push_str(sign);
        out.extend(std::iter::repeat_n('0', missing));
        out.push_str(digits);
    } else {
        out.extend(std::iter::repeat_n(' ', missing));
        out.push_str(text);
    }
}

/// Shows the control variables of the initial task; `verbose` adds the vendor's and ours.
pub(crate) fn environment(verbose: bool) {
    // A closed stderr must not stop the program.
    let _ = std::io::stderr().write_all(environment_text(verbose).as_bytes());
}

/// The table of [`environment`].
fn environment_text(verbose: bool) -> String {
    let mut rows = standard_rows();
    if verbose {
        rows.extend(our_rows());
    }
    let mut text = "\nOPENMP DISPLAY ENVIRONMENT BEGIN\n".to_owned();
    for (name, value) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name} = '{value}'");
    }
    text.push_str("OPENMP DISPLAY ENVIRONMENT END\n");
    text
}

fn standard_rows() -> Vec<(&'static str, String)> {
    let env = &settings().environment;
    let icvs = settings().initial();
    let threads =
        if env.num_threads.is_empty() { vec![icvs.num_threads] } else { env.num_threads.clone() };
    let bind = if env.proc_bind.is_empty() { vec![icvs.bind] } else { env.proc_bind.clone() };
    let places = places::list().iter().map(|place| place_text(&place.to_string()));
    let allocator =
        ALLOCATORS.get(icvs.allocator.wrapping_sub(1)).copied().unwrap_or("made by the program");
    vec![
        ("_OPENMP", "201511".to_owned()),
        ("OMP_DYNAMIC", truth(icvs.dynamic.is_on())),
        ("OMP_NESTED", truth(icvs.max_active_levels > 1)),
        ("OMP_NUM_THREADS", join(threads.iter().map(u32::to_string))),
        ("OMP_SCHEDULE", schedule_text(&icvs.schedule)),
        ("OMP_PROC_BIND", join(bind.iter().map(|bind| bind_text(*bind).to_owned()))),
        ("OMP_PLACES", join(places)),
        ("OMP_STACKSIZE", env.stack_size.unwrap_or(0).to_string()),
        ("OMP_WAIT_POLICY", wait_text(env.wait_policy).to_owned()),
        ("OMP_THREAD_LIMIT", icvs.thread_limit.to_string()),
        ("OMP_MAX_ACTIVE_LEVELS", icvs.max_active_levels.min(SUPPORTED_LEVELS).to_string()),
        ("OMP_NUM_TEAMS", device::max_teams().to_string()),
        ("OMP_TEAMS_THREAD_LIMIT", device::thread_limit().to_string()),
        ("OMP_CANCELLATION", truth(env.cancellation)),
        ("OMP_DEFAULT_DEVICE", icvs.default_device.to_string()),
        ("OMP_MAX_TASK_PRIORITY", env.max_task_priority.to_string()),
        ("OMP_DISPLAY_AFFINITY", truth(env.display_affinity)),
        ("OMP_AFFINITY_FORMAT", affinity_format()),
        ("OMP_ALLOCATOR", allocator.to_owned()),
        ("OMP_TARGET_OFFLOAD", offload_text(env.target_offload).to_owned()),
    ]
}

fn our_rows() -> Vec<(&'static str, String)> {
    let env = &settings().environment;
    let mut rows = vec![
        ("GOMP_CPU_AFFINITY", env.cpu_affinity.clone().unwrap_or_default()),
        ("GOMP_STACKSIZE", env.stack_size.unwrap_or(0).to_string()),
        ("GOMP_SPINCOUNT", env.spin_count.map_or_else(String::new, |count| count.to_string())),
        ("NANOS_ADAPT", format!("{:?}", env.adapt).to_ascii_lowercase()),
        ("NANOS_CPUMGR", std::env::var("NANOS_CPUMGR").unwrap_or_default()),
        ("NANOS_SIZER", format!("{:?}", env.sizer).to_ascii_lowercase()),
    ];
    rows.extend(env.asat.shown());
    rows.extend(env.upm.shown());
    rows
}

fn truth(on: bool) -> String {
    if on { "TRUE" } else { "FALSE" }.to_owned()
}

/// A place as `OMP_PLACES` takes it (`{0:4,6}`), from a list of the kernel's form (`0-3,6`).
fn place_text(processors: &str) -> String {
    let interval = |part: &str| match part
        .split_once('-')
        .map(|(first, last)| (first.parse::<u32>(), last.parse::<u32>()))
    {
        Some((Ok(first), Ok(last))) => {
            format!("{first}:{}", last.saturating_sub(first).saturating_add(1))
        }
        _ => part.to_owned(),
    };
    format!("{{{}}}", join(processors.split(',').map(interval)))
}

fn join(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",")
}

fn schedule_text(schedule: &Schedule) -> String {
    let (name, default) = match schedule.kind {
        Kind::Static => ("STATIC", 0),
        Kind::Dynamic => ("DYNAMIC", 1),
        Kind::Guided => ("GUIDED", 1),
        Kind::Auto => ("AUTO", 0),
    };
    let modifier =
        if schedule.monotonic && schedule.kind != Kind::Static { "MONOTONIC:" } else { "" };
    let chunk =
        if schedule.chunk == default { String::new() } else { format!(",{}", schedule.chunk) };
    format!("{modifier}{name}{chunk}")
}

fn bind_text(bind: Bind) -> &'static str {
    match bind {
        Bind::False => "FALSE",
        Bind::True => "TRUE",
        Bind::Primary => "PRIMARY",
        Bind::Close => "CLOSE",
        Bind::Spread => "SPREAD",
    }
}

/// The runtime decides by the situation unless told otherwise; OpenMP's word for that is PASSIVE.
fn wait_text(waiting: Waiting) -> &'static str {
    match waiting {
        Waiting::Active => "ACTIVE",
        _ => "PASSIVE",
    }
}

fn offload_text(offload: Offload) -> &'static str {
    match offload {
        Offload::Default => "DEFAULT",
        Offload::Mandatory => "MANDATORY",
        Offload::Disabled => "DISABLED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(format: &str) -> String {
        expand(format, |field| match field {
            'L' => "12".to_owned(),
            'a' => "-1".to_owned(),
            'H' => "host".to_owned(),
            other => format!("<{other}>"),
        })
    }

    #[test]
    fn fields_are_padded_as_the_format_says() {
        assert_eq!(shown("%L|%5L|%.5L|%0.5L|%{nesting_level}|%%"), "12|12   |   12|00012|12|%");
        assert_eq!(shown("%0.7a|%.6H|%6H|"), "-000001|  host|host  |");
        assert_eq!(shown("%{nonsense} %x"), "<?> <x>");
    }

    #[test]
    fn a_format_that_ends_in_the_middle_of_a_field_is_cut() {
        assert_eq!(shown("a%"), "a");
        assert_eq!(shown("a%0.3"), "a");
        assert_eq!(shown("a%{host"), "ahost");
    }

    #[test]
    fn places_are_shown_as_the_variable_takes_them() {
        assert_eq!(place_text("0"), "{0}");
        assert_eq!(place_text("0-3,6,8-9"), "{0:4,6,8:2}");
    }

    #[test]
    fn schedules_are_shown_as_they_are_given() {
        assert_eq!(schedule_text(&Schedule::DEFAULT), "DYNAMIC");
        assert_eq!(
            schedule_text(&Schedule { kind: Kind::Guided, chunk: 7, monotonic: true }),
            "MONOTONIC:GUIDED,7"
        );
        assert_eq!(
            schedule_text(&Schedule { kind: Kind::Static, chunk: 0, monotonic: true }),
            "STATIC"
        );
    }
}
