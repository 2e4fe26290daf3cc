"""Architectures of ``transformers``, small enough to compile by the dozen: a table, and its inputs.

A row is a name, a model class, the kind of its inputs, and the settings that differ from ``SMALL``.
Weights are random; nothing is loaded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import transformers

SMALL = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "image_size": 32,
    "patch_size": 8,
    "use_cache": False,
}
"""Settings that are given to every configuration that takes them."""

BATCH, LENGTH = 2, 10

Inputs = dict[str, Any]


def _ids(length: int = LENGTH) -> torch.Tensor:
    return torch.randint(3, SMALL["vocab_size"], (BATCH, length))


def _mask(length: int = LENGTH) -> torch.Tensor:
    mask = torch.ones(BATCH, length, dtype=torch.int64)
    mask[1, length - 3 :] = 0
    return mask


def tokens(config: Any) -> Inputs:
    return {"input_ids": _ids()}


def padded(config: Any) -> Inputs:
    return {"input_ids": _ids(), "attention_mask": _mask()}


def translation(config: Any) -> Inputs:
    return {**padded(config), "decoder_input_ids": _ids(6)}


def pixels(config: Any) -> Inputs:
    size = getattr(config, "image_size", SMALL["image_size"])
    height, width = size if isinstance(size, list) else (size, size)
    return {"pixel_values": torch.randn(BATCH, 3, height, width)}


def pixels_and_text(config: Any) -> Inputs:
    return {**padded(config), **pixels(config.vision_config)}


def waves(config: Any) -> Inputs:
    return {"input_values": torch.randn(BATCH, 1000)}


def mel(config: Any) -> Inputs:
    features = torch.randn(BATCH, config.num_mel_bins, 2 * config.max_source_positions)
    return {"input_features": features, "decoder_input_ids": _ids(6)}


def spectrogram(config: Any) -> Inputs:
    return {"input_values": torch.randn(BATCH, config.max_length, config.num_mel_bins)}


def series(config: Any) -> Inputs:
    shape = (BATCH, config.context_length, config.num_input_channels)
    return {"past_values": torch.randn(shape)}


def _takes(config: Any, name: str, value: Any) -> bool:
    """Whether a configuration has a setting that is not derived from others."""
    if not hasattr(config, name):
        return False
    try:
        setattr(config, name, value)
    except (AttributeError, NotImplementedError):
        return False
    return True


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A model class, and what makes it small.

    Attributes:
        name: its name in the log.
        model: its class in ``transformers``.
        inputs: gives inputs for a configuration.
        settings: those that ``SMALL`` does not have, or has otherwise.
        text, vision: the same for the configurations inside, where it has two.
        trains: whether gradients are compared.
    """

    name: str
    model: str
    inputs: Callable[[Any], Inputs]
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    text: dict[str, Any] | None = None
    vision: dict[str, Any] | None = None
    trains: bool = True

    def config(self) -> Any:
        kind = getattr(transformers, self.model).config_class
        parts = {
            f"{part}_config": {**SMALL, **given}
            for part, given in (("text", self.text), ("vision", self.vision))
            if given is not None
        }
        if parts:
            return kind(**parts, **self.settings)
        default = kind()
        small = {
            name: value
            for name, value in SMALL.items()
            if name not in self.settings and _takes(default, name, value)
        }
        return kind(**small, **self.settings)

    def build(self) -> torch.nn.Module:
        """The model with random weights that depend on nothing but its architecture."""
        torch.manual_seed(0)
        model: torch.nn.Module = getattr(transformers, self.model)(self.config())
        with torch.no_grad():
            for value in model.parameters():
                if not value.isfinite().all():  # memory that the class itself leaves unwritten
                    value.normal_(std=0.02)
        return model

    def arguments(self, model: Any, *, training: bool) -> Inputs:
        """Keyword arguments of a call; with labels in training where the class knows them."""
        torch.manual_seed(1)
        given = self.inputs(model.config)
        if training and self.model.endswith(("ForCausalLM", "ForMaskedLM", "LMHeadModel")):
            given["labels"] = given["input_ids"].clone()
        elif training and self.model.endswith(("ForConditionalGeneration", "MTModel")):
            given["labels"] = given["decoder_input_ids"].clone()
        elif training and self.model.endswith("Classification"):
            given["labels"] = torch.arange(BATCH) % 2
        return given


A = Architecture
MOE = {"moe_intermediate_size": 32, "num_experts_per_tok": 2}
VISION_STAGES = {"embed_dim": 16, "depths": [1, 1], "num_attention_heads": [2, 4], "window_size": 2}

DECODERS = [
    A("llama", "LlamaForCausalLM", tokens),
    A("mistral", "MistralForCausalLM", tokens, {"sliding_window": 4}),
    A("qwen2", "Qwen2ForCausalLM", tokens),
    A("qwen3", "Qwen3ForCausalLM", tokens),
    A("gemma", "GemmaForCausalLM", tokens),
    A("gemma2", "Gemma2ForCausalLM", tokens, {"sliding_window": 4}),
    A("gemma3", "Gemma3ForCausalLM", tokens, {"sliding_window": 4}),
    A("phi", "PhiForCausalLM", tokens),
    A("phi3", "Phi3ForCausalLM", tokens),
    A("gpt2", "GPT2LMHeadModel", padded),
    A("gpt-neo", "GPTNeoForCausalLM", tokens, {"attention_types": [[["global", "local"], 1]]}),
    A("gpt-neox", "GPTNeoXForCausalLM", tokens),
    A("gpt-j", "GPTJForCausalLM", tokens, {"rotary_dim": 4}),
    A("gpt-bigcode", "GPTBigCodeForCausalLM", tokens),
    A("gpt-oss", "GptOssForCausalLM", tokens, {"num_local_experts": 4}),
    A("openai-gpt", "OpenAIGPTLMHeadModel", tokens),
    A("codegen", "CodeGenForCausalLM", tokens, {"rotary_dim": 4}),
    A("ctrl", "CTRLLMHeadModel", tokens, {"dff": 64}),
    A("opt", "OPTForCausalLM", padded, {"ffn_dim": 64, "word_embed_proj_dim": 32}),
    A("xglm", "XGLMForCausalLM", padded, {"ffn_dim": 64}),
    A("biogpt", "BioGptForCausalLM", padded),
    A("bloom", "BloomForCausalLM", padded),
    A("falcon", "FalconForCausalLM", tokens),
    A("mpt", "MptForCausalLM", tokens),
    A("stablelm", "StableLmForCausalLM", tokens),
    A("starcoder2", "Starcoder2ForCausalLM", tokens),
    A("cohere", "CohereForCausalLM", tokens),
    A("cohere2", "Cohere2ForCausalLM", tokens),
    A("olmo", "OlmoForCausalLM", tokens),
    A("olmo2", "Olmo2ForCausalLM", tokens),
    A("granite", "GraniteForCausalLM", tokens),
    A("glm", "GlmForCausalLM", tokens),
    A("smollm3", "SmolLM3ForCausalLM", tokens),
    A("nemotron", "NemotronForCausalLM", tokens),
    A("persimmon", "PersimmonForCausalLM", tokens),
    A("mixtral", "MixtralForCausalLM", tokens, {"num_local_experts": 4}),
    A(
        "qwen2-moe",
        "Qwen2MoeForCausalLM",
        tokens,
        {**MOE, "num_experts": 4, "shared_expert_intermediate_size": 32},
    ),
    A("qwen3-moe", "Qwen3MoeForCausalLM", tokens, {**MOE, "num_experts": 4}),
    A("olmoe", "OlmoeForCausalLM", tokens, {"num_experts": 4, "num_experts_per_tok": 2}),
    A(
        "deepseek-v3",
        "DeepseekV3ForCausalLM",
        tokens,
        {
            **MOE,
            "num_key_value_heads": 4,
            "n_routed_experts": 4,
            "n_group": 2,
            "topk_group": 1,
            "first_k_dense_replace": 1,
            "q_lora_rank": 16,
            "kv_lora_rank": 16,
            "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 8,
            "v_head_dim": 8,
        },
    ),
    A("mamba", "MambaForCausalLM", tokens, {"state_size": 4, "time_step_rank": 4}),
    A(
        "mamba2",
        "Mamba2ForCausalLM",
        tokens,
        {"head_dim": 16, "num_heads": 4, "state_size": 4, "n_groups": 1},
    ),
    A("rwkv", "RwkvForCausalLM", tokens, {"attention_hidden_size": 32}),
    A(
        "recurrent-gemma",
        "RecurrentGemmaForCausalLM",
        tokens,
        {"lru_width": 32, "num_hidden_layers": 3},
    ),
]

ENCODERS = [
    A("bert", "BertForMaskedLM", padded),
    A("roberta", "RobertaForMaskedLM", padded),
    A("albert", "AlbertForMaskedLM", padded, {"embedding_size": 16}),
    A("distilbert", "DistilBertForMaskedLM", padded, {"hidden_dim": 64}),
    A("electra", "ElectraForMaskedLM", padded, {"embedding_size": 16}),
    A("deberta", "DebertaModel", padded, {"relative_attention": True, "pos_att_type": "c2p|p2c"}),
    A(
        "deberta-v2",
        "DebertaV2ForMaskedLM",
        padded,
        {"relative_attention": True, "pos_att_type": "c2p|p2c"},
    ),
    A("mpnet", "MPNetForMaskedLM", padded),
    A("xlm-roberta", "XLMRobertaForMaskedLM", padded),
    A("camembert", "CamembertForMaskedLM", padded),
    A("longformer", "LongformerForMaskedLM", padded, {"attention_window": 4}),
    A("big-bird", "BigBirdForMaskedLM", padded, {"attention_type": "original_full"}),
    A("fnet", "FNetForMaskedLM", tokens),
    A("funnel", "FunnelModel", padded, {"block_sizes": [1, 1], "d_model": 32, "d_head": 8}),
    A("modernbert", "ModernBertForMaskedLM", padded, {"local_attention": 4}),
    A("convbert", "ConvBertForMaskedLM", padded, {"embedding_size": 16}),
    A("squeezebert", "SqueezeBertForMaskedLM", padded, {"embedding_size": 32}),
    A("mobilebert", "MobileBertForMaskedLM", padded, {"embedding_size": 32}),
    A("nystromformer", "NystromformerForMaskedLM", padded),
    A("roformer", "RoFormerForMaskedLM", padded, {"embedding_size": 32}),
    A("xlnet", "XLNetLMHeadModel", padded, {"d_inner": 64, "d_head": 8}),
    A("esm", "EsmForMaskedLM", padded, {"mask_token_id": 3}),
    A("layoutlm", "LayoutLMForMaskedLM", padded),
    A("canine", "CanineModel", padded),
]

TRANSLATORS = [
    A("t5", "T5ForConditionalGeneration", translation, {"d_kv": 8, "d_ff": 64}),
    A("mt5", "MT5ForConditionalGeneration", translation, {"d_kv": 8, "d_ff": 64}),
    A("umt5", "UMT5ForConditionalGeneration", translation, {"d_kv": 8, "d_ff": 64}),
    A(
        "switch-transformers",
        "SwitchTransformersForConditionalGeneration",
        translation,
        {"d_kv": 8, "d_ff": 64, "num_experts": 4, "num_sparse_encoder_layers": 1},
    ),
    *(
        A(
            name,
            model,
            translation,
            {
                "encoder_ffn_dim": 64,
                "decoder_ffn_dim": 64,
                "encoder_attention_heads": 4,
                "decoder_attention_heads": 4,
                "encoder_layers": 2,
                "decoder_layers": 2,
                **more,
            },
        )
        for name, model, more in (
            ("bart", "BartForConditionalGeneration", {}),
            ("mbart", "MBartForConditionalGeneration", {}),
            ("pegasus", "PegasusForConditionalGeneration", {}),
            ("marian", "MarianMTModel", {"decoder_vocab_size": 99}),
            ("blenderbot", "BlenderbotForConditionalGeneration", {}),
            ("m2m-100", "M2M100ForConditionalGeneration", {}),
            (
                "led",
                "LEDForConditionalGeneration",
                {
                    "attention_window": 4,
                    "max_encoder_position_embeddings": 64,
                    "max_decoder_position_embeddings": 64,
                },
            ),
        )
    ),
]

TRANSLATORS.append(
    A(
        "prophetnet",
        "ProphetNetForConditionalGeneration",
        translation,
        {
            "num_encoder_layers": 2,
            "num_decoder_layers": 2,
            "num_encoder_attention_heads": 4,
            "num_decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
        },
    )
)

VISION = [
    A("vit", "ViTForImageClassification", pixels),
    A("deit", "DeiTForImageClassification", pixels),
    A("beit", "BeitForImageClassification", pixels),
    A("dinov2", "Dinov2ForImageClassification", pixels),
    A(
        "vit-mae",
        "ViTMAEForPreTraining",
        pixels,
        {
            "decoder_hidden_size": 32,
            "decoder_num_hidden_layers": 1,
            "decoder_num_attention_heads": 4,
            "decoder_intermediate_size": 64,
        },
    ),
    A("swin", "SwinForImageClassification", pixels, {**VISION_STAGES, "patch_size": 4}),
    A("swinv2", "Swinv2ForImageClassification", pixels, {**VISION_STAGES, "patch_size": 4}),
    A(
        "convnext",
        "ConvNextForImageClassification",
        pixels,
        {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2, "patch_size": 4},
    ),
    A(
        "convnextv2",
        "ConvNextV2ForImageClassification",
        pixels,
        {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2, "patch_size": 4},
    ),
    A(
        "resnet",
        "ResNetForImageClassification",
        pixels,
        {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1]},
    ),
    A(
        "regnet",
        "RegNetForImageClassification",
        pixels,
        {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "groups_width": 8},
    ),
    A("mobilenet-v2", "MobileNetV2ForImageClassification", pixels, {"depth_multiplier": 0.25}),
    A(
        "efficientnet",
        "EfficientNetForImageClassification",
        pixels,
        {"width_coefficient": 0.25, "hidden_dim": 320},
    ),
    A(
        "segformer",
        "SegformerForImageClassification",
        pixels,
        {
            "depths": [1, 1, 1, 1],
            "hidden_sizes": [8, 16, 16, 32],
            "num_attention_heads": [1, 2, 2, 4],
            "decoder_hidden_size": 16,
        },
    ),
    A(
        "poolformer",
        "PoolFormerForImageClassification",
        pixels,
        {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 16, 32], "patch_size": 7},
    ),
    A(
        "mobilevit",
        "MobileViTForImageClassification",
        pixels,
        {
            "patch_size": 2,
            "hidden_sizes": [16, 16, 16],
            "neck_hidden_sizes": [8, 8, 8, 16, 16, 16, 32],
        },
    ),
    A(
        "pvt",
        "PvtForImageClassification",
        pixels,
        {
            "depths": [1, 1, 1, 1],
            "hidden_sizes": [8, 16, 16, 32],
            "num_attention_heads": [1, 2, 2, 4],
        },
    ),
    A(
        "levit",
        "LevitForImageClassification",
        pixels,
        {
            "patch_size": 16,
            "image_size": 64,
            "hidden_sizes": [16, 16, 16],
            "num_attention_heads": [2, 2, 2],
            "depths": [1, 1, 1],
            "key_dim": [8, 8, 8],
        },
    ),
    A("yolos", "YolosModel", pixels, {"image_size": [32, 32], "num_detection_tokens": 4}),
    A("clip", "CLIPModel", pixels_and_text, {"projection_dim": 16}, {}, {}),
    A("siglip", "SiglipModel", pixels_and_text, {}, {}, {}),
    A("blip", "BlipModel", pixels_and_text, {"projection_dim": 16}, {}, {}),
]

CONV_AUDIO = {
    "conv_dim": [16, 16],
    "conv_stride": [5, 2],
    "conv_kernel": [10, 3],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
    "mask_time_prob": 0.0,
}

AUDIO = [
    A(
        "whisper",
        "WhisperForConditionalGeneration",
        mel,
        {
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "num_mel_bins": 16,
            "max_source_positions": 20,
            "max_target_positions": 20,
        },
    ),
    A("wav2vec2", "Wav2Vec2Model", waves, CONV_AUDIO),
    A("hubert", "HubertModel", waves, CONV_AUDIO),
    A("wavlm", "WavLMModel", waves, CONV_AUDIO),
    A("data2vec-audio", "Data2VecAudioModel", waves, CONV_AUDIO),
    A("unispeech", "UniSpeechModel", waves, CONV_AUDIO),
    A(
        "audio-spectrogram-transformer",
        "ASTForAudioClassification",
        spectrogram,
        {"patch_size": 8, "max_length": 40, "num_mel_bins": 32},
    ),
    A(
        "patchtst",
        "PatchTSTModel",
        series,
        {"context_length": 32, "patch_length": 8, "patch_stride": 8, "d_model": 16, "ffn_dim": 32},
    ),
]

ALL = {one.name: one for one in (*DECODERS, *ENCODERS, *TRANSLATORS, *VISION, *AUDIO)}
