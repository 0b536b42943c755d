"""Uses an installed wheel, as `cargo xtask wheel --check` has it: run by the Python of a clean virtual environment."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import nanos

PROGRAM = """
import ctypes, json, os, sys
maps = open("/proc/self/maps").read()
import nanos
library = ctypes.CDLL("libgomp.so.1")
library.GOMP_parallel.restype = None
body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
library.GOMP_parallel(body, None, 1, 0)
limits = nanos.limits()
print(json.dumps({"arguments": sys.argv[1:], "loaded": "nanos/lib/nanos/libgomp.so.1" in maps,
                  "managed": limits.is_managed, "processors": limits.processors, "pid": os.getpid()}))
"""


def run(*command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **options)
    return done.returncode, done.stdout, done.stderr


def must_be(what, is_so):
    if not is_so:
        sys.exit(f"wheel: {what}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder))
    print("ok")


def check_blocks():
    limits = nanos.limits()
    with limits:
        with limits:
            pass
        must_be("let go at the end of the outer block", nanos.limits().is_managed)
    must_be("let go again", not nanos.limits().is_managed)
    # A block that cannot begin leaves nothing.
    limits._limit = lambda: 1 / 0
    try:
        with limits:
            must_be("a block without its pools", False)
    except ZeroDivisionError:
        pass
    must_be("let go of what did not begin", not nanos.limits().is_managed)
    manager, nanos.manager = nanos.manager, lambda: Path("/nowhere/cpumgr")
    without = nanos.limits()
    nanos.manager = manager
    must_be(f"why: {without}", "cannot execute" in without.why and not without.is_managed)


def check(folder):
    socket = folder / "app.sock"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NANOS_", "OMP_", "LD_"))}
    environment["NANOS_CPUMGR"] = str(socket)
    os.environ.clear()
    os.environ.update(environment)
    code, _, said = run("nanos", "status")
    must_be(f"status without a manager: {code} {said}", code == 3 and "no manager" in said)
    with open(folder / "train.py", "w") as file:
        file.write(PROGRAM)
    try:
        for command in (["nanos"], [sys.executable, "-m", "nanos"]):
            code, out, said = run(*command, "run", "--policy", "dss-ts", str(folder / "train.py"), "7", "--x")
            must_be(f"run: {code} {said}", code == 0)
            found = json.loads(out)
            must_be(f"run: {found} {said}", found["loaded"] and found["managed"] and found["arguments"] == ["7", "--x"])
            must_be(f"run: {found}", 1 <= found["processors"] <= len(os.sched_getaffinity(0)))
        # A module, as `python -m` has it.
        for before in ([], ["--"]):
            code, out, said = run(
                "nanos", "run", "--max", "1", *before, "-m", "train", "-m", "x", env={**environment, "PYTHONPATH": str(folder)}
            )
            must_be(f"a module: {code} {said}", code == 0 and json.loads(out)["arguments"] == ["-m", "x"])
        # Values that are words of their own are not the program.
        values = ("--max", "1", "--min", "1", "--team", "malleable", "--label", "check", "--no-attach")
        for ways in (["run", *values], ["run", *values, "--"], ["submit", "--wait", "--time-limit", "60s", *values]):
            code, out, said = run("nanos", *ways, str(folder / "train.py"), "--max", "2")
            must_be(f"{ways}: {code} {said}", code == 0)
            found = json.loads(out)
            must_be(f"{ways}: {found}", found["arguments"] == ["--max", "2"] and found["processors"] == 1)
        code, out, said = run("nanos", "status")
        must_be(f"status: {code} {out} {said}", code == 0 and "policy dss-ts" in out)
        # A process that runs already.
        before = nanos.limits()
        must_be(f"{before}", not before.is_managed and before.why is None)
        with nanos.limits() as inside:
            must_be(f"{inside}", inside.is_managed)
            must_be(f"inside {inside}, before {before}", inside.machine == before.machine)
            inside.refresh()
            must_be(f"refreshed: {inside}", inside.machine == before.machine)
        must_be("let go again", not nanos.limits().is_managed)
        check_blocks()
        code, _, said = run("nanos", "run", "/nowhere/program")
        must_be(f"a program that is not there: {code} {said}", code == 127)
    finally:
        run("nanos", "stop")
    without = nanos.limits()
    must_be(f"why: {without}", "no manager" in without.why and without.why in repr(without))
    try:
        with nanos.limits():
            must_be("limits without a manager", False)
    except RuntimeError as error:
        must_be(f"limits without a manager: {error}", "no manager" in str(error))


if __name__ == "__main__":
    main()
