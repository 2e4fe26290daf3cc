"""What the project takes from the inside of torch behaves as it relies on."""

import logging
import subprocess
import sys

import pytest
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from xpu_graph import SerializableGraphModule, XpuGraphConfig, torch_compat
from xpu_graph.dispatch import dispatch
from xpu_graph.runtime import boxed_entry
from xpu_graph.testing import capture
from xpu_graph.torch_compat import (
    FakeTensor,
    FakeTensorMode,
    boxed_forward,
    cpu_identity,
    debug_directory,
    evaluate_shape_guards,
    guard_count,
    input_origin,
    is_static_input,
    mutated_outside,
    no_dispatch_modes,
    process_state,
    shape_guards,
    storage_id,
    suppressed_guards,
    symbol_ranges,
    torch_identity,
    trace_artifact,
)


def placeholders(unit):
    return list(unit.gm.graph.find_nodes(op="placeholder"))


def units_of(function, *inputs, dynamic=None):
    return capture(function, *inputs, dynamic=dynamic)


def test_every_listed_name_is_there():
    for name in torch_compat.__all__:
        assert getattr(torch_compat, name) is not None
    assert torch_compat.__all__ == sorted(torch_compat.__all__)


def test_storage_id_is_that_of_the_memory():
    x = torch.ones(4)
    assert storage_id(x) == storage_id(x[1:]) == storage_id(x.view(2, 2))
    assert storage_id(x) != storage_id(x.clone())
    assert storage_id(torch.ones(2).to_sparse()) is None
    with FakeTensorMode():
        fake = torch.ones(4)
        assert isinstance(fake, FakeTensor)
        assert storage_id(fake) == storage_id(fake[1:])
        assert storage_id(fake) != storage_id(fake + 1)


def test_no_dispatch_modes_computes_on_real_tensors():
    with FakeTensorMode():
        assert isinstance(torch.ones(2), FakeTensor)
        with no_dispatch_modes():
            assert torch.equal(torch.ones(2), torch.ones(2))
            assert not isinstance(torch.ones(2), FakeTensor)


def test_a_boxed_graph_empties_its_list():
    gm = torch.fx.symbolic_trace(lambda x, y: (x + y,))
    args = [torch.ones(2), torch.ones(2)]
    assert torch.equal(boxed_forward(gm)(args)[0], torch.full((2,), 2.0))
    assert args == []


def test_parameters_and_buffers_are_static_inputs():
    model = torch.nn.BatchNorm1d(3).eval()
    seen = {}

    def backend(gm, inputs):
        for node in gm.graph.find_nodes(op="placeholder"):
            seen[node.name] = is_static_input(node)
        return gm.forward

    torch.compile(model, backend=backend)(torch.ones(2, 3))
    assert len(seen) == 5  # weight, bias, mean, variance and x
    assert sorted(seen.values()) == [False, True, True, True, True]


def test_an_aot_placeholder_knows_its_origin():
    (unit,) = units_of(lambda x, y: y - x, torch.ones(2), torch.ones(2))
    by_origin = {input_origin(node): node for node in placeholders(unit)}
    assert set(by_origin) == {0, 1}
    (call,) = [node for node in unit.gm.graph.nodes if node.op == "call_function"]
    # Dynamo numbers inputs in the order they are used: y first.
    assert call.args == (by_origin[0], by_origin[1])
    assert input_origin(call) is None


def test_writes_that_the_runtime_does_are_seen():
    found = []

    def compile_unit(unit):
        found.append([node in mutated_outside(unit.gm.graph) for node in placeholders(unit)])
        return boxed_entry(SerializableGraphModule(unit.gm))

    def backend(gm, inputs):
        return dispatch(gm, inputs, XpuGraphConfig(), compile_unit)

    def function(x, y):
        x.add_(y)
        return y * 2

    with torch.no_grad():
        torch.compile(function, backend=backend)(torch.ones(2), torch.ones(2))
    assert found == [[True, False]]
    assert mutated_outside(torch.fx.Graph()) == set()


# --- symbolic shapes ------------------------------------------------------------------------------


def dynamic_unit():
    (unit,) = units_of(lambda x: x[: x.shape[0] // 2] + 1, torch.ones(6, 4), dynamic=True)
    assert any(isinstance(value, torch.SymInt) for value in unit.fake_inputs)
    return unit


def test_symbol_ranges():
    size = next(v for v in dynamic_unit().fake_inputs if isinstance(v, torch.SymInt))
    ((symbol, low, high),) = symbol_ranges(size)
    assert str(symbol) == str(size)
    assert int(low) >= 2
    assert "oo" in high or int(high) > 10**6


def test_static_graphs_have_no_guards_to_store():
    (unit,) = units_of(lambda x: x + 1, torch.ones(6, 4), dynamic=False)
    assert shape_guards(unit.fake_inputs) is None
    assert not evaluate_shape_guards("L['s'] > 2", [3])


def test_guards_of_one_program_hold_for_another_that_is_alike():
    expression = shape_guards(dynamic_unit().fake_inputs)
    assert expression
    assert evaluate_shape_guards(expression, dynamic_unit().fake_inputs)


def test_guards_do_not_hold_for_other_sizes():
    unit = dynamic_unit()
    expression = shape_guards(unit.fake_inputs)
    # Torch writes conditions on L['name'] of the inputs in their order.
    name = next(part for part in expression.replace("(", " ").split() if part.startswith("L["))
    before = guard_count(unit.fake_inputs)
    assert not evaluate_shape_guards(f"{name} > 100", unit.fake_inputs)
    assert guard_count(unit.fake_inputs) == before  # a miss adds no guard
    assert evaluate_shape_guards(f"{name} < 100", unit.fake_inputs)


@pytest.mark.parametrize(
    "expression",
    ["__import__('os').getpid() > 0", "L['s'].__class__", "[x for x in (1,)]", "1 +", "exit()"],
)
def test_what_is_not_arithmetic_is_not_evaluated(expression):
    assert not evaluate_shape_guards(expression, dynamic_unit().fake_inputs)


def test_suppressed_guards_add_none():
    mode = FakeTensorMode(shape_env=ShapeEnv())
    fake = mode.from_tensor(torch.ones(6))
    unit = dynamic_unit()
    x = next(v for v in unit.fake_inputs if isinstance(v, torch.Tensor))
    before = guard_count([x])
    with suppressed_guards(x.fake_mode):
        assert bool(x.shape[0] > 3)
    assert guard_count([x]) == before
    assert bool(x.shape[0] > 4)
    assert guard_count([x]) == before + 1
    with suppressed_guards(FakeTensorMode()):
        assert fake.shape == (6,)


# --- facts about the process ----------------------------------------------------------------------


def test_process_state_shows_what_changes_code(monkeypatch):
    before = process_state()
    assert before == process_state()
    changes = {
        "default_dtype": (torch.set_default_dtype, torch.float64, torch.float32),
        "deterministic": (torch.use_deterministic_algorithms, True, False),
        "matmul_precision": (torch.set_float32_matmul_precision, "medium", "highest"),
    }
    for name, (change, there, back) in changes.items():
        change(there)
        try:
            after = process_state()
        finally:
            change(back)
        assert {key for key in before if before[key] != after[key]} == {name}


def test_identities_are_the_same_in_every_process():
    code = (
        "from xpu_graph.torch_compat import torch_identity, cpu_identity\n"
        "print(torch_identity(), cpu_identity(), sep='|')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{torch_identity()}|{cpu_identity()}"
    assert torch.__version__ in torch_identity()


def test_the_debug_directory_follows_the_variable(monkeypatch, tmp_path):
    monkeypatch.delenv("TORCH_COMPILE_DEBUG", raising=False)
    assert debug_directory() is None
    monkeypatch.setenv("TORCH_COMPILE_DEBUG", "1")
    with torch._dynamo.config.patch(debug_dir_root=str(tmp_path / "torch")):
        assert debug_directory().startswith(str(tmp_path / "torch"))


def test_a_trace_that_is_off_asks_for_no_payload(monkeypatch):
    monkeypatch.setattr(torch._logging._internal.trace_log, "handlers", [])
    trace_artifact("name", lambda: pytest.fail("the payload was made"))


def test_a_trace_that_is_on_gets_the_payload(monkeypatch):
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    trace_log = torch._logging._internal.trace_log
    monkeypatch.setattr(trace_log, "handlers", [handler])
    level = trace_log.level
    trace_log.setLevel(logging.DEBUG)
    try:
        trace_artifact("xpu_graph_report", lambda: "the payload")
    finally:
        trace_log.setLevel(level)
    (record,) = [r for r in records if r.metadata.get("artifact")]
    assert record.metadata["artifact"]["name"] == "xpu_graph_report"
    assert record.payload == "the payload"
