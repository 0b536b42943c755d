//! The environment variables: read once, when the library is loaded. A wrong value brings a line on
//! stderr and the default.

use super::choice::{Adapt, Bind, DisplayEnv, Offload, Sizer};
use super::parse::{self, ParseError, boolean, limit, list, number, positive, stack};
use crate::schedule::{Kind, Schedule};
use engine::Waiting;

/// The values of all variables; `None` = not given (or wrong).
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    pub(crate) num_threads: Vec<u32>,
    pub(crate) schedule: Schedule,
    pub(crate) dynamic: Option<bool>,
    pub(crate) nested: Option<bool>,
    pub(crate) max_active_levels: Option<u32>,
    pub(crate) thread_limit: Option<u32>,
    pub(crate) stack_size: Option<usize>,
    pub(crate) wait_policy: Waiting,
    pub(crate) proc_bind: Vec<Bind>,
    pub(crate) places: Option<String>,
    pub(crate) cpu_affinity: Option<String>,
    pub(crate) cancellation: bool,
    pub(crate) display_env: DisplayEnv,
    pub(crate) display_affinity: bool,
    pub(crate) affinity_format: Option<String>,
    pub(crate) max_task_priority: u32,
    pub(crate) default_device: u32,
    pub(crate) num_teams: u32,
    pub(crate) teams_thread_limit: u32,
    pub(crate) allocator: usize,
    pub(crate) target_offload: Offload,
    pub(crate) spin_count: Option<u64>,
    pub(crate) adapt: Adapt,
    pub(crate) sizer: Sizer,
    /// Of a program that finds out by itself how many threads it can run.
    pub(crate) asat: asat::Settings,
    /// Of page migration.
    pub(crate) upm: upm::Settings,
}

/// Names of the predefined allocators, from number 1 on.
pub(crate) const ALLOCATORS: [&str; 8] = [
    "omp_default_mem_alloc",
    "omp_large_cap_mem_alloc",
    "omp_const_mem_alloc",
    "omp_high_bw_mem_alloc",
    "omp_low_lat_mem_alloc",
    "omp_cgroup_mem_alloc",
    "omp_pteam_mem_alloc",
    "omp_thread_mem_alloc",
];

/// Reads variables and collects the complaints.
struct Reader<'a> {
    get: &'a dyn Fn(&str) -> Option<String>,
    complaints: Vec<String>,
}

impl Reader<'_> {
    /// The parsed value of `name`; `None` when it is not set or wrong.
    fn read<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, ParseError>,
    ) -> Option<T> {
        let text = (self.get)(name)?;
        match parse(text.trim()) {
            Ok(value) => Some(value),
            Err(ParseError { wanted }) => {
                self.complaints.push(format!(
                    "Invalid value for environment variable {name}: \"{}\" (must be {wanted}); it \
                     is ignored",
                    text.escape_default()
                ));
                None
            }
        }
    }
}

impl Environment {
    /// Reads the variables through `get`. The second value: one line for each wrong one.
    pub(crate) fn read(get: &dyn Fn(&str) -> Option<String>) -> (Self, Vec<String>) {
        let mut reader = Reader { get, complaints: Vec::new() };
        let r = &mut reader;
        let stack_size = r.read("OMP_STACKSIZE", stack).or_else(|| r.read("GOMP_STACKSIZE", stack));
        let places = r.read("OMP_PLACES", parse::places);
        let (asat, complaints) = asat::Settings::from_environment(get);
        r.complaints.extend(complaints);
        let (upm, complaints) = upm::Settings::from_environment(get);
        r.complaints.extend(complaints);
        let cpu_affinity = r.read("GOMP_CPU_AFFINITY", parse::cpu_affinity);
        let environment = Self {
            num_threads: r
                .read("OMP_NUM_THREADS", |text| {
                    list(text, positive, "a comma-separated list of positive integers")
                })
                .unwrap_or_default(),
            schedule: r.read("OMP_SCHEDULE", schedule).unwrap_or(Schedule::DEFAULT),
            dynamic: r.read("OMP_DYNAMIC", boolean),
            nested: r.read("OMP_NESTED", boolean),
            max_active_levels: r.read("OMP_MAX_ACTIVE_LEVELS", |text| limit(text, number)),
            thread_limit: r.read("OMP_THREAD_LIMIT", |text| limit(text, positive)),
            stack_size,
            wait_policy: r.read("OMP_WAIT_POLICY", wait_policy).unwrap_or(Waiting::Hot),
            proc_bind: r.read("OMP_PROC_BIND", proc_bind).unwrap_or_default(),
            places,
            cpu_affinity,
            cancellation: r.read("OMP_CANCELLATION", boolean).unwrap_or(false),
            display_env: r.read("OMP_DISPLAY_ENV", display_env).unwrap_or(DisplayEnv::No),
            display_affinity: r.read("OMP_DISPLAY_AFFINITY", boolean).unwrap_or(false),
            // Blanks at its ends are shown as well.
            affinity_format: (r.get)("OMP_AFFINITY_FORMAT"),
            max_task_priority: r.read("OMP_MAX_TASK_PRIORITY", number).unwrap_or(0),
            default_device: r.read("OMP_DEFAULT_DEVICE", number).unwrap_or(0),
            num_teams: r.read("OMP_NUM_TEAMS", positive).unwrap_or(0),
            teams_thread_limit: r
                .read("OMP_TEAMS_THREAD_LIMIT", |text| limit(text, positive))
                .unwrap_or(0),
            allocator: r.read("OMP_ALLOCATOR", allocator).unwrap_or(1),
            target_offload: r.read("OMP_TARGET_OFFLOAD", offload).unwrap_or(Offload::Default),
            spin_count: r.read("GOMP_SPINCOUNT", parse::spin_count),
            adapt: r.read("NANOS_ADAPT", adapt).unwrap_or(Adapt::Default),
            sizer: r.read("NANOS_SIZER", sizer).unwrap_or(Sizer::Auto),
            asat,
            upm,
        };
        (environment, reader.complaints)
    }

    /// True when a manager is looked for.
    pub(crate) fn follows_manager(&self) -> bool {
        self.adapt != Adapt::Off && matches!(self.sizer, Sizer::Auto | Sizer::Manager)
    }

    /// True when the program finds out by itself how many threads it can run, where no manager is
    /// followed. By default it does: alone it costs nothing, and beside other programs it is faster
    /// than a thread for each processor (docs/asat.md). A number of threads that the user names is
    /// exact, unless they say `OMP_DYNAMIC=true` as well.
    pub(crate) fn follows_itself(&self) -> bool {
        self.adapt != Adapt::Off
            && match self.sizer {
                Sizer::Auto => self.dynamic.unwrap_or(self.num_threads.is_empty()),
                Sizer::Asat => self.dynamic != Some(false),
                Sizer::Manager | Sizer::Fixed => false,
            }
    }

    /// True when threads are to be bound to processors.
    pub(crate) fn binds(&self) -> bool {
        match self.proc_bind.first() {
            Some(bind) => *bind != Bind::False,
            None => self.places.is_some() || self.cpu_affinity.is_some(),
        }
    }
}

fn schedule(text: &str) -> Result<Schedule, ParseError> {
    let error = ParseError {
        wanted: "[monotonic:|nonmonotonic:]static|dynamic|guided|auto[,chunk] with a chunk of at \
                 least 0",
    };
    let (modifier, rest) = match text.split_once(':') {
        Some((modifier, rest)) => (Some(modifier.trim().to_ascii_lowercase()), rest),
        None => (None, text),
    };
    let (kind, chunk) = match rest.split_once(',') {
        Some((kind, chunk)) => (kind, Some(chunk.trim())),
        None => (rest, None),
    };
    let kind = match kind.trim().to_ascii_lowercase().as_str() {
        "static" => Kind::Static,
        "dynamic" => Kind::Dynamic,
        "guided" => Kind::Guided,
        "auto" => Kind::Auto,
        _ => return Err(error),
    };
    let monotonic = match modifier.as_deref() {
        None => kind == Kind::Static,
        Some("monotonic") => true,
        Some("nonmonotonic") => false,
        Some(_) => return Err(error),
    };
    let chunk = match chunk {
        None => None,
        // The chunk is an `int` for `omp_get_schedule`.
        Some(chunk) => {
            Some(chunk.parse::<u32>().ok().filter(|c| *c <= i32::MAX as u32).ok_or(error)?)
        }
    };
    let chunk = match (kind, chunk) {
        (Kind::Static | Kind::Auto, chunk) => chunk.unwrap_or(0),
        (_, chunk) => chunk.unwrap_or(1).max(1),
    };
    Ok(Schedule { kind, chunk: u64::from(chunk), monotonic })
}

fn wait_policy(text: &str) -> Result<Waiting, ParseError> {
    match text.to_ascii_lowercase().as_str() {
        "active" => Ok(Waiting::Active),
        "passive" => Ok(Waiting::Passive),
        _ => Err(ParseError { wanted: "ACTIVE or PASSIVE" }),
    }
}

fn proc_bind(text: &str) -> Result<Vec<Bind>, ParseError> {
    const WANTED: &str = "TRUE, FALSE, or a comma-separated list of PRIMARY, MASTER, CLOSE, SPREAD";
    match boolean(text) {
        Ok(true) => return Ok(vec![Bind::True]),
        Ok(false) => return Ok(vec![Bind::False]),
        Err(_) => {}
    }
    let one = |text: &str| match text.to_ascii_lowercase().as_str() {
        "primary" | "master" => Ok(Bind::Primary),
        "close" => Ok(Bind::Close),
        "spread" => Ok(Bind::Spread),
        _ => Err(ParseError { wanted: WANTED }),
    };
    list(text, one, WANTED)
}

fn display_env(text: &str) -> Result<DisplayEnv, ParseError> {
    if text.eq_ignore_ascii_case("verbose") {
        return Ok(DisplayEnv::Verbose);
    }
    match boolean(text) {
        Ok(true) => Ok(DisplayEnv::Yes),
        Ok(false) => Ok(DisplayEnv::No),
        Err(_) => Err(ParseError { wanted: "TRUE, FALSE or VERBOSE" }),
    }
}

fn allocator(text: &str) -> Result<usize, ParseError> {
    // Memory spaces name the allocator of default traits in them, which here is the predefined one.
    let text = text.to_ascii_lowercase();
    let name = text
        .strip_suffix("_mem_space")
        .map_or_else(|| text.clone(), |stem| format!("{stem}_mem_alloc"));
    let number = ALLOCATORS.iter().zip(1..).find(|(known, _)| **known == name);
    number
        .map(|(_, number)| number)
        .ok_or(ParseError { wanted: "a predefined allocator, such as omp_default_mem_alloc" })
}

fn offload(text: &str) -> Result<Offload, ParseError> {
    match text.to_ascii_lowercase().as_str() {
        "default" => Ok(Offload::Default),
        "mandatory" => Ok(Offload::Mandatory),
        "disabled" => Ok(Offload::Disabled),
        _ => Err(ParseError { wanted: "DEFAULT, MANDATORY or DISABLED" }),
    }
}

fn adapt(text: &str) -> Result<Adapt, ParseError> {
    match text.to_ascii_lowercase().as_str() {
        "off" => Ok(Adapt::Off),
        "default" => Ok(Adapt::Default),
        "all" => Ok(Adapt::All),
        _ => Err(ParseError { wanted: "off, default or all" }),
    }
}

fn sizer(text: &str) -> Result<Sizer, ParseError> {
    match text.to_ascii_lowercase().as_str() {
        "auto" => Ok(Sizer::Auto),
        "manager" => Ok(Sizer::Manager),
        "asat" => Ok(Sizer::Asat),
        "fixed" => Ok(Sizer::Fixed),
        _ => Err(ParseError { wanted: "auto, manager, asat or fixed" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> (Environment, Vec<String>) {
        Environment::read(&|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn an_empty_environment_gives_the_defaults_and_no_complaint() {
        let (environment, complaints) = read(&[]);
        assert!(complaints.is_empty());
        assert!(environment.num_threads.is_empty());
        assert_eq!(environment.schedule, Schedule::DEFAULT);
        assert_eq!(environment.dynamic, None);
        assert_eq!(environment.adapt, Adapt::Default);
        assert!(!environment.binds());
    }

    #[test]
    fn values_are_read_in_any_case_and_with_spaces() {
        let (environment, complaints) = read(&[
            ("OMP_NUM_THREADS", " 4 , 3,2 "),
            ("OMP_SCHEDULE", " Monotonic : GUIDED , 7 "),
            ("OMP_DYNAMIC", "True"),
            ("OMP_STACKSIZE", " 2 M "),
            ("OMP_WAIT_POLICY", "ACTIVE"),
            ("OMP_PROC_BIND", "spread,Close, master"),
            ("OMP_CANCELLATION", "TRUE"),
            ("NANOS_ADAPT", "OFF"),
            ("OMP_ALLOCATOR", "OMP_HIGH_BW_MEM_ALLOC"),
        ]);
        assert_eq!(complaints, Vec::<String>::new());
        assert_eq!(environment.num_threads, [4, 3, 2]);
        assert_eq!(
            environment.schedule,
            Schedule { kind: Kind::Guided, chunk: 7, monotonic: true }
        );
        assert_eq!(environment.dynamic, Some(true));
        assert_eq!(environment.stack_size, Some(2 << 20));
        assert_eq!(environment.wait_policy, Waiting::Active);
        assert_eq!(environment.proc_bind, [Bind::Spread, Bind::Close, Bind::Primary]);
        assert!(environment.binds());
        assert!(environment.cancellation);
        assert_eq!(environment.adapt, Adapt::Off);
        assert_eq!(environment.allocator, 4);
    }

    #[test]
    fn each_wrong_value_brings_one_line_that_names_it_and_the_default() {
        for (name, value) in [
            ("OMP_NUM_THREADS", "garbage"),
            ("OMP_NUM_THREADS", "0"),
            ("OMP_NUM_THREADS", ""),
            ("OMP_NUM_THREADS", "4,,2"),
            ("OMP_NUM_THREADS", "99999999999999999999"),
            ("OMP_SCHEDULE", "dynamic,-1"),
            ("OMP_SCHEDULE", "sometimes:static"),
            ("OMP_DYNAMIC", "2"),
            ("OMP_NESTED", "maybe"),
            ("OMP_STACKSIZE", "12q"),
            ("OMP_STACKSIZE", "0"),
            ("OMP_STACKSIZE", "16383B"),
            ("GOMP_STACKSIZE", "15"),
            ("OMP_STACKSIZE", "99999999999999999999G"),
            ("OMP_WAIT_POLICY", "lazy"),
            ("OMP_PROC_BIND", "true,close"),
            ("OMP_THREAD_LIMIT", "0"),
            ("OMP_MAX_ACTIVE_LEVELS", "-1"),
            ("OMP_CANCELLATION", ""),
            ("OMP_DISPLAY_ENV", "5"),
            ("OMP_PLACES", "{0,1"),
            ("GOMP_CPU_AFFINITY", "q"),
            ("GOMP_CPU_AFFINITY", "5-2"),
            ("GOMP_CPU_AFFINITY", "0-1:0"),
            ("GOMP_CPU_AFFINITY", "0,,1"),
            ("GOMP_CPU_AFFINITY", "0,"),
            ("GOMP_SPINCOUNT", "5x"),
            ("NANOS_ADAPT", "perhaps"),
            ("NANOS_SIZER", "cpumgr"),
            ("ASAT_MAX", "0"),
            ("UPM_PLACEMENT", "anywhere"),
        ] {
            let (environment, complaints) = read(&[(name, value)]);
            assert_eq!(complaints.len(), 1, "{name}={value}");
            let line = &complaints[0];
            assert!(line.contains(name) && line.contains(&format!("\"{value}\"")), "{line}");
            assert!(environment.num_threads.is_empty());
            assert_eq!(environment.schedule, Schedule::DEFAULT);
        }
    }

    #[test]
    fn what_teams_follow_is_said_by_four_variables() {
        // Sizer, which teams adapt, dyn-var, number of threads: whether a manager is looked for,
        // and whether the program finds out by itself where there is none.
        for (sizer, adapt, dynamic, number, expected) in [
            ("", "", "", "", (true, true)),
            ("", "", "", "4", (true, false)),
            ("", "", "true", "4", (true, true)),
            ("auto", "default", "", "", (true, true)),
            ("auto", "default", "true", "", (true, true)),
            ("auto", "default", "false", "", (true, false)),
            ("manager", "default", "true", "", (true, false)),
            ("asat", "default", "", "", (false, true)),
            ("asat", "default", "", "4", (false, true)),
            ("asat", "all", "true", "", (false, true)),
            ("asat", "default", "false", "", (false, false)),
            ("fixed", "default", "true", "", (false, false)),
            ("asat", "off", "true", "", (false, false)),
            ("auto", "off", "true", "", (false, false)),
        ] {
            let all = [
                ("NANOS_SIZER", sizer),
                ("NANOS_ADAPT", adapt),
                ("OMP_DYNAMIC", dynamic),
                ("OMP_NUM_THREADS", number),
            ];
            let given: Vec<_> = all.into_iter().filter(|(_, value)| !value.is_empty()).collect();
            let (environment, complaints) = read(&given);
            assert_eq!(complaints, Vec::<String>::new());
            let found = (environment.follows_manager(), environment.follows_itself());
            assert_eq!(found, expected, "{given:?}");
        }
    }

    #[test]
    fn a_format_keeps_its_blanks_and_a_list_may_have_some_around_its_commas() {
        let (environment, complaints) =
            read(&[("OMP_AFFINITY_FORMAT", " %n "), ("GOMP_CPU_AFFINITY", "0 , 1  3-4, 5-9:2")]);
        assert_eq!(complaints, Vec::<String>::new());
        assert_eq!(environment.affinity_format.as_deref(), Some(" %n "));
        assert!(environment.cpu_affinity.is_some());
    }

    #[test]
    fn limits_larger_than_an_int_limit_nothing() {
        let all = ["OMP_MAX_ACTIVE_LEVELS", "OMP_THREAD_LIMIT", "OMP_TEAMS_THREAD_LIMIT"];
        let (environment, complaints) = read(&all.map(|name| (name, "4294967296")));
        assert_eq!(complaints, Vec::<String>::new());
        let largest = i32::MAX.cast_unsigned();
        assert_eq!(
            (environment.max_active_levels, environment.thread_limit),
            (Some(largest), Some(largest))
        );
        assert_eq!(environment.teams_thread_limit, largest);
        for wrong in ["4294967296x", "-4294967296", "0000000000"] {
            assert_eq!(read(&[("OMP_THREAD_LIMIT", wrong)]).1.len(), 1, "{wrong}");
        }
    }

    #[test]
    fn a_schedule_without_a_chunk_gets_the_default_of_its_kind() {
        let read_schedule = |text| read(&[("OMP_SCHEDULE", text)]).0.schedule;
        assert_eq!(
            read_schedule("static"),
            Schedule { kind: Kind::Static, chunk: 0, monotonic: true }
        );
        assert_eq!(read_schedule("dynamic"), Schedule::DEFAULT);
        assert_eq!(read_schedule("guided,0"), Schedule::new(Kind::Guided, 1));
        assert_eq!(read_schedule("auto"), Schedule::new(Kind::Auto, 0));
    }
}
