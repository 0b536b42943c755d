"""D2 for a program that is not compiled for OpenMP: members of a region start programs and threads
in all of Python's ways.
Usage: starters.py PROGRAM, which compares its mask with its argument (tests/c/starters.c)."""
import ctypes
import os
import subprocess
import sys
import threading
import time

program = sys.argv[1]
whole = os.sched_getaffinity(0)
mask = "".join(f"{cpu}," for cpu in sorted(whole))
command = [program, "is", mask]
# Preloaded, or linked by nothing: then this is an error.
library = ctypes.CDLL(None)
wrong, done = [], []


def expect(what, status):
    if status != 0:
        wrong.append(f"{what}: {status}")


def start_all(_):
    own = os.sched_getaffinity(0)
    expect("subprocess", subprocess.run(command).returncode)
    expect("subprocess of a shell", subprocess.run(" ".join(command), shell=True).returncode)
    expect("subprocess with a function before exec", subprocess.run(command, preexec_fn=lambda: None).returncode)
    if hasattr(os, "posix_spawn"):
        expect("posix_spawn", os.waitpid(os.posix_spawn(program, command, os.environ), 0)[1])
    expect("spawnv", os.spawnv(os.P_WAIT, program, command))
    expect("system", os.system(" ".join(command)))
    expect("popen", os.popen(" ".join(command)).close() or 0)
    of_thread = []
    thread = threading.Thread(target=lambda: of_thread.append(os.sched_getaffinity(0)))
    thread.start()
    thread.join()
    if of_thread != [whole]:
        wrong.append(f"a thread with processors {of_thread}")
    if os.sched_getaffinity(0) != own:
        wrong.append(f"processors {os.sched_getaffinity(0)} instead of {own}")
    done.append(own)


def region(function):
    """A region of two threads."""
    compiled = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)
    library.GOMP_parallel(compiled, None, ctypes.c_uint(2), ctypes.c_uint(0))


def sizes():
    """How many processors its members have."""
    found = []
    region(lambda _: found.append(len(os.sched_getaffinity(0))))
    return sorted(found)


# A new thread finds its place at its second look.
end = time.monotonic() + 10
while sizes() != [1, len(whole)] and time.monotonic() < end:
    time.sleep(0.001)
region(start_all)
if len(done) != 2:
    wrong.append(f"{len(done)} of 2 members came to their end")
if sizes() != [1, len(whole)]:
    wrong.append(f"members of {sizes()} processors")
print("\n".join(wrong) or "ok")
