//! The package and the service in a guest with systemd: Debian, booted as any machine, with two
//! users that have no privilege. `xtask/vm/systemd/checks.sh` has the checks.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime};

use anyhow::{Context, bail};

use super::needs::{self, Needs};
use crate::dist;
use crate::setup::{
    Compiler, Language, Workspace, find_program, install, is_root, must_succeed, shown,
};
use crate::skips;

/// Debian's version whose C library the programs of this machine are linked with.
const SUITE: &str = "bookworm";
/// Further packages of it.
const PACKAGES: &str = "systemd-sysv,libnss-systemd,procps";
/// What is left out, for the time that a first start takes.
const LEFT_OUT: [&str; 3] = ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*"];
/// Programs of the guest, in C, and where they stand there.
const PROGRAMS: [(&str, &str); 4] = [
    ("team", "opt/team"),
    ("lower", "opt/lower"),
    ("hostile", "opt/hostile"),
    ("stuck", "opt/stuck"),
];
const PROCESSORS: &str = "4";
const MEMORY: &str = "1024M";
/// The guest's disk, in MiB; a sparse file.
const DISK: u32 = 600;
/// Seconds that a guest may take altogether, and one in which each check is seen failing, too.
const LONGEST: u32 = 2700;
const LONGEST_PLANTED: u32 = 9000;
/// Of these, what it may take until its checks begin, and for the one that began last.
const LONGEST_BOOT: u64 = 120;
/// Exit code for "all checks succeeded", and for "some failed" (`qexit.c`).
const ALL_WELL: i32 = 85;
const SOME_FAILED: i32 = 87;

/// What to check.
///
/// Exit code 0: all well, or skipped for a reason that is printed; 1: something failed, or was
/// missing with `--require`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only checks of these names (`package-installs` is needed by all others), with `--planted`
    /// those that see them fail, too.
    #[arg(long, value_name = "NAME")]
    check: Vec<String>,
    /// Each check is seen failing, too, with a fault that is planted for it.
    #[arg(long)]
    planted: bool,
    /// What `cargo build --release` and `cargo xtask shim` left, in place of a new build.
    #[arg(long)]
    as_built: bool,
    /// Another kernel than Debian's cloud kernel.
    #[arg(long, value_name = "FILE")]
    pub(super) kernel: Option<PathBuf>,
    /// What the machine lacks is a failure, not a reason to skip.
    #[arg(long)]
    pub(super) require: bool,
    /// Checks that have not begun by then are left out: on other days others than today.
    #[arg(skip)]
    deadline: Option<Instant>,
}

impl Options {
    /// All checks, within a time that others have a part of.
    pub(super) fn until(deadline: Option<Instant>) -> Self {
        let check = Vec::new();
        Self { check, planted: false, as_built: false, kernel: None, require: false, deadline }
    }
}

/// Runs the checks and prints each one; counts those that succeeded.
pub(super) fn run(
    workspace: &Workspace,
    options: &Options,
    compiler: &Compiler,
    needs: &Needs,
    folder: &Path,
) -> anyhow::Result<u64> {
    let root = match root(folder) {
        Ok(root) => root,
        Err(reason) => return super::skip(options.require, &reason),
    };
    let own = |name: &str| workspace.root.join("xtask/vm/systemd").join(name);
    let mut files: Vec<(PathBuf, &str, u32)> = Vec::new();
    for (name, place) in PROGRAMS {
        let program = folder.join(name);
        compiler.build(Language::C, &own(&format!("{name}.c")), &program)?;
        files.push((program, place, 0o755));
    }
    let mut version = String::new();
    let of_tests = options.deadline.is_some();
    for (number, place) in [(1, "opt/cpumgr_1.deb"), (2, "opt/cpumgr_2.deb")] {
        version = format!("{}+{number}", env!("CARGO_PKG_VERSION"));
        let as_built = options.as_built || number > 1;
        let version = Some(version.clone());
        let made = dist::Options { as_built, version, of_tests, is_plain: true };
        files.push((dist::deb(workspace, &made)?, place, 0o644));
    }
    files.push((folder.join("qexit"), "opt/qexit", 0o755));
    files.push((own("checks.sh"), "opt/checks.sh", 0o755));
    files.push((own("checks.service"), "etc/systemd/system/checks.service", 0o644));
    files.push((own("checks.target"), "etc/systemd/system/checks.target", 0o644));
    for (name, place) in [("fence.conf", "opt/fence.conf"), ("listen.conf", "opt/listen.conf")] {
        files.push((workspace.root.join("packaging/examples").join(name), place, 0o644));
    }
    if let Some(module) = needs::fuse(folder) {
        files.push((module, "opt/fuse.ko", 0o644));
    }
    let longest = if options.planted { LONGEST_PLANTED } else { LONGEST };
    let names = match options.check.is_empty() {
        true => "all".to_owned(),
        false => wanted(&options.check),
    };
    let seconds = match options.deadline.map(super::left) {
        Some(left) if left < LONGEST_BOOT => {
            let reason = anyhow::anyhow!("systemd: {left} s are left: too few for the guest");
            return super::skip(options.require, &reason);
        }
        left => left.unwrap_or(longest.into()).min(longest.into()),
    };
    let yes = |is_so: bool| if is_so { "yes" } else { "no" }.to_owned();
    let texts = [
        ("opt/wanted", names),
        ("opt/first", options.deadline.map_or(0, |_| first_of(days())).to_string()),
        ("opt/planted", yes(options.planted)),
        ("opt/optimized", yes(!of_tests)),
        ("opt/seconds", seconds.saturating_sub(LONGEST_BOOT).to_string()),
        ("opt/version_2", version),
        ("etc/hostname", "guest".to_owned()),
        ("etc/fstab", String::new()),
        ("etc/machine-id", "uninitialized".to_owned()),
    ];
    let image = folder.join("systemd.ext4");
    disk(&root, &files, &texts, &image)?;
    let boot = Instant::now();
    let reading = start(needs, &image, &folder.join("systemd.log"), longest)?;
    for said in &reading.busy {
        skips::note_busy(format_args!("vm systemd: {said}"));
    }
    for said in &reading.skipped {
        skips::note(format_args!("vm systemd: {said}"));
    }
    if !reading.left_out.is_empty() {
        let names = reading.left_out.join(", ");
        skips::note(format_args!("vm systemd: no time was left for {names}"));
    }
    println!(
        "{} checks in {:.0} s",
        reading.well + reading.failed.len(),
        boot.elapsed().as_secs_f64()
    );
    if !reading.failed.is_empty() {
        bail!("failed in the guest: {}", reading.failed.join(", "));
    }
    Ok(reading.well as u64)
}

/// What the guest is to check where these are asked for. (`-is-seen` alone means nothing to checks
/// without a plant.)
fn wanted(names: &[String]) -> String {
    let each = names.iter().map(|name| format!(" {name} {name}-is-seen"));
    format!("package-installs{}", each.collect::<String>())
}

/// Days since 1970.
fn days() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs() / (24 * 60 * 60))
}

/// After how many of its checks the guest begins, where it has no time for all: continuous
/// integration runs it each second day, and gets through seven of them at least.
fn first_of(day: u64) -> u64 {
    day / 2 * 7
}

/// The guest's system as an archive; made once.
fn root(folder: &Path) -> anyhow::Result<PathBuf> {
    let archive = folder.join(format!("{SUITE}-systemd.tar"));
    if !is_root() {
        bail!("systemd: making a file system with owners needs the superuser");
    }
    for (program, package) in [("mke2fs", "e2fsprogs"), ("mmdebstrap", "mmdebstrap")] {
        let is_there =
            || find_program(program).is_some() || Path::new("/sbin").join(program).exists();
        if !is_there() && (find_program("apt-get").is_none() || install(&[package]).is_err()) {
            bail!("systemd: {program} is needed: sudo apt-get install -y {package}");
        }
    }
    if archive.is_file() {
        return Ok(archive);
    }
    println!("making {}, which takes a minute", archive.display());
    let fresh = archive.with_extension("new.tar");
    let mut make = Command::new("mmdebstrap");
    make.args(["-q", "--variant=minbase", &format!("--include={PACKAGES}")]);
    for path in LEFT_OUT {
        make.arg(format!("--dpkgopt=path-exclude={path}"));
    }
    make.arg(SUITE).arg(&fresh).stdin(Stdio::null());
    must_succeed(&mut make).context("the guest's system cannot be had")?;
    fs::rename(&fresh, &archive).context("cannot keep the guest's system")?;
    Ok(archive)
}

/// A file system with all that at `image`.
fn disk(
    root: &Path,
    files: &[(PathBuf, &str, u32)],
    texts: &[(&str, String)],
    image: &Path,
) -> anyhow::Result<()> {
    let place = tempfile::tempdir_in(image.parent().context("an image in no folder")?);
    let place = place.context("cannot make a folder for the guest's system")?;
    let mut unpack = Command::new("tar");
    unpack.args(["--numeric-owner", "-xpf"]).arg(root).arg("-C").arg(place.path());
    must_succeed(&mut unpack)?;
    for (from, to, mode) in files {
        let to = place.path().join(to);
        fs::copy(from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        fs::set_permissions(&to, fs::Permissions::from_mode(*mode)).context("cannot set a mode")?;
    }
    for (to, text) in texts {
        fs::write(place.path().join(to), text).with_context(|| format!("cannot write {to}"))?;
    }
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755))
        .context("cannot set a mode")?;
    if image.exists() {
        fs::remove_file(image).with_context(|| format!("cannot replace {}", image.display()))?;
    }
    let program = find_program("mke2fs").unwrap_or_else(|| PathBuf::from("/sbin/mke2fs"));
    let mut make = Command::new(program);
    make.args(["-q", "-t", "ext4", "-O", "^has_journal", "-d"]).arg(place.path()).arg(image);
    must_succeed(make.arg(format!("{DISK}M")))
}

/// Boots, and shows each check as it comes.
fn start(needs: &Needs, image: &Path, log: &Path, longest: u32) -> anyhow::Result<Reading> {
    let mut command = Command::new("timeout");
    command.args(["-k", "1", &longest.to_string()]).arg(&needs.emulator);
    command.args(["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"]);
    command.args([
        "-smp",
        PROCESSORS,
        "-m",
        MEMORY,
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
    ]);
    command.args(["-display", "none", "-monitor", "none", "-serial", "stdio"]);
    command.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
    command
        .arg("-drive")
        .arg(format!("if=none,id=d0,file={},format=raw,snapshot=on", image.display()));
    command.args(["-device", "nvme,drive=d0,serial=r0"]).arg("-kernel").arg(&needs.kernel);
    command.args([
        "-append",
        "console=ttyS0 quiet panic=-1 tsc=reliable root=/dev/nvme0n1 rootfstype=ext4 rw \
         systemd.unit=checks.target systemd.show_status=0 systemd.firstboot=off",
    ]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {}", shown(&command)))?;
    let output = child.stdout.take().context("no pipe from the emulator")?;
    let mut file =
        fs::File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut reading = Reading::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("cannot read what the guest prints")?;
        let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
        writeln!(file, "{line}").with_context(|| format!("cannot write {}", log.display()))?;
        if let Some(shown) = reading.line(&line) {
            println!("{shown}");
        }
    }
    let status = child.wait().context("cannot wait for the emulator")?;
    let told = Some((reading.well + reading.failed.len(), reading.failed.len()));
    match status.code() {
        Some(ALL_WELL) if reading.result == told && reading.failed.is_empty() => Ok(reading),
        Some(SOME_FAILED) if reading.result == told && !reading.failed.is_empty() => Ok(reading),
        code => bail!(
            "the guest ended with {code:?} after {} checks (124: it took more than {longest} s); \
             the whole log: {}",
            reading.well + reading.failed.len(),
            log.display()
        ),
    }
}

/// What was read of the guest's lines so far.
#[derive(Debug, Default)]
struct Reading {
    well: usize,
    failed: Vec<String>,
    /// Those that could not tell, and why.
    busy: Vec<String>,
    /// Those by which this build is not judged, and why.
    skipped: Vec<String>,
    /// Those for which no time was left.
    left_out: Vec<String>,
    /// Checks, and how many failed, by the guest's own count.
    result: Option<(usize, usize)>,
    /// What follows belongs to a check that failed.
    is_open: bool,
}

impl Reading {
    /// Takes a line; what of it is for people.
    fn line(&mut self, line: &str) -> Option<String> {
        let (_, mark) = match line.split_once('@') {
            Some(split) => split,
            None => {
                return self.is_open.then(|| line.to_owned()).filter(|it| it.starts_with("    "));
            }
        };
        let words: Vec<&str> = mark.splitn(4, ' ').collect();
        match words[..] {
            ["check", "ok", name, ref rest @ ..] => {
                (self.well, self.is_open) = (self.well + 1, false);
                Some(format!("{name:<24} well  {}", rest.join(" ")).trim_end().to_owned())
            }
            ["check", "FAILED", name, ..] => {
                self.failed.push(name.to_owned());
                self.is_open = true;
                Some(format!("{name:<24} FAILED"))
            }
            ["check", "busy", name, ref rest @ ..] => {
                self.is_open = false;
                self.busy.push(format!("{name}: {}", rest.join(" ")));
                None
            }
            ["check", "skipped", name, ref rest @ ..] => {
                self.is_open = false;
                self.skipped.push(format!("{name}: {}", rest.join(" ")));
                None
            }
            ["check", "late", name] => {
                self.is_open = false;
                self.left_out.push(name.to_owned());
                None
            }
            ["RESULT", checks, failed] => {
                let number = |text: &str, name: &str| text.strip_prefix(name)?.parse().ok();
                self.result = number(checks, "checks=").zip(number(failed, "failed="));
                None
            }
            ["up", ..] => Some(format!("guest: {}", mark.trim_start_matches("up "))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_is_asked_for_is_seen_failing_too() {
        let wanted = wanted(&["reload".to_owned(), "listens".to_owned()]);
        assert_eq!(wanted, "package-installs reload reload-is-seen listens listens-is-seen");
    }

    #[test]
    fn each_check_is_the_first_one_of_some_day_and_comes_within_days() {
        let script = include_str!("../../vm/systemd/checks.sh");
        let others = script.split_once("\nothers() {").unwrap().1.split_once("\n}\n").unwrap().0;
        let places = others.lines().filter(|line| line.starts_with("    check ")).count() as u64;
        assert!(places > 30, "{places}");
        // Of the checks that are run some seven have their time each second day.
        let seen: std::collections::BTreeSet<u64> = (0..2 * places.div_ceil(7))
            .step_by(2)
            .flat_map(|day| (0..7).map(move |at| (first_of(day) + at) % places))
            .collect();
        assert_eq!(seen.len() as u64, places);
    }

    #[test]
    fn checks_are_counted_and_a_result_that_is_cut_off_is_none() {
        let mut reading = Reading::default();
        let lines = [
            "@up 4 processors",
            "noise",
            "@check ok sizes 4; 2 and 2",
            "@check FAILED hangs",
            "    not within its time",
            "@check ok last",
            "@check busy restarts shrunken for 300 ms",
            "@check skipped costs not optimized",
            "@check late one",
            "@check late another",
            "@RESULT checks=3 failed=1",
        ];
        let shown: Vec<String> = lines.iter().filter_map(|line| reading.line(line)).collect();
        assert_eq!(shown.len(), 5, "{shown:?}");
        assert!(shown[1].ends_with("well  4; 2 and 2") && shown[3].ends_with("its time"));
        assert_eq!((reading.well, reading.result), (2, Some((3, 1))));
        assert_eq!(reading.failed, ["hangs"]);
        assert_eq!(reading.busy, ["restarts: shrunken for 300 ms"]);
        assert_eq!(reading.skipped, ["costs: not optimized"]);
        assert_eq!(reading.left_out, ["one", "another"]);
        reading.line("@RESULT checks=3 fai");
        assert_eq!(reading.result, None);
    }
}
