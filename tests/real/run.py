"""Runs real programs on the original OpenMP runtime and on ours and compares results and times. See README.md."""

import argparse
import json
import os
import pathlib
import select
import shutil
import socket
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
WHEELS = ["scikit-learn==1.7.2", "xgboost==3.0.5"]
PACKAGES = ["python3-numpy", "libopenblas0-openmp", "libfftw3-dev", "libfftw3-double3", "graphicsmagick"]
NAMES = ["kmeans", "hist", "xgboost", "eigh", "fftw", "gm"]
RUNTIMES = ["libgomp", "passive", "libomp", "one", "nanos", "managed"]
# In which they take their turns.
ORDER = ["one", "libgomp", "passive", "libomp", "nanos", "managed"]
SETTINGS = ["alone", "2 copies", "4 copies", "beside a hog"]
# Pixels of the picture that GraphicsMagick works on.
PICTURE = "640x460"
# How often a program that is alone does its work in one run of it, in turn with the other runtimes' runs: this bar is the closest one,
# and single times of one kind differ by 40 % here.
ROUNDS = 4
# Seconds between those: an idle thread of the original spins for some milliseconds, one of libomp for 200.
PAUSE = 0.25
# Seconds in which a program must end after its work.
ENDS = 20
# Results may differ in the order of a sum.
TOLERANCE = 1e-6


class Missing(Exception):
    """What the machine lacks for a program."""


def must(command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        tail = "\n".join(done.stdout.strip().splitlines()[-3:])
        raise Missing(f"`{' '.join(map(str, command))}` failed ({done.returncode}): {tail}")


def install_wheels(folder):
    python = folder / "venv/bin/python"
    marker = folder / "venv/installed"
    if not marker.exists() or marker.read_text() != repr(WHEELS):
        must([sys.executable, "-m", "venv", "--clear", folder / "venv"])
        must([python, "-m", "pip", "install", "-q", *WHEELS])
        marker.write_text(repr(WHEELS))
    return python


def install_packages(folder):
    """Unpacks the packages, and those that they need and the system has not, below `folder`."""
    root, marker = folder / "root", folder / "root/installed"
    if marker.exists() and marker.read_text() == repr(PACKAGES):
        return root
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise Missing("no apt-get or dpkg here")
    plan = subprocess.run(["apt-get", "install", "-s", "--no-install-recommends", *PACKAGES], capture_output=True, text=True)
    if plan.returncode != 0:
        raise Missing(f"apt-get cannot plan the installation: {plan.stderr.strip().splitlines()[-1:]}")
    wanted = [line.split()[1] for line in plan.stdout.splitlines() if line.startswith("Inst ")]
    # What is installed already is found on the system.
    archives = folder / "archives"
    shutil.rmtree(root, ignore_errors=True)
    archives.mkdir(parents=True, exist_ok=True)
    root.mkdir(parents=True)
    if wanted:
        must(["apt-get", "-qq", "download", *wanted], cwd=archives)
    for archive in sorted(archives.glob("*.deb")):
        must(["dpkg", "-x", archive, root])
    marker.write_text(repr(PACKAGES))
    return root


class Subject:
    """A program: its command and what it needs in its environment."""

    def __init__(self, name, command, environment=None, shell_timed=False):
        self.name, self.command, self.environment = name, command, environment or {}
        # A program that cannot wait for a word is timed from outside.
        self.shell_timed = shell_timed


def subject(name, folder):
    if name in ("kmeans", "hist", "xgboost"):
        return Subject(name, [install_wheels(folder), HERE / "subjects.py", name])
    root = install_packages(folder)
    library = root / "usr/lib/x86_64-linux-gnu"
    paths = [library, root / "usr/lib"]
    environment = {"LD_LIBRARY_PATH": ":".join(map(str, paths))}
    if name == "eigh":
        python = "/usr/bin/python3"
        if not os.path.exists(python):
            raise Missing("Debian's numpy needs /usr/bin/python3")
        # OpenBLAS serves both names that numpy asks for.
        environment["LD_LIBRARY_PATH"] = ":".join(map(str, [library / "openblas-openmp", library]))
        environment["PYTHONPATH"] = str(root / "usr/lib/python3/dist-packages")
        # Its threads are OpenMP's.
        environment["OPENBLAS_NUM_THREADS"] = ""
        return Subject(name, [python, HERE / "subjects.py", name], environment)
    if name == "fftw":
        program = folder / "fft"
        must(["gcc", "-O2", "-fopenmp", HERE / "fft.c", "-I", root / "usr/include", "-L", library, "-o", program,
              "-lfftw3_omp", "-lfftw3", "-lm"])
        return Subject(name, [program], environment)
    picture, output = folder / f"picture-{PICTURE}.miff", folder / "gm"
    gm = root / "usr/bin/gm"
    if not gm.exists():
        gm = pathlib.Path(shutil.which("gm") or gm)
    if not picture.exists():
        must([gm, "convert", "-size", PICTURE, "plasma:red-blue", picture], env={**os.environ, **environment})
    output.mkdir(exist_ok=True)
    return Subject(name, [gm, "convert", picture, "-blur", "0x6", "-rotate", "3", "-sharpen", "0x1"], environment, True)


def environment_for(runtime, subject, arguments, manager, turn):
    """As many variables for every runtime, of other lengths in each turn: what a program's heap looks like depends on them, and
    with that whether glibc gives its end back to the kernel after each use (`eigh`: 10,900 or 23,500 page faults)."""
    kept = {key: value for key, value in os.environ.items()
            if not key.startswith(("OMP_", "GOMP_", "KMP_", "NANOS_", "OPENBLAS_", "LD_"))}
    # The BLAS of the wheels has threads of its own, which spin, and which OMP_NUM_THREADS would turn off for one runtime.
    kept["OPENBLAS_NUM_THREADS"] = "1"
    kept.update(subject.environment)
    kept["OMP_NUM_THREADS" if runtime == "one" else "NOT_NUM_THREADS"] = "1"
    kept["OMP_WAIT_POLICY" if runtime == "passive" else "NOT_WAIT_POLICY"] = "passive"
    kept["KMP_HOT_TEAMS_MAX_LEVEL" if runtime == "libomp" else "NOT_HOT_TEAMS_MAX_LEVEL"] = "2"
    library = library_of(runtime, arguments)
    kept["LD_PRELOAD" if library else "NO_PRELOAD"] = str(library or arguments.shim / "libgomp.so.1")
    kept["NANOS_CPUMGR"] = str(manager.socket) if runtime == "managed" else "off"
    kept["TURN"] = "x" * (1 + 16 * turn)
    return kept


def library_of(runtime, arguments):
    """What is loaded before the program's own OpenMP runtime; None: nothing."""
    if runtime in ("nanos", "managed"):
        return arguments.shim / "libgomp.so.1"
    return arguments.libomp if runtime == "libomp" else None


class Manager:
    """A private manager for the managed runs."""

    def __init__(self, program, folder):
        self.program, self.socket = program, folder / "manager/app.sock"
        self.socket.parent.mkdir(mode=0o700, exist_ok=True)
        if self.answers():
            sys.exit(f"real: a manager of another run answers at {self.socket}; end it first (pkill -f {self.socket})")
        self.child = subprocess.Popen([program, "daemon", "--socket", self.socket], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        limit = time.monotonic() + 10
        while not self.answers():
            if self.child.poll() is not None or time.monotonic() > limit:
                sys.exit("real: the manager does not start")
            time.sleep(0.01)

    def answers(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            return client.connect_ex(str(self.socket)) == 0

    def stop(self):
        self.child.terminate()
        self.child.wait()


def digest(path):
    import hashlib

    return [int(hashlib.sha256(path.read_bytes()).hexdigest()[:12], 16)]


class Copy:
    """One running copy."""

    def __init__(self, subject, runtime, arguments, manager, number, turn):
        self.subject, self.runtime, self.library = subject, runtime, library_of(runtime, arguments)
        self.output = arguments.folder / f"gm/{number}.ppm"
        self.command = [str(part) for part in subject.command] + ([str(self.output)] if subject.shell_timed else [])
        self.env = environment_for(runtime, subject, arguments, manager, turn)
        self.child = None if subject.shell_timed else self.start()

    def start(self):
        return subprocess.Popen(self.command, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def await_ready(self):
        if self.child is None:
            return
        line = self.child.stdout.readline()
        if line.strip() != "ready":
            sys.exit(f"real: {self.subject.name} on {self.runtime} did not get ready: {line}{self.child.stderr.read()}")
        if self.library and str(self.library) not in pathlib.Path(f"/proc/{self.child.pid}/maps").read_text():
            sys.exit(f"real: {self.subject.name} did not load {self.library}")

    def go(self):
        """Begins its work, once more if it was done."""
        self.begin = time.monotonic()
        if self.subject.shell_timed:
            self.output.unlink(missing_ok=True)
            self.child = self.start()
            return
        try:
            self.child.stdin.write("go\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            self.ended_early()

    def ended_early(self):
        _, err = self.child.communicate()
        sys.exit(f"real: {self.subject.name} on {self.runtime} ended with {self.child.returncode} before its work was done: {err}")

    def answer(self, until):
        """Seconds and result of its work; no result when it was killed at the cap."""
        if self.subject.shell_timed:
            ended = self.end(until)
            took = time.monotonic() - self.begin
            return took, digest(self.output) if ended else None
        line = self.read_line(until)
        if line is None:
            self.child.kill()
            self.child.communicate()
            return time.monotonic() - self.begin, None
        line = json.loads(line)
        return line["seconds"], line["result"]

    def read_line(self, until):
        """None when it did not come in time. It says nothing else after "ready", so that nothing of it was read before."""
        line, pipe = b"", self.child.stdout.fileno()
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([pipe], [], [], max(0.01, until - time.monotonic()))
            if not ready:
                return None
            part = os.read(pipe, 65536)
            if not part:
                self.ended_early()
            line += part
        return line.decode()

    def end_well(self):
        """Ends it after its work; one that was timed from outside has ended."""
        if not self.subject.shell_timed and not self.end(time.monotonic() + ENDS):
            sys.exit(f"real: {self.subject.name} on {self.runtime} did its work and did not end in {ENDS} s")

    def end(self, until):
        """Ends it by the end of its input; false when it was killed."""
        try:
            out, err = self.child.communicate(timeout=max(0.01, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.communicate()
            return False
        if self.child.returncode != 0:
            sys.exit(f"real: {self.subject.name} on {self.runtime} ended with {self.child.returncode}: {out}{err}")
        return True


def run_alone(subject, arguments, manager, turn):
    """Works on each runtime in turn, several times; yields the runtime, the seconds, and the result."""
    copies = [Copy(subject, runtime, arguments, manager, 0, turn) for runtime in arguments.runtimes]
    for copy in copies:
        copy.await_ready()
    for _ in range(ROUNDS):
        for copy in copies:
            time.sleep(PAUSE)
            copy.go()
            seconds, result = copy.answer(time.monotonic() + arguments.cap)
            if result is None:
                # Nobody else is there who could be the reason.
                sys.exit(f"real: {subject.name} alone on {copy.runtime} did not end its work in {arguments.cap} s (--cap)")
            yield copy.runtime, seconds, [result]
    for copy in copies:
        copy.end_well()


def run_copies(subject, runtime, setting, arguments, manager, turn):
    """Seconds on average, and the results."""
    hog = None
    if setting == "beside a hog":
        last = sorted(os.sched_getaffinity(0))[-1]
        hog = subprocess.Popen([sys.executable, "-c", f"import os\nos.sched_setaffinity(0,[{last}])\nwhile True: pass"])
    try:
        count = {"2 copies": 2, "4 copies": 4}.get(setting, 1)
        copies = [Copy(subject, runtime, arguments, manager, number, turn) for number in range(count)]
        for copy in copies:
            copy.await_ready()
        for copy in copies:
            copy.go()
        until = time.monotonic() + arguments.cap
        # All pipes are short enough to be read one after the other.
        found = [copy.answer(until) for copy in copies]
        for copy, (_, result) in zip(copies, found):
            if result is not None:
                copy.end_well()
    finally:
        if hog:
            hog.kill()
            hog.wait()
    return statistics.mean(seconds for seconds, _ in found), [result for _, result in found]


def same(a, b):
    return len(a) == len(b) and all(abs(x - y) <= TOLERANCE * max(1.0, abs(x), abs(y)) for x, y in zip(a, b))


def turn_of(subject, setting, arguments, manager, turn, killed):
    """A run on each runtime that was not killed yet; yields the runtime, the seconds, and the results."""
    if setting == "alone":
        yield from run_alone(subject, arguments, manager, turn)
        return
    for runtime in arguments.runtimes:
        if runtime not in killed:
            yield runtime, *run_copies(subject, runtime, setting, arguments, manager, turn)


def measure(subject, arguments, manager, rows):
    expected = None
    for setting in SETTINGS:
        times = {runtime: [] for runtime in RUNTIMES}
        killed = set()
        for turn in range(arguments.repeats):
            for runtime, seconds, results in turn_of(subject, setting, arguments, manager, turn, killed):
                times[runtime].append(seconds)
                for result in results:
                    if result is None:
                        killed.add(runtime)
                    elif expected is None:
                        expected = result
                    elif not same(expected, result):
                        sys.exit(f"real: {subject.name}, {setting}, {runtime}: {result} instead of {expected}")
        row = {"program": subject.name, "setting": setting, "killed": sorted(killed), "times": times}
        row.update({runtime: statistics.median(values) for runtime, values in times.items() if values})
        rows.append(row)
        print(line_of(row), flush=True)


def line_of(row):
    """Medians, their ratios, and the median of the ratios of runs that were made one after the other."""
    kind = "libgomp" if row["setting"] == "alone" else "one"
    yardstick, times = row[kind], row["times"]
    pairs = statistics.median(ours / theirs for ours, theirs in zip(times["managed"], times[kind]))
    cells = [f"{'>' if runtime in row['killed'] else ''}{row[runtime]:.2f}" if runtime in row else "-" for runtime in RUNTIMES]
    ratios = [f"{row[runtime] / yardstick:.2f}" for runtime in ("nanos", "managed")] + [f"{pairs:.2f}"]
    return "| " + " | ".join([row["program"], row["setting"], *cells, *ratios]) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shim", type=pathlib.Path, required=True, help="folder of our libgomp.so.1")
    parser.add_argument("--libomp", type=pathlib.Path, help="LLVM's libomp.so.5; without it its column is empty")
    parser.add_argument("--cpumgr", type=pathlib.Path, required=True, help="the manager")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="where to install programs")
    parser.add_argument("--only", default=",".join(NAMES), help="programs, separated by commas")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cap", type=float, default=20.0, help="seconds after which a run is killed")
    parser.add_argument("--record", type=pathlib.Path, help="where the table's numbers go, as JSON lines")
    arguments = parser.parse_args()
    unknown = set(arguments.only.split(",")) - set(NAMES)
    if unknown:
        sys.exit(f"real: unknown program {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    arguments.runtimes = [runtime for runtime in ORDER if runtime != "libomp" or arguments.libomp]
    arguments.folder.mkdir(parents=True, exist_ok=True)
    manager = Manager(arguments.cpumgr, arguments.folder)
    rows, skipped = [], []
    try:
        print("| program | setting | " + " | ".join(RUNTIMES) + " | nanos ratio | managed ratio | pair by pair |")
        print("|" + "---|" * (len(RUNTIMES) + 5), flush=True)
        for name in arguments.only.split(","):
            try:
                measure(subject(name, arguments.folder), arguments, manager, rows)
            except Missing as reason:
                skipped.append(f"{name}: skipped, {reason}")
    finally:
        manager.stop()
    for line in skipped:
        print(line)
    if arguments.record:
        arguments.record.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
