"""The papers' networks at full length on one GPU, a few minutes at a time.

    make gpu-plan                     # once, where Hydra is: results/state/plan.json, what to run in which order;
                                      # FIRST=amagold_table2 puts an experiment of it before the others
    make gpu BUDGET=9                 # minutes; as often as it takes, on any machine with a GPU
    make gpu BUDGET=9 SIDE=6          # six chains at a time: a small network leaves a GPU idle, bound by one host core

`make gpu` needs no Hydra, no Jug and no network: torch, pandas, SciPy, matplotlib and safetensors, the data unpacked in
$SGMCMC_DATA, the plan, and results/state as the call before left it. It checks the machine, once for each kind of GPU
runs the tests that need one, benchmarks/gpu_accuracy.py and benchmarks/gpu.py (five minutes at most), then advances the
plan, most wanted chain first, until the minutes are over: the exact preset of the GGMC paper, GGMC and HMC; how long a
cycle may be; the seeds of AMAGOLD's Table 2; the preset as its authors ran it; then augmentation that stays exact, the
learning rate that the paper leaves out, and four corrected seeds beside four that are not. A finished chain leaves its
rows of the summary tables, and one in gpu_runs.csv that says what it ran on and how fast; of those in progress the last
checkpoints are packed, as many as fit. With SIDE=6 each chain has a process of its own, the next in the plan's order
begins where one ends, and how fast is how fast beside the others; leave it out for chains of a ResNet, of which one in
progress fills the archive, and the others would begin again. What cannot be compiled or captured here is told, and left
for another call, which may be quicker. A table whose chains are all done is written to results/paper/tables/, the
others to results/state/tables/. With DEVICE=cpu the same is done in miniature, with the smoke configurations, under
results/runs/smoke/; with MINIATURE=1 on a GPU, too, which tells within a minute, and of most chains without data of its
own, whether they run there at all.

CHECKS=0 leaves the tests and benchmarks out, where a call is for chains alone.

What is to be kept is in results/state/ and, with OUT=folder, there in at most 8 files of at most 16 MiB. Nothing is
downloaded: chains of a data set that is not there are left out, and where none is there that is said before the rest.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from experiments.wanted import WANTED  # noqa: E402
from sgmcmc import disk  # noqa: E402
from sgmcmc.errors import DataError, DiskError, NoRoom, SettingError, StoreError  # noqa: E402
from sgmcmc.streams import settle  # noqa: E402

PACKING = 20.0  # seconds kept for writing tables and packing
LEAST = 5.0  # a chain is not begun or continued with less time left;
COMPILING, DESCENDING = 60.0, 60.0  # of a ResNet that is begun, and of its SGD: of these nothing would be kept
STATE_LIMIT, FILE_LIMIT = 15 << 20, 16 << 20
NOT_PACKED = (".lock", "picture.png", "moments.safetensors")  # the checkpoint has the moments
CHECKED_MINUTES = 5  # that the tests and benchmarks of a kind of GPU may take, and
SHARES = {"tests": 0.4, "accuracy": 0.7, "benchmarks": 1.0}  # by when each must have ended
UNFINISHED = "not finished in the time there was"


def main() -> int:
    """0: the plan is done, or the time is over and all is packed; 1: something failed; 2: a mistake."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("plan", "run"))
    parser.add_argument("--budget", type=float, default=9, help="minutes, packing included (9)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cuda; cpu for the miniature (cuda)")
    parser.add_argument("--miniature", action="store_true", help="the smoke configurations on cuda, too: a first look")
    parser.add_argument("--side", type=int, default=1, help="chains at a time, each in a process of its own (1)")
    parser.add_argument("--chain", type=int, help=argparse.SUPPRESS)  # of the plan: what such a process runs
    parser.add_argument("--unchecked", action="store_true", help="no tests and benchmarks of a new kind of GPU")
    parser.add_argument("--out", type=Path, help="a folder for copies of what must be kept")
    planned = sorted(experiment for experiment, *_ in WANTED)
    parser.add_argument("--first", choices=planned, help="of the plan: what is to come before all others")
    options = parser.parse_args()
    if not options.budget > 0:
        parser.error(f"--budget {options.budget}: must be a positive number of minutes")
    if options.side < 1:
        parser.error(f"--side {options.side}: must be at least 1")
    if options.first and options.what != "plan":
        parser.error(f"--first {options.first}: is of the plan, which make gpu-plan FIRST={options.first} writes")
    os.chdir(ROOT)
    if options.what == "plan":
        return plan(options.first)
    try:
        return Session(options).run() if options.chain is None else Session(options).run_one(options.chain)
    except Refused as error:
        print(error, file=sys.stderr)
        return 2
    except DiskError as error:
        print(error, file=sys.stderr)
        return 1


class Refused(Exception):
    """What is missing, one sentence."""


# -- the plan


def home(scale: str) -> Path:
    """Where the state of a scale lies."""
    return ROOT / "results" / ("state" if scale == "paper" else "runs/smoke/state")


def plan(first: str | None = None) -> int:
    """Write the resolved configurations of both scales, in the order of wanting, one experiment before the others."""
    from tqdm import tqdm

    from experiments.grid import configurations
    from sgmcmc import LAW
    from sgmcmc.environment import environment

    commit = environment()["git_commit"]  # which a machine with a copy of the tree cannot know
    for scale in ("paper", "smoke"):
        jobs = []
        wanted = sorted(WANTED, key=lambda wanted: wanted[0] != first)
        for experiment, words, runs in tqdm(wanted, f"{scale} scale", leave=False, disable=None):
            for config in configurations(experiment, (*words, f"scale={scale}"), runs):
                config["data"]["root"] = None  # each machine has its own
                jobs.append({"experiment": experiment, "config": config})
        path = home(scale) / "plan.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"law": LAW, "commit": commit, "jobs": jobs}, indent=0) + "\n")
        print(f"{path.relative_to(ROOT)}: {len(jobs)} chains")
    return 0


# -- one call


def data_of(job: dict) -> set[str]:
    """The data sets that a chain reads from the disk."""
    data = job["config"]["data"]
    return {name for name in (data["name"], data.get("ood")) if name not in (None, "none")}


def least(job: dict, miniature: bool) -> float:
    """Seconds with less of which the chain is not worth going on with, or beginning."""
    config = job["config"]
    if miniature or config["model"]["name"] != "resnet20" or checkpoints_of(job):
        return LEAST
    return LEAST + COMPILING + DESCENDING * (config["init"] == "sgd")


def net_of(job: dict) -> tuple:
    """What of a chain decides whether its steps can be compiled and captured."""
    config = job["config"]
    tuned = config["tune"]["target"] is not None
    return json.dumps(config["model"]), config["batch_size"], config["augmentation"], config["sampler"]["name"], tuned


def checkpoints_of(job: dict) -> list[Path]:
    """What is there to go on from."""
    from experiments.resolved import folder

    return list(folder(job["config"]).glob("checkpoint-*.pt"))


def block_of(checkpoint: Path) -> int:
    """Which of its run's blocks a checkpoint is of, which no clock of another machine changes; -1 of one that
    cannot be read."""
    from sgmcmc.formats import Damaged, read_checkpoint

    try:
        return read_checkpoint(checkpoint)["record"]["block"]
    except (Damaged, StoreError):
        return -1


def read_json(path: Path, mend: str) -> dict:
    """What the file says; Refused where it is damaged."""
    with disk.told(path, mend):
        try:
            content = json.loads(path.read_bytes())
        except ValueError:
            content = None
    if not isinstance(content, dict):
        raise Refused(f"{path.relative_to(ROOT)} is damaged: {mend}")
    return content


def archive(path: Path, files: list[Path]) -> None:
    """An archive of files by their places in the repository, which a call that is killed leaves as it was before."""
    part = path.with_suffix(".part")
    try:
        with tarfile.open(part, "w:gz" if path.suffix == ".gz" else "w") as whole:
            for file in files:
                whole.add(file, os.path.relpath(file, ROOT))
        part.replace(path)
    except BaseException:  # of a full disk what there is of it would take the room
        part.unlink(missing_ok=True)
        raise


def put_back(run: Path, own: Path) -> None:
    """Move a run that was unpacked to its own place, unless it has come as far there. Each file as a whole, and the
    checkpoint last: what a call that is killed leaves the next one takes up again."""
    checkpoints = list(run.glob("checkpoint-*.pt"))
    if max(map(block_of, own.glob("checkpoint-*.pt")), default=-2) >= max(map(block_of, checkpoints)):
        return
    files = [file for file in run.rglob("*") if file.is_file()]
    for file in sorted(files, key=lambda file: file in checkpoints):
        place = own / file.relative_to(run)
        place.parent.mkdir(parents=True, exist_ok=True)
        file.replace(place)


def finished(command: list[str], seconds: float) -> tuple[int | None, str]:
    """Exit status and output of a command; None, and what it said so far, where it was not done after the seconds."""
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": paths, "PYTHONUNBUFFERED": "1"}
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        ran = subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
        before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        try:
            code = ran.wait(max(seconds, 1))
        except BaseException as error:  # Ctrl-C and SIGTERM, too
            os.killpg(ran.pid, signal.SIGKILL)  # with what it started: the chains shall have the device to themselves
            ran.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            code = None
        finally:
            signal.signal(signal.SIGTERM, before)
        output.seek(0)
        return code, output.read()


def follow(parent: int) -> None:
    """End this process, which checkpoints first, when the one that began it is gone: the next call needs its chain."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


def spent(job: dict) -> float:
    """Seconds that the chain has run, 0 where nothing tells."""
    from experiments.resolved import folder
    from sgmcmc.formats import read_status

    try:
        return read_status(folder(job["config"])).get("seconds") or 0.0
    except StoreError:
        return 0.0


class Session:
    """One call of `make gpu`: what is done already, what time is left."""

    def __init__(self, options):
        self.ended = time.monotonic() + 60 * options.budget
        self.device, self.out = options.device, options.out and options.out.expanduser()
        self.side, self.checks = options.side, not options.unchecked
        self.miniature = options.miniature or self.device == "cpu"
        self.scale = "smoke" if self.miniature else "paper"
        self.home = home(self.scale)
        self.failed = False
        self.broken: list[dict] = []  # what failed here, and may fail again

    def left(self) -> float:
        """Seconds until packing must begin."""
        return self.ended - PACKING - time.monotonic()

    def stop(self, *_) -> None:
        """SIGTERM, the machine's or our own at the end of the minutes: pack what there is."""
        self.ended = min(self.ended, time.monotonic())

    def run(self) -> int:
        print(self.check(), flush=True)
        self.jobs = self.read_plan()
        self.absent = self.find_data()
        self.unpack()
        if self.checks and not self.miniature:
            self.measure_once()
        done = len([self.rows_of(job) for job in self.jobs if self.is_done(job)])  # read now, not when time is short
        print(f"{done} of {len(self.jobs)} chains are done; {self.left() / 60:.1f} minutes to go on with", flush=True)
        # A chain that is compiling, or within a long cycle, is left by the signal; between cycles it is left before.
        before = signal.signal(signal.SIGTERM, self.stop)
        timer = threading.Timer(max(self.left(), 0), os.kill, (os.getpid(), signal.SIGTERM))
        timer.start()
        try:
            current = self.advance_side_by_side() if self.side > 1 else [job for job in [self.advance_all()] if job]
            # Others that a call before had begun go on travelling, where there is room.
            current += [job for job in self.jobs if job not in current and not self.is_done(job)]
        finally:
            timer.cancel()
            timer.join()  # a signal that is sent at this moment would end the call before it has packed
            signal.signal(signal.SIGTERM, before)
        with disk.told(self.home):
            try:
                self.write_tables()
            finally:
                self.pack(current)
        done = sum(self.is_done(job) for job in self.jobs)
        print(
            f"{done} of {len(self.jobs)} chains are done" + ("" if done < len(self.jobs) else ": the plan is complete")
        )
        return int(self.failed)

    def run_one(self, number: int) -> int:
        """A process beside others: one chain of the plan. 0: nothing is left of it; 1: it failed; 75: it goes on."""
        from experiments.resolved import DONE, INTERRUPTED

        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, self.stop)
        threading.Thread(target=follow, args=(os.getppid(),), daemon=True).start()
        sys.stdout.reconfigure(line_buffering=True)  # whole lines among those of the others
        self.check()
        self.jobs, self.absent = [self.read_plan()[number]], set()
        current = self.advance_all()
        return 1 if self.failed else INTERRUPTED if current else DONE

    # what is there

    def check(self) -> str:
        """What the machine is, which can do it; or one sentence says what is missing."""
        needed = ("torch", "pandas", "safetensors", "scipy", "matplotlib")
        for module in needed:
            if importlib.util.find_spec(module) is None:
                raise Refused(f"{module} is not installed: make gpu needs {', '.join(needed)}")
        os.environ["MPLBACKEND"] = "Agg"  # what a notebook's shell commands inherit may not be installed here
        import matplotlib.font_manager  # noqa: F401  # on a new machine it looks for fonts: not when time is short
        import torch

        if self.device != "cpu" and not torch.cuda.is_available():
            raise Refused("device=cuda: no CUDA device is found; DEVICE=cpu runs the miniature")
        self.kind = "cpu" if self.device == "cpu" else torch.cuda.get_device_name()
        return f"{self.kind}, torch {torch.__version__}, Python {platform.python_version()}"

    def read_plan(self) -> list[dict]:
        from sgmcmc import LAW

        path = self.home / "plan.json"
        if not path.exists():
            raise Refused(f"{path.relative_to(ROOT)} is not there: make gpu-plan writes it, where Hydra is installed")
        content = read_json(path, "make gpu-plan again")
        if content.get("law") != LAW:
            raise Refused(f"{path.relative_to(ROOT)} is of another version of the library: make gpu-plan again")
        self.commit = content.get("commit")
        return content["jobs"]

    def find_data(self) -> set[str]:
        """The data sets that are not there; Refused where no chain that is left to do could have its own."""
        from sgmcmc.data import load

        left, absent = [job for job in self.jobs if not self.is_done(job)], {}
        for name in sorted({name for job in left for name in data_of(job)}):
            try:
                load(name, download=False)
            except (DataError, StoreError) as error:
                absent[name] = error
        if left and all(data_of(job) & absent.keys() for job in left):
            raise Refused(next(iter(absent.values())))
        for name, error in absent.items():
            print(f"left out, all chains of {name}: {error}", file=sys.stderr)
        return set(absent)

    def unpack(self) -> None:
        """Put the chains in progress back, those that this machine does not have, or not as far."""
        packed, there = self.home / "chain.tar", ROOT / "results" / "runs" / ".unpacked"
        if not packed.exists():
            return
        shutil.rmtree(there, ignore_errors=True)  # of a call that was killed
        there.mkdir(parents=True, exist_ok=True)  # among the runs, which may be a link to another disk
        try:
            with disk.told(packed, "chains go on from it"), tarfile.open(packed, "r:") as archive:
                archive.extractall(there, filter="data")
                # Nowhere else in the repository, whatever the archive says.
                runs = {checkpoint.parent for checkpoint in there.glob("results/runs/**/checkpoint-*.pt")}
                if not runs:  # of a disk that lost power a file may come back as long as it was, and of zeros
                    raise tarfile.ReadError("no chain is in it")
                for run in runs:
                    put_back(run, ROOT / run.relative_to(there))
        except tarfile.TarError as error:
            damaged = packed.replace(packed.with_suffix(".damaged"))
            told = f"{packed.relative_to(ROOT)} is damaged ({error}), and is {damaged.name} now: its chains begin again"
            print(told, file=sys.stderr, flush=True)
        finally:
            shutil.rmtree(there, ignore_errors=True)

    def measure_once(self) -> None:
        """The tests marked gpu, how right and how fast the GPU is, what of it this kind of GPU has not been asked, or
        had no time to answer."""
        side = ["-p", "xdist", "-n", str(min(8, os.cpu_count() or 1))] if importlib.util.find_spec("xdist") else []
        side += ["--maxfail=3"]  # what failed is told at the end, which a test that takes too long would not reach
        path = self.home / "checked.json"
        checked = read_json(path, "remove it, and this GPU is asked again") if path.exists() else {}
        found = checked.setdefault(self.kind, {})
        began, seconds = time.monotonic(), min(60 * CHECKED_MINUTES, self.left() / 2)
        tables, kind, write = ROOT / "benchmarks", "_".join(self.kind.split()), ["--device", self.device, "--write"]
        tables.mkdir(exist_ok=True)
        commands = {
            # -q of pyproject.toml would leave of -v only dots, which do not tell what a run that was ended had reached.
            "tests": ["-m", "pytest", "-o", "addopts=", "-v", "--tb=short", *side, "-m", "gpu", *self.tests()],
            "accuracy": ["benchmarks/gpu_accuracy.py", *write, str(tables / f"gpu_accuracy_{kind}.csv")],
            "benchmarks": ["benchmarks/gpu.py", *write, str(tables / f"gpu_speed_{kind}.csv")],
        }
        for name, command in commands.items():
            if not found.get(name, UNFINISHED).startswith(UNFINISHED):
                continue
            if name == "tests" and importlib.util.find_spec("pytest") is None:
                found[name] = "not run: no pytest"
                continue
            code, said = finished([sys.executable, *command], began + SHARES[name] * seconds - time.monotonic())
            ended = UNFINISHED if code is None else f"exit status {code}"
            found[name] = f"{ended}\n{said[-20000:]}"
            self.failed |= code not in (None, 0, 5)  # 5: no test was chosen
            print(f"{name}: {found[name]}", flush=True)
            disk.write(path, json.dumps(checked, indent=1).encode() + b"\n")

    @staticmethod
    def tests() -> list[str]:
        """The files that have tests for a GPU: others may need what this machine lacks."""
        return [str(path) for path in sorted((ROOT / "tests").glob("test_*.py")) if "mark.gpu" in path.read_text()]

    # chains

    def rows_path(self, job: dict) -> Path:
        from experiments.resolved import identity

        return self.home / "rows" / f"{job['experiment']}-{identity(job['config'])}.json"

    def advance_all(self) -> dict | None:
        """One chain after the other. Returned is the one whose state travels before others: that in progress when the
        time is over, else the first that was begun and failed."""
        import torch

        from sgmcmc.inductor import CannotCompile

        unfinished, uncompiled = None, set()
        for job in self.jobs:
            if self.is_done(job) or data_of(job) & self.absent or net_of(job) in uncompiled:
                continue
            if self.left() < LEAST:
                return unfinished or job  # a call before may have begun it
            if self.left() < least(job, self.miniature):
                continue
            try:
                if not self.advance(job):
                    return job
                continue
            except (DataError, StoreError) as error:
                print(f"left out: {error}", file=sys.stderr)
            except CannotCompile as error:  # nor can others like it, which would take a minute each to say so
                self.failed = True
                uncompiled.add(net_of(job))
                print(f"left out, all chains of this network and sampler: {error}", file=sys.stderr, flush=True)
            except Exception as error:  # the others may do
                self.failed = True
                self.broken.append(job)
                traceback.print_exc()
                if isinstance(error, torch.AcceleratorError):  # nothing works on the device any more in this process
                    return unfinished or job
            if unfinished is None and checkpoints_of(job):
                unfinished = job
        return unfinished

    def advance_side_by_side(self) -> list[dict]:
        """So many chains at a time, the next begun where one ends; returned are those that are not done."""
        from experiments.resolved import DONE, INTERRUPTED

        waiting = [n for n, job in enumerate(self.jobs) if not (self.is_done(job) or data_of(job) & self.absent)]
        running, failed = {}, set()
        before = signal.signal(signal.SIGINT, self.stop)  # Ctrl-C, which the processes get, too
        try:
            while running or waiting and self.left() >= LEAST:
                waiting = [number for number in waiting if self.left() >= least(self.jobs[number], self.miniature)]
                while waiting and len(running) < self.side and self.left() >= LEAST:
                    number = waiting.pop(0)
                    running[number] = self.begin(number)
                over = self.left() <= 0
                for process in running.values() if over else ():
                    process.terminate()  # again and again: one that comes while a run is made does not end it
                    if self.left() < -1.5 * PACKING:  # half of what there is for packing has passed
                        process.kill()
                time.sleep(1 if over else 0.1)
                for number in [number for number, process in running.items() if process.poll() is not None]:
                    code = running.pop(number).returncode
                    # Ended by the signal itself: it came before anything was begun, or after all was written.
                    if code not in (DONE, INTERRUPTED, -signal.SIGTERM, -signal.SIGINT):
                        failed.add(number)
                        print(f"the process of chain {number} ended with status {code}", file=sys.stderr, flush=True)
        finally:
            signal.signal(signal.SIGINT, before)
            for process in running.values():
                process.kill()
        self.failed |= bool(failed)
        self.broken = [self.jobs[number] for number in sorted(failed)]
        return [job for job in self.jobs if not self.is_done(job)]

    def begin(self, number: int) -> subprocess.Popen:
        """A process that runs one chain of the plan in the time that is left."""
        minutes = max(self.ended - time.monotonic(), 1) / 60
        words = ["--chain", str(number), "--device", self.device, "--budget", str(minutes)]
        words += ["--miniature"] * self.miniature
        command = [sys.executable, str(ROOT / "scripts" / "gpu.py"), "run", *words]
        return subprocess.Popen(command, env={"OMP_NUM_THREADS": "1", **os.environ})

    def rows_of(self, job: dict) -> dict:
        """What a finished chain has left."""
        return read_json(self.rows_path(job), "copy it again, or remove it, and its chain is taken up again")

    def is_done(self, job: dict) -> bool:
        return self.rows_path(job).exists()

    def advance(self, job: dict) -> bool:
        """Run the chain until it is done, or the time is over; then its rows. Whether it is over."""
        from experiments import tables
        from experiments.resolved import DIVERGED, DONE, INTERRUPTED, folder
        from experiments.run import run, status_of

        config = {**job["config"], "device": self.device, "progress": False}
        end = {"folder": str(folder(config))}
        try:
            code = run(config, until=lambda: self.ended - PACKING, no_slower=self.device == "cuda")
        except NoRoom:  # another call may have it
            raise
        except SettingError as error:
            code, end = None, {**end, "status": "failed", "why": str(error)}
            self.failed = True
            print(error, file=sys.stderr)
        if code == INTERRUPTED:
            return False
        if code in (DONE, DIVERGED):
            end["status"] = status_of(code)
        found, row = {}, self.run_row(job, end)
        for name in tables.tables_of(job["experiment"]):
            rows, made = tables.make_part(name, job["config"], end)
            found[name] = {"rows": [{**one, "run": row["run"]} for one in rows], "made": made}
        found = {"tables": found, "run": row}
        path = self.rows_path(job)
        path.parent.mkdir(parents=True, exist_ok=True)
        disk.write(path, json.dumps(found, indent=0).encode() + b"\n")
        return True

    def run_row(self, job: dict, end: dict) -> dict:
        """What a chain was computed on, and how fast from its beginning to its end."""
        import numpy as np

        from experiments.resolved import identity
        from sgmcmc import load_metrics
        from sgmcmc.formats import read_status

        config = job["config"]
        row = {"experiment": job["experiment"], "run": identity(config), "sampler": config["sampler"]["name"]}
        row |= {key: config[key] for key in ("lr", "seed")} | {"status": end["status"], "dtype": config["dtype"]}
        row["plan_commit"] = self.commit
        try:
            status, rates = read_status(end["folder"]), load_metrics(end["folder"])["steps_per_second"]
        except StoreError:
            return row
        where = status["environments"]
        row |= {key: status.get(key) for key in ("cycles", "seconds", "compiled", "graph")}
        row["machines"] = len({one["host"] for one in where})
        # A GPU that is throttled gets slower: the medians of the run's fifths, the first and the last.
        fifth = -(-len(rates) // 5)
        parts = {"": rates, "_first": rates[:fifth], "_last": rates[-fifth:]}
        row |= {f"steps_per_second{name}": float(np.median(part)) for name, part in parts.items()}
        names = ("device", "precision", "deterministic", "processor", "torch", "cuda", "python", "git_commit")
        each = {name: [str(one[name]) for one in where if one.get(name) is not None] for name in names}
        return row | {name: "; ".join(dict.fromkeys(values)) for name, values in each.items()}

    def write_tables(self) -> None:
        """Each table of the finished chains' rows, in the plan's order; among the results where none is missing."""
        from experiments import tasks
        from experiments.tables import join, tables_of

        runs = [self.rows_of(job)["run"] for job in self.jobs if self.is_done(job)]
        if runs:
            tasks.write_table(tasks.table_path("gpu_runs", self.scale), runs, {"scale": self.scale, "runs": len(runs)})
        for experiment in dict.fromkeys(job["experiment"] for job in self.jobs):
            jobs = [job for job in self.jobs if job["experiment"] == experiment]
            done = [self.rows_of(job)["tables"] for job in jobs if self.is_done(job)]
            for name in tables_of(experiment) if done else ():
                try:
                    rows = join(name, [row for part in done for row in part[name]["rows"]])
                except ModuleNotFoundError as error:  # of statistics that need ArviZ: the rows are kept
                    print(f"{name}: written where {error.name} is installed", file=sys.stderr)
                    continue
                made = {"experiment": experiment, "scale": self.scale, "runs": len(done), "of": len(jobs)}
                parts = [part[name]["made"] for part in done]
                made["seconds"] = round(sum(part["seconds"] for part in parts), 1)
                for key in ("processor", "device", "torch", "commit"):
                    made[key] = list(dict.fromkeys(value for part in parts for value in part[key]))
                path = tasks.table_path(name, self.scale)
                part = (self.home / "tables" / path.name).relative_to(ROOT)
                if len(done) < len(jobs):
                    tasks.write_table(part, rows, made)
                    continue
                tasks.write_table(path, rows, made)
                for file in (part, part.with_suffix(".json")):  # of fewer chains
                    file.unlink(missing_ok=True)

    # packing

    def pack(self, current: list[dict]) -> None:
        """The chains in progress as one archive, and all that must be kept as few files in the folder asked for, which
        may be on a disk that has room where this one has none."""
        packed = self.home / "chain.tar"
        try:
            self.pack_chains(current, packed)
        finally:
            if self.out is not None:
                self.keep(packed)

    def keep(self, packed: Path) -> None:
        """What must be kept, in the folder asked for."""
        from experiments.tables import tables_of

        self.out.mkdir(parents=True, exist_ok=True)
        kept = [path for path in self.home.rglob("*") if path.is_file() and path != packed]
        kept = [path for path in kept if path.name != "plan.json" and path.suffix != ".part"]
        tables = ROOT / "results" / "paper" / "tables"
        names = {job["experiment"] for job in self.jobs}
        known = {table for name in names for table in tables_of(name)} | {"gpu_runs"}
        kept += [path for path in tables.glob("*") if self.scale == "paper" and path.stem in known]
        kept += (ROOT / "benchmarks").glob("gpu_*.csv")
        archive(self.out / "kept.tar.gz", sorted(kept))
        (self.out / packed.name).unlink(missing_ok=True)  # of a call before
        if packed.exists():
            archive(self.out / packed.name, [packed])  # so that it is unpacked where it was
        for path in self.out.iterdir():
            if path.stat().st_size > FILE_LIMIT:
                self.failed = True
                print(f"{path} has {path.stat().st_size >> 20} MiB, more than {FILE_LIMIT >> 20}", file=sys.stderr)
        print(f"unpack in the repository's root: {', '.join(sorted(path.name for path in self.out.iterdir()))}")

    def pack_chains(self, jobs: list[dict], packed: Path) -> None:
        """The run folders in progress, each with the newest checkpoint alone and without what is written anew at each
        end of a run: those that fit, what took longest before others, and last what failed."""
        from experiments.resolved import folder
        from sgmcmc.store import BEFORE, COPIES

        kept, room = [], STATE_LIMIT
        for job in sorted(jobs, key=lambda job: (job in self.broken, -spent(job))):
            path, checkpoints = folder(job["config"]), sorted(checkpoints_of(job), key=block_of)
            files = [*path.glob("*"), *path.glob("samples/*")]  # and of no folder in which damaged ones were put aside
            files = [file for file in files if file.is_file() and file.name not in (*NOT_PACKED, *COPIES)]
            files = [file for file in files if not file.name.endswith((BEFORE, ".part"))]
            files = [file for file in files if file not in checkpoints[:-1]]
            size = sum(file.stat().st_size for file in files)
            if checkpoints and size > room:
                print(f"{path}, {size / 1e6:.1f} MB: too large for a call's state, on another machine it begins again")
            elif checkpoints:
                kept += sorted(files)
                room -= size
                print(f"{path} goes on from {packed.relative_to(ROOT)}, {size / 1e6:.1f} MB")
        if not kept:
            packed.unlink(missing_ok=True)
            return
        archive(packed, kept)


if __name__ == "__main__":
    settle()
    sys.exit(main())
