"""Training what a study looks at, and reading it back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.errors import InputError, RoteError
from rote.store import RunTable, read_table, write_whole
from rote.studies.pack import pack, unpack
from rote.studies.pool import PRESETS, RECORDS
from rote.sweeps import Sweep

if TYPE_CHECKING:
    from rote.studies.pool import Pool
    from rote.studies.study import Measured, Record, Study, Tables
    from rote.sweeps import Executor, Progress


def run_pool(
    pool: Pool,
    store: Path,
    executor: Executor,
    *,
    data_dir: Path | None = None,
    watch: Callable[..., Any] | None = None,
) -> Progress:
    """Train the runs of a pool that are not over yet, below a folder.

    Raises:
        InputError: if a spec does not fit.
        StoreError: if the store cannot be written.
    """
    return Sweep(pool.space, store / pool.name, data_dir=data_dir).run(executor, watch)


def is_over(pool: Pool, store: Path) -> bool:
    """Whether all runs of a pool are finished."""
    try:
        counts = Sweep(pool.space, store / pool.name).survey()
    except RoteError:
        return False
    return counts["finished"] > 0 and counts["finished"] == sum(counts.values())


def trained(pools: Sequence[Pool], store: Path) -> list[tuple[Pool, RunTable]]:
    """The pools whose runs are all finished below a folder.

    Raises:
        InputError: if there are none.
    """
    found = [pool for pool in pools if is_over(pool, store)]
    if pools and not found:
        raise InputError(f"Expected finished pools of the study in {store}, got none. Train them.")
    return [(pool, read_table(store / pool.name)) for pool in found]


def ready(
    study: Study, tables: Mapping[Pool, RunTable], store: Path, data_dir: Path | None
) -> Tables | Measured:
    """What a study is measured from: its runs, or what it finds in their networks.

    Networks are examined once: what was found lies beside the runs until these are others.
    """
    if study.examine is None:
        return list(tables.items())
    found = []
    for pool, table in tables.items():
        runs = "".join(sorted(spec.identity for spec in pool.space))
        code = hashlib.sha256(runs.encode()).hexdigest()[:12]
        file = store / f"{pool.name}-{study.name}-{code}.json"
        if not file.is_file():
            numbers = study.examine(pool, table, data_dir)
            write_whole(file, json.dumps(numbers, allow_nan=False).encode())
        found.append((pool, json.loads(file.read_bytes())))
    return found


class Records:
    """What is committed of the runs, unpacked when it is asked for, once for all studies.

    Args:
        folder: for run directories; it must stay while they are used.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables: dict[str, RunTable] = {}

    def of(self, study: Study) -> tuple[str, Tables | Measured | Record]:
        """The largest preset of which there are pools, and these; or the numbers themselves.

        Raises:
            InputError: if none is committed.
        """
        if study.wants is None:
            file = _numbers_of(study)
            return PRESETS[0], json.loads(file.read_bytes()) if file.is_file() else []
        for preset in reversed(PRESETS):
            pools = study.pools(preset) if study.has(preset) else []
            found = [pool for pool in pools if _record_of(study, pool).is_file()]
            if found and study.examine is not None:
                records = [_record_of(study, pool).read_bytes() for pool in found]
                return preset, list(zip(found, map(json.loads, records), strict=True))
            if found:
                return preset, [(pool, self._table(pool)) for pool in found]
        raise InputError(
            f"Expected records of study {study.name!r} in the package, got none. Run it with "
            "--record."
        )

    def _table(self, pool: Pool) -> RunTable:
        if pool.name not in self._tables:
            self._tables[pool.name] = unpack(pool.record, self._folder / pool.name)
        return self._tables[pool.name]


def record_pools(pools: Sequence[Pool], store: Path) -> list[Path]:
    """Pack the pools whose runs are all over, so that anyone can look at them again."""
    written = [pool.record for pool in pools if is_over(pool, store)]
    for pool in pools:
        if pool.record in written:
            pack(store / pool.name, pool.record)
    return written


def record_numbers(study: Study, record: Record) -> Path:
    """Write the numbers of a study that needs no runs where `Records` looks for them."""
    text = json.dumps(record, allow_nan=False, ensure_ascii=False, separators=(",", ":")) + "\n"
    write_whole(_numbers_of(study), text.encode())
    return _numbers_of(study)


def record_measured(study: Study, found: Tables | Measured) -> list[Path]:
    """Write what a study found in networks where `Records` looks for it."""
    if study.examine is None:
        return []
    for pool, numbers in found:
        text = json.dumps(numbers, allow_nan=False, separators=(",", ":")) + "\n"
        write_whole(_record_of(study, pool), text.encode())
    return [_record_of(study, pool) for pool, _ in found]


def _numbers_of(study: Study) -> Path:
    return RECORDS / f"{study.name}.json"


def _record_of(study: Study, pool: Pool) -> Path:
    if study.examine is None:
        return pool.record
    return pool.record.with_name(f"{pool.name}-{study.name}.json")
