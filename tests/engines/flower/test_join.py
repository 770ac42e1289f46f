"""A client whose key is not taken waits while its predecessor still counts, and gives up where it is unknown."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_mailbox import Clock

from prunefl.engines.flower import join
from prunefl.system.errors import PruneFLError

IN_USE = "Failed to initialize the connection to the SuperLink.\n[code: 2004] Failed to activate SuperNode.\n"
UNKNOWN = (
    "Failed to initialize the connection to the SuperLink.\nClient error '400 Bad Request' for url ...\n"
)


class Group:
    """A worker that lives, and a node that has ended whenever one looks, after it said this."""

    def __init__(self, words: str) -> None:
        self.words, self.starts = words, 0
        self.processes: dict[str, SimpleNamespace] = {}

    def start_node(self, options, _group) -> None:
        log = options.state / "logs" / "flower.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(self.words)
        self.processes["flower"] = SimpleNamespace(returncode=1)
        self.starts += 1

    def find_ended(self) -> list[str]:
        return ["flower"]


@pytest.mark.parametrize(
    ("words", "seconds", "said"),
    [(IN_USE, (join.COUNTS_AS_THERE, 150.0), "another client uses"), (UNKNOWN, (0.0, 5.0), "does not know")],
)
def test_a_key_in_use_is_tried_until_a_killed_client_counts_no_more(
    tmp_path: Path, monkeypatch, words, seconds, said
) -> None:
    clock, group, lines = Clock(), Group(words), []
    monkeypatch.setattr(join, "time", clock)
    monkeypatch.setattr(join, "start_worker", lambda options, group: None)
    monkeypatch.setattr(join, "wait_for_server", lambda *given: None)
    monkeypatch.setattr(join, "start_node", group.start_node)
    options = SimpleNamespace(state=tmp_path, keys=tmp_path / "client-4", server="office:9092", stay=False)
    begun = clock.now
    with pytest.raises(PruneFLError, match=f"{said}.*client-4/node.key"):
        join._work(options, group, "office", 9092, lines.append)
    assert seconds[0] <= clock.now - begun < seconds[1]
    assert all("still counts a client with this key" in line for line in lines) == (words == IN_USE)
