"""One real program: prepares its data, says "ready", and for each line that it reads works and prints its time and its result as JSON.

Run by `cargo xtask real`, as `python subjects.py NAME`. The result is a list of numbers that every runtime must reproduce.
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


def main():
    work = {"kmeans": kmeans, "hist": hist, "xgboost": xgboost, "eigh": eigh}[sys.argv[1]]()
    print("ready", flush=True)
    for _ in sys.stdin:
        begin = time.monotonic()
        result = work()
        print(json.dumps({"seconds": time.monotonic() - begin, "result": result}), flush=True)


if __name__ == "__main__":
    main()
