"""Accuracy and loss on the test set."""

import os

import torch

from prunefl.config import Config
from prunefl.data import Samples
from prunefl.losses import LOSSES
from prunefl.server import ServerState
from prunefl.threads import running_threads
from prunefl.trainer import Trainer


def evaluate(trainer: Trainer, state: ServerState, test: Samples, config: Config) -> tuple[float, float]:
    """Return the share of test samples classified right, and the mean loss."""
    criterion = LOSSES[config.training.loss]
    model = trainer.load(state.values, state.masks).eval()
    right, loss = 0, 0.0
    # No client computes meanwhile, so all cores are free.
    with torch.no_grad(), running_threads(os.cpu_count() or 1):
        for indices in torch.arange(len(test)).split(config.run.eval_batch):
            inputs, labels = test.batch(indices)
            logits = model(inputs)
            right += int((logits.argmax(1) == labels).sum())
            loss += float(criterion(logits, labels)) * len(labels)
    return right / len(test), loss / len(test)
