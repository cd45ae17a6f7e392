"""Do the ranges of pyproject.toml hold? Tests under the lowest and the newest versions they allow: ``make matrix``.

    python scripts/matrix.py [--pythons 3.11,3.12] [--versions lowest,newest] [words for pytest]

Each combination is an environment of its own in .venv-matrix, made by uv (which is installed there where the machine
has none). uv links what is in its cache, so one version of torch, 5 GB, takes its room once. A Python that is not on
the machine is skipped. Without words for pytest the tests are all but the slow ones. Exit status 1 where an
environment cannot be made or a test fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".venv-matrix"
VERSIONS = {"lowest": "lowest-direct", "newest": "highest"}  # uv's words


def main(argv: list[str] | None = None) -> int:
    """Every combination in turn; prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pythons", default="3.11,3.12,3.13")
    parser.add_argument("--versions", default="lowest,newest")
    options, words = parser.parse_known_args(argv)
    versions = options.versions.split(",")
    if unknown := [one for one in versions if one not in VERSIONS]:
        parser.error(f"--versions {unknown[0]}: must be some of {', '.join(VERSIONS)}")
    uv, told = find_uv(), []
    for python in options.pythons.split(","):
        for version in versions:
            told.append((python, version, combination(uv, python, version, words)))
            print(f"Python {python}, {version} versions: {told[-1][2]}", flush=True)
    print()
    for python, version, outcome in told:
        print(f"{python}  {version}  {outcome}")
    return int(any("failed" in outcome for *_, outcome in told))


def find_uv() -> str:
    """uv, from the machine or installed beside the environments."""
    if found := shutil.which("uv"):
        return found
    own = HOME / "uv" / "bin"
    if not (own / "uv").exists():
        subprocess.run([sys.executable, "-m", "venv", own.parent], check=True)
        subprocess.run([own / "python", "-m", "pip", "install", "-q", "uv"], check=True)
    return str(own / "uv")


def combination(uv: str, python: str, version: str, words: list[str]) -> str:
    """What became of one environment, in words."""
    place = HOME / f"{python}-{version}"
    if subprocess.run([uv, "python", "find", "--no-python-downloads", python], capture_output=True).returncode:
        return "skipped: not on this machine"
    target = ["--python", str(place / "bin" / "python")]
    made = [
        [uv, "venv", "-q", "--clear", "--no-python-downloads", "--python", python, str(place)],
        [uv, "pip", "install", "-q", *target, "--resolution", VERSIONS[version], "-e", f"{ROOT}[test]"],
    ]
    for command in made:
        if subprocess.run(command, cwd=ROOT).returncode:
            return "failed: the environment cannot be made"
    begun = time.monotonic()
    inside = {**os.environ, "PATH": f"{place / 'bin'}:{os.environ['PATH']}"}
    ended = subprocess.run(
        [place / "bin" / "python", "-m", "pytest", "-p", "no:cacheprovider", *(words or ["-m", "not slow"])],
        cwd=ROOT,
        env=inside,
        capture_output=True,
        text=True,
    )
    log = place / "pytest.log"
    log.write_text(ended.stdout + ended.stderr)
    seconds = f"in {time.monotonic() - begun:.0f} s"
    failed = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if ended.returncode:
        return "\n    ".join([f"failed {seconds}, all of it in {log}", *failed])
    return f"passed {seconds}"


if __name__ == "__main__":
    sys.exit(main())
