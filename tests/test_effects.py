import operator

import pytest
import torch

from xpu_graph import effects

aten = torch.ops.aten


X = torch.ones(3)

FACTS = {  # target, arguments: random, removable, deterministic, ordered
    "sin": (aten.sin.default, (X,), (False, True, True, False)),
    "rand": (aten.rand.default, ([3],), (True, False, False, True)),
    "dropout": (aten.native_dropout.default, (X, 0.5, True), (True, False, False, True)),
    "write": (aten.add_.Tensor, (X, 1), (False, False, False, True)),
    "out": (aten.sin.out, (X,), (False, False, False, True)),
    "empty": (aten.empty.memory_format, ([3],), (False, True, False, False)),
    "assertion": (aten._assert_async.msg, (X, ""), (False, False, False, True)),
    "assertion without a text": (aten._assert_async.default, (X,), (False, False, False, True)),
    "size assertion": (aten._assert_scalar.default, (True, ""), (False, False, False, True)),
    "bound": (aten.sym_constrain_range_for_size.default, (3,), (False, False, False, True)),
    "size": (torch.sym_max, (3, 4), (False, True, True, False)),
    "item": (torch.ops.aten.sym_size.int, (X, 0), (False, True, True, False)),
    "unknown function": (print, (X,), (False, False, False, True)),
    "python writing": (operator.setitem, (X, 0, 1), (False, False, False, True)),
    "python calling": (operator.iadd, (X, 1), (False, False, False, True)),
    "unknown higher order": (
        torch.ops.higher_order.with_effects,
        (X, aten.sin.default, X),
        (False, False, False, True),
    ),
    "functionalised": (
        torch.ops.higher_order.auto_functionalized,
        (aten.sin.out,),
        (False, True, False, False),
    ),
    "functionalised and random": (
        torch.ops.higher_order.auto_functionalized,
        (aten.normal_.default,),
        (False, False, False, True),
    ),
}


@pytest.mark.parametrize(("target", "args", "facts"), FACTS.values(), ids=FACTS)
def test_what_an_operator_may_do(target, args, facts, call):
    node = call(target, *args)
    assert facts == (
        effects.is_random(node),
        effects.is_removable(node),
        effects.is_deterministic(node),
        effects.is_ordered(node),
    )


def test_every_operator_with_a_generator_is_random(call):
    missing = []
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        if namespace != "aten" or not hasattr(aten, base):
            continue
        target = getattr(getattr(aten, base), overload or "default")
        takes = any("Generator" in str(a.type) for a in target._schema.arguments)
        if takes and not effects.is_random(call(target)):
            missing.append(name)
    assert missing == []


def collectives():
    """The operators that talk to other processes, and those that wait."""
    pytest.importorskip("torch.distributed._functional_collectives", exc_type=ImportError)
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        namespace, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        if namespace in ("_c10d_functional", "c10d_functional", "c10d", "_dtensor"):
            yield getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")


def test_collectives_stay_in_their_order_whoever_reads_them(call):
    """Other processes wait for them."""
    found = [*collectives()]
    assert torch.ops._c10d_functional.all_reduce.default in found
    for target in found:
        node = call(target, X)
        assert effects.is_collective(node), target
        assert effects.is_ordered(node), target
        assert not effects.is_removable(node), target
        assert not effects.is_deterministic(node), target
        assert effects.is_wait(node) == (target._opname == "wait_tensor"), target
    assert not effects.is_collective(call(aten.sin.default, X))


def test_what_binds_a_symbol_is_neither_removable_nor_repeatable(call):
    node = call(aten.sin.default, X)
    node.meta["unbacked_bindings"] = {"u0": ()}
    assert not effects.is_removable(node)
    assert not effects.is_deterministic(node)


def test_effects_of_custom_operators(call):
    with torch.library._scoped_library("xg_test_fx", "FRAGMENT") as library:
        library.define("plain(Tensor x) -> Tensor")
        library.define("writes(Tensor(a!) x) -> ()")
        library.define("draws(Tensor x) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
        library.define("returns_nothing(Tensor x) -> ()")
        operators = torch.ops.xg_test_fx
        assert effects.is_removable(call(operators.plain.default, X))
        assert not effects.is_deterministic(call(operators.plain.default, X))
        for name in ("writes", "draws", "returns_nothing"):
            assert not effects.is_removable(call(getattr(operators, name).default, X)), name


@pytest.mark.parametrize(
    ("target", "args", "written"),
    [
        (aten.sin.default, (X,), []),
        (aten.add_.Tensor, (X, X), [0]),
        (aten._foreach_add_.Scalar, (X, 1), [0]),
        (aten.native_batch_norm.default, (X,) * 5 + (True, 0.1, 1e-5), [3, 4]),
        (aten.batch_norm.default, (X,) * 5 + (True, 0.1, 1e-5, False), [3, 4]),
        (aten.batch_norm.default, (X,) * 5 + (False, 0.1, 1e-5, False), []),
        (aten.batch_norm.default, (X, X, X, None, None, True, 0.1, 1e-5, False), []),
        (aten.instance_norm.default, (X,) * 5 + (True, 0.1, 1e-5, False), [3, 4]),
        (aten._native_batch_norm_legit.default, (X,) * 5 + (True, 0.1, 1e-5), [3, 4]),
        (print, (X, X), [0, 1]),
        (torch.ops.higher_order.with_effects, (X, aten.sin.default, X), [0, 1]),
        (torch.ops.higher_order.cond, (X, None, None, X), []),
        (operator.getitem, (X, 0), []),
    ],
)
def test_written_args(target, args, written, call):
    node = call(target, *args)
    inputs = list(node.graph.find_nodes(op="placeholder"))
    assert effects.written_args(node) == [inputs[i] for i in written]


def test_statistics_are_kept(call):
    """What the schemas do not say: these operators write to their running statistics."""
    for flag in (True, False):
        node = call(aten.batch_norm.default, *(X,) * 5, flag, 0.1, 1e-5, False)
        assert effects.is_removable(node) == effects.is_deterministic(node) == (not flag)
        mean, variance = torch.zeros(3), torch.ones(3)
        torch.native_batch_norm(torch.ones(4, 3), None, None, mean, variance, flag, 0.1, 1e-5)
        assert bool(mean.any()) == flag


def test_written_keyword_and_list_arguments(call):
    node = call(aten.sin.out, X)
    out = node.graph.placeholder("out")
    node.kwargs = {"out": out}
    assert effects.written_args(node) == [out]
    node = call(aten._foreach_add_.Scalar, 1)
    node.args = ([out, out], 1)
    assert effects.written_args(node) == [out, out]
