"""Models of ``transformers`` with sizes that differ, so that shapes tell what is what.

The table of the sweeps says what makes an architecture small; here it gets wider.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from tests.sweeps.architectures import ALL

WIDTHS = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
}
"""Given to configurations that take them, unless the architecture says otherwise."""

MORE: dict[str, dict[str, Any]] = {
    "deepseek-v3": {
        "num_key_value_heads": 6,
        "q_lora_rank": 24,
        "kv_lora_rank": 20,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 6,
        "v_head_dim": 10,
        "num_hidden_layers": 3,
        "experts_implementation": "batched_mm",
    },
    "mixtral": {"experts_implementation": "batched_mm"},
    "phi3": {"partial_rotary_factor": 0.5},
    "t5": {"d_ff": 80, "num_decoder_layers": 2},
    "whisper": {
        "d_model": 48,
        "encoder_attention_heads": 6,
        "decoder_attention_heads": 6,
        "encoder_ffn_dim": 80,
        "decoder_ffn_dim": 80,
        "num_key_value_heads": 6,  # another name of the encoder's heads
    },
}
"""What an architecture has beside these."""

SIZES = ((2, 10), (3, 13))
"""Batch and length of the small and the large call."""

Inputs = dict[str, torch.Tensor]


def _ids(batch: int, length: int) -> torch.Tensor:
    return torch.randint(3, WIDTHS["vocab_size"], (batch, length))


def _tokens(batch: int, length: int) -> Inputs:
    return {"input_ids": _ids(batch, length)}


def _padded(batch: int, length: int) -> Inputs:
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[1, length - 3 :] = 0
    return {"input_ids": _ids(batch, length), "attention_mask": mask}


def _translation(batch: int, length: int) -> Inputs:
    return {**_padded(batch, length), "decoder_input_ids": _ids(batch, length - 3)}


def _pixels(batch: int, length: int) -> Inputs:
    return {"pixel_values": torch.randn(batch, 3, 32, 32)}


def _pixels_and_text(batch: int, length: int) -> Inputs:
    return {**_padded(batch, length), **_pixels(batch, length)}


def _mel(batch: int, length: int) -> Inputs:
    # Whisper takes spectrograms of one length only: 16 bands, twice 20 positions.
    features = torch.randn(batch, 16, 40)
    return {"input_features": features, "decoder_input_ids": _ids(batch, length)}


MODELS: dict[str, Callable[[int, int], Inputs]] = {
    "llama": _tokens,
    "mistral": _tokens,
    "qwen2": _padded,
    "qwen3": _tokens,
    "gemma2": _tokens,
    "phi3": _tokens,
    "mixtral": _tokens,
    "deepseek-v3": _tokens,
    "gpt2": _padded,
    "gpt-neox": _tokens,
    "bert": _padded,
    "roberta": _padded,
    "t5": _translation,
    "vit": _pixels,
    "clip": _pixels_and_text,
    "whisper": _mel,
}
"""What makes the inputs of a model, by the name it has in the table of the sweeps."""


def model(name: str, attention: str) -> torch.nn.Module:
    """A model with weights from torch's generator.

    Raises:
        ValueError: the model does not offer this attention.
    """
    base = ALL[name]
    plain = base.config()
    parts = {
        part: {**_known(WIDTHS, getattr(plain, f"{part}_config")), **given}
        for part, given in (("text", base.text), ("vision", base.vision))
        if given is not None
    }
    wide = {} if parts else _known(WIDTHS, plain)
    settings = {**wide, **base.settings, **MORE.get(name, {}), "attn_implementation": attention}
    return dataclasses.replace(base, settings=settings, **parts).build()


def inputs(name: str) -> tuple[Inputs, Inputs]:
    """Arguments of a small call and of a large one."""
    small, large = (MODELS[name](*sizes) for sizes in SIZES)
    return small, large


def _known(settings: dict[str, Any], config: Any) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if hasattr(config, name)}
