//! C programs, compiled by gcc against its own OpenMP, run on the drop-in library; and what that
//! library exports.
//!
//! The library is made by `cargo xtask shim`. Where it, gcc or nm is missing, the tests say so and
//! end.

#![expect(
    clippy::unwrap_used,
    reason = "a step of a test that fails is a failed test, in the helpers, too"
)]

mod drop_in;

use drop_in::{clean, compile, exists, finish, fresh, must_be_ok, must_succeed, shim, sources};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs test program `name` with these variables.
fn run(name: &str, variables: &[(&str, &str)]) {
    let Some(shim) = shim() else { return };
    // Bodies may end with jumps, as in programs that are compiled for speed.
    let program = compile(name, &["-lpthread", "-foptimize-sibling-calls"]);
    let mut command = clean(&program, Some(&shim));
    command.envs(variables.iter().copied());
    must_be_ok(command);
    std::fs::remove_file(program).unwrap();
}

#[test]
fn regions_have_the_size_and_the_threads_that_they_ask_for() {
    run("regions", &[]);
}

#[test]
fn regions_behave_the_same_bound_and_waiting_actively_or_passively() {
    run("regions", &[("OMP_PROC_BIND", "true")]);
    run("regions", &[("OMP_WAIT_POLICY", "active"), ("OMP_NUM_THREADS", "1")]);
    run("regions", &[("OMP_WAIT_POLICY", "passive"), ("OMP_NUM_THREADS", "64")]);
}

#[test]
fn the_smallest_stacks_are_enough_and_thousands_of_regions_fit_into_each_other() {
    run("stacks", &[("OMP_STACKSIZE", "16K")]);
    run(
        "stacks",
        &[("OMP_STACKSIZE", "16K"), ("OMP_WAIT_POLICY", "passive"), ("OMP_PROC_BIND", "true")],
    );
}

#[test]
fn a_task_at_the_very_start_of_a_part_finds_the_others_at_theirs() {
    run("early_task", &[]);
    run("early_task", &[("OMP_WAIT_POLICY", "active")]);
}

#[test]
fn a_threads_errno_is_the_same_behind_every_construct() {
    run("errno", &[]);
    run("errno", &[("OMP_WAIT_POLICY", "active"), ("OMP_PROC_BIND", "true")]);
    run("errno", &[("OMP_WAIT_POLICY", "passive"), ("OMP_NUM_THREADS", "64")]);
}

#[test]
fn two_threads_on_one_processor_take_no_more_turns_than_their_barriers_need() {
    run("turns", &[]);
    run("turns", &[("OMP_WAIT_POLICY", "active")]);
}

#[test]
fn two_threads_on_one_processor_wait_for_each_other_in_any_way_and_share_no_state() {
    run("one_processor", &[]);
    run("one_processor", &[("OMP_WAIT_POLICY", "active")]);
    run("one_processor", &[("OMP_WAIT_POLICY", "passive")]);
    run("one_processor", &[("OMP_PROC_BIND", "true"), ("OMP_CANCELLATION", "true")]);
}

#[test]
fn a_barrier_at_the_end_of_a_region_is_met_by_those_who_wait_elsewhere_and_ends_its_tasks() {
    run("tails", &[]);
    run("tails", &[("TAILS_TAKE_TURNS", "1")]);
    run("tails", &[("TAILS_TAKE_TURNS", "1"), ("OMP_CANCELLATION", "true")]);
    run("tails", &[("OMP_WAIT_POLICY", "passive"), ("OMP_CANCELLATION", "true")]);
    run("tails", &[("OMP_WAIT_POLICY", "active"), ("OMP_PROC_BIND", "true")]);
}

#[test]
fn loops_run_each_iteration_once() {
    run("loops", &[]);
}

#[test]
fn synchronisation_excludes_elects_separates_and_adds_up() {
    run("synchronisation", &[]);
}

#[test]
fn tasks_run_once_and_in_the_order_of_their_dependences() {
    run("tasks", &[]);
}

#[test]
fn who_waits_for_tasks_that_helpers_run_is_told_in_time() {
    run("helpers", &[]);
    run("helpers", &[("OMP_WAIT_POLICY", "passive")]);
}

#[test]
fn who_is_done_comes_back_for_the_first_task_of_a_body_that_had_none() {
    run("surprises", &[]);
    run("surprises", &[("OMP_WAIT_POLICY", "passive")]);
    run("surprises", &[("OMP_WAIT_POLICY", "active"), ("OMP_PROC_BIND", "true")]);
}

#[test]
fn tasks_run_in_the_order_of_their_priorities() {
    run("priorities", &[("OMP_MAX_TASK_PRIORITY", "5")]);
}

#[test]
fn a_sleeping_thread_is_woken_for_every_task() {
    run("asleep", &[]);
    run("asleep", &[("OMP_WAIT_POLICY", "passive")]);
}

#[test]
fn cancelled_constructs_end_early_and_the_next_ones_are_whole() {
    run("cancellation", &[("OMP_CANCELLATION", "true")]);
}

#[test]
fn who_sleeps_at_a_barrier_is_woken_by_cancel_parallel() {
    let Some(shim) = shim() else { return };
    let program = compile("cancelled_asleep", &[]);
    // An active thread would not sleep.
    for policy in [None, Some("passive")] {
        let mut command = clean(&program, Some(&shim));
        command
            .env("OMP_CANCELLATION", "true")
            .envs(policy.map(|policy| ("OMP_WAIT_POLICY", policy)));
        let output = finish(command);
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if output.status.code() == Some(3) {
            platform::skip!("this kernel does not say in which call a thread sleeps");
            break;
        }
        assert!(
            output.status.success() && out == "ok\n" && err.is_empty(),
            "{policy:?}: {}\n{out}{err}",
            output.status
        );
    }
    std::fs::remove_file(program).unwrap();
}

#[test]
fn a_master_that_is_cancelled_leaves_no_region_amid_what_it_does() {
    run("cancelled", &[]);
    run("cancelled", &[("OMP_WAIT_POLICY", "passive"), ("OMP_NUM_THREADS", "3")]);
}

#[test]
fn threads_of_the_program_are_masters_of_their_own_teams() {
    run("foreign", &[]);
}

#[test]
fn a_forked_child_has_regions_of_its_own() {
    run("forked", &[]);
}

#[test]
fn programs_of_old_compilers_run() {
    run("old", &[]);
}

#[test]
fn allocators_leagues_and_target_regions_work_on_the_host() {
    run("memory", &[]);
}

#[test]
fn a_library_with_openmp_can_be_loaded_late_and_unloaded() {
    let Some(shim) = shim() else { return };
    let plugin = compile("plugin", &["-shared", "-fPIC"]);
    let program = fresh("late");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-Wall", "-Wextra"])
        .arg(sources().join("late.c"))
        .arg("-o")
        .arg(&program)
        .args(["-ldl", "-lpthread"]);
    must_succeed(&mut gcc);
    let mut command = clean(&program, Some(&shim));
    command.arg(&plugin);
    must_be_ok(command);
    std::fs::remove_file(program).unwrap();
    std::fs::remove_file(plugin).unwrap();
}

#[test]
fn a_program_whose_library_alone_has_openmp_runs_behind_the_c_library() {
    let Some(shim) = shim() else { return };
    let plugin = compile("plugin", &["-shared", "-fPIC"]);
    let program = fresh("by_library");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-Wall", "-Wextra"])
        .arg(sources().join("by_library.c"))
        .arg(&plugin)
        .arg("-o")
        .arg(&program);
    must_succeed(gcc.arg("-ldl"));
    must_be_ok(clean(&program, Some(&shim)));
    std::fs::remove_file(program).unwrap();
    std::fs::remove_file(plugin).unwrap();
}

/// The sanitizers' libraries know threads by the call that makes them: theirs, whether it is in a
/// library or in the program.
#[test]
fn programs_that_are_built_with_a_sanitizer_run() {
    let Some(shim) = shim() else { return };
    let builds: [(&str, &[&str]); 8] = [
        ("gcc", &["-fsanitize=thread"]),
        ("gcc", &["-fsanitize=thread", "-static-libtsan"]),
        ("gcc", &["-fsanitize=leak"]),
        ("gcc", &["-fsanitize=address"]),
        ("gcc", &["-fsanitize=address", "-static-libasan"]),
        ("clang-19", &["-fsanitize=thread"]),
        ("clang-19", &["-fsanitize=leak"]),
        ("clang-19", &["-fsanitize=address"]),
    ];
    for (compiler, options) in builds {
        let program = fresh("sanitized");
        // Clang's calls of its own OpenMP library would be others.
        let openmp = if compiler == "gcc" { "-fopenmp" } else { "-fopenmp=libgomp" };
        let mut build = Command::new(compiler);
        build
            .arg("-O1")
            .arg(openmp)
            .args(options)
            .arg(sources().join("sanitized.c"))
            .arg("-o")
            .arg(&program);
        if !build.stdin(Stdio::null()).output().is_ok_and(|output| output.status.success()) {
            println!("skipped: {compiler} {} does not link here", options.join(" "));
            continue;
        }
        // Without our library it says why such a program cannot run on this machine at all.
        // What ThreadSanitizer reports of the original is another matter.
        let mut original = clean(&program, None);
        original.env("TSAN_OPTIONS", "exitcode=0");
        let original = finish(original);
        if !original.status.success() {
            println!("skipped: {compiler} {} does not run here", options.join(" "));
        } else {
            let mut run = clean(&program, Some(&shim));
            // The library finds ThreadSanitizer where the program shows it (its own library does):
            // else it reports what uninstrumented code does.
            if options != ["-fsanitize=thread"] || compiler != "gcc" {
                run.env("TSAN_OPTIONS", "ignore_noninstrumented_modules=1");
            }
            must_be_ok(run);
        }
        std::fs::remove_file(program).unwrap();
    }
}

/// The library's thread-local data stands in the loader's reserve for libraries that come late
/// (1664 bytes unless `GLIBC_TUNABLES` says otherwise), as the original's does, which takes 136
/// bytes of it.
#[test]
fn the_library_can_be_loaded_late_while_192_bytes_of_the_loaders_reserve_are_left() {
    let Some(shim) = shim() else { return };
    let (plugin, data) = (
        compile("plugin", &["-shared", "-fPIC"]),
        compile("thread_data", &["-shared", "-fPIC", "-fno-openmp"]),
    );
    let program = compile("reserve", &["-fno-openmp", "-ldl"]);
    let copies: Vec<PathBuf> = (0..60).map(|_| fresh("thread_data")).collect();
    for copy in &copies {
        std::fs::copy(&data, copy).unwrap();
    }
    for (left, expected) in [("3", "ok\n"), ("0", "no room\n")] {
        let mut command = clean(&program, Some(&shim));
        command.args([left.as_ref(), plugin.as_os_str()]).args(&copies);
        let output = finish(command);
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if output.status.code() == Some(3) {
            platform::skip!("this loader's reserve is not what is tested ({out})");
            break;
        }
        assert!(
            output.status.success() && out == expected,
            "{left} pieces left: {}\n{out}{err}",
            output.status
        );
    }
    for file in copies.iter().chain([&plugin, &data, &program]) {
        std::fs::remove_file(file).unwrap();
    }
}

/// A directory with a copy of the drop-in library.
fn copy_of(shim: &Path, name: &str) -> PathBuf {
    let folder = fresh(name);
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(shim.join("libgomp.so.1"), folder.join("libgomp.so.1")).unwrap();
    folder
}

#[test]
fn the_library_under_two_paths_has_one_pool_of_threads() {
    let Some(shim) = shim() else { return };
    let program = fresh("copies");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-Wall", "-Wextra"]).arg(sources().join("copies.c")).arg("-o").arg(&program);
    must_succeed(gcc.args(["-ldl", "-lpthread"]));
    let folders = [copy_of(&shim, "first"), copy_of(&shim, "second")];
    let mut command = clean(&program, None);
    command.args(folders.iter().map(|folder| folder.join("libgomp.so.1")));
    must_be_ok(command);
    for folder in folders {
        std::fs::remove_dir_all(folder).unwrap();
    }
    std::fs::remove_file(program).unwrap();
}

#[test]
fn a_plugin_on_the_drop_in_library_uses_the_threads_of_the_static_one() {
    let Some(shim) = shim() else { return };
    let plugin = compile("plugin", &["-shared", "-fPIC"]);
    let archive = shim.join("libnanos_omp.a");
    let archive = archive.to_str().unwrap();
    let program = compile("host", &[archive, "-lpthread", "-ldl", "-lm"]);
    let mut command = clean(&program, Some(&shim));
    command.arg(&plugin);
    must_be_ok(command);
    std::fs::remove_file(program).unwrap();
    std::fs::remove_file(plugin).unwrap();
}

#[test]
fn a_plugin_with_the_static_library_inside_can_be_loaded_late_and_unloaded() {
    let Some(shim) = shim() else { return };
    let archive = shim.join("libnanos_omp.a");
    // Its symbols must not be taken from elsewhere, nor given to others.
    let plugin = compile(
        "plugin",
        &["-shared", "-fPIC", archive.to_str().unwrap(), "-lm", "-Wl,--exclude-libs,ALL"],
    );
    let program = fresh("late-static");
    let mut gcc = Command::new("gcc");
    gcc.arg(sources().join("late.c")).arg("-o").arg(&program).args(["-ldl", "-lpthread"]);
    must_succeed(&mut gcc);
    let mut command = clean(&program, None);
    command.arg(&plugin);
    must_be_ok(command);
    std::fs::remove_file(program).unwrap();
    std::fs::remove_file(plugin).unwrap();
}

#[test]
fn beside_another_version_of_itself_the_library_runs_serially_and_says_so_once() {
    let Some(shim) = shim() else { return };
    let (program, other) = (compile("settings", &[]), compile("older", &["-shared", "-fPIC"]));
    let mut command = clean(&program, Some(&shim));
    command.env("OMP_NUM_THREADS", "3").env("LD_PRELOAD", &other);
    let output = finish(command);
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("threads=3 members=1 "), "{out}{err}");
    assert_eq!(
        err.lines().filter(|line| line.contains("another version of this library")).count(),
        1,
        "{err}"
    );
    std::fs::remove_file(program).unwrap();
    std::fs::remove_file(other).unwrap();
}

/// What `cpumgr run --preload` makes of a shell script: each of its commands loads the library,
/// needed or not.
#[test]
fn who_inherits_the_preload_and_needs_none_of_it_is_what_it_was() {
    let Some(shim) = shim() else { return };
    // Of the last command: its threads, its descriptors, where it may run, and what it is blocked
    // from.
    let state = "grep -E '^(Threads|Cpus_allowed_list|Sig(Blk|Ign|Cgt)|Seccomp):' /proc/self/status; ls /proc/self/fd; exit 7";
    let run = |preload: Option<&Path>, script: &str| {
        let mut command = clean("sh", None);
        // A manager to look for: whoever used the library would say that there is none.
        command.args(["-c", script]).env("NANOS_CPUMGR", fresh("no-manager"));
        command.envs(preload.map(|library| ("LD_PRELOAD", library)));
        finish(command)
    };
    let library = shim.join("libgomp.so.1");
    let maps = run(Some(&library), "cat /proc/self/maps | grep libgomp; true");
    assert!(!maps.stdout.is_empty(), "the children load it");
    let (without, with) = (run(None, state), run(Some(&library), state));
    assert!(String::from_utf8_lossy(&with.stdout).contains("Threads:\t1\n"), "{with:?}");
    assert_eq!(with, without);
}

#[test]
fn a_program_ends_well_while_threads_wait() {
    for way in [
        "return",
        "exit",
        "_exit",
        "thread",
        "region",
        "main leaves",
        "main leaves last",
        "main leaves unseen",
    ] {
        let Some(shim) = shim() else { return };
        let program = compile("ending", &["-lpthread"]);
        let mut command = clean(&program, Some(&shim));
        command.arg(way);
        must_be_ok(command);
        std::fs::remove_file(program).unwrap();
    }
}

#[test]
fn programs_that_a_region_starts_have_the_original_mask_and_the_region_goes_on() {
    run("spawned", &[]);
}

#[test]
fn many_threads_that_come_and_go_leave_no_memory_and_no_threads_behind() {
    run("many", &[]);
}

/// What the program `settings` prints on stdout and stderr under these variables.
fn settings(program: &Path, shim: &Path, variables: &[(&str, &str)]) -> (String, String) {
    let mut command = clean(program, Some(shim));
    command.envs(variables.iter().copied());
    let output = finish(command);
    assert!(output.status.success(), "{variables:?}: {}", output.status);
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn the_environment_sets_the_control_variables() {
    let Some(shim) = shim() else { return };
    let program = compile("settings", &[]);
    for (variables, expected) in [
        (&[("OMP_NUM_THREADS", "3")][..], "threads=3 members=3 dynamic=0"),
        (&[("OMP_NUM_THREADS", "3,2")], "levels=255"),
        (&[("OMP_NUM_THREADS", "8"), ("OMP_THREAD_LIMIT", "3")], "threads=8 members=3"),
        (&[("OMP_SCHEDULE", "guided,4")], "schedule=3,4"),
        (&[("OMP_SCHEDULE", "static")], "schedule=80000001,0"),
        (&[("OMP_NESTED", "true")], "levels=255"),
        (&[("OMP_MAX_ACTIVE_LEVELS", "7")], "levels=7"),
        (&[("OMP_CANCELLATION", "true")], "cancel=1"),
        (&[("OMP_DYNAMIC", "true")], "dynamic=1"),
        (&[("OMP_PROC_BIND", "spread")], "bind=4"),
    ] {
        let (out, err) = settings(&program, &shim, variables);
        assert!(out.contains(expected) && err.is_empty(), "{variables:?}: {out}{err}");
    }
    std::fs::remove_file(program).unwrap();
}

#[test]
fn wrong_variables_are_named_and_the_program_runs_with_the_default() {
    let Some(shim) = shim() else { return };
    let program = compile("settings", &[]);
    let (default, quiet) = settings(&program, &shim, &[]);
    assert_eq!(quiet, "");
    for (name, value) in [
        ("OMP_NUM_THREADS", "garbage"),
        ("OMP_NUM_THREADS", "0"),
        ("OMP_NUM_THREADS", "99999999999"),
        ("OMP_MAX_TASK_PRIORITY", "2147483648"),
        ("OMP_DEFAULT_DEVICE", "-1"),
        ("OMP_SCHEDULE", "sometimes"),
        ("OMP_STACKSIZE", "12q"),
        ("OMP_PROC_BIND", "glue"),
        ("NANOS_ADAPT", "perhaps"),
    ] {
        let (out, err) = settings(&program, &shim, &[(name, value)]);
        assert_eq!(out, default, "{name}={value}");
        assert!(
            err.contains("libgomp: ") && err.contains(name) && err.contains(value),
            "{name}={value}: {err}"
        );
    }
    std::fs::remove_file(program).unwrap();
}

#[test]
fn a_team_that_cannot_be_had_runs_with_what_there_is_and_says_so() {
    let Some(shim) = shim() else { return };
    let program = compile("settings", &[]);
    let (out, err) =
        settings(&program, &shim, &[("OMP_NUM_THREADS", "1000000"), ("OMP_STACKSIZE", "64k")]);
    assert!(
        out.starts_with("threads=1000000 members=") && !out.contains("members=1000000"),
        "{out}"
    );
    assert!(err.contains("a team of 1000000 threads was asked for and has "), "{err}");
    std::fs::remove_file(program).unwrap();
}

#[test]
fn display_env_shows_every_variable_when_the_library_is_loaded() {
    let Some(shim) = shim() else { return };
    let program = compile("settings", &[]);
    let (_, err) =
        settings(&program, &shim, &[("OMP_DISPLAY_ENV", "verbose"), ("OMP_NUM_THREADS", "3")]);
    for line in ["OMP_NUM_THREADS = '3'", "OMP_SCHEDULE = 'DYNAMIC'", "NANOS_ADAPT = 'default'"] {
        assert!(err.contains(line), "{line} is missing: {err}");
    }
    std::fs::remove_file(program).unwrap();
}

#[test]
fn explicit_places_keep_the_program_and_what_it_shows_of_the_machine() {
    let Some(shim) = shim() else { return };
    let program = compile("fenced", &[]);
    let mask = platform::affinity::affinity(None).unwrap();
    let (Some(first), count) = (mask.first(), mask.len()) else {
        panic!("a thread without processors")
    };
    let said = |variables: &[(&str, &str)]| {
        settings(&program, &shim, &[&[("OMP_NUM_THREADS", "2")], variables].concat())
    };
    let all = format!("procs={count} within={count}\n");
    assert_eq!(said(&[]).0, all);
    assert_eq!(said(&[("OMP_PLACES", "threads")]).0, all);
    let one = format!("procs={count} within=1\n");
    let place = format!("{{{first}}}");
    assert_eq!(said(&[("OMP_PLACES", &place)]), (one.clone(), String::new()));
    assert_eq!(said(&[("GOMP_CPU_AFFINITY", &first.to_string())]), (one, String::new()));
    // Unless the program is not to be bound.
    assert_eq!(said(&[("OMP_PLACES", &place), ("OMP_PROC_BIND", "false")]).0, all);
    std::fs::remove_file(program).unwrap();
}

#[test]
fn the_readme_lists_the_variables_that_display_env_shows() {
    let Some(shim) = shim() else { return };
    let program = compile("settings", &[]);
    let (_, err) = settings(&program, &shim, &[("OMP_DISPLAY_ENV", "verbose")]);
    let is_ours = |name: &&str| name.starts_with("NANOS_") || name.starts_with("GOMP_");
    let shown: std::collections::BTreeSet<&str> = err
        .lines()
        .filter_map(|line| line.trim().trim_start_matches("[host] ").split(" = ").next())
        .filter(is_ours)
        .collect();
    let readme = include_str!("../README.md");
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let listed = rows.filter(is_ours).collect();
    assert!(shown.len() > 3, "{err}");
    assert_eq!(shown, listed);
    std::fs::remove_file(program).unwrap();
}

/// Dynamic symbols with their versions, sorted; `@@` is the default version. Version nodes
/// themselves are left out.
fn exported(library: &Path) -> Vec<String> {
    let output =
        must_succeed(Command::new("nm").args(["--dynamic", "--defined-only"]).arg(library));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut names: Vec<String> = text
        .lines()
        .filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [_, "A", _] => None,
            [_, _, name] => Some(name.to_owned()),
            _ => None,
        })
        .collect();
    names.sort();
    names
}

/// Calls of the C library that the shared library stands in front of (`src/abi/front.rs`), in no
/// version node: else programs that ask for the C library's version would pass it by.
const IN_FRONT: [&str; 13] = [
    "execl",
    "execle",
    "execlp",
    "execv",
    "execve",
    "execvp",
    "execvpe",
    "fexecve",
    "popen",
    "posix_spawn",
    "posix_spawnp",
    "pthread_create",
    "system",
];

#[test]
fn the_shared_library_exports_exactly_the_golden_set() {
    let Some(shim) = shim() else { return };
    if !exists("nm") {
        return platform::skip!("no nm here");
    }
    let golden = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/libgomp.symbols"),
    )
    .unwrap();
    let expected: Vec<&str> = golden.lines().chain(IN_FRONT).collect();
    let found = exported(&shim.join("libgomp.so.1"));
    let missing: Vec<_> =
        expected.iter().filter(|name| !found.iter().any(|f| f == *name)).collect();
    let extra: Vec<_> = found.iter().filter(|name| !expected.contains(&name.as_str())).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "missing: {missing:?}; not in the golden file: {extra:?}"
    );
}

/// The instructions of function `name` in the library, as objdump shows them. By its addresses:
/// objdump knows only one name of a function that has several.
fn instructions(library: &Path, name: &str) -> String {
    let symbols = must_succeed(
        Command::new("nm").args(["--dynamic", "--defined-only", "--print-size"]).arg(library),
    );
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let place =
        symbols.lines().find_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [start, size, _, symbol] if symbol.split('@').next() == Some(name) => Some((
                u64::from_str_radix(start, 16).unwrap(),
                u64::from_str_radix(size, 16).unwrap(),
            )),
            _ => None,
        });
    let (start, size) = place.unwrap_or_else(|| panic!("{name} is not exported"));
    let range = [format!("--start-address={start}"), format!("--stop-address={}", start + size)];
    let output = must_succeed(
        Command::new("objdump").args(["-d", "--no-show-raw-insn"]).args(range).arg(library),
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn hot_calls_find_their_thread_without_a_call() {
    let Some(shim) = shim() else { return };
    if !exists("objdump") || !exists("nm") || !cfg!(target_arch = "x86_64") {
        return platform::skip!("no objdump here, or another kind of processor");
    }
    let library = shim.join("libgomp.so.1");
    for name in [
        "omp_get_thread_num",
        "omp_get_num_threads",
        "GOMP_loop_dynamic_next",
        "GOMP_loop_nonmonotonic_dynamic_next",
    ] {
        let text = instructions(&library, name);
        assert!(text.contains("%fs:"), "{name} reads no thread-local word:\n{text}");
        assert!(!text.contains("__tls_get_addr"), "{name} calls the loader for its word:\n{text}");
    }
}

#[test]
fn the_static_library_shows_openmp_names_only_and_links_beside_another_rust_library() {
    let Some(shim) = shim() else { return };
    if !exists("nm") || !exists("rustc") {
        return platform::skip!("no nm or no rustc here");
    }
    let archive = shim.join("libnanos_omp.a");
    let output =
        must_succeed(Command::new("nm").args(["--extern-only", "--defined-only"]).arg(&archive));
    let text = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert!(names.contains(&"GOMP_parallel") && names.contains(&"omp_set_lock_"), "{names:?}");
    let strangers: Vec<_> = names
        .iter()
        .filter(|name| !name.starts_with("omp_") && !name.starts_with("GOMP_"))
        .collect();
    assert!(strangers.is_empty(), "{strangers:?}");

    let (other, object, program) = (fresh("libother.a"), fresh("plugin.o"), fresh("static"));
    let source = fresh("other.rs");
    std::fs::write(&source, OTHER).unwrap();
    must_succeed(
        Command::new("rustc")
            .args(["--edition", "2024", "--crate-type", "staticlib", "-o"])
            .arg(&other)
            .arg(&source),
    );
    must_succeed(
        Command::new("gcc")
            .args(["-O1", "-fopenmp", "-c"])
            .arg(sources().join("plugin.c"))
            .arg("-o")
            .arg(&object),
    );
    let main = fresh("main.c");
    std::fs::write(&main, MAIN).unwrap();
    let mut link = Command::new("gcc");
    link.arg(&main).arg(&object).arg(&archive).arg(&other).arg("-o").arg(&program).args([
        "-lpthread",
        "-ldl",
        "-lm",
    ]);
    must_succeed(&mut link);
    must_be_ok(clean(&program, None));
    for file in [other, object, program, source, main] {
        std::fs::remove_file(file).unwrap();
    }
}

/// A Rust library with panics and threads of its own, so that it brings the whole standard library.
const OTHER: &str = r#"
#[unsafe(no_mangle)]
pub extern "C" fn other(n: i32) -> i32 {
    std::thread::spawn(move || format!("{n}").parse::<i32>().expect("a number")).join().expect("no panic")
}
"#;

const MAIN: &str = r#"
#include <stdio.h>
int sum_to(int);
int other(int);
int main(void) {
  if (sum_to(100) != 5050 || other(7) != 7) return 1;
  puts("ok");
  return 0;
}
"#;
