"""The sweeps that are run by hand: what they log, what they take up again, whom they blame."""

import functools
import io
import json
import os
import pathlib
import signal
import sys

import pytest
import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parent))

from sweeps import opinfo, outcomes, progress, sweep, transformers_models, workers
from sweeps.architectures import ALL

from xpu_graph import PassError


class Named:
    """A case with a name."""

    def __init__(self, name):
        self.name = name

    def row(self, step, status, message, **facts):
        return {"name": self.name, "step": step, "status": status, "message": message, **facts}


def fine(task):
    for step in task.steps:
        yield task.case.row(step, progress.SAME, "")


def ends_at_b(task):
    """The process ends at step b, and with aot_eager too where the name says so."""
    for step in task.steps:
        if step == "b" and (task.blamed is None or task.case.name == "always"):
            os.kill(os.getpid(), signal.SIGKILL)
        yield task.case.row(step, *(task.blamed or (progress.SAME, "")))
        task.blamed = None


def hangs_at_b(task):
    for step in task.steps:
        if step == "b" and task.blamed is None:
            signal.pause()
        yield task.case.row(step, *(task.blamed or (progress.SAME, "")))
        task.blamed = None


def raises_at_b(task):
    yield task.case.row("a", progress.SAME, "")
    raise KeyError("b")


def never(task):
    raise AssertionError(f"{task} was to be left out")
    yield


def tasks_of(*names):
    return [workers.Task(Named(name), ["a", "b", "c"]) for name in names]


@pytest.mark.parametrize(
    ("work", "limit", "name", "status"),
    [
        (ends_at_b, 60, "ours", progress.CRASHED),
        (ends_at_b, 60, "always", progress.AOT_TOO),
        (hangs_at_b, 2, "ours", progress.TIMEOUT),
    ],
    ids=["crash", "aot_eager crashes", "timeout"],
)
def test_a_lost_worker_is_one_row(work, limit, name, status):
    rows = list(workers.run(tasks_of("first", name), work, 1, limit))
    found = {row["step"]: row["status"] for row in rows if row["name"] == name}
    assert found == {"a": progress.SAME, "b": status, "c": progress.SAME}
    assert len(rows) == 6


def test_a_fault_of_the_sweep_is_told_for_every_step_left():
    rows = list(workers.run(tasks_of("one", "two"), raises_at_b, 2, 60))
    statuses = sorted((row["name"], row["step"], row["status"]) for row in rows)
    assert statuses == [
        (name, step, progress.SAME if step == "a" else progress.FAULT)
        for name in ("one", "two")
        for step in "abc"
    ]


def test_workers_are_replaced(monkeypatch):
    monkeypatch.setattr(workers, "CASES_PER_WORKER", 2)
    names = [str(number) for number in range(5)]
    rows = list(workers.run(tasks_of(*names), fine, 2, 60))
    assert sorted({row["name"] for row in rows}) == names and len(rows) == 15


# --- the log ------------------------------------------------------------------------------------

FIELDS = ("name", "step")


def main(work, tasks, *arguments):
    made = sweep.Sweep(work, FIELDS, ("step",), lambda row: f"again {row['name']}")
    return made.main(tasks, sweep.parser_of("", 0, 60).parse_args(list(map(str, arguments))))


def test_the_log_resumes(tmp_path):
    log = tmp_path / "log"
    assert main(fine, tasks_of("one"), "--log", log) == 0
    assert main(never, tasks_of("one"), "--log", log) == 0
    log.write_text(log.read_text() + '{"name": "two", "st')  # a run was interrupted here
    assert main(fine, tasks_of("one", "two"), "--log", log) == 0
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(row["name"], row["step"]) for row in rows] == [
        (name, step) for name in ("one", "two") for step in "abc"
    ]


def test_rows_of_a_status_are_done_again(tmp_path):
    log = tmp_path / "log"

    def fails_at_b(task):
        for row in fine(task):
            yield {**row, "status": progress.OURS} if row["step"] == "b" else row

    assert main(fails_at_b, tasks_of("one"), "--log", log) == 1
    assert main(never, tasks_of("one"), "--log", log) == 1
    assert main(never, tasks_of("one"), "--summary", log) == 1
    done = []

    def notes(task):
        done.extend(task.steps)
        yield from fine(task)

    assert main(notes, tasks_of("one"), "--log", log, "--again", "ours") == 0
    assert done == ["b"]


def test_that_there_is_nothing_to_do_is_an_error():
    with pytest.raises(SystemExit, match="no case"):
        main(fine, [])


def test_the_summary_names_each_failure_and_how_to_see_it():
    rows = [
        Named("one").row("a", progress.SAME, ""),
        Named("two").row("a", progress.OURS, "the sign differs"),
        Named("two").row("b", progress.AOT_TOO, "left out here"),
    ]
    text = progress.summary(rows, ("step",), lambda row: f"again {row['name']}")
    assert "1 failures" in text and "the sign differs" in text and "again two" in text
    assert "left out here" not in text


def test_the_progress_line_is_redrawn_on_a_terminal_only():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    drawn = {}
    for stream in (Terminal(), io.StringIO()):
        line = progress.Progress(1, stream)
        line.update(Named("one").row("a", progress.SAME, ""), "one a")
        line.close()
        drawn[type(stream)] = stream.getvalue()
    assert "1/1" in drawn[Terminal] and "\r" in drawn[Terminal]
    assert "1/1" in drawn[io.StringIO] and "\r" not in drawn[io.StringIO]


# --- whose fault it is --------------------------------------------------------------------------


@pytest.fixture
def steady_memory():
    yield
    outcomes.fill_new_memory(0xFF)  # the byte that stands for none


class Entry:
    """An entry of the catalogue."""

    supports_autograd = True

    def __init__(self, op, samples):
        self.op, self.samples = op, samples

    def sample_inputs(self, device, dtype, requires_grad):
        from torch.testing._internal.opinfo.core import SampleInput

        for _ in range(self.samples):
            yield SampleInput(torch.randn(2, requires_grad=requires_grad))


def rows_of(monkeypatch, op, mode="inference", samples=1):
    monkeypatch.setitem(opinfo.CATALOGUE, "probe", Entry(op, samples))
    return list(opinfo.work(workers.Task(opinfo.Case("probe", "float32", mode), ["level1"])))


X = torch.tensor([1.0, -2.0, 0.0])


def outcome_of(call, *arguments, grad=False):
    return outcomes.attempt(call, arguments, grad=grad)


def sine(x):
    return x.sin() * 1


def changed_by_compiling(x):
    return x.sin() + (1 if torch.compiler.is_compiling() else 2)


def unwritten(x):
    return torch.empty_like(x)


def refused(x):
    raise ValueError("not this one")


@pytest.mark.usefixtures("steady_memory")
@pytest.mark.parametrize(
    ("op", "status"),
    [
        (sine, progress.SAME),
        (changed_by_compiling, progress.AOT_TOO),
        (unwritten, progress.NONDETERMINISTIC),
        (refused, progress.EAGER_FAILS),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_status_of_an_operator(monkeypatch, op, status):
    (row,) = rows_of(monkeypatch, op)
    assert row["status"] == status, row


class Broken:
    """A backend that is wrong by one unit in the last place."""

    def __init__(self, config):
        self.reports = ["one"]

    def __call__(self, gm, inputs):
        return lambda *args: tuple(torch.nextafter(value, value + 1) for value in gm.forward(*args))


class Raising(Broken):
    def __call__(self, gm, inputs):
        raise ValueError("out of order")


@pytest.mark.usefixtures("steady_memory")
@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("backend", [Broken, Raising], ids=["differs", "raises"])
def test_a_fault_of_ours_is_ours(monkeypatch, backend, mode):
    monkeypatch.setattr(opinfo, "XpuGraph", backend)
    (row,) = rows_of(monkeypatch, sine, mode)
    assert row["status"] == progress.OURS, row


@pytest.mark.usefixtures("steady_memory")
def test_a_fault_of_ours_is_not_excused_by_another_one_of_aot_eager(monkeypatch):
    monkeypatch.setattr(opinfo, "XpuGraph", Broken)
    (row,) = rows_of(monkeypatch, changed_by_compiling)
    assert row["status"] == progress.OURS, row


@pytest.mark.usefixtures("steady_memory")
def test_the_sample_that_fails_is_named(monkeypatch):
    verdicts = iter([(progress.OURS, "wrong"), (progress.SAME, ""), (progress.OURS, "wrong")])
    monkeypatch.setattr(opinfo.Program, "check", lambda program, level: next(verdicts))
    (row,) = rows_of(monkeypatch, sine, samples=2)
    assert row["status"] == progress.OURS and row["message"] == "sample 1: wrong", row


def judged(got, torchs):
    compare = functools.partial(outcomes.difference, bitwise=True)
    return outcomes.judge(got, outcome_of(torch.clone, X), lambda: torchs, compare)[0]


def test_errors_are_excused_only_by_the_same_error_of_aot_eager():
    got = ValueError("no room at 0x7f12 for 3 more")
    assert judged(got, ValueError("no room at 0x7f99 for 4 more")) == progress.AOT_TOO
    assert judged(got, ValueError("something else")) == progress.OURS
    assert judged(got, TypeError(str(got))) == progress.OURS
    assert judged(got, outcome_of(torch.clone, X)) == progress.OURS
    ours = PassError("broken")
    assert judged(ours, ours) == progress.OURS
    assert judged(outcome_of(torch.neg, X), got) == progress.OURS


@pytest.mark.parametrize(
    ("change", "told_at"),
    [
        (lambda x: x.clone(), ()),
        (lambda x: torch.nextafter(x, x + (x != 0)), ("level1",)),
        (lambda x: torch.where(x == 0, -x, x), ("level1", "level2")),
        (lambda x: x.double(), ("level1", "level2")),
        (lambda x: x.add_(1).sub(1), ("level1", "level2")),
        (lambda x: x, ("level1", "level2")),
    ],
    ids=["copy", "rounding", "sign of zero", "dtype", "write", "alias"],
)
def test_what_tells_two_outcomes_apart(change, told_at):
    want = outcome_of(torch.clone, X)
    got = outcome_of(change, X)
    told = {
        level: outcomes.difference(got, want, bitwise=level == "level1")
        for level in ("level1", "level2")
    }
    assert tuple(level for level, why in told.items() if why) == told_at, told


def test_gradients_are_compared():
    x = X.clone().requires_grad_()
    want = outcome_of(lambda x: x * 2, x, grad=True)
    got = outcome_of(lambda x: x * 2 + (x - x.detach()), x, grad=True)
    assert outcomes.difference(want, want, bitwise=True) is None
    assert "gradients" in outcomes.difference(got, want, bitwise=True)


def test_copies_share_memory_as_the_originals_do():
    base = torch.arange(6.0)
    given = [base[1:4], (base[2:6:2], {"x": base[:2]}), base.expand(2, 6)]
    copies = outcomes.tensors(outcomes.copied(given))
    originals = outcomes.tensors(given)
    assert [one.stride() for one in copies] == [one.stride() for one in originals]
    assert all(torch.equal(*pair) for pair in zip(copies, originals, strict=True))
    copies[0].zero_()
    assert copies[1][0] == 0 and originals[1][0] == 2


@pytest.mark.usefixtures("steady_memory")
def test_a_model_of_transformers():
    assert len(ALL) >= 60
    task = workers.Task(transformers_models.Case("gpt2"), ["inference"])
    (row,) = transformers_models.work(task)
    assert row["status"] == progress.SAME and row["graphs"] == 1, row
