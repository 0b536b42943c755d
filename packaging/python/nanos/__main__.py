"""The command `nanos`: the manager's own, and Python programs by their files."""

import os
import sys

from . import manager

# Options of `run` and `submit` with a value, which may be the next word. A test of cpumgr compares
# them with its own.
VALUED = {
    "--after",
    "--array",
    "--class",
    "--cpus",
    "--deadline",
    "--index",
    "--label",
    "--lib",
    "--max",
    "--min",
    "--output",
    "--placement",
    "--policy",
    "--preload",
    "--procs",
    "--socket",
    "--stage",
    "--team",
    "--tell",
    "--time-limit",
    "--weight",
}
USAGE = """usage: nanos run [OPTIONS] train.py|PROGRAM [ARGUMENTS]   runs it under the manager of this user, which it starts
       nanos run [OPTIONS] -m MODULE [ARGUMENTS]          the same, as `python -m`
       nanos status                                       what each program asks for, and what it has
       nanos COMMAND ...                                  any other command of the manager: `nanos help`"""


def with_python(words):
    """The words after `run`, with this Python in front of a file that ends in .py, or of `-m MODULE`."""
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] != "-m":
        word = words[place]
        place += 2 if word in VALUED else 1
        if word == "--":
            break
    if place < len(words) and (words[place] == "-m" or words[place].endswith(".py")):
        return [*words[:place], *([] if "--" in words[:place] else ["--"]), sys.executable, *words[place:]]
    return words


def main():
    words = sys.argv[1:]
    if not words:
        sys.exit(USAGE)
    if words[0] in ("run", "submit"):
        words = [words[0], *with_python(words[1:])]
    program = str(manager())
    try:
        os.execv(program, [program, *words])
    except OSError as error:
        sys.exit(f"nanos: cannot execute {program}: {error.strerror}; install the wheel anew")


if __name__ == "__main__":
    main()
