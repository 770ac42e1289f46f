"""Cut a data set into clients: by who made it, evenly, or with unequal label mixes."""

import numpy as np
import torch
from torch import Tensor

DIRICHLET_DRAWS = 20


def by_group(group_of: Tensor, clients: int, word: str = "group") -> list[Tensor]:
    """Return each client's rows; clients take equally many groups in order, the last also what is left over.

    Args:
        group_of: who made each sample, int64, shape (samples,), counted from 0.
        clients: how many; 0 for one per group.
    """
    groups = int(group_of.max()) + 1
    clients = clients or groups
    if not 1 <= clients <= groups:
        raise ValueError(f"data.clients={clients}, must be in 1..{groups}: the data has {groups} {word}s")
    client_of = (group_of // (groups // clients)).clamp_(max=clients - 1)
    return _non_empty(_rows_by_client(client_of, clients), f"data.partition={word!r}")


def iid(samples: int, clients: int, generator: torch.Generator) -> list[Tensor]:
    """Return a random cut into shares whose sizes differ by one at most."""
    _check_clients(clients, samples)
    order = torch.randperm(samples, generator=generator)
    return [rows.sort().values for rows in order.tensor_split(clients)]


def dirichlet(labels: Tensor, clients: int, alpha: float, generator: torch.Generator) -> list[Tensor]:
    """Return a cut in which each class is spread over the clients in proportions drawn from Dirichlet(α).

    As in Hsu, Qi and Brown (2019); drawn again, a few times, when a client would stay empty.
    """
    if not alpha > 0:
        raise ValueError(f"data.alpha={alpha}, must be > 0")
    _check_clients(clients, len(labels))
    # torch has no public Dirichlet that takes a generator; numpy's is seeded from ours.
    random = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
    for _ in range(DIRICHLET_DRAWS):
        client_of = torch.from_numpy(_dirichlet_draw(labels.numpy(), clients, alpha, random))
        shares = _rows_by_client(client_of, clients)
        if all(len(rows) for rows in shares):
            return shares
    empty = next(client for client, rows in enumerate(shares) if not len(rows))
    raise ValueError(
        f"data.alpha={alpha}, leaves client {empty} of data.clients={clients} without samples: "
        f"must be larger, or the clients fewer"
    )


def shards(labels: Tensor, clients: int, per_client: int, generator: torch.Generator) -> list[Tensor]:
    """Return a cut of the samples sorted by label into equal shards, dealt at random (McMahan 2017)."""
    if per_client < 1:
        raise ValueError(f"data.shards={per_client}, must be >= 1")
    _check_clients(clients, len(labels))
    if clients * per_client > len(labels):
        raise ValueError(
            f"data.shards={per_client}, must be <= {len(labels) // clients}: "
            f"{len(labels)} samples for {clients} clients"
        )
    # shuffled first, so that it is chance which samples of a class share a shard
    order = torch.randperm(len(labels), generator=generator)
    order = order[labels[order].argsort(stable=True)]
    pieces = order.tensor_split(clients * per_client)
    dealt = torch.randperm(len(pieces), generator=generator).view(clients, per_client).tolist()
    return [torch.cat([pieces[i] for i in hand]).sort().values for hand in dealt]


def _dirichlet_draw(
    labels: np.ndarray, clients: int, alpha: float, random: np.random.Generator
) -> np.ndarray:
    """Return the client of each sample, int64, shape (samples,)."""
    client_of = np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        rows = random.permutation(np.flatnonzero(labels == label))
        ends = np.cumsum(random.dirichlet(np.full(clients, alpha)))[:-1] * len(rows)
        client_of[rows] = np.searchsorted(ends.astype(np.int64), np.arange(len(rows)), side="right")
    return client_of


def _rows_by_client(client_of: Tensor, clients: int) -> list[Tensor]:
    """Return the rows of each client, ascending: one sort, not one scan per client."""
    order = client_of.argsort(stable=True)
    counts = torch.bincount(client_of, minlength=clients)
    return list(torch.split(order, counts.tolist()))


def _non_empty(shares: list[Tensor], setting: str) -> list[Tensor]:
    """Return the shares, every one of which must hold something."""
    for client, rows in enumerate(shares):
        if not len(rows):
            raise ValueError(f"{setting}, leaves client {client} without samples, must leave at least 1")
    return shares


def _check_clients(clients: int, samples: int) -> None:
    """Refuse more clients than samples."""
    if not 1 <= clients <= samples:
        raise ValueError(f"data.clients={clients}, must be in 1..{samples}: the data has {samples} samples")
