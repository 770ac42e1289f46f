"""Metric and loss on the test set."""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from prunefl.core.objectives import Tally, loss_of
from prunefl.data import Samples
from prunefl.local import Backend, make_backend
from prunefl.rounds.server import ServerState, Setup
from prunefl.system.cores import count_workers


class Evaluator:
    """Shares the test set out among the workers, as no client computes meanwhile.

    Every batch is computed by one of them alone, so the bits do not depend on how many there are.
    """

    def __init__(self, setup: Setup, test: Samples) -> None:
        self._test = test
        size = setup.config.run.eval_batch
        self._batches = [np.arange(i, min(i + size, len(test))) for i in range(0, len(test), size)]
        count = min(count_workers(setup.config.run.workers), len(self._batches))
        self._backends = [make_backend(setup.network, setup.config, setup.measured) for _ in range(count)]
        self._metric = loss_of(setup.config).judged_by
        # data of the user's own need not stand being read by two at once
        self._reading = Lock()

    def evaluate(self, state: ServerState) -> tuple[float, float]:
        """Return the metric of the task, by default the share of test samples classified right, and the mean loss."""
        count = len(self._backends)
        shares = [self._batches[first::count] for first in range(count)]
        with ThreadPoolExecutor(count, "evaluation") as pool:
            done = [
                pool.submit(self._results, backend, state, share)
                for backend, share in zip(self._backends, shares, strict=True)
            ]
            results = [result for share in done for result in share.result()]
        # fsum: the order of the batches does not matter
        tallies = np.stack([tally for tally, _ in results])
        tally = np.array([math.fsum(column) for column in tallies.T])
        return self._metric.score(tally), math.fsum(loss for _, loss in results) / len(self._test)

    def _results(
        self, backend: Backend, state: ServerState, share: Sequence[NDArray[np.int64]]
    ) -> list[tuple[Tally, float]]:
        """Return of every batch what the metric adds up, and the sum of losses."""
        backend.load(state.sparse)
        results = []
        for indices in share:
            with self._reading:
                batch = self._test.batch(indices)
            tally, loss = backend.judge(batch)
            results.append((tally, loss * len(indices)))
        return results
