"""Training, packing and reading of the pools of a study."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.errors import InputError, RoteError
from rote.store import RunTable, read_status, read_table, write_whole
from rote.studies.pack import pack, unpack
from rote.studies.pool import PRESETS, RECORDS
from rote.sweeps import Sweep, get_run_path
from rote.workloads import RunSpec

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
    """Train the runs of a pool that are neither finished in the store nor packed.

    Raises:
        InputError: if a spec does not fit.
        StoreError: if the store cannot be written.
    """
    restore_pool(pool, store)
    return Sweep(pool.space, store / pool.name, data_dir=data_dir).run(executor, watch)


def restore_pool(pool: Pool, store: Path) -> int:
    """Copy the packed runs of a pool into the store as finished runs.

    Runs whose spec is no longer in the pool and runs already in the store are skipped.

    Returns:
        The number of copied runs.
    """
    from rote.workloads import RunFolder  # loads torch

    if not pool.record.is_file():
        return 0
    store.mkdir(parents=True, exist_ok=True)
    count = 0
    with tempfile.TemporaryDirectory(dir=store, prefix=".restore-") as folder:
        table = unpack(pool.record, Path(folder))
        for name, path in table.paths.items():
            spec, found = pool.specs.get(name), table.descriptions[name]
            if spec is None or not _is_run_of(spec, found):
                continue
            place = get_run_path(store / pool.name, spec)
            if read_status(place).state == "new" and not place.exists():
                # Described before it is moved: an interruption never leaves an incomplete run.
                RunFolder(path, spec).describe(dict(found["data"]), finished=True)
                place.parent.mkdir(parents=True, exist_ok=True)
                path.rename(place)
                count += 1
    return count


def _is_run_of(spec: RunSpec, description: Mapping[str, Any]) -> bool:
    packed = description.get("spec")
    return packed is not None and RunSpec.from_dict(packed).identity == spec.identity


def find_finished(pool: Pool, store: Path) -> list[Path]:
    """Return the directories of a pool's finished runs below a folder."""
    places = [get_run_path(store / pool.name, spec) for spec in pool.space]
    return [place for place in places if read_status(place).state == "finished"]


def is_over(pool: Pool, store: Path) -> bool:
    """Return whether all runs of a pool are finished."""
    try:
        counts = Sweep(pool.space, store / pool.name).survey()
    except RoteError:
        return False
    return counts["finished"] > 0 and counts["finished"] == sum(counts.values())


def read_trained(
    pools: Sequence[Pool], store: Path, *, needs_one: bool = True
) -> list[tuple[Pool, RunTable]]:
    """Return the pools whose runs are all finished below a folder.

    Args:
        pools: the pools to look for.
        store: the folder of runs.
        needs_one: whether to raise an error if no pool is complete.

    Raises:
        InputError: if no pool is complete and `needs_one` is True.
    """
    found = [pool for pool in pools if is_over(pool, store)]
    if needs_one and pools and not found:
        raise InputError(f"{store} has no finished pools of this study. Train them first.")
    return [(pool, read_table(store / pool.name)) for pool in found]


def prepare_study(
    study: Study, tables: Mapping[Pool, RunTable], store: Path, data_dir: Path | None
) -> Tables | Measured | Record:
    """Return the input of a study's `measure`: its runs, or the examination of their networks.

    Networks are examined once: results are stored beside the runs until the runs change.
    """
    if study.compute is not None:
        return study.compute(store, data_dir)
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
    """The committed runs and numbers, unpacked on demand, once for all studies.

    Args:
        folder: where runs are unpacked; keep it while they are in use.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables: dict[str, RunTable] = {}

    def read(
        self, study: Study, preset: str | None = None
    ) -> list[tuple[str, Tables | Measured | Record]]:
        """Return the presets of a study with their packed pools, the largest first.

        A study that needs no runs has its recorded numbers instead.

        Args:
            study: the study.
            preset: the only preset to return, with its incomplete pools, whose names then contain
                the number of runs. By default, the complete pools of every preset.

        Raises:
            InputError: if none is committed.
        """
        if study.wants is None:
            file = _get_numbers_path(study)
            return [(PRESETS[0], json.loads(file.read_bytes()) if file.is_file() else [])]
        found: list[tuple[str, Tables | Measured | Record]] = []
        for one in reversed(PRESETS) if preset is None else [preset]:
            pools = study.find_pools(one) if study.has(one) else []
            there = [pool for pool in pools if _get_record_path(study, pool).is_file()]
            packed = self._read_packed(study, there, has_all=preset is None)
            found += [(one, packed)] if packed else []
        if not found:
            raise InputError(
                "The package has no records of study "
                f"{study.name!r}{'' if preset is None else f' at preset {preset}'}. Run it with "
                "--record."
            )
        return found

    def _read_packed(self, study: Study, pools: list[Pool], *, has_all: bool) -> Tables | Measured:
        """Return the tables of pools, or the examinations of their networks."""
        if study.examine is not None:
            records = [_get_record_path(study, pool).read_bytes() for pool in pools]
            return list(zip(pools, map(json.loads, records), strict=True))
        tables = [(pool, self._unpack_table(pool)) for pool in pools]
        if has_all:
            tables = [(pool, table) for pool, table in tables if has_enough(pool, table)]
        return [(_mark_incomplete(pool, table), table) for pool, table in tables]

    def _unpack_table(self, pool: Pool) -> RunTable:
        if pool.name not in self._tables:
            self._tables[pool.name] = unpack(pool.record, self._folder / pool.name)
        return self._tables[pool.name]


def is_complete(pool: Pool, table: RunTable) -> bool:
    """Return whether every run of a pool is in a table."""
    return set(pool.specs) <= set(table.descriptions)


def has_enough(pool: Pool, table: RunTable) -> bool:
    """Return whether a table has enough runs of a pool for studies to use it."""
    needed = list(pool.specs)[: pool.enough]
    return set(needed) <= set(table.descriptions)


def _mark_incomplete(pool: Pool, table: RunTable) -> Pool:
    """Return the pool, with the number of its runs in its name if some are missing."""
    if is_complete(pool, table):
        return pool
    return replace(pool, name=f"{pool.name} ({len(table.descriptions)} of {len(pool.specs)} runs)")


def record_pools(pools: Sequence[Pool], store: Path) -> list[Path]:
    """Pack the finished runs of every pool, adding to those packed before.

    A pool may be incomplete: another machine then trains only the missing runs.
    """
    written = []
    for pool in pools:
        restore_pool(pool, store)
        if runs := find_finished(pool, store):
            pack(runs, pool.record)
            written.append(pool.record)
    return written


def record_numbers(study: Study, record: Record) -> Path:
    """Write the numbers of a study without runs to the folder that `Records` reads."""
    text = json.dumps(record, allow_nan=False, ensure_ascii=False, separators=(",", ":")) + "\n"
    write_whole(_get_numbers_path(study), text.encode())
    return _get_numbers_path(study)


def record_measured(study: Study, found: Tables | Measured | Record) -> list[Path]:
    """Write the examination of networks to the folder that `Records` reads."""
    if study.examine is None or isinstance(found, Mapping):
        return []
    for pool, numbers in found:
        text = json.dumps(numbers, allow_nan=False, separators=(",", ":")) + "\n"
        write_whole(_get_record_path(study, pool), text.encode())
    return [_get_record_path(study, pool) for pool, _ in found]


def _get_numbers_path(study: Study) -> Path:
    return RECORDS / f"{study.name}.json"


def _get_record_path(study: Study, pool: Pool) -> Path:
    if study.examine is None:
        return pool.record
    return pool.record.with_name(f"{pool.name}-{study.name}.json")
