"""What the server's half of a real run keeps of itself."""

from prunefl.engines.flower.server_app import run_name


def test_a_resumed_run_has_its_name_and_another_one_has_another(tmp_path):
    first = run_name(tmp_path, resume=False)
    assert run_name(tmp_path, resume=True) == first
    assert run_name(tmp_path, resume=False) != first
    assert run_name(tmp_path / "new", resume=True) != first
