import re
from pathlib import Path

import pytest
import torch

from xpu_graph import XpuGraphConfig
from xpu_graph.errors import ConfigError, NotCacheable, PassError
from xpu_graph.hooks import Hook
from xpu_graph.passes import DEFAULT_PASSES, Phase, Pipeline
from xpu_graph.passes.pipeline import MAX_ROUNDS, ordered
from xpu_graph.stage import Stage
from xpu_graph.testing import capture, run_passes

aten = torch.ops.aten


@pytest.fixture
def named(make_pass):
    """A pass that does nothing but note that it ran."""

    def named(name, ran=None, **attributes):
        return make_pass(
            lambda unit: bool((ran if ran is not None else []).append(name)), name, **attributes
        )

    return named


def drop_copies(unit):
    before = unit.rewriter.applied
    for node in unit.gm.graph.find_nodes(op="call_function", target=aten.clone.default):
        unit.rewriter.replace(node, node.args[0])
    return unit.rewriter.applied > before


def names(passes):
    return [pass_.name for pass_ in passes]


def test_order_is_phase_then_constraints_then_name(named):
    passes = [
        named("a", phase=Phase.clean),
        named("d", phase=Phase.fold),
        named("c", phase=Phase.fold, after=("d",)),
        named("b", phase=Phase.fold, after=("c",)),
        named("z", phase=Phase.canonicalize),
    ]
    assert names(ordered(passes)) == ["z", "d", "c", "b", "a"]
    assert names(ordered(passes[::-1])) == ["z", "d", "c", "b", "a"]


def test_order_of_the_default_passes():
    order = names(ordered(DEFAULT_PASSES))
    assert order == names(ordered(DEFAULT_PASSES[::-1]))
    assert order[0] == "canonicalize_views"
    assert order[-3:] == ["constant_folding", "dead_code", "reinplace"]


def test_a_circle_is_an_error(named):
    with pytest.raises(PassError, match=r"circle: \['a', 'b'\]"):
        ordered([named("a", after=("b",)), named("b", after=("a",)), named("c")])


def test_a_constraint_on_an_unknown_pass_is_an_error(named):
    with pytest.raises(PassError, match=r"must run after \['gone'\]"):
        ordered([named("a", after=("gone",))])
    with pytest.raises(PassError, match="not in phase 'fold'"):
        ordered([named("a", after=("b",), phase=Phase.fold), named("b", phase=Phase.clean)])


def test_names_must_differ(named):
    with pytest.raises(PassError, match=r"called \['same'\]"):
        Pipeline([named("same"), named("same")], XpuGraphConfig())


def test_levels_and_skipping(named, trace):
    passes = [
        named(f"needs{n}", level=XpuGraphConfig(opt_level=f"level{n}").opt_level) for n in (0, 1, 2)
    ]
    unit = trace(lambda x: x.sin(), torch.ones(3))

    def chosen(**config):
        return names(Pipeline(passes, XpuGraphConfig(**config)).passes_for(unit))

    assert chosen(opt_level="level0") == ["needs0"]
    assert chosen(opt_level="level1") == ["needs0", "needs1"]
    assert chosen(opt_level="level3") == ["needs0", "needs1", "needs2"]
    assert chosen(opt_level="level1", skip_patterns=("needs0",)) == ["needs1"]


def test_level0_does_nothing():
    unit = capture(lambda x: x.clone() * 1 + x.sin() + x.sin(), torch.ones(3))[0]
    run = run_passes(DEFAULT_PASSES, unit, opt_level="level0")
    assert run.before == run.after
    assert run.rounds == 0


def test_stages(named, trace):
    unit = trace(lambda x: x.sin(), torch.ones(3))
    passes = [
        named("a", stages=frozenset({Stage.inference})),
        named("b", stages=frozenset({Stage.forward, Stage.backward})),
        named("c"),
    ]
    pipeline = Pipeline(passes, XpuGraphConfig())
    assert names(pipeline.passes_for(unit)) == ["a", "c"]
    unit.stage = Stage.backward
    assert names(pipeline.passes_for(unit)) == ["b", "c"]
    unit.stage = Stage.pregrad
    assert names(pipeline.passes_for(unit)) == []


def test_every_pass_runs_in_every_round(named, make_pass, trace):
    ran = []

    def once(unit):
        ran.append("once")
        return drop_copies(unit)

    passes = [named("a", ran), make_pass(once, "once"), named("z", ran)]
    run = run_passes(passes, trace(lambda x: x.clone().sin(), torch.ones(3)))
    assert ran == ["a", "once", "z"] * 2
    assert run.rounds == 2


def swap(old, new):
    def run(unit):
        (node,) = unit.gm.graph.find_nodes(op="call_function", target=old)
        return unit.rewriter.replace_with_call(node, new, node.args) is not None

    return run


def test_passes_that_undo_each_other(make_pass, trace, monkeypatch):
    passes = [
        make_pass(swap(aten.sin.default, aten.cos.default), "there"),
        make_pass(swap(aten.cos.default, aten.sin.default), "undo"),
    ]
    with pytest.raises(PassError, match=f"did not settle in {MAX_ROUNDS} rounds"):
        run_passes(passes, trace(lambda x: x.sin(), torch.ones(3)))
    monkeypatch.setenv("XPUGRAPH_VERIFY", "final")
    run = run_passes(passes, trace(lambda x: x.sin(), torch.ones(3)))
    assert run.rounds == MAX_ROUNDS
    assert run.after == {"aten.sin.default": 1}


def test_an_exception_names_the_pass_and_what_ran_before(named, make_pass, trace):
    def fail(unit):
        raise KeyError("lost")

    passes = [named("a"), named("b"), make_pass(fail, "faulty")]
    with pytest.raises(PassError) as error:
        run_passes(passes, trace(lambda x: x.sin(), torch.ones(3)))
    message = str(error.value)
    assert "pass 'faulty' failed on traced: KeyError: 'lost' (ran before: a, b)" in message
    assert isinstance(error.value.__cause__, KeyError)


def test_an_error_of_ours_stays_what_it_is(make_pass, trace):
    def fail(unit):
        raise ConfigError("no such thing")

    with pytest.raises(ConfigError, match="no such thing"):
        run_passes([make_pass(fail)], trace(lambda x: x.sin(), torch.ones(3)))


class Witness(Hook):
    def __init__(self, name, calls, allows=True):
        self.name, self.calls, self.allows = name, calls, allows

    def pipeline_started(self, unit):
        self.calls.append((self.name, "start"))

    def pass_started(self, unit, pass_):
        self.calls.append((self.name, f"before {pass_.name}"))

    def pass_finished(self, unit, pass_, changed):
        self.calls.append((self.name, f"after {pass_.name} {changed}"))

    def pipeline_finished(self, unit, rounds):
        self.calls.append((self.name, f"end {rounds}"))

    def allow_rewrite(self, unit, pass_name):
        self.calls.append((self.name, f"allow {pass_name}"))
        return self.allows


def test_hooks_are_called_in_order(make_pass, trace):
    calls = []
    unit = trace(lambda x: x.clone().sin(), torch.ones(3))
    hooks = [Witness("1", calls), Witness("2", calls)]
    Pipeline([make_pass(drop_copies, "p")], XpuGraphConfig()).run(unit, hooks)
    expected = [
        "start",
        "before p",
        "allow p",
        "after p True",
        "before p",
        "after p False",
        "end 2",
    ]
    assert calls == [(hook, event) for event in expected for hook in ("1", "2")]


def test_any_hook_can_stop_a_rewrite(make_pass, trace):
    unit = trace(lambda x: x.clone().sin(), torch.ones(3))
    hooks = [Witness("1", [], allows=False), Witness("2", [])]
    Pipeline([make_pass(drop_copies, "p")], XpuGraphConfig()).run(unit, hooks)
    assert unit.rewriter.refusals == {("p", "out of fuel"): 1}


def test_no_passes_is_fine(trace):
    assert run_passes([], trace(lambda x: x.sin(), torch.ones(3))).rounds == 0


def test_unused_tensors_leave_the_module():
    unit = capture(lambda x: x + torch.tensor([1.0]) * 2, torch.ones(3))[0]
    owned = [node.target for node in unit.gm.graph.find_nodes(op="get_attr")]
    assert owned
    run_passes(DEFAULT_PASSES, unit)
    assert not any(hasattr(unit.gm, name) for name in owned)
    assert len(unit.gm._buffers) == 1


def test_identity_follows_order_config_and_source(trace, tmp_path, monkeypatch):
    unit = trace(lambda x: x.sin(), torch.ones(3))

    def identity(passes=DEFAULT_PASSES, **config):
        return Pipeline(passes, XpuGraphConfig(**config)).identity(unit)

    assert identity() == identity(DEFAULT_PASSES[::-1])
    assert identity() != identity(skip_patterns=("cse",))
    monkeypatch.syspath_prepend(tmp_path)
    text = "from xpu_graph.passes import Pass\nclass P(Pass):\n    name = 'p'\n    run = {}\n"
    for version in ("one", "two"):
        (tmp_path / f"xg_pass_{version}.py").write_text(text.format(repr(version)))
    one, two = (__import__(f"xg_pass_{version}").P for version in ("one", "two"))
    two.__module__, module = "xg_pass_one", two.__module__
    first = identity([one])
    two.__module__ = module
    assert first.split("@")[1] != identity([two]).split("@")[1]


def test_a_pass_without_source_is_not_cacheable(trace):
    unit = trace(lambda x: x.sin(), torch.ones(3))
    scope = {"__name__": "made_up"}
    exec("from xpu_graph.passes import Pass\nclass P(Pass):\n    name = 'p'\n", scope)
    with pytest.raises(NotCacheable, match="'p' has no source"):
        Pipeline([scope["P"]], XpuGraphConfig()).identity(unit)


def test_guards_and_symbols_are_left_as_they_are():
    def function(x, y):
        n = x.shape[0]
        z = (x.view(n, 3).t().t() * 1).clone() + y.expand(n, 3)[:, :]
        return z.view(3 * n).view(n, 3) - 0, x.new_zeros(n) + torch.arange(n)

    unit = capture(function, torch.ones(5, 3), torch.ones(1, 3), dynamic=True)[0]
    env = unit.fake_inputs[1].fake_mode.shape_env
    before = len(env.guards), dict(env.replacements), str(env.var_to_range)
    run_passes(DEFAULT_PASSES, unit)
    assert (len(env.guards), dict(env.replacements), str(env.var_to_range)) == before


def test_values_and_provenance_on_every_node():
    def function(x):
        return (x.view(6).view(3, 2) @ (torch.ones(2, 2) * 3)).clone().sin().t().t() * 1

    unit = capture(function, torch.ones(2, 3))[0]
    run_passes(DEFAULT_PASSES, unit)
    for node in unit.gm.graph.nodes:
        if node.op != "output":
            assert "val" in node.meta, node
        if node.op == "call_function":
            assert node.meta.get("stack_trace"), node


def test_debug_verifies_after_each_pass(trace, make_pass):
    unit = trace(lambda x: x + 2, torch.ones(3))
    liar = make_pass(lambda unit: not unit.rewriter.applied and unit.rewriter.clock == 3)
    with pytest.raises(PassError, match="reports changed=True"):
        run_passes([liar], unit, verify="off", debug=True)


def test_the_table_names_every_pass_and_its_level():
    readme = Path(Pipeline.__module__.replace(".", "/")).parent / "README.md"
    root = Path(__file__).parents[2]
    rows = re.findall(r"^\| `(\w+)` \|.*\| (\d)[^|]*\|$", (root / readme).read_text(), re.MULTILINE)
    assert [name for name, _ in rows] == names(ordered(DEFAULT_PASSES))
    assert {name: int(level) for name, level in rows} == {
        pass_.name: pass_.level for pass_ in DEFAULT_PASSES
    }
