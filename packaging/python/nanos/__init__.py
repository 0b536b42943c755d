"""Python programs that share the processors of a machine: `python -m nanos run train.py`.

The processor manager and the library that makes a program's threads follow it are in this package; no privilege is
needed. `limits()` is for programs, notebooks above all, that were not started so.
"""

import json
import os
import subprocess
from pathlib import Path

__all__ = ["Limits", "limits", "manager"]

VERSION = "@VERSION@"


def manager():
    """The path of the manager's program."""
    return Path(__file__).parent / "bin" / "cpumgr"


def _ask(*arguments):
    command = [str(manager()), *arguments]
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except OSError as error:
        said = f"cannot execute {command[0]}: {error.strerror}; install the wheel anew"
        return subprocess.CompletedProcess(command, 127, "", said)


class Limits:
    """What this process has now, and, as a context, the time in which its pools keep to that.

    processors: how many it may use now.
    machine: how many its affinity mask has while no manager binds it; else how many the manager has.
    is_managed: a manager has it among its programs.
    why: what kept it from asking a manager, or None.

    In a program that was started by `nanos run` the pools follow by themselves, and the context changes nothing.
    Elsewhere (a notebook's kernel, say) entering it has the manager bind this process's threads to its processors, and
    limits the pools that threadpoolctl knows, where that is installed; leaving it undoes both. What the process has is
    looked at again by `refresh()`.
    """

    def __init__(self, socket=None):
        self._socket = [] if socket is None else ["--socket", str(socket)]
        self._pools = None
        self._is_attached = False
        self._depth = 0
        self.refresh()

    def refresh(self):
        """Looks at what the process has now."""
        mask = len(os.sched_getaffinity(0))
        # Bound by a manager, the mask says nothing of the machine.
        if not self._is_attached:
            self.machine = mask
        self.processors, self.is_managed, self.why = mask, False, None
        said = _ask("status", "--json", *self._socket)
        if said.returncode != 0:
            self.why = said.stderr.strip() or f"cpumgr status ended with {said.returncode}"
            return self
        report = json.loads(said.stdout)
        own = [program for program in report["programs"] if program["pid"] == os.getpid()]
        if own:
            self.processors, self.is_managed = max(1, own[0]["granted"]), True
            if not self._is_attached:
                self.machine = max(mask, report["processor_count"])
        if self._pools is not None:
            self._limit()
        return self

    def _limit(self):
        try:
            from threadpoolctl import threadpool_limits
        except ImportError:
            return
        if self._pools:
            self._pools.restore_original_limits()
        self._pools = threadpool_limits(self.processors)

    def __enter__(self):
        # Entered again inside its own block, it is left when that ends.
        if self._depth == 0:
            self._begin()
        self._depth += 1
        return self

    def _begin(self):
        self.refresh()
        if self.is_managed:
            return
        said = _ask("attach", *self._socket, str(os.getpid()))
        if said.returncode != 0:
            raise RuntimeError(said.stderr.strip() or f"cpumgr attach ended with {said.returncode}")
        self._is_attached, self._pools = True, False
        try:
            self.refresh()
        except BaseException:
            # No block was begun whose end would do this.
            self._end()
            raise

    def __exit__(self, *_):
        self._depth -= 1
        if self._depth == 0:
            self._end()

    def _end(self):
        if self._is_attached:
            self._is_attached = False
            _ask("detach", *self._socket, str(os.getpid()))
        if self._pools:
            self._pools.restore_original_limits()
        self._pools = None

    def __repr__(self):
        by = "by its manager" if self.is_managed else "without a manager"
        if self.why:
            by += f" ({self.why})"
        return f"<nanos.Limits: {self.processors} of {self.machine} processors, {by}>"


def limits(socket=None):
    """What this process may use now; `with limits(): ...` keeps its pools to that."""
    return Limits(socket)
