"""Standard output and error that cannot be written end no run, and lose no result."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tqdm import tqdm

import sgmcmc
from sgmcmc.potentials.analytic import Gaussian
from sgmcmc.streams import Outliving

ROOT = Path(__file__).parents[1]
RUN = "model=double_well sampler=hmc step_size=.3 chains=3 cycles=60 output=run"
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")


def shell(command, folder, **there):
    """Run the command in a shell, ``$P`` being Python, ``$R`` run.py; its status and what came out."""
    known = os.environ | {"P": sys.executable, "R": str(ROOT / "run.py"), "PYTHONPATH": str(ROOT)} | there
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=known, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.thorough
@FULL
@pytest.mark.parametrize(
    "streams",
    [">/dev/full", ">/dev/full 2>&1 progress=true", "2>&- progress=true", ">&- 2>&-", "progress=true 2>&1 | head -1"],
)
def test_a_run_goes_on_whatever_becomes_of_its_streams(tmp_path, streams):
    command = f'set -o pipefail; "$P" "$R" {RUN} {streams}'
    for _ in range(2):  # then of a run that is done
        status, _, said = shell(command, tmp_path)
        assert (status, said) == (0, "")
    assert json.loads((tmp_path / "run" / "status.json").read_text())["state"] == "done"


@pytest.mark.thorough
def test_letters_that_an_encoding_lacks_are_question_marks(tmp_path):
    status, said, wrong = shell(f'"$P" "$R" {RUN}', tmp_path, PYTHONIOENCODING="ascii")
    assert (status, wrong) == (0, "") and "effective sample size of the slower of mean and variance" in said
    assert "?" in said and "±" in (tmp_path / "run" / "log.txt").read_text()
    assert shell('"$P" "$R" --help', tmp_path, PYTHONIOENCODING="ascii")[0] == 0


@pytest.mark.thorough
@FULL
def test_a_table_that_cannot_be_written_is_told(tmp_path):
    assert shell(f'"$P" "$R" {RUN}', tmp_path)[0] == 0
    status, _, said = shell('"$P" -m experiments.collect run >/dev/full', tmp_path)
    assert (status, said) == (2, "standard output cannot be written (No space left on device)\n")
    assert shell(f'"$P" "$R" --cfg job {RUN} >/dev/full', tmp_path)[::2] == (2, said)
    assert shell('set -o pipefail; "$P" -m experiments.collect run | head -0', tmp_path)[::2] == (0, "")


def test_a_stream_drops_everything_from_the_first_line_that_it_cannot_write(tmp_path):
    reads, writes = os.pipe()
    os.close(reads)
    stream = Outliving(os.fdopen(writes, "w"))
    assert print("some", file=stream, flush=True) is None and isinstance(stream.lost, BrokenPipeError)
    print("more", file=stream, flush=True)
    stream.writelines(["and", "more"])
    stream.close()
    assert stream.write("closed") == 6


@pytest.mark.parametrize("gone", [True, False])
def test_draws_in_memory_outlive_a_bar_that_cannot_be_written(monkeypatch, gone, tmp_path):
    class Gone:
        encoding = "utf-8"

        def write(self, text):
            raise OSError("no terminal")

        flush = isatty = fileno = lambda self: False

    monkeypatch.setattr(sys, "stderr", None if gone else Gone())
    result = sgmcmc.sample(Gaussian(2), "hmc", step_size=0.1, cycles=30, progress=True)
    assert result.status == "done" and len(result.draws) == 30

    def free(lock) -> bool:
        taken = lock.acquire(False)
        if taken:
            lock.release()
        return taken

    with ThreadPoolExecutor() as other:  # else a process would wait at its end for tqdm's thread, which waits for them
        assert all(other.map(free, tqdm.get_lock().locks))
