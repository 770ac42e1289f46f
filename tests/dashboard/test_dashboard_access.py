"""Who may read the dashboard, and what nobody can do through it."""

import http.client
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from served import served

from prunefl.dashboard.access import Terms, check_terms
from synthetic import write_run

TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "a", "snip", 0, rounds=20)
    return folder


@pytest.fixture(scope="module")
def free(runs: Path) -> Iterator[str]:
    with served([runs]) as url:
        yield url


@pytest.fixture(scope="module")
def guarded(runs: Path) -> Iterator[str]:
    with served([runs], terms=Terms("127.0.0.1", TOKEN, is_tls=True)) as url:
        yield url


def ask(url: str, path: str = "/", method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    line = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    line.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = line.getresponse()
    text = "" if path.startswith("/events") else answer.read().decode()
    found = {name.lower(): value for name, value in answer.getheaders()}
    line.close()
    return answer.status, found, text


def test_every_answer_forbids_scripts_of_others_frames_and_guesses(free: str) -> None:
    for path in ("/", "/static/dashboard.js", "/events", "/metrics", "/static/none.js", "/nothing"):
        _, headers, _ = ask(free, path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_it_can_only_be_read(free: str, method: str) -> None:
    assert ask(free, "/", method)[0] == 405
    assert ask(free, "/events", method)[0] == 405


@pytest.mark.parametrize(
    "path",
    [
        "/static/../serve.py",
        "/static/..%2f..%2fserve.py",
        "/static/index.html",
        "/../../etc/passwd",
        "//etc/passwd",
        "/docs",
        "/openapi.json",
    ],
)
def test_no_other_file_is_served(free: str, path: str) -> None:
    assert ask(free, path)[0] == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_a_name_of_another_site_that_points_here_is_refused(free: str, host: str) -> None:
    assert ask(free, Host=host)[0] == 421


@pytest.mark.parametrize("host", ["localhost", "localhost:8642", "127.0.0.1:1", "[::1]:8642", "[::1]"])
def test_every_name_of_this_machine_is_known(free: str, host: str) -> None:
    assert ask(free, Host=host)[0] == 200


def test_a_token_is_asked_for_kept_in_a_cookie_and_taken_out_of_the_address(guarded: str) -> None:
    for path in ("/", "/events", "/metrics", "/static/dashboard.js", "/?token=wrong", "/?token="):
        assert ask(guarded, path)[0] == 401
    status, headers, _ = ask(guarded, f"/?token={TOKEN}")
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Secure"} <= set(cookie.split("; "))
    assert ask(guarded, Cookie=cookie.partition(";")[0])[0] == 200
    assert ask(guarded, "/metrics", Authorization=f"Bearer {TOKEN}")[0] == 200
    for wrong in ("prunefl_dashboard=x", 'prunefl_dashboard="\\"', "=;;", "a=b"):
        assert ask(guarded, Cookie=wrong)[0] == 401
    assert ask(guarded, "/metrics", Authorization="Bearer ")[0] == 401


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "pi.local"])
def test_an_address_that_others_reach_needs_tls_or_a_proxy_and_a_token(host: str) -> None:
    with pytest.raises(ValueError, match=r"give --cert and --key for TLS, or --proxy"):
        check_terms(Terms(host, TOKEN))
    with pytest.raises(ValueError, match=r"give --token FILE"):
        check_terms(Terms(host, is_tls=True))
    with pytest.raises(ValueError, match=r"give --token FILE"):
        check_terms(Terms(host, behind_proxy=True))
    check_terms(Terms(host, TOKEN, is_tls=True))
    check_terms(Terms(host, TOKEN, behind_proxy=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost"])
def test_this_machine_needs_nothing(host: str) -> None:
    check_terms(Terms(host))
