//! Page migration: the paper's calls in C and Fortran, and programs that make none.
//!
//! Most run on pretended nodes: processor i is on node i modulo two, and no page really moves.

use crate::Subject;
use crate::drop_in::{
    Fresh, clean, compile_by, exists, finish, fresh, must_succeed, said, shim, sources,
};
use std::path::Path;
use std::process::{Command, Output};

const PRETENDED: [(&str, &str); 4] = [
    ("UPM_NODES", "2"),
    ("UPM_PLACEMENT", "worst-case"),
    ("OMP_PROC_BIND", "true"),
    ("OMP_NUM_THREADS", "2"),
];

/// Two threads have a processor each; else they are on one node.
fn has_two_processors() -> bool {
    let mask = platform::affinity::affinity(None).unwrap();
    let mut nodes: Vec<u32> = mask.iter().take(2).map(|cpu| cpu.0 % 2).collect();
    nodes.dedup();
    if nodes != [0, 1] {
        platform::skip!("two threads would not be on the two pretended nodes");
    }
    nodes == [0, 1]
}

fn include() -> String {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    format!("-I{}", include.display())
}

fn run(command: Command, shown: &str) -> (String, String) {
    let output: Output = finish(command);
    let (out, err) = said(&output);
    assert!(
        output.status.success() && out.ends_with("ok\n"),
        "{shown}: {}: {out}{err}",
        output.status
    );
    (out, err)
}

fn with_variables(mut command: Command, variables: &[(&str, &str)]) -> Command {
    command.envs(variables.iter().copied());
    command
}

/// Links with the static library instead.
fn linked(source: &str, shim: &Path) -> Fresh {
    let (object, program) = (fresh("object.o"), fresh("static"));
    let mut compile = Command::new("gcc");
    compile.args(["-O1", "-fopenmp", &include(), "-c"]).arg(sources().join(source));
    must_succeed(compile.arg("-o").arg(&object));
    let mut link = Command::new("gcc");
    link.arg(&object).arg(shim.join("libnanos_omp.a")).arg("-o").arg(&program);
    must_succeed(link.args(["-lpthread", "-ldl", "-lm"]));
    program
}

#[test]
fn the_papers_calls_move_pages_by_what_is_told_and_by_samples_and_refuse_bad_areas() {
    let Some(shim) = shim() else { return };
    if !has_two_processors() {
        return;
    }
    let library = shim.join("libgomp.so.1");
    let options = [include(), library.display().to_string()];
    let options = options.each_ref().map(String::as_str);
    let shared = compile_by("gcc", &sources().join("migrates.c"), &options);
    let fixed = linked("migrates.c", &shim);
    for (program, library) in [(&shared, Some(shim.as_path())), (&fixed, None)] {
        let command = with_variables(clean(program, library), &PRETENDED);
        let (out, err) = run(command, &format!("{library:?}"));
        println!("{out}");
        for line in [
            "upmlib_memrefcnt: upmlib_init was not called",
            "its length is 0",
            "nothing is mapped at 0x0",
            "do not fit into the address space",
            "is not plain memory that may be read and written",
            "overlaps the one at",
        ] {
            assert!(err.contains(line), "{line} is missing: {err}");
        }
        assert_eq!(err.matches("libgomp: upmlib_memrefcnt: ").count(), 9, "{err}");
    }
}

#[test]
fn fortran_has_the_calls_and_the_variable() {
    let Some(shim) = shim() else { return };
    if !exists("gfortran") {
        return platform::skip!("no gfortran here");
    }
    if !has_two_processors() {
        return;
    }
    // Modules are written where the compiler runs.
    let source = sources().join("migrates.f90");
    let library = shim.join("libgomp.so.1").display().to_string();
    let shared = compile_by("gfortran", &source, &[&library]);
    let object = fresh("migrates.o");
    must_succeed(
        Command::new("gfortran")
            .args(["-O1", "-fopenmp", "-c"])
            .arg(&source)
            .arg("-o")
            .arg(&object),
    );
    let fixed = fresh("migrates");
    let mut link = Command::new("gfortran");
    link.arg(&object).arg(shim.join("libnanos_omp.a")).arg("-o").arg(&fixed);
    must_succeed(link.args(["-lpthread", "-ldl", "-lm"]));
    for (program, library) in [(&shared, Some(shim.as_path())), (&fixed, None)] {
        let command = with_variables(clean(program, library), &PRETENDED);
        let (_, err) = run(command, &format!("{library:?}"));
        assert!(err.contains("its length is 0") && err.contains("a size of -8 bytes"), "{err}");
    }
}

#[test]
fn a_program_that_knows_nothing_of_it_has_its_pages_moved_and_computes_the_same() {
    let Some(subject) = Subject::new("follows", &[]) else { return };
    if !has_two_processors() {
        return;
    }
    let done = "off: no page should move any more";
    // Half of each of the arrays, of 512 pages.
    let is_half = |err: &str| moved(err).is_some_and(|moved| (690..=850).contains(&moved));
    // How many iterations are recorded, and what is seen in them, depends on how often the machine
    // lets the threads run: the program has as many as are needed, within reason.
    let mut err = String::new();
    for steps in ["600", "2400", "9600"] {
        let mut command = with_variables(subject.command(), &PRETENDED);
        command.arg(steps).envs([("UPM", "on"), ("UPM_REPORT", "1")]);
        (_, err) = run(command, "UPM=on");
        println!("{steps} steps: {err}");
        if err.contains(done) && is_half(&err) {
            break;
        }
    }
    for line in ["static data", "anonymous memory", "counted by access rights", "moved", done] {
        assert!(err.contains(line), "{line} is missing: {err}");
    }
    assert!(is_half(&err), "{err}");
}

/// The pages that moved, as a report says.
fn moved(report: &str) -> Option<usize> {
    let (_, rest) = report.split_once(" hot pages, ")?;
    rest.split_once(" migrations")?.0.parse().ok()
}

#[test]
fn on_one_node_it_says_so_once_when_it_is_asked_and_nothing_else() {
    let Some(subject) = Subject::new("follows", &[]) else { return };
    if upm_homes() > 1 {
        return platform::skip!("this machine has several nodes");
    }
    let (out, err) = subject.says(&[("UPM", "on")]);
    assert_eq!((out.as_str(), err.as_str()), ("ok\n", ""));
    let (out, err) = subject.says(&[("UPM", "on"), ("UPM_REPORT", "on")]);
    assert_eq!(out, "ok\n");
    assert_eq!(err, "upm: off: one node has memory, so no page can be nearer\n");
    let (out, err) = subject.says(&[("UPM_REPORT", "on")]);
    assert_eq!(out, "ok\n");
    assert_eq!(err, "upm: the program did not ask for page migration, and UPM is off\n");
    let (out, err) = subject.says(&[("UPM_PLACEMENT", "random")]);
    assert_eq!((out.as_str(), err.as_str()), ("ok\n", ""));
}

#[test]
fn a_random_placement_that_was_not_made_is_said_at_the_end_and_one_that_was_is_reported() {
    let Some(subject) = Subject::new("follows", &[]) else { return };
    let run = |steps: &str, more: &[(&str, &str)]| {
        let mut command = with_variables(subject.command(), &PRETENDED);
        command.arg(steps).env("UPM_PLACEMENT", "random:3").envs(more.iter().copied());
        run(command, "random").1
    };
    // Two iterations have no loop that comes again.
    let err = run("1", &[]);
    assert!(err.contains("UPM_PLACEMENT: random: no outer loop was found; pages took"), "{err}");
    assert_eq!(run("600", &[]), "");
    let err = run("600", &[("UPM_REPORT", "on")]);
    assert!(err.contains("pages were put on random nodes") && err.contains("off: UPM is"), "{err}");
}

fn upm_homes() -> usize {
    use upm::Topology;
    upm::KernelTopology::read().map_or(1, |topology| topology.homes())
}

#[test]
fn a_program_that_unmaps_its_arrays_in_each_iteration_is_left_alone() {
    let Some(subject) = Subject::new("unmaps", &["-lpthread"]) else { return };
    let command = with_variables(subject.command(), &PRETENDED);
    let command = with_variables(command, &[("UPM", "on"), ("UPM_REPORT", "1")]);
    let (_, err) = run(command, "unmaps");
    // How often it tries within the program's few iterations is a matter of the machine's speed:
    // what comes to nothing is kept below a hundredth of the time.
    let ends = ["came to nothing: the program unmapped", "no writable memory"];
    assert!(ends.iter().any(|end| err.contains(end)), "{err}");
    assert!(err.contains(" 0 migrations in 0 calls") || !err.contains("migrations"), "{err}");
}
