"""Libraries with threads of their own, used as Python programs use them: `python checks.py NAME [SECONDS]` says "ok" or what was wrong.

Run by `cargo xtask flip wheels` under a manager that changes its mind all the time. Each result is judged by itself: no run of another kind has to be right.
"""

import ctypes
import os
import sys
import threading
import time

import numpy

SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0


def must(what, is_so):
    if not is_so:
        raise AssertionError(what)


def is_small(what, left, right=0.0):
    most = float(numpy.abs(left - right).max())
    must(f"{what}: {most}", most < 1e-8)


def svd(random):
    matrix = random.random((200, 200))
    left, values, right = numpy.linalg.svd(matrix)
    is_small("svd", left * values @ right, matrix)


def dot(random):
    one, other = (random.integers(-99, 99, (300, 300)) for _ in range(2))
    # Whole numbers: exact in any order, and by numpy's own loops.
    must("dot", (one.astype(float) @ other.astype(float) == one @ other).all())


def eigh(random):
    matrix = random.random((200, 200))
    matrix = matrix + matrix.T
    values, vectors = numpy.linalg.eigh(matrix)
    is_small("eigh", matrix @ vectors, vectors * values)


def solve(random):
    import scipy.linalg
    import scipy.sparse
    import scipy.sparse.linalg

    line = scipy.sparse.diags([-1.0, 2.1, -1.0], [-1, 0, 1], shape=(40, 40))
    matrix = scipy.sparse.csc_matrix(scipy.sparse.kronsum(line, line))
    right = random.random(1600)
    is_small("spsolve", matrix @ scipy.sparse.linalg.spsolve(matrix, right), right)
    dense = random.random((250, 250)) + 250 * numpy.eye(250)
    is_small("solve", dense @ scipy.linalg.solve(dense, right[:250]), right[:250])


def fft(random):
    import scipy.fft

    field = random.random((40, 40, 40))
    is_small("fft", scipy.fft.ifftn(scipy.fft.fftn(field, workers=4), workers=4).real, field)


CALLS = [svd, dot, eigh, solve, fft]


def again(calls=CALLS, seconds=SECONDS, seed=0):
    random = numpy.random.default_rng(seed)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for call in calls:
            call(random)


def in_threads():
    faults = []

    def run(seed):
        try:
            again(seed=seed)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    must(f"threads: {faults}", not faults)


def child(seed):
    again([svd, dot], 0.2, seed)
    return os.getpid()


def in_processes(method):
    import multiprocessing

    again([svd], 0.2)
    with multiprocessing.get_context(method).Pool(3) as pool:
        # The parent works meanwhile.
        work = pool.map_async(child, range(9))
        again([dot], 0.2)
        must(method, os.getpid() not in work.get(60))
    again([dot], 0.2)


def fork():
    in_processes("fork")


def spawn():
    in_processes("spawn")


def loky():
    from joblib import Parallel, delayed

    again([svd], 0.2)
    must("loky", len(set(Parallel(n_jobs=3)(delayed(child)(seed) for seed in range(9)))) > 0)


def nested():
    """BLAS in OpenMP in BLAS: numpy's calls from the members of a team of libgomp's interface."""
    library = ctypes.CDLL("libgomp.so.1")
    library.GOMP_parallel.restype = None
    faults, ran = [], []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def body(_):
        try:
            random = numpy.random.default_rng(len(ran))
            ran.append(0)
            svd(random)
            dot(random)
        except BaseException as fault:
            faults.append(fault)

    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        again([svd], 0)
        library.GOMP_parallel(body, None, 3, 0)
        library.GOMP_parallel(body, None, 0, 0)
    must(f"nested: {faults}", not faults and len(ran) > 3)


def limits():
    """threadpoolctl's limits stay limits, and what was before comes back."""
    from threadpoolctl import ThreadpoolController

    random = numpy.random.default_rng(1)
    svd(random)
    blas = ThreadpoolController().select(user_api="blas")

    def until_two():
        """A limit that is the number which the library has just then, for want of processors, cannot be seen."""
        end = time.monotonic() + 30
        while all(it["num_threads"] < 2 for it in blas.info()):
            svd(random)
            must("never two threads", time.monotonic() < end)

    def holds():
        until_two()
        with blas.limit(limits=1):
            end = time.monotonic() + SECONDS / 2
            while time.monotonic() < end:
                svd(random)
                if any(it["num_threads"] != 1 for it in blas.info()):
                    return False
        until_two()
        return True

    # Between the look and the limit the number may have become 1.
    must("a limit of 1", any(holds() for _ in range(5)))


def closed():
    """A library that is closed while others work."""
    import glob

    import scipy

    again([svd], 0.1)
    folder = os.path.join(os.path.dirname(scipy.__file__), "..", "scipy.libs")
    (path,) = glob.glob(os.path.join(folder, "libscipy_openblas-*.so"))
    close = ctypes.CDLL(None).dlclose
    close.argtypes = [ctypes.c_void_p]
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        library = ctypes.CDLL(path)
        size, one = 120, numpy.eye(120, order="F")
        other = numpy.asfortranarray(numpy.random.default_rng(2).random((size, size)))
        result = numpy.zeros((size, size), order="F")
        number, unit, zero = ctypes.byref(ctypes.c_int(size)), ctypes.byref(ctypes.c_double(1)), ctypes.byref(ctypes.c_double(0))
        place = ctypes.c_void_p
        library.scipy_dgemm_(b"N", b"N", number, number, number, unit, place(one.ctypes.data), number, place(other.ctypes.data), number, zero, place(result.ctypes.data), number)
        is_small("dgemm", result, other)
        close(library._handle)
        again([dot], 0)


def endless():
    """Calls of whole seconds until it is killed; it says a word before each."""
    matrix = numpy.random.default_rng(3).random((3000, 3000))
    while True:
        print("in a call", flush=True)
        matrix @ matrix


NAMES = {
    "endless": endless,
    "alone": again,
    "threads": in_threads,
    "fork": fork,
    "spawn": spawn,
    "loky": loky,
    "nested": nested,
    "limits": limits,
    "closed": closed,
}

if __name__ == "__main__":
    NAMES[sys.argv[1]]()
    print("ok")
