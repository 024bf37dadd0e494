"""Which runs are begun again after their worker died, and how often."""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rote.sweeps.executor import Job, Lost


class Retries:
    """Jobs whose worker died, and how often each was begun; at most ``attempts`` times."""

    def __init__(self, attempts: int) -> None:
        self._attempts = attempts
        self._deaths: Counter[Path] = Counter()
        self._waiting: deque[Job] = deque()

    def __contains__(self, job: Job) -> bool:
        """Whether a worker has died with the job before."""
        return job.path in self._deaths

    def next_job(self, coming: Iterator[Job]) -> Job | None:
        """The job to begin: one that waits to be begun again, else a new one, else none."""
        return self._waiting.popleft() if self._waiting else next(coming, None)

    def judged(self, lost: Lost) -> Lost:
        """Count a death; the job is given up, or else waits to be begun again."""
        self._deaths[lost.job.path] += 1
        gives_up = self._deaths[lost.job.path] >= self._attempts
        if not gives_up:
            self._waiting.append(lost.job)
        return replace(lost, gives_up=gives_up)
