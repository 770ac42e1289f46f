"""Cut a data set into clients: by who made it, evenly, or with unequal label mixes."""

import numpy as np

from prunefl.core.randomness import Ints, Stream
from prunefl.system.errors import PruneFLError

DIRICHLET_DRAWS = 20


def by_group(group_of: Ints, clients: int, word: str = "group") -> list[Ints]:
    """Return each client's rows; clients take equally many groups in order, the last also what is left over.

    Args:
        group_of: who made each sample, int64, shape (samples,), counted from 0.
        clients: how many; 0 for one per group.
    """
    groups = int(group_of.max()) + 1
    clients = clients or groups
    if not 1 <= clients <= groups:
        raise PruneFLError(f"data.clients={clients}, must be in 1..{groups}: the data has {groups} {word}s")
    client_of = np.minimum(group_of // (groups // clients), clients - 1)
    shares = rows_by_group(client_of, clients)
    if (empty := _first_empty(shares)) is not None:
        raise PruneFLError(f"data.partition={word!r}, leaves client {empty} without samples, must leave some")
    return shares


def iid(samples: int, clients: int, stream: Stream) -> list[Ints]:
    """Return a random cut into shares whose sizes differ by one at most."""
    _check_clients(clients, samples)
    return [np.sort(rows) for rows in np.array_split(stream.permutation(samples), clients)]


def dirichlet(labels: Ints, clients: int, alpha: float, stream: Stream) -> list[Ints]:
    """Return a cut in which each class is spread over the clients in proportions drawn from Dirichlet(α).

    As in Hsu, Qi and Brown (2019); drawn again, a few times, when a client would stay empty.
    """
    if not alpha > 0:
        raise PruneFLError(f"data.alpha={alpha}, must be > 0")
    _check_clients(clients, len(labels))
    # a Stream has no Dirichlet; numpy's is seeded from it
    random = np.random.default_rng(int(stream.integers(2**62, (1,))[0]))
    for _ in range(DIRICHLET_DRAWS):
        shares = rows_by_group(_dirichlet_draw(labels, clients, alpha, random), clients)
        if (empty := _first_empty(shares)) is None:
            return shares
    raise PruneFLError(
        f"data.alpha={alpha}, leaves client {empty} of data.clients={clients} without samples: "
        f"must be larger, or the clients fewer"
    )


def shards(labels: Ints, clients: int, per_client: int, stream: Stream) -> list[Ints]:
    """Return a cut of the samples sorted by label into equal shards, dealt at random (McMahan 2017)."""
    if per_client < 1:
        raise PruneFLError(f"data.shards={per_client}, must be >= 1")
    _check_clients(clients, len(labels))
    if clients * per_client > len(labels):
        raise PruneFLError(
            f"data.shards={per_client}, must be <= {len(labels) // clients}: "
            f"{len(labels)} samples for {clients} clients"
        )
    # shuffled first, so that it is chance which samples of a class share a shard
    order = stream.permutation(len(labels))
    order = order[labels[order].argsort(stable=True)]
    pieces = np.array_split(order, clients * per_client)
    dealt = stream.permutation(len(pieces)).reshape(clients, per_client)
    return [np.sort(np.concatenate([pieces[i] for i in hand])) for hand in dealt]


def _dirichlet_draw(labels: Ints, clients: int, alpha: float, random: np.random.Generator) -> Ints:
    """Return the client of each sample, int64, shape (samples,)."""
    client_of = np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        rows = random.permutation(np.flatnonzero(labels == label))
        ends = np.cumsum(random.dirichlet(np.full(clients, alpha)))[:-1] * len(rows)
        client_of[rows] = np.searchsorted(ends.astype(np.int64), np.arange(len(rows)), side="right")
    return client_of


def rows_by_group(group_of: Ints, groups: int = 0) -> list[Ints]:
    """Return the rows of each group (there may be `groups`, the last without rows): one sort, not many scans."""
    ends = np.bincount(group_of, minlength=groups).cumsum()
    return np.split(group_of.argsort(stable=True), ends[:-1])


def _first_empty(shares: list[Ints]) -> int | None:
    """Return the first client without samples."""
    return next((client for client, rows in enumerate(shares) if not len(rows)), None)


def _check_clients(clients: int, samples: int) -> None:
    """Refuse more clients than samples."""
    if not 1 <= clients <= samples:
        raise PruneFLError(f"data.clients={clients}, must be in 1..{samples}: the data has {samples} samples")
