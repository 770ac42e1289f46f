"""Accuracy and loss on the test set: what plain torch says, whoever computes it."""

import threading
import time

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset

from prunefl.runs.api import train
from prunefl.runs.runner import Run
from tasks import small_clients, small_config, small_data, small_model

TEST = small_data(45, 99)


def run(workers: int, test: Dataset[tuple[Tensor, Tensor]] = TEST) -> Run:
    config = small_config(run={"workers": workers, "rounds": 2, "eval_batch": 7})
    return train(small_model(), small_clients(), test=test, config=config)


def figures(finished: Run) -> list[tuple[float, float]]:
    return [(record["accuracy"], record["test_loss"]) for record in finished.records if "test_loss" in record]


def test_accuracy_and_loss_are_those_of_plain_torch() -> None:
    finished = run(workers=2)
    images, labels = TEST.tensors
    with torch.no_grad():
        logits = finished.model.eval()(images)
    accuracy, loss = figures(finished)[-1]
    assert accuracy == float((logits.argmax(1) == labels).double().mean())
    assert loss == pytest.approx(float(cross_entropy(logits, labels)), rel=1e-5)


def test_the_figures_do_not_depend_on_the_number_of_workers() -> None:
    assert figures(run(workers=1)) == figures(run(workers=3))


def test_the_data_is_never_read_by_two_at_once() -> None:
    class Careful(Dataset[tuple[Tensor, Tensor]]):
        def __init__(self) -> None:
            self.reading, self.met = threading.Lock(), False

        def __len__(self) -> int:
            return len(TEST)

        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            if self.reading.acquire(blocking=False):
                time.sleep(0.001)
                self.reading.release()
            else:
                self.met = True
            image, label = TEST[index]
            return image, label

    data = Careful()
    assert figures(run(workers=3, test=data)) == figures(run(workers=1))
    assert not data.met
