"""One real program: prepares its data, says "ready", and for each line that it reads works and prints its time and its result as JSON.

Run by `cargo xtask real`, as `python subjects.py NAME`. The result is a list of numbers that every runtime must reproduce; work that takes its time itself, without its pauses, returns that and the result.
"""

import json
import sys
import time


def ask_once():
    """What scikit-learn finds out once in a process's life, and only where OMP_NUM_THREADS is not set: lscpu counts the cores."""
    from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

    _openmp_effective_n_threads()


def kmeans():
    import numpy
    from sklearn.cluster import KMeans

    ask_once()
    data = numpy.random.default_rng(1).random((20000, 16))
    return lambda: [KMeans(n_clusters=32, n_init=1, max_iter=150, tol=0.0, random_state=0).fit(data).inertia_]


def hist():
    import numpy
    from sklearn.ensemble import HistGradientBoostingClassifier

    ask_once()
    random = numpy.random.default_rng(2)
    data = random.random((20000, 20))
    labels = (data[:, 0] + data[:, 1] * data[:, 2] > 0.8).astype(int)

    def work():
        model = HistGradientBoostingClassifier(max_iter=45, random_state=0).fit(data, labels)
        return [float(model.predict_proba(data[:500])[:, 1].sum()), float(model.score(data, labels))]

    return work


def xgboost():
    import numpy
    import xgboost as boost

    random = numpy.random.default_rng(3)
    data = random.random((5000, 20))
    labels = data[:, 0] + data[:, 1] * data[:, 2]
    matrix = boost.DMatrix(data, label=labels)

    def work():
        model = boost.train({"tree_method": "hist", "max_depth": 6, "seed": 0}, matrix, num_boost_round=80)
        return [float(model.predict(matrix).astype("float64").sum())]

    return work


def eigh():
    import numpy

    matrix = numpy.random.default_rng(4).random((500, 500))
    matrix = matrix + matrix.T

    def work():
        for _ in range(8):
            values = numpy.linalg.eigh(matrix)[0]
        return [float(values[0]), float(values[-1]), float(numpy.abs(values).sum())]

    return work


def threads():
    """How many threads a program without OpenMP is to be told to have: all, or one in the one-thread runs."""
    import os

    return int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0)))


def svd():
    import numpy

    matrix = numpy.random.default_rng(5).random((400, 400))

    def work():
        for _ in range(8):
            values = numpy.linalg.svd(matrix)[1]
        return [float(values[0]), float(values.sum())]

    return work


def dot():
    import numpy

    matrix = numpy.random.default_rng(6).random((600, 600))

    def work():
        for _ in range(60):
            product = matrix @ matrix
        return [float(product.sum()), float(product[3, 5])]

    return work


def svd_openmp():
    """Many calls of an OpenBLAS on OpenMP, each of some tens of microseconds."""
    import numpy

    matrices = numpy.random.default_rng(13).random((40, 120, 120))

    def work():
        values = [numpy.linalg.svd(matrix)[1] for matrix in matrices]
        return [float(values[0][0]), float(sum(each.sum() for each in values))]

    return work


def gemm():
    """Small products, one right after the other: the smallest that OpenBLAS gives to two threads have 262144 steps."""
    import numpy

    matrix = numpy.random.default_rng(14).random((128, 128))
    product = numpy.empty_like(matrix)

    def work():
        for _ in range(2000):
            numpy.matmul(matrix, matrix, out=product)
        return [float(product.sum()), float(product[3, 5])]

    return work


def gemm_pauses():
    """The same with pauses, of which only the products are timed: an idle pool of OpenBLAS spins for longer."""
    import numpy

    matrix = numpy.random.default_rng(14).random((128, 128))
    product = numpy.empty_like(matrix)

    def work():
        seconds = 0.0
        for _ in range(100):
            time.sleep(0.005)
            begin = time.perf_counter()
            numpy.matmul(matrix, matrix, out=product)
            seconds += time.perf_counter() - begin
        return seconds, [float(product.sum()), float(product[3, 5])]

    return work


def solve():
    import numpy
    import scipy.sparse
    import scipy.sparse.linalg

    size = 90
    line = scipy.sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(size, size))
    matrix = scipy.sparse.csc_matrix(scipy.sparse.kronsum(line, line))
    right = numpy.random.default_rng(7).random(size * size)

    def work():
        for _ in range(4):
            found = scipy.sparse.linalg.spsolve(matrix, right)
        return [float(numpy.abs(found).sum()), float(numpy.abs(matrix @ found - right).max())]

    return work


def fft():
    import numpy
    import scipy.fft

    field = numpy.random.default_rng(8).random((96, 96, 96))

    def work():
        for _ in range(8):
            other = scipy.fft.rfftn(field, workers=threads())
            back = scipy.fft.irfftn(other, s=field.shape, workers=threads())
        return [float(numpy.abs(other).sum()), float(numpy.abs(back - field).max())]

    return work


def pca():
    import numpy
    from sklearn.decomposition import PCA

    ask_once()
    data = numpy.random.default_rng(9).random((4000, 300))

    def work():
        model = PCA(n_components=20, svd_solver="full").fit(data)
        return [float(model.explained_variance_.sum())]

    return work


def lightgbm():
    import lightgbm as boost
    import numpy

    random = numpy.random.default_rng(10)
    data = random.random((8000, 20))
    labels = data[:, 0] + data[:, 1] * data[:, 2]
    options = {"objective": "regression", "verbosity": -1, "deterministic": True, "force_row_wise": True}
    if threads() == 1:
        options["num_threads"] = 1

    def work():
        model = boost.train(options, boost.Dataset(data, labels), num_boost_round=60)
        return [float(model.predict(data[:1000]).sum())]

    return work


def faiss():
    import faiss as search
    import numpy

    data = numpy.random.default_rng(11).random((20000, 64), dtype="float32")
    index = search.IndexFlatL2(64)
    index.add(data)

    def work():
        distances = index.search(data[:1500], 10)[0]
        return [round(float(distances.sum(dtype="float64")), 1)]

    return work


def polars():
    import os

    # The one-thread runs tell it by a variable of its own.
    os.environ["POLARS_MAX_THREADS"] = str(threads())
    import numpy
    import polars as frames

    random = numpy.random.default_rng(12)
    table = frames.DataFrame({"key": random.integers(0, 5000, 600000), "value": random.random(600000)})

    def work():
        for _ in range(6):
            sums = table.lazy().group_by("key").agg(frames.col("value").sum()).sort("key").collect()
        return [float(sums["value"].sum()), float(sums["value"][17])]

    return work


def duckdb():
    import duckdb as base

    connection = base.connect()
    connection.execute(f"set threads to {threads()}")
    connection.execute("create table t as select range % 5000 as key, (range * 7919 % 1000) / 1000.0 as value from range(1000000)")

    def work():
        for _ in range(6):
            rows = connection.execute("select key, sum(value) s from t group by key order by key").fetchall()
        return [float(sum(row[1] for row in rows)), float(rows[17][1])]

    return work


SUBJECTS = [kmeans, hist, xgboost, eigh, svd, dot, solve, fft, pca, lightgbm, faiss, polars, duckdb, svd_openmp, gemm, gemm_pauses]


def main():
    names = {subject.__name__.replace("_", "-"): subject for subject in SUBJECTS}
    # The same on the wheels' own BLAS.
    names["eigh-wheel"] = eigh
    work = names[sys.argv[1]]()
    print("ready", flush=True)
    for _ in sys.stdin:
        begin = time.monotonic()
        result = work()
        seconds, result = result if isinstance(result, tuple) else (time.monotonic() - begin, result)
        print(json.dumps({"seconds": seconds, "result": result}), flush=True)


if __name__ == "__main__":
    main()
