"""Which runs are begun again after their worker died."""

from pathlib import Path

import pytest

from rote.sweeps.executor import Job, Lost, Retries
from rote.workloads import RunSpec

pytestmark = pytest.mark.slow


def job(name: str) -> Job:
    return Job(RunSpec(), Path(name))


def test_a_job_is_given_up_at_its_last_attempt() -> None:
    retries, (first, second, third) = Retries(2), map(job, "abc")
    coming = iter([third])
    assert retries.count_death(Lost(first, "killed")) == Lost(first, "killed", gives_up=False)
    assert retries.count_death(Lost(second, "killed")) == Lost(second, "killed", gives_up=False)
    assert retries.take_job(coming) is first
    assert retries.count_death(Lost(first, "again")) == Lost(first, "again", gives_up=True)
    assert [retries.take_job(coming) for _ in range(3)] == [second, third, None]
    assert [entry in retries for entry in (first, second, third)] == [True, True, False]


def test_one_attempt_is_no_retry() -> None:
    retries = Retries(1)
    assert retries.count_death(Lost(job("a"), "killed")).gives_up
    assert retries.take_job(iter(())) is None
