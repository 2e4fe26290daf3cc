"""The joint graph: what runs on it, what it is cut with, and what stays as it was told."""

import pytest
import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from xpu_graph import ConfigError, XpuGraph, XpuGraphConfig
from xpu_graph.partition import partitioner
from xpu_graph.stage import Stage
from xpu_graph.testing import assert_same


def leaf(*shape):
    return torch.arange(1.0, torch.Size(shape).numel() + 1).reshape(shape).div(7).requires_grad_()


def gradients(function, shapes, backend=None):
    """The outputs and the gradients of leaves, eagerly or compiled."""
    torch.compiler.reset()
    leaves = [leaf(*shape) for shape in shapes]
    torch.manual_seed(0)
    call = torch.compile(function, backend=backend, fullgraph=True) if backend else function
    outputs = call(*leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    sum(o.square().sum() for o in outputs if o.requires_grad).backward()
    return [o.detach() for o in outputs], [given.grad for given in leaves]


def backend(**fields):
    return XpuGraph(XpuGraphConfig(**{"enable_cache": False, "verify": "each", **fields}))


def units(function, shapes, made):
    """The units that a backend saw, by stage."""
    seen = {}
    joint, one = made._improve, made._compile

    def improve(unit, report):
        joint(unit, report)
        seen[unit.stage] = unit

    def compile_one(unit, report):
        seen[unit.stage] = unit
        return one(unit, report)

    made._improve, made._compile = improve, compile_one
    gradients(function, shapes, made)
    return seen


def calls(unit):
    return [str(n.target) for n in unit.gm.graph.nodes if n.op == "call_function"]


PROGRAMS = {
    "recomputed in backward": lambda x: (x.sigmoid() * x).tanh(),
    "a view": lambda x: x.t() @ x.t().exp(),
    "a constant": lambda x: x * torch.arange(3.0) + torch.full((3,), 2.0) * x,
    "copies": lambda x: (x.clone() * 1).contiguous().detach() * x,
    "several outputs": lambda x: (x.sin(), x.sin().sum(), x.cos().detach()),
    "an output and its view": lambda x: (y := x * 2, y.t()),
    "an input as it is": lambda x: (x, x.view(-1), x * 0.5),
    "a cast": lambda x: x.bfloat16().float().sin(),
    "dropout": lambda x: functional.dropout(x * 1, 0.5) + functional.dropout(x * 1, 0.5),
    "softmax": lambda x: functional.cross_entropy(x, torch.tensor([0, 1, 2])),
    "a parameter twice": lambda x: functional.linear(functional.linear(x, x), x),
}


@pytest.mark.parametrize("partition_fn", ["DEFAULT", "MINCUT"])
@pytest.mark.parametrize("function", PROGRAMS.values(), ids=PROGRAMS)
def test_gradients(function, partition_fn):
    made = backend(opt_level="level2", partition_fn=partition_fn)
    mine, eagers = gradients(function, [(3, 3)], made), gradients(function, [(3, 3)])
    assert_same(mine, eagers, bitwise=False, rtol=1e-5, atol=1e-6)
    assert [graph.stage for graph in made.reports[0].graphs] == ["joint", "forward", "backward"]


def test_what_forward_and_backward_have_in_common_is_computed_once():
    """The derivative of ``x * sigmoid(x)`` takes the sigmoid again."""

    def function(x):
        return torch.sigmoid(x) * 2 + functional.silu(x * 1)

    seen = units(lambda x: function(x) * torch.sigmoid(x), [(4,)], backend())
    assert calls(seen[Stage.joint]).count("aten.sigmoid.default") == 1


def test_constants_are_folded_in_both_parts():
    def function(x):
        table = torch.arange(4.0) * 3 + 1
        return (x * table).sin() * table

    made = backend()
    seen = units(function, [(4,)], made)
    assert "aten.arange.start_step" not in calls(seen[Stage.forward]) + calls(seen[Stage.backward])
    assert_same(
        gradients(function, [(4,)], made),
        gradients(function, [(4,)]),
        bitwise=False,
        rtol=1e-6,
        atol=0,
    )


@pytest.mark.parametrize("partition_fn", ["DEFAULT", "MINCUT"])
def test_what_checkpointing_makes_again_is_not_merged_with_what_it_keeps(partition_fn):
    def function(x, w):
        kept = torch.relu(x @ w).sin()
        again = checkpoint(lambda x, w: torch.relu(x @ w).sin(), x, w, use_reentrant=False)
        return kept * again

    made = backend(partition_fn=partition_fn)
    seen = units(function, [(3, 3), (3, 3)], made)
    assert calls(seen[Stage.joint]).count("aten.mm.default") >= 2
    assert "aten.sin.default" in calls(seen[Stage.backward]), "it is recomputed"
    assert_same(
        gradients(function, [(3, 3), (3, 3)], made),
        gradients(function, [(3, 3), (3, 3)]),
        bitwise=False,
        rtol=1e-5,
        atol=1e-6,
    )


def test_what_is_written_to_is_not_read_by_the_backward_graph_afterwards():
    def function(x, state):
        y = x * state.detach().clone()
        with torch.no_grad():
            state.add_(1)
        return y.sin()

    sides = []
    for made in (backend(opt_level="level2"), None):
        torch.compiler.reset()
        x, state = leaf(4), torch.ones(4)
        call = torch.compile(function, backend=made) if made else function
        call(x, state).sum().backward()
        sides.append((x.grad, state))
    assert_same(*sides, bitwise=False, rtol=1e-6, atol=0)


@pytest.mark.parametrize("partition_fn", ["DEFAULT", "MINCUT"])
def test_nothing_is_computed_in_place_before_the_cut(partition_fn):
    """A partitioner may compute a value again in backward, from what it was computed from."""

    def function(x):
        return ((x.sin() + 1).exp() * 2).relu().cos()

    made = backend(partition_fn=partition_fn)
    seen = units(function, [(128, 256)], made)
    assert not [call for call in calls(seen[Stage.joint]) if "_." in call]
    assert [call for call in calls(seen[Stage.forward]) if "_." in call]
    got, want = (gradients(function, [(128, 256)], b) for b in (made, None))
    assert_same(got, want, bitwise=False, rtol=1e-5, atol=1e-6)


OVERWRITTEN = {
    "a copy of an input": lambda x, w: (x.clone() * w,),
    "an input times 1": lambda x, w: (x * 1 * w,),
    "one part of a cat": lambda x, w: (torch.cat([x]).sin() * w,),
    "casts": lambda x, w: (x.double().float() * w,),
    "a slice of a cat": lambda x, w: (torch.cat([x, x])[:3] * w,),
    "what is returned, too": lambda x, w: (x.sin(), x.sin() * w),
    "a copy of what is returned": lambda x, w: ((y := x.sin()), y.clone() * w),
    "a view of what is returned": lambda x, w: ((y := x.sin()).view(1, 3), (y * 1).view(3) * w),
    "a derivative that is returned, too": lambda x, w: (w.detach().exp(), w.exp() * x.clone()),
    "a choice": lambda x, w: (torch.where(torch.ones(3) > 0, x, w.detach()) * w,),
}


@pytest.mark.parametrize("partition_fn", ["DEFAULT", "MINCUT"])
@pytest.mark.parametrize("function", OVERWRITTEN.values(), ids=OVERWRITTEN)
def test_the_caller_may_write_between_forward_and_backward(function, partition_fn):
    """Torch refuses what the program itself saved and was written to; what we read must not be."""

    def differentiate(call):
        x, w = torch.arange(1.0, 4), torch.arange(2.0, 5).requires_grad_()
        outputs = call(x, w)
        x.mul_(7)
        for output in outputs[:-1]:
            output.detach().zero_()
        outputs[-1].sum().backward()
        return w.grad

    def of(made):
        torch.compiler.reset()
        try:
            return differentiate(torch.compile(function, backend=made))
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)
            return "refused"

    plain = backend(opt_level="level0", partition_fn=partition_fn)
    assert_same(of(backend(opt_level="level2", partition_fn=partition_fn)), of(plain))


WRITTEN_OUTPUTS = {
    "a copy": lambda x: x.exp().clone(),
    "a view of a copy": lambda x: x.tanh().view(-1).clone().view(3),
    "times 1": lambda x: x.exp() * 1,
    "a choice": lambda x: torch.where(torch.ones(3) > 0, h := x.exp(), h),
    "no dropout": lambda x: functional.dropout(x.sigmoid(), 0.0),
    "a cast and back": lambda x: x.tanh().double().float(),
    "a cat of one": lambda x: torch.cat([x.tanh()]),
    "a slice of a cat": lambda x: torch.cat([x.tanh(), x])[:3].clone(),
    "contiguous": lambda x: x.exp().t().contiguous().t().clone(),
}


@pytest.mark.parametrize("partition_fn", ["DEFAULT", "MINCUT"])
@pytest.mark.parametrize("function", WRITTEN_OUTPUTS.values(), ids=WRITTEN_OUTPUTS)
def test_the_caller_may_write_to_outputs_before_backward(function, partition_fn):
    """An output that the program copied is not what the backward graph reads."""
    sides = []
    for made in (backend(partition_fn=partition_fn, opt_level="level2"), "aot_eager"):
        torch.compiler.reset()
        x = torch.ones(3, requires_grad=True)
        output = torch.compile(function, backend=made)(x)
        with torch.no_grad():
            output.zero_()
        output.sum().backward()
        sides.append(x.grad)
    assert_same(*sides, bitwise=False, rtol=1e-6, atol=0)


READ_THEN_WRITTEN = {
    "a buffer": lambda x, b: (x * b.sin(), b.mul_(2))[0],
    "a view of it": lambda x, b: (x * b[1:].view(-1).sin().cos(), b.mul_(2))[0],
    "in a chain": lambda x, b: (x * b[1:].exp().sin().tanh(), b.copy_(b.cos()))[0],
    "after the write": lambda x, b: (b.mul_(2), x * b[:3].sin())[1],
}


@pytest.mark.parametrize("partition_fn", ["DEFAULT", "MINCUT"])
@pytest.mark.parametrize("opt_level", ["level0", "level2"])
@pytest.mark.parametrize("function", READ_THEN_WRITTEN.values(), ids=READ_THEN_WRITTEN)
def test_what_forward_overwrites_is_not_read_again(function, opt_level, partition_fn):
    size = 3 if function is READ_THEN_WRITTEN["a buffer"] else 4
    sides = []
    for made in (backend(partition_fn=partition_fn, opt_level=opt_level), None):
        torch.compiler.reset()
        x, buffer = leaf(3), torch.linspace(0.5, 1, size)
        call = torch.compile(function, backend=made) if made else function
        call(x, buffer).sum().backward()
        sides.append((x.grad, buffer))
    assert_same(*sides, bitwise=False, rtol=1e-6, atol=0)


DETACHED = {
    "a view": lambda x: ((h := x.sin()).flatten().detach(), h.unsqueeze(0)),
    "after another": lambda x: ((h := x.sin()).unsqueeze(0), h.flatten().detach()),
    "of an output": lambda x: ((h := x.sin()).flatten().detach(), h),
    "itself": lambda x: ((h := x.sin()).detach(), h),
    "a part": lambda x: ((h := x.sin())[0].detach(), h, x * 2),
    "a view of it": lambda x: ((h := x.sin()).detach()[1:], h.t()),
    "an input": lambda x: (x.detach(), x * 2),
}


@pytest.mark.parametrize("partition_fn", ["DEFAULT", "MINCUT"])
@pytest.mark.parametrize("function", DETACHED.values(), ids=DETACHED)
def test_detached_outputs_stay_detached(function, partition_fn):
    sides = []
    for made in (backend(partition_fn=partition_fn, opt_level="level2"), None):
        torch.compiler.reset()
        x = leaf(3, 3)
        outputs = (torch.compile(function, backend=made) if made else function)(x)
        sum(o.sum() for o in outputs if o.requires_grad).backward()
        sides.append(([o.requires_grad for o in outputs], x.grad))
    assert_same(*sides, bitwise=False, rtol=1e-6, atol=0)


def test_random_numbers_that_are_drawn_again():
    """What the partitioner puts in for that has no fake value of its own."""

    def function(x):
        return checkpoint(lambda x: torch.rand_like(x) * x.sin(), x, use_reentrant=False)

    made = backend(opt_level="level2")
    assert_same(
        gradients(function, [(3,)], made),
        gradients(function, [(3,)]),
        bitwise=False,
        rtol=1e-6,
        atol=0,
    )


def test_level0_has_no_joint_stage():
    made = backend(opt_level="level0")
    gradients(torch.sin, [(3,)], made)
    assert [graph.stage for graph in made.reports[0].graphs] == ["forward", "backward"]


def test_the_interceptor_sees_what_the_passes_do():
    """It compares the parts of a joint graph, which so is left as it was."""
    made = backend(enable_interceptor=True)
    gradients(lambda x: x * 1 + x.sin() * x.sin(), [(3,)], made)
    joint, forward, _ = made.reports[0].graphs
    assert any("interceptor" in note for note in joint.notes)
    assert not joint.passes
    assert forward.after.total() < forward.before.total()


def test_fuel_is_shared_by_the_stages():
    def function(x):
        return x * 1 + x.sin() * x.sin()

    made = backend(fuel=1)
    assert_same(gradients(function, [(3,)], made), gradients(function, [(3,)]), bitwise=False)
    applied = [sum(p.applied for p in g.passes.values()) for g in made.reports[0].graphs]
    assert sum(applied) == 1


def test_a_warm_start_runs_the_joint_stage_and_finds_its_parts(tmp_path):
    from xpu_graph import XpuGraphLocalCache

    def function(x):
        return x * 1 + x.sin() * x.sin()

    for expected in ("miss", "hit"):
        made = XpuGraph(XpuGraphConfig(), XpuGraphLocalCache(tmp_path))
        gradients(function, [(3,)], made)
        joint, *parts = made.reports[0].graphs
        assert [part.cache for part in parts] == [expected] * 2
        assert joint.cache == "not kept, since its two parts are"


# --- partitioners ---


WRONG = {
    "no parameters": (lambda: None, "cannot be called as partition_fn"),
    "no num_fwd_outputs": (lambda joint, inputs: None, "num_fwd_outputs"),
    "no number": (3, "a name, a callable, or None"),
    "a module": ("torch.nn", "is not something that can be called"),
    "a function of other parameters": ("os.path.join", "cannot be called as partition_fn"),
    "an unknown name": ("MINCUTS", "MINCUT"),
    "no such function": ("torch.nn.nothing", "cannot import"),
}


@pytest.mark.parametrize(("value", "told"), WRONG.values(), ids=WRONG)
def test_a_wrong_partitioner_is_refused_at_once(value, told):
    with pytest.raises(ConfigError, match="partition_fn") as error:
        XpuGraphConfig(partition_fn=value)
    assert told in str(error.value)


@pytest.mark.parametrize("returned", [None, 3, (1, 2), "two"])
def test_a_partitioner_that_returns_something_else_is_told_apart(returned):
    def cut(joint, inputs, **kwargs):
        return returned

    cut_and_check = partitioner(XpuGraphConfig(partition_fn=cut), None, None, "graph")
    with pytest.raises(ConfigError, match=r"cut.* returned .*GraphModule, GraphModule"):
        cut_and_check(torch.fx.symbolic_trace(lambda x: x.sin()), [])
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="returned"):
        gradients(torch.sin, [(3,)], backend(partition_fn=cut))
