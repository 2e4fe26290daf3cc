"""Every operator of torch's catalogue that runs on the CPU, in every dtype, against eager.

    python -m tests.sweeps.opinfo --log opinfo.jsonl
    python -m tests.sweeps.opinfo --summary opinfo.jsonl
    python -m tests.sweeps.opinfo --only 'linalg.*' --dtype float32 --modes training

A case is an operator, a dtype and a mode (``in_place`` only if asked for); its steps are the
levels. Two samples of the operator make one program, which is compiled once a level; where it
fails, each sample is looked at alone. Level1 has to agree with eager to the last bit, level2 within
torch's tolerances for the dtype, both in the signs of zeros, dtype, shape, stride, shared memory
and inputs written to; in training the gradients too. ``--jobs 0`` runs in this process, for a
debugger.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import itertools
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations as catalogue

from xpu_graph import XpuGraph, XpuGraphConfig

from . import progress
from .outcomes import (
    Attempt,
    Outcome,
    attempt,
    difference,
    fill_new_memory,
    judge,
    layout_difference,
    short,
    tensors,
)
from .sweep import Sweep, parser_of, some_of
from .workers import Task

LEVELS = ("level1", "level2")
MODES = ("inference", "training", "in_place")
"""``in_place`` calls the variant that writes to its first argument, where there is one."""
FIELDS = ("operator", "dtype", "mode", "level")
CANDIDATES = 10
"""The samples that two are chosen of: the first and the last, which differ most."""
NUMEL_LIMIT = 200_000
"""Samples with more elements are left out, and counted."""


def named(info: Any) -> str:
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name


CATALOGUE = {named(info): info for info in catalogue.op_db}


@dataclasses.dataclass(frozen=True)
class Case:
    """An operator with a dtype in a mode."""

    operator: str
    dtype: str
    mode: str

    def row(self, level: str, status: str, message: str, **facts: Any) -> progress.Row:
        labels = {**dataclasses.asdict(self), "level": level}
        return {**labels, "status": status, "message": message, **facts}


@dataclasses.dataclass
class Sample:
    """Arguments of an operator, and what to differentiate of its result."""

    arguments: tuple[Any, Any, Any]
    loss_terms: Any


def cases(only: Sequence[str], dtypes: Sequence[str], modes: Sequence[str]) -> Iterator[Case]:
    """What the catalogue lists, narrowed down by patterns of names, by dtypes and by modes."""
    for name, info in CATALOGUE.items():
        if only and not any(fnmatch.fnmatchcase(name, pattern) for pattern in only):
            continue
        trained = info.supported_backward_dtypes("cpu") if info.supports_autograd else ()
        for dtype in sorted(info.supported_dtypes("cpu"), key=str):
            short_name = str(dtype).removeprefix("torch.")
            if dtypes and short_name not in dtypes:
                continue
            for mode in modes:
                fits = {
                    "inference": True,
                    "training": dtype in trained,
                    "in_place": info.inplace_variant is not None,
                }
                if fits[mode]:
                    yield Case(name, short_name, mode)


def samples_of(case: Case) -> tuple[list[Sample], int]:
    """At most two samples, and how many were too large."""
    # The catalogue seeds before every random call, which Dynamo cannot trace.
    catalogue.wrapper_set_seed = lambda call, *args, **kwargs: call(*args, **kwargs)
    torch.manual_seed(0)
    found = CATALOGUE[case.operator].sample_inputs(
        "cpu", getattr(torch, case.dtype), requires_grad=case.mode == "training"
    )
    fitting: list[Sample] = []
    too_large = 0
    for sample in itertools.islice(found, CANDIDATES):
        arguments = (sample.input, sample.args, sample.kwargs)
        if sum(tensor.numel() for tensor in tensors(arguments)) > NUMEL_LIMIT:
            too_large += 1
        else:
            fitting.append(Sample(arguments, sample.output_process_fn_grad))
    return [*fitting[:1], *fitting[1:][-1:]], too_large


def _program(operator: Callable[..., Any], samples: int) -> Callable[..., list[Any]]:
    """A function that calls an operator on each of its arguments."""

    # Without a loop: Dynamo leaves out a function that it cannot follow inside of one.
    def one(first: Any) -> list[Any]:
        return [operator(first[0], *first[1], **first[2])]

    def two(first: Any, second: Any) -> list[Any]:
        result = operator(first[0], *first[1], **first[2])
        return [result, operator(second[0], *second[1], **second[2])]

    return one if samples == 1 else two


class Program:
    """An operator called on some samples, once in eager and as often as asked with a backend.

    Attributes:
        eager: what eager gives.
        steady: whether eager gives the same with other numbers in memory that nobody wrote.
    """

    def __init__(self, case: Case, samples: Sequence[Sample]) -> None:
        info = CATALOGUE[case.operator]
        operator = info.inplace_variant if case.mode == "in_place" else info.op
        self._function = function = _program(operator, len(samples))
        self._loss_terms = [sample.loss_terms for sample in samples]
        self._arguments = [sample.arguments for sample in samples]
        self._grad = case.mode == "training"
        self.eager = self._run(function)
        fill_new_memory(0)
        again = self._run(function)
        fill_new_memory(1)
        self.steady = (
            isinstance(self.eager, Outcome)
            and isinstance(again, Outcome)
            and difference(again, self.eager, bitwise=True) is None
        )
        self.aot_eager = functools.cache(lambda: self.compiled("aot_eager"))

    def compiled(self, backend: Any) -> Attempt:
        torch.compiler.reset()
        return self._run(torch.compile(self._function, backend=backend, dynamic=False))

    def check(self, level: str) -> tuple[str, str]:
        """Status and message of the program at a level."""
        ours = XpuGraph(XpuGraphConfig(opt_level=level, enable_cache=False, verify="each"))
        got = self.compiled(ours)
        steady = self.steady
        compare = functools.partial(difference, bitwise=level == "level1")
        found = judge(got, self.eager, self.aot_eager, compare if steady else layout_difference)
        if found[0] == progress.OURS and steady and self._flickers():
            steady = False
            found = judge(got, self.eager, self.aot_eager, layout_difference)
        if found[0] != progress.SAME:
            return found
        if not ours.reports:
            return progress.NOT_COMPILED, ""
        return (progress.SAME if steady else progress.NONDETERMINISTIC), ""

    def _flickers(self) -> bool:
        """Whether aot_eager differs from itself."""
        fill_new_memory(0)
        other = self.compiled("aot_eager")
        fill_new_memory(1)
        torchs = self.aot_eager()
        return (
            isinstance(other, Outcome)
            and isinstance(torchs, Outcome)
            and difference(other, torchs, bitwise=True) is not None
        )

    def _run(self, call: Any) -> Attempt:
        def loss_terms(results: Sequence[Any]) -> list[Any]:
            return [terms(result) for terms, result in zip(self._loss_terms, results, strict=True)]

        return attempt(call, self._arguments, grad=self._grad, loss_terms=loss_terms)


def work(task: Task) -> Iterator[progress.Row]:
    """The rows of a case, one a level."""
    case: Case = task.case
    fill_new_memory(1)
    samples, too_large = samples_of(case)
    alone = [Program(case, [sample]) for sample in samples]
    errors = [short(repr(one.eager)) for one in alone if isinstance(one.eager, Exception)]
    alone = [one for one in alone if isinstance(one.eager, Outcome)]
    together = Program(case, samples) if len(alone) > 1 else None
    for level in list(task.steps):
        start = time.monotonic()
        if not alone:
            status = progress.EAGER_FAILS if errors else progress.NO_SAMPLE
            message = "; ".join(errors)
        elif task.blamed is not None:
            (together or alone[0]).aot_eager()
            status, message = task.blamed
            task.blamed = None
        else:
            status, message = judged(together, alone, level)
        yield case.row(
            level,
            status,
            message,
            samples=len(alone),
            too_large=too_large,
            seconds=round(time.monotonic() - start, 2),
        )


def judged(together: Program | None, alone: Sequence[Program], level: str) -> tuple[str, str]:
    """The verdict on all samples in one program; where that fails, the worst on one sample."""
    if together is None:
        return alone[0].check(level)
    status, message = together.check(level)
    if status in (progress.SAME, progress.NOT_COMPILED):
        return status, message
    found = [one.check(level) for one in alone]
    for bad in (progress.OURS, progress.AOT_TOO):
        for index, (status_of_one, message_of_one) in enumerate(found):
            if status_of_one == bad:
                return bad, f"sample {index}: {message_of_one}"
    return status, f"the samples in one program: {message}" if message else ""


def command(row: progress.Row) -> str:
    """What shows a row again."""
    return (
        f"python -m tests.sweeps.opinfo --jobs 0 --only {shlex.quote(row['operator'])}"
        f" --dtype {row['dtype']} --modes {row['mode']} --levels {row['level']}"
    )


SWEEP = Sweep(work, FIELDS, ("mode", "level"), command)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of(__doc__, jobs=2, limit_s=120)
    parser.add_argument("--only", action="append", default=[], help="an operator, or a pattern")
    parser.add_argument("--dtype", action="append", default=[], help="a dtype, as in float32")
    parser.add_argument("--levels", type=some_of(LEVELS), default=LEVELS)
    parser.add_argument("--modes", type=some_of(MODES), default=MODES[:2])
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    tasks = [
        Task(case, list(options.levels))
        for case in cases(options.only, options.dtype, options.modes)
    ]
    return SWEEP.main(tasks, options)


if __name__ == "__main__":
    sys.exit(main())
