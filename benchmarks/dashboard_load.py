"""The dashboard of a large federation: how soon it is ready, how soon it shows a round, and what that takes.

Writes a made-up run of many clients that all take part in many rounds, serves it by `prunefl dashboard`, opens it in a
headless Chromium and goes on writing a round and a status each second, as a server does.

Run: python benchmarks/dashboard_load.py [CLIENTS] [ROUNDS] [SECONDS]
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browser import Page, opened
from prunefl.engines.flower.membership import Member
from prunefl.engines.flower.status import Status
from prunefl.system.locks import hold
from synthetic import write_run

WATCH = """
window.shown = {};
new MutationObserver(() => {
    const place = document.getElementById("place");
    if (document.documentElement?.dataset.ready && !window.readyAfter) window.readyAfter = performance.now();
    if (place && !(place.textContent in shown)) shown[place.textContent] = Date.now() / 1000;
}).observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
"""


def write_large_run(folder: Path, clients: int, rounds: int, more: int) -> list[str]:
    """Write a run with this many rounds and return the lines of those that are to come."""
    write_run(folder, "prunefl", 0, "server.deadline=60", rounds=rounds + more, end=False)
    records = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    records[0]["clients"], records[0]["devices"] = clients, ["raspberry-pi-4"] * clients
    for record in records[1:]:
        if record["kind"] == "round":
            record["clients"] = list(range(clients))
    lines = [json.dumps(record, separators=(",", ":")) + "\n" for record in records]
    (folder / "records.jsonl").write_text("".join(lines[:-more]))
    return lines[-more:]


def make_members(clients: int) -> dict[int, Member]:
    return {
        n: Member(n, n + 1, online=True, last_seen=time.time(), num_samples=100 + n) for n in range(clients)
    }


def cpu_seconds(pid: int) -> float:
    """Return what a process has computed so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def browser_megabytes(profile: Path) -> float:
    """Return the memory of all of a browser's processes; pages that they share count once."""
    total = 0
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if not folder.name.isdigit() or not _is_ours(folder, words, profile):
                continue
            rollup = (folder / "smaps_rollup").read_text().splitlines()
            total += int(next(line for line in rollup if line.startswith("Pss:")).split()[1])
        except (OSError, StopIteration):
            continue
    return total / 1024


def _is_ours(folder: Path, words: list[bytes], profile: Path) -> bool:
    """Return whether a process is this browser's: named by its profile, or a zygote's child, in our process group."""
    named = any(str(profile).encode() in word for word in words)
    group = (folder / "stat").read_text().rpartition(")")[2].split()[2]
    return named or (b"chrom" in words[0] and int(group) == os.getpgrp())


def follow(
    page: Page, folder: Path, lines: list[str], members: dict[int, Member]
) -> tuple[list[float], float]:
    """Write the rounds to come; return how long each took to be seen, and the seconds that statuses took to write."""
    status, written, spent = Status(folder, 0, members, "training"), {}, 0.0
    with (folder / "records.jsonl").open("a") as file:
        for line in lines:
            record = json.loads(line)
            time.sleep(random.uniform(0.8, 1.2))
            for member in members.values():
                member.last_seen = time.time()
            status.record, begin = record, time.process_time()
            status.write(now=True)
            spent += time.process_time() - begin
            file.write(line)
            file.flush()
            written[record["round"]] = time.time()
    time.sleep(2)
    shown = {
        int(text.split()[1].replace(",", "")): at for text, at in page.run("shown").items() if "Round" in text
    }
    return [shown[number] - at for number, at in written.items() if number in shown], spent


def main(clients: int = 1_000, rounds: int = 10_000, seconds: int = 30) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder, profile = Path(made) / "runs" / "large", Path(made) / "profile"
        lines, members = write_large_run(folder, clients, rounds, seconds), make_members(clients)
        print(
            f"{clients:,} clients, {rounds:,} rounds: {(folder / 'records.jsonl').stat().st_size / 1e6:.0f} MB"
        )
        Status(folder, rounds + seconds, members, "training").write(now=True)
        command = [sys.executable, "-m", "prunefl", "dashboard", str(folder), "--port", "0"]
        served = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert served.stdout is not None
        try:
            with hold(folder):
                url = next(line for line in served.stdout if "http" in line).split()[-1]
                measure(served.pid, url, profile, folder, lines, members)
        finally:
            served.terminate()
            served.wait()


def measure(
    pid: int, url: str, profile: Path, folder: Path, lines: list[str], members: dict[int, Member]
) -> None:
    """Open the page, follow the run and print what was seen."""
    begun = cpu_seconds(pid)
    while True:
        before = cpu_seconds(pid)
        time.sleep(1)
        if cpu_seconds(pid) - before < 0.2:
            break
    print(f"records read once, by {cpu_seconds(pid) - begun:.1f} s of a core's time")
    with opened("about:blank", profile) as page:
        time.sleep(2)
        blank = browser_megabytes(profile)
        page.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        readies = []
        for _ in range(5):
            page.call("Page.navigate", url=url)
            page.wait("window.readyAfter")
            readies.append(page.run("readyAfter") / 1000)
            time.sleep(1)
        print(
            f"page ready after {statistics.median(readies):.2f} s, at worst {max(readies):.2f} s, of five times"
        )
        before, start = cpu_seconds(pid), time.monotonic()
        delays, spent = follow(page, folder, lines, members)
        lasted = time.monotonic() - start
        load = (cpu_seconds(pid) - before) / lasted
        print(
            f"a round shown after {statistics.mean(delays):.2f} s, at worst {max(delays):.2f} s "
            f"({len(delays)} of {len(lines)} seen)"
        )
        print(f"of a core: {100 * load:.1f} % the dashboard, {100 * spent / lasted:.1f} % writing statuses")
        heap = page.run("performance.memory.usedJSHeapSize") / 1e6
        whole = browser_megabytes(profile)
        print(
            f"browser: {whole:.0f} MB, of which {blank:.0f} MB a blank page's and {whole - blank:.0f} MB this page's "
            f"({heap:.0f} MB its script's)"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
