"""The locks in Jug's file store that processes of this machine have left behind: a worker that is killed frees none."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import time
from pathlib import Path

from sgmcmc import disk

OWNER = re.compile(r"PID (\d+) on HOSTNAME (\S+)")
FAILED = 1  # the time of a lock that `jug execute --keep-failed` leaves on purpose


def usual() -> str:
    """The store of `jug execute jugfile.py` without ``--jugdir``, which a user's jugrc may set."""
    from jug.options import default_options, read_configuration_file

    named = read_configuration_file(default_options=default_options).jugdir
    return named % {"date": time.strftime("%Y-%m-%d"), "jugfile": "jugfile"}


def dead(store: str) -> list[Path]:
    """The locks whose process was on this machine and is gone.

    A lock in which nothing is written after a minute is that of a process which died while making it.
    """
    locks, found = Path(store, "locks"), []
    if "://" in store or not locks.is_dir():  # Redis keeps no owner
        return found
    for lock in sorted(locks.glob("*.lock")):
        try:
            text, written = lock.read_text(errors="replace"), lock.stat().st_mtime
        except OSError:  # freed meanwhile, or another user's, who lets nobody read it
            continue
        owner = OWNER.match(text)
        if owner:
            gone = owner[2] == socket.gethostname() and not disk.alive(int(owner[1]), written)
        else:
            gone = not text and time.time() - written > 60
        if gone and written != FAILED:
            found.append(lock)
    return found


def free(store: str) -> int:
    """Remove the ``dead`` locks; returns how many. One process of a machine at a time, so that no lock is removed that
    a worker has just taken anew; where files cannot be locked, whoever frees has to be the only one."""
    if not dead(store):
        return 0
    guarding = Path(store, "tempfiles", "freeing")  # not among the locks, which Jug counts
    guarding.parent.mkdir(exist_ok=True)
    with open(guarding, "w") as guard:
        try:
            fcntl.flock(guard, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in disk.NO_LOCKS:
                raise
        locks = dead(store)
        for lock in locks:
            lock.unlink(missing_ok=True)
    return len(locks)


def unusable(store: str) -> str | None:
    """A sentence where a store cannot be used by a worker that is started; None where it can."""
    if "://" not in store:
        return shut(store)
    why = no_answer(store)
    return f"--jugdir {store}: no Redis server answers there ({why})" if why else None


def shut(store: str) -> str | None:
    """A sentence where a store is a file, or not one's own to write, such as another user's; None where it may be
    used."""
    if os.path.isfile(store):
        return f"--jugdir {store}: is a file; give a folder"
    first = store
    while not os.path.exists(first):  # it is to be made
        first = os.path.dirname(os.path.abspath(first))
    for place in (first, *(os.path.join(store, part) for part in ("locks", "tempfiles"))):
        if os.path.exists(place) and not os.access(place, os.W_OK):
            return f"--jugdir {store}: {place} is not yours to write; give another folder"
    return None


def no_answer(address: str) -> str | None:
    """Why a Redis server cannot be used; None where it answers."""
    try:
        import redis

        redis.Redis.from_url(address, socket_connect_timeout=10).ping()
    except ImportError:
        return "install it with pip install -e '.[redis]'"
    except (redis.RedisError, ValueError, OSError) as error:
        return str(error).splitlines()[0]
    return None


def told(store: str) -> str | None:
    """A sentence where locks are ``dead``, for workers leave their tasks alone and say nothing of it."""
    if not (number := len(dead(store))):
        return None
    what = "a task is locked by a process" if number == 1 else f"{number} tasks are locked by processes"
    where = "" if os.path.abspath(store) == os.path.abspath(usual()) else f" --jugdir {store}"
    free = f"`python scripts/workers.py --free{where}`"
    return f"{what} of this machine that {'is' if number == 1 else 'are'} gone: {free}, then start a worker"
