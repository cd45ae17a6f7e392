"""The command line: Hydra's words to a resolved configuration and a run, mistakes to one sentence and a status."""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import threading
import traceback
from contextlib import nullcontext

import hydra
import yaml
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from experiments import schema
from experiments.config import compose, resolve, unused, words_for
from experiments.grid import other_ways, sweep
from experiments.resolved import DIVERGED, DONE, INTERRUPTED, MISTAKE, OWN_DATA, folder, planned_cycles, show
from experiments.signals import leave_on_signals, signals_first
from sgmcmc.errors import DataError, SettingError, StoreError, nearest
from sgmcmc.samplers import SAMPLERS
from sgmcmc.streams import settle

_WORST = (DONE, DIVERGED, MISTAKE, INTERRUPTED)  # of a sweep's statuses the last of these is the process'

MISTAKES = (SettingError, DataError, StoreError, HydraException, OmegaConfBaseException, yaml.YAMLError)


def main(words: list[str] | None = None) -> int:
    """Run the words of the command line (``sys.argv`` by default); returns the exit status.

    0 done, 2 a mistake (one sentence on standard error; a traceback too with ``debug=true``), 3 diverged, 75
    interrupted after a checkpoint. With ``-m`` every job is run, and the worst status returned.
    """
    words = list(sys.argv[1:] if words is None else words)
    debug = any(re.fullmatch(r"\+*debug=(true|yes|on|1)", word.lower()) for word in words)
    statuses: list[int] = []
    if threading.current_thread() is threading.main_thread():
        leave_on_signals(signal.SIGINT)

    entered: list[bool] = []
    fixed: set[str] = set()  # the settings that all runs of a sweep have in common

    def job(cfg) -> None:
        entered.append(True)
        said = list(HydraConfig.get().overrides.task)
        own = [word for word in said if word.partition("=")[0].lstrip("+") not in fixed]  # what a sweep gives this run
        statuses.append(INTERRUPTED if INTERRUPTED in statuses else guarded(lambda: _run(cfg, said, own), debug))

    def everything() -> int:
        _check_here()
        # Where -m stands does not matter; Hydra's parser wants the settings all in one place.
        sweeps = [word for word in words if word in ("-m", "--multirun")][:1]
        given = words_for([word for word in words if word not in ("-m", "--multirun")])
        flags = _flags([*sweeps, *given])
        settings = flags.overrides
        elsewhere = flags.package or flags.config_dir or flags.config_name or flags.config_path
        if flags.cfg == "job" and settings and not (sweeps or elsewhere):  # Hydra would show null for what is unsaid
            points = _points(settings)
            config = compose([*settings, *points[0]])
            first = f"; the first of {len(points)} runs" if len(points) > 1 else ""
            print(f"{show(config)}# {folder(config)}{first}")
            return DONE
        if sweeps:
            fixed.update(_fixed(settings))
        os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra's own report of a mistake is a dozen lines
        before = sys.argv
        # Hydra writes a sweep's own file; what a sweep leaves is its runs' folders.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) if sweeps else nullcontext() as scratch:
            place = given.index(settings[0]) if settings else len(given)
            named = str(scratch).replace("'", "\\'")  # TMPDIR may have spaces, commas, quotes, accents
            own = [f"hydra.sweep.dir='{named}'", *_not_swept(settings)] if sweeps else []
            sys.argv = [sys.argv[0], *sweeps, *given[:place], *own, *given[place:]]
            try:
                hydra.main(version_base="1.3", config_path=str(schema.CONF), config_name="config")(job)()
            except Exception as error:
                if entered or isinstance(error, MISTAKES):
                    raise
                _check_text()
                # What Hydra raises at a damaged file can be anything.
                text = f"the configuration cannot be composed ({type(error).__name__}: {error})"
                raise HydraException(text) from error
            finally:
                sys.argv = before
        return max(statuses, key=_WORST.index, default=DONE)

    status = guarded(everything, debug)
    return status if entered else _all_written(status)


def _check_here() -> None:
    """Refuse a folder that was deleted under the process: nothing can be told from there, be it by an absolute path."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise StoreError("the current folder is gone: change to one that is there") from None


def _fixed(settings: list[str]) -> set[str]:
    """The settings that all runs of a sweep have in common. Refuses a grid among several experiments, and one folder
    for several runs: the second would be told that it is the first one's."""
    _check_several(settings)
    overrides = OverridesParser.create().parse_overrides(settings)
    fixed = {one.get_key_element().lstrip("+"): one for one in overrides if not one.is_sweep_override()}
    several = any(one.is_sweep_override() for one in overrides) or len(_points(settings)) > 1
    folder = fixed["output"].value() if "output" in fixed else None
    if several and folder and "${" not in str(folder):
        mend = f"is one folder, and -m gives several runs: leave it out, or let it differ ('{folder}/${{seed}}')"
        raise SettingError("output", folder, mend)
    return {*fixed}


def _run(cfg, said: list[str], own: list[str]) -> int:
    if _is_grid(said):
        return MISTAKE
    if HydraConfig.get().mode == RunMode.MULTIRUN and own:
        from experiments.voice import say

        say(" ".join(own) + ":")
    config = resolve(cfg, said)
    for word in unused(config, said):
        data = config["data"]["name"] != "none" or config["model"]["name"] in OWN_DATA
        full = data and word.partition("=")[0].lstrip("+") == "batch_size" and config["sampler"]["gradient"] == "full"
        mend = ", whose gradients are full: sampler.gradient=minibatch would use it" if full else ""
        if word.startswith("schedule") and config["schedule"]["name"] == "stairs":
            mend = f", whose {planned_cycles(config)} cycles are within the first stair"
        target = config["model"].get("_target_") or config["model"]["name"]
        told = f"{word.lstrip('+')} is not used by {config['sampler']['name']} on {target}{mend}"
        print(told, file=sys.stderr)
    from experiments.run import run  # imports torch, which takes seconds

    return run(config)


def _experiment(words: list[str]) -> str:
    """The experiment that the words name; nothing where they name none, or several (``a,b`` or ``glob(a*)``)."""
    names = _experiments(words)
    return names[0] if len(names) == 1 and "(" not in names[0] else ""


def _experiments(words: list[str]) -> list[str]:
    return next((word.partition("=")[2].split(",") for word in words if word.startswith("experiment=")), [])


def _check_several(words: list[str]) -> None:
    """Refuse a grid among several experiments, of which ``-m`` makes a run each."""
    names = _experiments(words)
    for name in names if len(names) > 1 else []:
        if (runs := len(_points([f"experiment={name}", *_others(words)]))) > 1:
            mend = f"{name} is a grid of {runs} runs, and -m makes one of each: -m experiment={name} makes all of them"
            raise SettingError("experiment", ",".join(names), mend)


def _not_swept(settings: list[str]) -> list[str]:
    """What takes out of an experiment's sweep the settings that the command line gives in another way."""
    experiment = _experiment(settings)
    return [f"{key}=null" for key in other_ways(experiment, tuple(settings))] if experiment else []


def _points(words: list[str]) -> list[list[str]]:
    """What the grid of the experiment that the words name adds to them, run by run; of no grid nothing, once."""
    return (sweep(_experiment(words), tuple(_others(words))) if _experiment(words) else []) or [[]]


def _others(words: list[str]) -> list[str]:
    """The words that do not name an experiment."""
    return [word for word in words if not word.startswith("experiment=")]


def _is_grid(said: list[str]) -> bool:
    """Whether the words name a grid and not one of its points; then its points and how to run them are printed."""
    if HydraConfig.get().mode != RunMode.RUN:
        return False
    points, experiment = _points(said), _experiment(said)
    if len(points) < 2:
        return False
    words = " ".join([f"experiment={experiment}", *_others(said)])
    print(f"experiment={experiment} is a grid of {len(points)} runs:")
    for point in points:
        print(f"  python run.py {words} {' '.join(point)}")
    print(f"all of them: python run.py -m {words}")
    print(f"with its summary table, by as many workers as you start: jug execute jugfile.py {words}")
    return True


def runs_and_options(words: list[str], options: dict) -> tuple[list[str], dict]:
    """The words that are folders, and the ``options`` with what the others, ``name=value``, say of them."""
    runs, options = [], dict(options)
    for word in words:
        key, equals, value = word.partition("=")
        folder = os.path.expanduser(word)
        if not equals or os.path.exists(folder):
            runs.append(folder)
        elif key in options:
            options[key] = os.path.expanduser(value)
        else:
            raise SettingError(key, value, f"is not known here; known are {', '.join(options)}")
    return runs, options


def script(page: str, work, words: list[str] | None) -> int:
    """A command that is not Hydra's: prints its page where help or nothing is asked, else the status of ``work(words)``
    (``sys.argv``'s by default)."""
    if words is None:
        settle()
    words = sys.argv[1:] if words is None else words
    if not words or {"-h", "--help"} & {*words}:
        print(page)
        return DONE
    return _all_written(guarded(lambda: _check_here() or work(words)))


def _all_written(status: int) -> int:
    """The status of a command that only prints: a mistake where it could not, but to a reader that has seen enough."""
    sys.stdout.flush()
    lost = getattr(sys.stdout, "lost", None)
    if lost is None or isinstance(lost, BrokenPipeError):
        return status
    print(f"standard output cannot be written ({getattr(lost, 'strerror', None) or lost})", file=sys.stderr)
    return status or MISTAKE


def show_error(kind, error: BaseException, trace) -> None:
    """Python's traceback, from the run on: the frames before it are this file's and Hydra's."""
    frames = list(traceback.walk_tb(trace))
    mine = [place for place, (frame, _) in enumerate(frames) if frame.f_code.co_filename == __file__]
    for _ in range(max(mine, default=-1) + 1):
        trace = trace.tb_next
    traceback.print_exception(kind, error, trace)


def guarded(work, debug: bool = False) -> int:
    """The status that ``work()`` returns, or 2 with one sentence on standard error where it finds a mistake."""
    try:
        with signals_first():
            return work()
    except MISTAKES as error:
        if debug:
            traceback.print_exc()
        print(sentence(error), file=sys.stderr)
        return MISTAKE
    except SystemExit as stop:  # Hydra's --help, --cfg and --info end so
        return stop.code if isinstance(stop.code, int) else DONE
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return INTERRUPTED


def sentence(error: Exception) -> str:
    """A mistake as one sentence: the setting, the value that was given, what would do."""
    if isinstance(error, yaml.YAMLError):
        return _no_yaml(error)
    if not isinstance(error, HydraException | OmegaConfBaseException):
        return " ".join(str(error).split())
    if isinstance(error, MissingConfigException):
        return _no_such_option(error)
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else error
    text = " ".join(str(error).split())
    file = re.search(r"^In '(experiment/[\w/.-]+)'", text)
    if file and re.search(r"@experiment\b|full_key: experiment( |$)", text):
        return f"conf/{file.group(1)}.yaml: must begin with the line # @package _global_, or holds no settings"
    unknown = re.search(r"Could not (?:override|append to config\. .*?) ?'?([\w.@/]+?)'?\.(?: |$)", text)
    if unknown and unknown.group(1) not in ("data", "model"):
        return _no_such_key(unknown.group(1), getattr(cause, "parent_node", None))
    inside = re.search(r"^In '([\w/]+)': ConfigKeyError .* full_key: (\S+)", text)
    if inside:
        return f"conf/{inside.group(1)}.yaml: {_no_such_key(inside.group(2), None)}"
    key = getattr(cause, "full_key", None)
    if isinstance(cause, OmegaConfBaseException) and key:
        value = re.search(rf"Error merging override \+*{re.escape(key)}=(.*)$", text)
        if key in schema.GROUPS:
            group, option = key, str(getattr(cause, "value", "")) or text.rpartition("=")[2]
            return _no_such_option_of(group, option)
        kind = f"settings, {key}.NAME=VALUE" if key in schema.BLOCKS else _kind(str(cause), key)
        shown = value.group(1) if value else _value(str(cause))
        return f"{key}={shown}: must be {kind}" if kind else f"{key}={shown}: {_first(str(cause))}"
    if isinstance(error, OverrideParseException):
        return f"{error.override}: is not KEY=VALUE (brackets, quotes and spaces in a value need quotes in a shell)"
    several = re.search(r"Ambiguous value for argument '([^=]+)=(.*?)' ", text)
    if several:
        key, value = several.groups()
        lists = (*schema.STEP, *schema.FRICTION, "mass", "trace_cycles")
        may_be_a_list = key in lists or key.startswith("model.")
        listed = f" a list {key}=[{value}]," if may_be_a_list else ""
        return f"{key}={value}: give one value,{listed} or -m for a run with each of them"
    return _first(text)


def _no_yaml(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f"{mark.name}, line {mark.line + 1}" if mark else getattr(error, "name", "a configuration file")
    why = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    return " ".join(f"{where}: is not YAML ({why})".split())


def _no_such_option(error: MissingConfigException) -> str:
    name = error.missing_cfg_file or ""
    name = name[0] if isinstance(name, list | tuple) else name
    group, _, option = name.rpartition("/")
    if group not in schema.GROUPS:
        return _first(" ".join(str(error).split()))
    return _no_such_option_of(group, option)


def _no_such_option_of(group: str, option: str) -> str:
    known = schema.options(group)
    if group == "sampler" and option in SAMPLERS:
        return f"sampler={option}: is a row of the table, and conf/sampler/{option}.yaml (name: {option}) is missing"
    return f"{group}={option}: {nearest(option, known, 'there is none of that name;')} known are {', '.join(known)}"


def _no_such_key(key: str, node) -> str:
    group, known = key.rpartition(".")[0], schema.settings()
    if group == "model" and OmegaConf.is_dict(node):
        known = [f"model.{name}" for name in node]
    if key in known:
        return f"{key}: is a setting already, so it takes no +: {key}=VALUE"
    return f"{key}: there is no such setting here; {nearest(key, known, 'see python run.py --help')}"


def _kind(text: str, key: str) -> str | None:
    if key in schema.CHOICES:
        return f"one of {', '.join(schema.CHOICES[key])}"
    kinds = {"Integer": "a whole number", "Float": "a number", "Boolean": "true or false", "ListConfig": "a list"}
    kinds |= {"not a valid bool": "true or false", "not a list": "a list", "not Optional": "a value, not null"}
    kinds |= {"Cannot convert 'list'": "one value, not a list", "Cannot convert 'dict'": "one value"}
    return next((kind for sign, kind in kinds.items() if sign in text), None)


def _value(text: str) -> str:
    found = re.search(r"[Vv]alue '(.*?)'", text)
    return found.group(1) if found else ""


def _first(text: str) -> str:
    return text.strip().splitlines()[0]


def _flags(words: list[str]):
    """Hydra's flags, and as ``overrides`` the words that are none; a sentence for flags that it does not know."""
    parser = get_args_parser()

    def refuse(message: str):
        raise HydraException(f"{message}: see python run.py --help")

    parser.error = refuse
    return parser.parse_args(words)


def _check_text() -> None:
    """Refuse a configuration file that is no text."""
    for path in sorted(schema.CONF.rglob("*.yaml")):
        try:
            path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise HydraException(f"{path}: is not UTF-8 text") from error
