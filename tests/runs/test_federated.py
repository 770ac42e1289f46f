"""What the server's half of a real run keeps of itself."""

from prunefl.runs.federation import name_run


def test_a_resumed_run_has_its_name_and_another_one_has_another(tmp_path):
    first = name_run(tmp_path, resume=False)
    assert name_run(tmp_path, resume=True) == first
    assert name_run(tmp_path, resume=False) != first
    assert name_run(tmp_path / "new", resume=True) != first
