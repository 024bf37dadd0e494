"""A connection to Ray: to a cluster that is there, or to one that is started for the purpose."""

import logging
import math
import os
import re
import socket
from typing import Any

from rote.errors import InputError
from rote.extras import require
from rote.sweeps.failure import last_line

_ANSWERS_WITHIN = 5.0  # seconds; without asking first, Ray tries a closed port for many minutes
_NODE = re.compile(r"(?P<host>[^/\s]+):(?P<port>\d+)")


class RayConnection:
    """What an executor knows of a cluster. A connection that the process already has is used.

    Args:
        address: ``auto`` for the cluster that this machine is a node of, or ``host:port`` of its
            head. None takes ``RAY_ADDRESS``, and without that starts a cluster on this machine.

    Attributes:
        ray: the package.

    Raises:
        MissingExtraError: if Ray is not installed.
        InputError: if the address is of another kind.
    """

    def __init__(self, address: str | None = None) -> None:
        if address not in (None, "auto") and not _NODE.fullmatch(address):
            raise InputError(
                "Expected `address` to be 'auto' or 'host:port' of the head of a Ray cluster, got "
                f"{address!r}. From a machine outside of the cluster, use `ray job submit`."
            )
        # Deaths of workers are told as events; in the middle of a table nobody can read them.
        os.environ.setdefault(
            "RAY_DEDUP_LOGS_SKIP_REGEX", "A worker died or was killed|Raylet is terminated"
        )
        self.ray: Any = require("ray", extra="ray")
        self._address = address
        self._is_ours = False

    def open(self, cpus: int | None = None) -> None:
        """Connect, if the process has no connection yet.

        Args:
            cpus: how many a cluster that has to be started offers; one per core by default.

        Raises:
            InputError: if there is no cluster, or it does not let this process in.
        """
        if self.ray.is_initialized():
            return
        address = self._address or os.environ.get("RAY_ADDRESS")
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address is None:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            # One process per core, without the environment of our tasks, that would never get one.
            os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
            self.ray.init("local", num_cpus=cpus, include_dashboard=False, **quiet)
        else:
            self._join(address, quiet)
        self._is_ours = True

    def close(self) -> None:
        """Give up the connection, and end the cluster, if they were made here."""
        if self._is_ours:
            self.ray.shutdown()
            self._is_ours = False

    def slots(self, cpus: float, gpus: float) -> int:
        """How many tasks with these shares the nodes can run at the same time, right now."""
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        return sum(_fitting(node, {"CPU": cpus, "GPU": gpus}) for node in nodes)

    def _join(self, address: str, quiet: dict[str, Any]) -> None:
        if address != "auto":
            _check_answer(address)
        try:
            self.ray.init(address, **quiet)
        except (ConnectionError, RuntimeError, self.ray.exceptions.RayError) as error:
            # Ray says what is wrong at the end of a traceback inside of another error.
            cause = last_line(str(error.__cause__ or error)).split(". ")[0]
            raise InputError(
                f"Expected the Ray cluster at {address!r} to let this process in, got: "
                f"{cause.rstrip('.')}. {_advice(cause)}"
            ) from error


def _check_answer(address: str) -> None:
    node = _NODE.fullmatch(address.rpartition("://")[2])
    if node is None:
        return
    try:
        place = node["host"].strip("[]"), int(node["port"])
        socket.create_connection(place, timeout=_ANSWERS_WITHIN).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"Expected `address` to be the head of a Ray cluster, got {address!r}, where nothing "
            f"answers ({error}). Start one there with `ray start --head --port={node['port']}`, or "
            "check host, port and firewall."
        ) from error


def _advice(cause: str) -> str:
    """What to do about a refusal."""
    if "token" not in cause.lower():
        return (
            "The machine must be a node of the cluster: `ray start --head`, or `ray start "
            "--address=HOST:PORT` to join one. docs/cluster.md has the steps."
        )
    mode, token = os.environ.get("RAY_AUTH_MODE"), os.environ.get("RAY_AUTH_TOKEN")
    return (
        "Give the token of the head here, too: `export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=…` (now "
        f"RAY_AUTH_MODE is {mode or 'not set'} and RAY_AUTH_TOKEN is "
        f"{'set' if token else 'not set'}). docs/cluster.md has the steps."
    )


def _fitting(node: dict[str, float], shares: dict[str, float]) -> int:
    """How often the shares fit into the resources of a node; rounding must not cost a slot."""
    fits = [node.get(name, 0.0) / share + 1e-6 for name, share in shares.items() if share > 0]
    return math.floor(min(fits))
