//! Classes of speed of made-up machines.

use nanothreads_platform::affinity::CpuId;
use nanothreads_platform::topology::Topology;
use tempfile::TempDir;

use crate::tree::{tree, write};

/// Two large cores of two threads, processors 0 to 3, and four small ones, 4 to 7, with nothing on
/// their speeds. The tree has the folders that are beside `system`, too.
fn hybrid(more: &[(&str, &str)]) -> TempDir {
    let mut files = vec![("system/cpu/online".to_owned(), "0-7".to_owned())];
    for cpu in 0..4 {
        let core = if cpu < 2 { "0-1" } else { "2-3" };
        files.push((format!("system/cpu/cpu{cpu}/topology/core_cpus_list"), core.to_owned()));
    }
    files.extend(more.iter().map(|(path, content)| ((*path).to_owned(), (*content).to_owned())));
    tree(files)
}

/// A number for each of the processors, in files of this name.
fn numbers(root: &TempDir, name: &str, numbers: &[&str]) {
    for (cpu, number) in numbers.iter().enumerate().filter(|(_, number)| !number.is_empty()) {
        write(root.path(), &format!("system/cpu/cpu{cpu}/{name}"), number);
    }
}

/// The class of each processor that is online.
fn speeds(root: &TempDir) -> Vec<u32> {
    let topology = Topology::read_from(&root.path().join("system")).unwrap();
    let speeds: Vec<u32> = topology.cpus().iter().map(|cpu| cpu.speed).collect();
    let classes = speeds.iter().max().unwrap() + 1;
    assert_eq!(topology.speeds(), classes as usize, "no class is empty: {speeds:?}");
    speeds
}

const ALIKE: [u32; 8] = [0; 8];
const LARGE_AND_SMALL: [u32; 8] = [0, 0, 0, 0, 1, 1, 1, 1];

const CAPACITY: &str = "cpu_capacity";
const HIGHEST: &str = "acpi_cppc/highest_perf";
const NOMINAL: &str = "acpi_cppc/nominal_perf";
const FREQUENCY: &str = "cpufreq/cpuinfo_max_freq";

#[test]
fn a_machine_that_says_nothing_of_speeds_has_one_class() {
    let root = hybrid(&[]);
    assert_eq!(speeds(&root), ALIKE);
    let topology = Topology::read_from(&root.path().join("system")).unwrap();
    assert_eq!((topology.speed_of(CpuId(3)), topology.speed_of(CpuId(8))), (Some(0), None));
}

#[test]
fn each_source_tells_large_cores_from_small_ones() {
    let of = |name: &str, large: &str, small: &str| {
        let root = hybrid(&[]);
        numbers(&root, name, &[large, large, large, large, small, small, small, small]);
        speeds(&root)
    };
    assert_eq!(of(CAPACITY, "1024", "593"), LARGE_AND_SMALL);
    assert_eq!(of(CAPACITY, "593", "1024"), [1, 1, 1, 1, 0, 0, 0, 0], "large numbers are fast");
    assert_eq!(of(HIGHEST, "66", "42"), LARGE_AND_SMALL);
    assert_eq!(of(NOMINAL, "30", "20"), LARGE_AND_SMALL);
    assert_eq!(of(FREQUENCY, "5200000", "3900000"), LARGE_AND_SMALL);
    let kinds = hybrid(&[("cpu_core/cpus", "0-3"), ("cpu_atom/cpus", "4-7")]);
    assert_eq!(speeds(&kinds), LARGE_AND_SMALL);
    let three = [("cpu_core/cpus", "0-3"), ("cpu_atom/cpus", "4-5"), ("cpu_lowpower/cpus", "6-7")];
    assert_eq!(speeds(&hybrid(&three)), [0, 0, 0, 0, 1, 1, 2, 2]);
}

#[test]
fn capacities_of_all_processors_are_believed_before_anything_else() {
    let root = hybrid(&[("cpu_core/cpus", "0-3"), ("cpu_atom/cpus", "4-7")]);
    numbers(&root, FREQUENCY, &["5", "5", "5", "5", "3", "3", "3", "3"]);
    numbers(&root, CAPACITY, &["1024"; 8]);
    assert_eq!(speeds(&root), ALIKE);
}

#[test]
fn firmware_that_gives_all_cores_the_same_number_leaves_the_word_to_the_next_source() {
    let root = hybrid(&[("cpu_core/cpus", "0-3"), ("cpu_atom/cpus", "4-7")]);
    numbers(&root, HIGHEST, &["255"; 8]);
    assert_eq!(speeds(&root), LARGE_AND_SMALL);
}

#[test]
fn preferred_cores_are_no_class_of_their_own() {
    // Turbo Boost Max 3.0: two of the large cores are a little faster.
    let root = hybrid(&[]);
    numbers(&root, HIGHEST, &["71", "71", "66", "66", "42", "42", "41", "42"]);
    assert_eq!(speeds(&root), LARGE_AND_SMALL);
    // Firmware that ranks equal cores: the last one has 28 % less than the first.
    let root = hybrid(&[]);
    numbers(&root, HIGHEST, &["231", "231", "221", "221", "206", "191", "176", "166"]);
    assert_eq!(speeds(&root), ALIKE);
    // The threshold: 85 % of the next faster one is the same class, less is not.
    let root = hybrid(&[]);
    numbers(&root, CAPACITY, &["1000", "1000", "850", "850", "723", "722", "722", "613"]);
    assert_eq!(speeds(&root), [0, 0, 0, 0, 0, 0, 0, 1]);
}

#[test]
fn hardware_threads_of_a_core_are_as_fast_as_the_fastest_of_them() {
    let root = hybrid(&[]);
    numbers(&root, CAPACITY, &["1024", "400", "400", "1024", "400", "400", "400", "400"]);
    assert_eq!(speeds(&root), LARGE_AND_SMALL);
}

#[test]
fn a_source_that_lacks_a_processor_or_holds_garbage_is_left_out() {
    for bad in ["", "0", "-5", "fast", "99999999999999999999", "1024 1024"] {
        let root = hybrid(&[]);
        numbers(&root, CAPACITY, &["1024", "1024", "1024", "1024", "100", "100", "100", bad]);
        assert_eq!(speeds(&root), ALIKE, "{bad:?}");
        numbers(&root, FREQUENCY, &["5", "5", "5", "5", "3", "3", "3", "3"]);
        assert_eq!(speeds(&root), LARGE_AND_SMALL, "{bad:?}");
    }
    for list in ["4-6", "4-x", ""] {
        let root = hybrid(&[("cpu_core/cpus", "0-3"), ("cpu_atom/cpus", list)]);
        assert_eq!(speeds(&root), ALIKE, "{list:?}");
    }
    // A file that cannot be read, here a folder.
    let root = hybrid(&[]);
    numbers(&root, HIGHEST, &["66", "66", "66", "66", "42", "42", "42", ""]);
    std::fs::create_dir_all(root.path().join("system/cpu/cpu7").join(HIGHEST)).unwrap();
    assert_eq!(speeds(&root), ALIKE);
}

#[test]
fn processors_that_are_offline_have_no_part_in_the_classes() {
    // The large cores are off: what is left is the fastest there is.
    let root = hybrid(&[]);
    write(root.path(), "system/cpu/online", "4-7");
    numbers(&root, CAPACITY, &["1024", "1024", "1024", "1024", "500", "500", "500", "250"]);
    assert_eq!(speeds(&root), [0, 0, 0, 1]);
    // Files of those that are offline need not be there.
    let root = hybrid(&[]);
    write(root.path(), "system/cpu/online", "0,2,4-6");
    numbers(&root, CAPACITY, &["1024", "", "1024", "", "500", "500", "500", ""]);
    assert_eq!(speeds(&root), [0, 0, 1, 1, 1]);
}
