"""Random graphs do after the passes what they did before; and the fuzzer finds what is wrong."""

import runpy
import sys
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:  # the fuzzer is a package of the tests, and they are not installed
    sys.path.append(str(ROOT))

from tests.fuzz.builder import Unfit  # noqa: E402 - it is found through the line above
from tests.fuzz.campaign import Settings, confirmed, run_seeds  # noqa: E402
from tests.fuzz.check import check, plan  # noqa: E402
from tests.fuzz.generate import generate  # noqa: E402
from tests.fuzz.script import script  # noqa: E402
from tests.fuzz.shrink import Shrinker  # noqa: E402
from tests.fuzz.wrong_passes import WRONG  # noqa: E402

GRAPHS, CHUNK = 300, 50
SEARCHED = 200


@pytest.fixture(autouse=True)
def _verify_as_asked(monkeypatch):
    """How much is verified is the fuzzer's choice here: what the tests ask for costs too much."""
    monkeypatch.delenv("XPUGRAPH_VERIFY", raising=False)


@pytest.mark.parametrize("start", range(0, GRAPHS, CHUNK), ids=lambda start: f"from_{start}")
def test_the_passes_change_nothing_that_can_be_seen(start):
    tally = run_seeds(range(start, start + CHUNK), Settings())
    assert not tally.failures, "\n".join(tally.failures)
    assert sum(tally.skipped.values()) < CHUNK // 10
    assert tally.applied


def first_failure(wrong):
    for seed in range(SEARCHED):
        case = generate(seed, (WRONG[wrong],))
        failure = check(case, plan(case, (wrong,), levels=("level1",))).failure
        if failure is not None:
            with suppress(Unfit):
                return confirmed(case, failure)
    raise AssertionError(f"{SEARCHED} graphs do not show that {wrong.name} is wrong")


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_a_wrong_pass_is_found_and_told_in_a_small_program(wrong, tmp_path, capsys):
    shrinker = Shrinker(*first_failure(wrong))
    assert shrinker.shrink()
    calls = [node for node in shrinker.case.gm.graph.nodes if node.op == "call_function"]
    assert len(calls) <= 4
    program = tmp_path / "program.py"
    program.write_text(script(shrinker.case, shrinker.failure))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(program))
    assert ended.value.code == 1
    assert shrinker.failure.text in capsys.readouterr().out


def test_a_seed_is_the_same_graph_every_time():
    first, second = generate(11), generate(11)
    assert str(first.gm.graph) == str(second.gm.graph)
    assert first.inputs == second.inputs
    assert first.storages == second.storages
