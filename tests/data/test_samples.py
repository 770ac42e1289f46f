"""Samples come in batches of arrays, whatever a user's data set is made of."""

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from data_trees import every, pixels
from torch.utils.data import Subset, TensorDataset

from prunefl import data
from prunefl.data.samples import Images, labels_of
from prunefl.data.transform import to_unit


def test_a_thousand_clients_share_one_array() -> None:
    stored = pixels(5000, 1, 4, 4)
    whole = Images.whole(stored, np.arange(5000) % 10, to_unit)
    clients = [whole.take(rows) for rows in np.arange(5000).reshape(1000, 5)]
    assert all(client.pixels is stored for client in clients)
    x, y = clients[7].batch(np.array([4, 0, 0]))
    np.testing.assert_array_equal((x * 255).round(), stored[[39, 35, 35]])
    assert y.tolist() == [9, 5, 5]


class Pairs(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 6

    def __getitem__(self, i: int) -> tuple[Any, int]:
        return np.full((1, 2, 2), i, dtype=np.float64), i % 3


def test_any_torch_data_set_can_be_wrapped() -> None:
    x, y = data.wrap(Pairs()).batch(np.array([5, 1]))
    assert x.dtype == np.float32
    assert x[:, 0, 0, 0].tolist() == [5, 1]
    assert y.tolist() == [2, 1]
    tensors = data.wrap(TensorDataset(torch.arange(8).view(4, 2), torch.tensor([0, 1, 2, 3])))
    x, y = tensors.batch(np.array([3]))
    assert x.tolist() == [[6.0, 7.0]]
    assert y.tolist() == [3]
    assert data.wrap(tensors) is tensors


def test_what_is_no_data_set_is_refused() -> None:
    with pytest.raises(ValueError, match=r"type int, must have len\(\)"):
        data.wrap(3)
    with pytest.raises(ValueError, match="must be a pair"):
        data.wrap([1, 2]).batch(np.arange(1))
    with pytest.raises(ValueError, match="input of type str, must be a tensor"):
        data.wrap([("a", 1)]).batch(np.arange(1))
    with pytest.raises(ValueError, match="client 1 has 0 samples"):
        data.wrap_all([Pairs(), []])


def test_a_subclass_of_tensor_dataset_is_read_through_its_own_items():
    class Shifted(TensorDataset):
        def __getitem__(self, index):
            x, y = super().__getitem__(index)
            return x + 100, y

    inputs, _ = data.wrap(Shifted(torch.zeros(4, 2), torch.arange(4))).batch(np.arange(2))
    assert inputs.min() == 100


def test_labels_that_are_no_classes_are_refused_where_samples_are_classified():
    whole = TensorDataset(torch.zeros(2, 2), torch.tensor([0.0, 1.0]))
    for halves in (
        TensorDataset(torch.zeros(2, 2), torch.tensor([0.0, 1.5])),
        [(torch.zeros(2), 0.5), (torch.zeros(2), 1.0)],
    ):
        federation = data.Federation([whole, halves], whole, 2, (2,), "own")
        with pytest.raises(ValueError, match="client 1: labels are not whole numbers, must be classes"):
            data.checked(federation)
        assert (
            data.checked(federation, classified=False).clients[1].batch(np.arange(2))[1].dtype == np.float32
        )


def test_whole_numbers_stay_whole_and_pixels_do_not():
    for kind, kept in ((torch.int64, np.int64), (torch.int32, np.int64), (torch.uint8, np.float32)):
        tokens = torch.arange(10).view(5, 2).to(kind)
        for dataset in (TensorDataset(tokens, torch.arange(5)), list(zip(tokens, range(5), strict=True))):
            x, _ = data.wrap(dataset).batch(np.array([4, 0]))
            assert x.dtype == kept
            assert x.tolist() == [[8, 9], [0, 1]]


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64, torch.uint8])
def test_tensors_of_every_kind_become_float32(kind):
    """As torch's own conversion; with gradients, too."""
    inputs = (torch.rand(5, 3) * 100).to(kind).requires_grad_(kind.is_floating_point)
    labels = torch.arange(5)
    expected = inputs.detach().to(torch.float32)[[4, 0]]
    for dataset in (TensorDataset(inputs, labels), list(zip(inputs, labels, strict=True))):
        x, y = data.wrap(dataset).batch(np.array([4, 0]))
        assert x.dtype == np.float32
        np.testing.assert_array_equal(x, expected)
        assert y.tolist() == [4, 0]


def test_a_part_of_a_torch_data_set_is_read_by_its_indices():
    whole = TensorDataset(torch.rand(6, 2), torch.arange(6))
    part = data.wrap(Subset(whole, [4, 1, 3]))
    x, y = part.batch(np.array([2, 0]))
    np.testing.assert_array_equal(x, whole.tensors[0][[3, 4]])
    assert y.tolist() == [3, 4]
    assert labels_of(part).tolist() == [4, 1, 3]


def test_items_may_be_tensors_arrays_or_numbers():
    items = [
        (torch.ones(1, dtype=torch.float64), torch.tensor(2)),
        (np.ones(1, int), np.int32(0)),
        ([1.0], 1),
    ]
    x, y = data.wrap(items[:2]).batch(np.arange(2))
    assert x.tolist() == [[1.0], [1.0]]
    assert y.tolist() == [2, 0]
    assert data.wrap([(0.5, 1), (2, 0)]).batch(np.arange(2))[0].tolist() == [0.5, 2.0]
    with pytest.raises(
        ValueError, match="item 2 has an input of type list, must be a tensor, array or number"
    ):
        data.wrap(items).batch(np.arange(3))


def of_tensors(folder):
    images = Images(pixels(6, 1, 2, 2), torch.arange(6) % 2, torch.arange(6), to_unit)
    return data.Source("own", images, images, 2, (1, 2, 2), torch.arange(6) // 3, "person", "person", 0)


def test_a_source_may_have_tensors_for_its_labels_rows_and_groups():
    for partition in ("person", "iid", "shards"):
        federation = data.load(f"{__name__}:of_tensors", partition=partition, clients=2, shards=1)
        assert [len(client) for client in federation.clients] == [3, 3]
        assert all(isinstance(part, np.ndarray) for part in every(federation.clients[0]))


def test_samples_whose_batches_are_no_arrays_are_refused():
    class Own:
        def __len__(self):
            return 2

        def batch(self, indices, stream=None):
            return torch.zeros(len(indices), 3), torch.zeros(len(indices)).long()

    with pytest.raises(ValueError, match="client 0 has batches of Tensor, must be numpy arrays"):
        data.checked(data.Federation([Own()], Own(), 2, (3,), "own"))


def test_no_file_of_this_room_imports_torch_at_its_top():
    for path in Path(data.__file__).parent.glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            assert not re.search(r"^(import|from) torch\b", ast.unparse(node)), path
