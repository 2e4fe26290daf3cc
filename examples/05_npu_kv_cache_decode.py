"""Decode steps with a cache of keys and values that the compiled graph writes in place.

    python examples/05_npu_kv_cache_decode.py [--target npu|cpu]
    python -m ascend_sim examples/05_npu_kv_cache_decode.py    # from tests/, without an NPU

The caches are inputs that the graph writes to: they are never copied, and stay at one address, so
every step replays one captured graph. The position is a tensor: a number would be a new graph.
"""

import argparse

import torch

from xpu_graph import Target, XpuGraph, XpuGraphConfig

HEADS, LENGTH, SIZE, STEPS = 2, 8, 16, 6
OPTIONS = {"npu": {"compiler": "ge", "mode": "npugraph_ex"}, "cpu": {}}


def decode(query, key, value, keys, values, position):
    """Attention of one new token over those before; writes its key and value into the caches."""
    keys.index_copy_(1, position, key)
    values.index_copy_(1, position, value)
    scores = query @ keys.transpose(1, 2) / SIZE**0.5
    later = torch.arange(LENGTH, device=query.device) > position
    return torch.softmax(scores.masked_fill(later, -1e9), -1) @ values


def run(step, device, tokens):
    keys = torch.zeros(HEADS, LENGTH, SIZE, device=device)
    values = torch.zeros_like(keys)
    outputs = []
    for number, token in enumerate(tokens):
        position = torch.tensor([number], device=device)
        output = step(*(part.to(device) for part in token), keys, values, position)
        outputs.append(output.cpu())  # the next step overwrites the output: take it out before
    return outputs, keys.cpu(), values.cpu()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", choices=OPTIONS, default="npu")
    target = parser.parse_args().target

    torch.manual_seed(0)
    tokens = [torch.randn(3, HEADS, 1, SIZE).unbind(0) for _ in range(STEPS)]
    config = XpuGraphConfig(target=Target(target), vendor_compiler_config=OPTIONS[target])
    compiled = torch.compile(decode, backend=XpuGraph(config), fullgraph=True)
    with torch.no_grad():
        wanted = run(decode, "cpu", tokens)
        found = run(compiled, target, tokens)
    for what, left, right in zip(("outputs", "keys", "values"), found, wanted, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)
        print(f"{what:8} agree")
    print(f"{STEPS} steps on {target} agree with eager on the CPU.")


if __name__ == "__main__":
    main()
