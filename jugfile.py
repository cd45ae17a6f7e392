"""The task graph: every experiment's chains, in segments, and its summary tables.

    jug execute                                                    # all of it, at paper scale
    jug execute jugfile.py experiment=amagold_fig1 scale=quick     # a part
    jug status jugfile.py scale=quick                              # how it stands; jug check says whether all is done

As many workers as are started share the work, on as many machines as share the folder.
"""

import signal
import sys

from experiments.signals import leave_on_signals
from sgmcmc.streams import settle

settle()
# Before the imports, which take seconds. In `jug shell` Ctrl-C is the shell's.
leave_on_signals(*[signal.SIGINT] * ("execute" in sys.orig_argv))

from jug import TaskGenerator  # noqa: E402
from jug.task import Task  # noqa: E402

from experiments import locks, tasks  # noqa: E402
from experiments.graph import announce, check_folder, plan  # noqa: E402
from experiments.resolved import is_own  # noqa: E402
from experiments.tables import tables_of  # noqa: E402

segment = TaskGenerator(tasks.segment)
table = TaskGenerator(tasks.table)

# What scripts/status.py looks at: (experiment, scale, configuration, last segment), (experiment, scale, file, table).
chains, tables = [], []
check_folder(__file__, getattr(Task.store, "jugdir", "redis://"))
for experiment, scale, configs, words in plan(sys.argv):
    ends = []
    announce(experiment, scale, configs, words)
    for config in configs:
        end = None
        for cycles in tasks.lengths(config):
            end = segment(config, cycles, end)
            end.hash()  # now, for a task's is that of all before it, and Python's stack is not so deep
        ends.append(end)
        chains.append((experiment, scale, config, end))
    each = list(zip(configs, ends, strict=True))
    asked = [(config, end) for config, end in each if is_own(config)] or each
    tasks.tell_edited(experiment, scale, ((config, end.result) for config, end in asked if end.can_load()), *words)
    for name in tables_of(experiment):
        made = table(name, experiment, scale, configs, ends, *words)
        tables.append((experiment, scale, tasks.table_path(name, scale, *words), made))
        if made.can_load():
            tasks.bring_back(name, scale, made.result, *words)
    if not all(made.can_load() for *_, made in tables[-len(tables_of(experiment)) :]):
        tasks.tell_longer(experiment, configs)

if left := locks.told(getattr(Task.store, "jugdir", "redis://")):
    print(left, file=sys.stderr)
