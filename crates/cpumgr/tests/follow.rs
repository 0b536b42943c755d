//! Programs on the drop-in library follow a real manager: unmodified C, compiled by gcc.
//!
//! Where gcc is missing, or the library (`cargo xtask shim` makes it), the tests say so and end.

#![expect(
    clippy::unwrap_used,
    reason = "a step of a test that fails is a failed test, in the helpers, too"
)]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use support::{Compiled, Manager, eventually, two_processors};

/// What a program prints that ends well within the tests' patience.
fn output(mut command: Command) -> String {
    let mut child = command.spawn().unwrap();
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        eventually("the program ends", || child.try_wait().unwrap())
    }));
    if ended.is_err() {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert!(
        ended.is_ok_and(|status| status.success()),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The next line of a program.
fn line(output: &mut impl BufRead) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// A manager with one processor: a program that registers has a grant of one.
fn with_one_processor() -> Manager {
    let one = platform::affinity::affinity(None).unwrap().first().unwrap();
    Manager::start(&["--cpus", &one.to_string()])
}

#[test]
fn a_program_that_asks_for_the_size_of_a_team_gets_it_and_other_teams_follow_the_grant() {
    let manager = with_one_processor();
    let Some(compiled) = Compiled::new(&manager, "promise") else { return };
    let mut command = compiled.command(&manager);
    command.env("OMP_NUM_THREADS", "2");
    assert_eq!(output(command), "1 2 1 2\n");
}

#[test]
fn a_team_of_one_and_active_levels_are_the_same_at_every_load() {
    let manager = with_one_processor();
    let Some(compiled) = Compiled::of_the_library(&manager, "levels") else { return };
    let said = |variables: &[(&str, &str)]| {
        let mut command = compiled.command(&manager);
        command.env("OMP_NUM_THREADS", "2").envs(variables.iter().copied());
        output(command)
    };
    // Where no manager takes anything away, teams of default size have two threads.
    let alone = said(&[("NANOS_CPUMGR", "off")]);
    assert!(alone.contains("default: level 1, active 1, parallel 1\n"), "{alone}");
    // Here they have one.
    assert_eq!(said(&[]), alone);
}

#[test]
fn a_program_with_places_outside_the_grant_stays_in_them_and_says_so_once() {
    let mask = platform::affinity::affinity(None).unwrap();
    let (Some(first), Some(last)) = (mask.first(), mask.last()) else {
        panic!("a thread without processors")
    };
    if first == last {
        return platform::skip!("needs two processors");
    }
    let manager = Manager::start(&["--cpus", &first.to_string()]);
    let Some(compiled) = Compiled::of_the_library(&manager, "fenced") else { return };
    let mut command = compiled.command(&manager);
    command
        .env("OMP_NUM_THREADS", "2")
        .env("OMP_DYNAMIC", "false")
        .env("OMP_PLACES", format!("{{{last}}}"));
    let output = command.stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("procs={} within=1\n", mask.len()),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("the manager grants processors"), "{said}");
}

/// `tests/c/obey.c`, which says what it sees.
struct Obedient {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Obedient {
    fn start(compiled: &Compiled, manager: &Manager) -> Self {
        Self::start_with(compiled, manager, &[])
    }

    fn start_with(compiled: &Compiled, manager: &Manager, variables: &[(&str, &str)]) -> Self {
        let mut command = compiled.command(manager);
        command.stdin(Stdio::piped()).env("OMP_NUM_THREADS", "2").envs(variables.iter().copied());
        let mut child = command.spawn().unwrap();
        let (input, output) =
            (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut program = Self { child, input, output };
        assert_eq!(program.line(), "ready");
        program
    }

    fn line(&mut self) -> String {
        line(&mut self.output)
    }

    fn ask(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}").unwrap();
        self.line()
    }

    /// Regions until they have `size` threads. They are never made of other threads than at first.
    fn until_regions_have(&mut self, size: usize) -> String {
        eventually(&format!("regions of {size} threads"), || {
            let seen = self.ask("r");
            assert!(seen.ends_with(" 1"), "another thread is member 1: {seen}");
            seen.starts_with(&format!("{size} ")).then_some(seen)
        })
    }
}

impl Drop for Obedient {
    fn drop(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }
}

#[test]
fn a_program_shrinks_and_grows_with_its_grant_and_makes_no_thread_for_it() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus]);
    let Some(compiled) = Compiled::new(&manager, "obey") else { return };
    let mut program = Obedient::start(&compiled, &manager);
    let before = program.until_regions_have(2);
    for _ in 0..3 {
        let other = Obedient::start(&compiled, &manager);
        program.until_regions_have(1);
        drop(other);
        assert_eq!(program.until_regions_have(2), before);
    }
}

#[test]
fn explicit_places_say_which_processors_the_manager_gives() {
    let Some(both) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &both]);
    let Some(compiled) = Compiled::new(&manager, "obey") else { return };
    let all: Vec<String> = platform::affinity::CpuSet::parse_list(&both)
        .unwrap()
        .iter()
        .map(|it| it.to_string())
        .collect();
    let mut other = Obedient::start(&compiled, &manager);
    for (own, rest) in [(&all[0], &all[1]), (&all[1], &all[0])] {
        other.until_regions_have(2);
        let shown = |program: &Obedient| {
            let pid = i32::try_from(program.child.id()).unwrap();
            let report = manager.status();
            let shown = report.programs.iter().find(|it| it.pid == pid).unwrap();
            (shown.cpus.clone(), shown.within.clone())
        };
        let stays = (own.clone(), Some(own.clone()));
        for (variable, value) in
            [("OMP_PLACES", format!("{{{own}}}")), ("GOMP_CPU_AFFINITY", own.clone())]
        {
            let mut placed = Obedient::start_with(&compiled, &manager, &[(variable, &value)]);
            eventually("it has its place", || (shown(&placed) == stays).then_some(()));
            eventually("the other one has the rest", || {
                (shown(&other) == (rest.clone(), None)).then_some(())
            });
            other.until_regions_have(1);
            assert_eq!(placed.ask("w"), *own);
            // One more on the same processor: both run, and neither takes the other's.
            let mut second = Obedient::start_with(&compiled, &manager, &[(variable, &value)]);
            eventually("it has its place, too", || (shown(&second) == stays).then_some(()));
            eventually("no other thread has moved", || {
                (shown(&other) == (rest.clone(), None)).then_some(())
            });
            assert_eq!((placed.ask("w"), second.ask("w")), (own.clone(), own.clone()));
        }
    }
}

#[test]
fn a_program_goes_on_without_its_manager_and_follows_the_next_one() {
    let Some(cpus) = two_processors() else { return };
    let mut manager = Manager::start(&["--cpus", &cpus]);
    let Some(compiled) = Compiled::new(&manager, "obey") else { return };
    let mut program = Obedient::start(&compiled, &manager);
    let other = Obedient::start(&compiled, &manager);
    program.until_regions_have(1);
    manager.kill();
    program.until_regions_have(2);
    manager.start_again(&["--cpus", &cpus]);
    program.until_regions_have(1);
    drop(other);
    program.until_regions_have(2);
    // Stopped for good: hung.
    let other = Obedient::start(&compiled, &manager);
    program.until_regions_have(1);
    manager.signal(nix::libc::SIGSTOP);
    program.until_regions_have(2);
    manager.signal(nix::libc::SIGCONT);
    program.until_regions_have(1);
    drop(other);
}

#[test]
fn what_a_program_forks_and_executes_is_not_confined_to_its_grant() {
    let manager = with_one_processor();
    let Some(compiled) = Compiled::new(&manager, "obey") else { return };
    let mut program = Obedient::start(&compiled, &manager);
    program.until_regions_have(1);
    let nproc = Command::new("nproc").output().unwrap();
    assert_eq!(program.ask("n"), String::from_utf8(nproc.stdout).unwrap().trim_end());
    // The child is a program of its own.
    assert_eq!(program.ask("f"), "1");
    let registered = || manager.status().programs.len();
    eventually("the child is there", || (registered() == 2).then_some(()));
    assert_eq!(program.ask("x"), "1");
    eventually("the child is gone", || (registered() == 1).then_some(()));
    program.until_regions_have(1);
}

#[test]
fn programs_in_turn_on_one_processor_have_long_turns_and_what_they_start_has_usual_ones() {
    let manager = with_one_processor();
    let Some(compiled) = Compiled::new(&manager, "obey") else { return };
    let mut first = Obedient::start(&compiled, &manager);
    let usual = first.ask("t");
    if usual == "0" {
        return platform::skip!(
            "this kernel has no turns of a thread's own (it is older than 6.12)"
        );
    }
    let until = |program: &mut Obedient, turn: &str| {
        eventually(&format!("turns of {turn} us"), || (program.ask("t") == turn).then_some(()));
    };
    let mut second = Obedient::start(&compiled, &manager);
    for program in [&mut first, &mut second] {
        until(program, "20000");
    }
    // Both ways to lose them: for the rest of the grant's time.
    assert_eq!(first.ask("p"), usual);
    assert_eq!(second.ask("e"), usual);
    for program in [&mut first, &mut second] {
        assert_eq!(program.ask("t"), usual);
    }
    drop(second);
    eventually("the first has its own", || (!manager.status().programs[0].shared).then_some(()));
    assert_eq!(first.ask("t"), usual);
    let second = Obedient::start(&compiled, &manager);
    until(&mut first, "20000");
    drop(second);
    until(&mut first, &usual);
}

#[test]
fn the_manager_learns_the_speedup_of_programs_of_known_serial_shares() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus, "--policy", "pdpa"]);
    let Some(compiled) = Compiled::new(&manager, "shares") else { return };
    for percent in [0, 10, 50] {
        let mut command = compiled.command(&manager);
        let program = Killed(command.arg(percent.to_string()).spawn().unwrap());
        let pid = i32::try_from(program.0.id()).unwrap();
        // Amdahl's law.
        let expected = 2.0 / (1.0 + f64::from(percent) / 100.0);
        let mut last = None;
        eventually(&format!("{percent} % are serial: the speedup is {expected}"), || {
            let speedup =
                manager.status().programs.into_iter().find(|program| program.pid == pid)?.speedup;
            if speedup != last {
                println!("{percent} % are serial: {speedup:?}");
                last = speedup;
            }
            let (speedup, processors) = speedup?;
            assert_eq!(processors, 2);
            ((speedup / expected - 1.0).abs() < 0.1).then_some(())
        });
    }
}

/// A program that runs for ever.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().expect("a child can be killed");
        self.0.wait().expect("a child can be waited for");
    }
}

/// A program whose second thread never waits, and a manager that squeezes no thread before the test
/// is over: a thread that moves does so by itself, between two pieces of its work.
fn leaves_its_processor_between_two_pieces(pieces: &str) {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus, "--grace", "10s"]);
    let Some(compiled) = Compiled::new(&manager, "chunks") else { return };
    let Some(other) = Compiled::new(&manager, "obey") else { return };
    let mut command = compiled.command(&manager);
    command.arg(pieces);
    let mut child = command.spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(line(&mut output), "ready");
    let other = Obedient::start(&other, &manager);
    assert_eq!(line(&mut output), "moved");
    assert!(child.wait().unwrap().success());
    drop(other);
}

#[test]
fn a_thread_that_is_asked_for_its_processor_leaves_it_between_two_chunks_of_a_loop() {
    leaves_its_processor_between_two_pieces("loop");
}

#[test]
fn a_thread_that_is_asked_for_its_processor_leaves_it_between_two_tasks() {
    leaves_its_processor_between_two_pieces("tasks");
}

/// A manager with one processor, of several, and `tests/c/starters.c`.
fn with_starters() -> Option<(Manager, Compiled)> {
    two_processors()?;
    let manager = with_one_processor();
    let compiled = Compiled::new(&manager, "starters")?;
    Some((manager, compiled))
}

/// `cpumgr run` of this manager and library.
fn run(manager: &Manager, compiled: &Compiled) -> Command {
    let mut command = support::cpumgr();
    command.arg("run").arg("--socket").arg(manager.socket()).arg("--lib").arg(&compiled.shim);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What `tests/c/starters.c` prints that does `what`.
fn starters_print(what: &str, variables: &[(&str, &str)]) -> Option<String> {
    let (manager, compiled) = with_starters()?;
    let mut command = compiled.command(&manager);
    command.arg(what).envs(variables.iter().copied());
    Some(output(command))
}

#[test]
fn whatever_a_bound_member_starts_by_any_call_has_the_programs_processors() {
    let Some(said) = starters_print("bound", &[]) else { return };
    assert_eq!(said, "ok\n");
}

#[test]
fn a_bound_member_that_executes_a_program_leaves_it_the_programs_processors() {
    let Some(said) = starters_print("becomes", &[]) else { return };
    // Ends well if the other program finds the mask that it was told.
    assert_eq!(said, "");
}

#[test]
fn what_a_program_without_a_manager_starts_is_as_ever() {
    let Some(said) = starters_print("free", &[("NANOS_CPUMGR", "off")]) else { return };
    assert_eq!(said, "ok\n");
}

#[test]
fn a_preloaded_library_serves_the_engine_that_is_linked_into_a_program() {
    let Some((manager, compiled)) = with_starters() else { return };
    let (object, program) =
        (manager.dir.path().join("starters.o"), manager.dir.path().join("static"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/starters.c");
    let gcc = Command::new("gcc")
        .args(["-O1", "-fopenmp", "-c"])
        .arg(source)
        .arg("-o")
        .arg(&object)
        .status();
    assert!(gcc.unwrap().success());
    let mut link = Command::new("gcc");
    link.arg(&object)
        .arg(compiled.shim.join("libnanos_omp.a"))
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program);
    assert!(link.status().unwrap().success());
    let mut command = run(&manager, &compiled);
    command.arg("--").arg(&program).arg("bound");
    assert_eq!(output(command), "ok\n");
}

#[test]
fn whatever_a_python_program_starts_in_a_region_has_the_programs_processors() {
    let Some((manager, compiled)) = with_starters() else { return };
    if !Command::new("python3")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
    {
        return platform::skip!("no python3 here");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/starters.py");
    let mut command = run(&manager, &compiled);
    command.args(["--", "python3"]).arg(script).arg(&compiled.program);
    assert_eq!(output(command), "ok\n");
}

#[test]
fn a_shell_into_which_the_library_is_preloaded_starts_programs_as_ever() {
    let Some((manager, compiled)) = with_starters() else { return };
    let script = "echo a | cat; (exit 3); echo $?; /no/such/program; echo $?; false & wait $!; \
                  echo $?; exec printf end";
    let said = |command: &mut Command| {
        let output = command.args(["sh", "-c", script]).output().unwrap();
        (output.status.code(), output.stdout, output.stderr)
    };
    let mut preloaded = run(&manager, &compiled);
    preloaded.args(["--preload", "always", "--"]);
    let mut bare = Command::new("env");
    assert_eq!(said(&mut preloaded), said(bare.args(["-u", "LD_PRELOAD"])));
}
