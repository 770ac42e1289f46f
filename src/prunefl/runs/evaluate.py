"""Accuracy and loss on the test set."""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import torch
from torch import Tensor

from prunefl.config import Config
from prunefl.data import Samples
from prunefl.local.torch_backend.losses import LOSSES
from prunefl.local.torch_backend.threads import workers
from prunefl.local.torch_backend.trainer import Trainer
from prunefl.rounds.server import ServerState, Setup


def is_evaluated(round: int, config: Config) -> bool:
    """Return whether the model is evaluated after this round."""
    return round % config.run.eval_every == 0 or round >= config.run.rounds


class Evaluator:
    """Shares the test set out among the workers, as no client computes meanwhile.

    Every batch is computed by one of them alone, so the bits do not depend on how many there are.
    """

    def __init__(self, setup: Setup, test: Samples) -> None:
        self._test = test
        self._criterion = LOSSES[setup.config.training.loss]
        self._batches = torch.arange(len(test)).split(setup.config.run.eval_batch)
        count = min(workers(setup.config.run.workers), len(self._batches))
        self._trainers = [
            Trainer(setup.model, setup.template, setup.classes, setup.batch_shape) for _ in range(count)
        ]
        # data of the user's own need not stand being read by two at once
        self._reading = Lock()

    def evaluate(self, state: ServerState) -> tuple[float, float]:
        """Return the share of test samples classified right, and the mean loss."""
        count = len(self._trainers)
        shares = [self._batches[first::count] for first in range(count)]
        with ThreadPoolExecutor(count, "evaluation") as pool:
            done = [
                pool.submit(self._results, trainer, state, share)
                for trainer, share in zip(self._trainers, shares, strict=True)
            ]
            results = [result for share in done for result in share.result()]
        # fsum: the order of the batches does not matter
        right, loss = sum(right for right, _ in results), math.fsum(loss for _, loss in results)
        return right / len(self._test), loss / len(self._test)

    def _results(
        self, trainer: Trainer, state: ServerState, share: Sequence[Tensor]
    ) -> list[tuple[int, float]]:
        """Return of every batch how many are right, and the sum of losses."""
        model = trainer.load(state.values, state.masks).eval()
        results = []
        with torch.no_grad():
            for indices in share:
                with self._reading:
                    inputs, labels = self._test.batch(indices)
                logits = model(inputs)
                right = int((logits.argmax(1) == labels).sum())
                results.append((right, float(self._criterion(logits, labels)) * len(labels)))
        return results
