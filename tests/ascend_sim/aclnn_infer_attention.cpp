// Attention for inference: sequences of different lengths, keys in blocks, grouped heads.
#include "aclnn_attention.h"

using namespace sim::aclnn;

namespace {

struct Call {
  Tensor q, k, v;
  Tensor shift, mask, blocks, q_rope, k_rope, sink;
  Ints q_lengths, k_lengths;
  int64_t heads, key_heads, block_size;
  std::string layout;
  Rules rules;
};

bool is_packed(const std::string& layout) {
  return layout.rfind("TND", 0) == 0 || layout.rfind("NTD", 0) == 0;
}

// A view [tokens, heads, width] of packed sequences.
Tensor as_tnd(const Tensor& x, const std::string& layout) {
  return layout.rfind("NTD", 0) == 0 ? x.transpose(0, 1) : x;
}

// The start and the length of a sequence; packed ends are cumulative. One length may be for all.
std::pair<int64_t, int64_t> span(const Ints& lengths, int64_t batch, bool cumulative,
                                 int64_t longest) {
  if (lengths.empty()) return {0, longest};
  if (!cumulative) return {0, lengths[lengths.size() == 1 ? 0 : batch]};
  auto start = batch ? lengths[batch - 1] : 0;
  return {start, lengths[batch] - start};
}

// The keys or values of a sequence, [key heads, tokens, width], from the blocks that its row names.
Tensor from_blocks(const Tensor& cache, const Tensor& row, int64_t block_size, int64_t key_heads,
                   int64_t length) {
  std::vector<Tensor> parts{};
  for (int64_t start = 0; start < length; start += block_size) {
    auto block = cache[row[start / block_size].item<int64_t>()];
    parts.push_back(block.dim() == 3 ? block : block.unflatten(1, {key_heads, -1}).transpose(0, 1));
  }
  if (parts.empty()) {
    auto width = cache.dim() == 4 ? cache.size(3) : cache.size(2) / key_heads;
    return at::zeros({key_heads, 0, width});
  }
  return at::cat(parts, 1).narrow(1, 0, length);
}

// A sequence of a tensor, [heads, tokens, width]; a view, so it can be written.
Tensor sequence(const Tensor& x, const std::string& layout, int64_t heads, int64_t batch,
                std::pair<int64_t, int64_t> where) {
  if (is_packed(layout)) {
    return as_tnd(x, layout).narrow(0, where.first, where.second).transpose(0, 1);
  }
  return as_bnsd(x, layout, heads)[batch].narrow(1, where.first, where.second);
}

void infer(Call call, const Tensor& out, const Tensor& lse) {
  auto packed = is_packed(call.layout);
  auto paged = call.blocks.defined();
  auto key_heads = call.key_heads ? call.key_heads : call.heads;
  auto out_layout = call.layout.substr(call.layout.find('_') + 1);
  auto batches = packed ? static_cast<int64_t>(call.q_lengths.size())
                        : as_bnsd(call.q, call.layout, call.heads).size(0);
  auto longest_q = packed ? 0 : as_bnsd(call.q, call.layout, call.heads).size(2);
  auto longest_k = packed || paged ? 0 : as_bnsd(call.k, call.layout, key_heads).size(2);
  out.zero_();
  for (int64_t batch = 0; batch < batches; ++batch) {
    auto q_span = span(call.q_lengths, batch, packed, longest_q);
    auto k_span = span(call.k_lengths, batch, packed && !paged, longest_k);
    auto keys = [&](const Tensor& x) {
      return paged ? from_blocks(x, call.blocks[batch], call.block_size, key_heads, k_span.second)
                   : sequence(x, call.layout, key_heads, batch, k_span);
    };
    auto q = sequence(call.q, call.layout, call.heads, batch, q_span);
    auto k = keys(call.k), v = keys(call.v);
    if (call.q_rope.defined()) {
      q = at::cat({q, sequence(call.q_rope, call.layout, call.heads, batch, q_span)}, -1);
      k = at::cat({k, keys(call.k_rope)}, -1);
    }
    auto hidden = of_batch(call.mask, batch, q_span.second, k_span.second);
    auto shift = of_batch(call.shift, batch, q_span.second, k_span.second);
    auto result = attend(q, k, v, shift, hidden, {}, call.sink, call.rules);
    sequence(out, out_layout, call.heads, batch, q_span).copy_(result.out);
    if (!lse.defined() || lse.numel() <= 1) continue;
    auto logs = result.largest + at::log(result.sum);
    if (packed) {
      lse.narrow(0, q_span.first, q_span.second).copy_(logs.transpose(0, 1));
    } else {
      lse[batch].narrow(1, 0, q_span.second).copy_(logs);
    }
  }
}

Tensor only(const Tensors& list) {
  TORCH_CHECK(list.size() == 1, "lists of ", list.size(), " keys of attention are not simulated");
  return list[0];
}

void refuse_quantised(std::initializer_list<Tensor> scales) {
  for (const auto& scale : scales) {
    TORCH_CHECK(!scale.defined(), "quantised attention is not simulated");
  }
}

}  // namespace

// The parameters that all versions begin with.
#define INFER_BEGIN                                                                               \
  Tensor q, Tensors k, Tensors v, Tensor shift, Tensor mask, Ints q_lengths, Ints k_lengths,      \
      Tensor scale1, Tensor quant1, Tensor scale2, Tensor quant2, Tensor offset2, Tensor anti,    \
      Tensor anti_offset, Tensor blocks, Tensor q_padding, Tensor k_padding, Tensor k_scale,      \
      Tensor k_offset, Tensor v_scale, Tensor v_offset, Tensor k_prefix, Tensor v_prefix,         \
      Ints prefix_length
// The parameters that all versions go on with.
#define INFER_MIDDLE                                                                              \
  Int heads, Double scale, Int before, Int after, Text layout, Int key_heads, Int sparse,         \
      Int precision, Int block_size, Int anti_mode, Bool with_lse, Int k_mode, Int v_mode
#define INFER_BODY(Q_ROPE, K_ROPE, SINK)                                                          \
  refuse_quantised({scale1, quant1, scale2, quant2, anti, k_scale, v_scale, k_prefix});           \
  infer({q, only(k), only(v), shift, mask, blocks, Q_ROPE, K_ROPE, SINK, q_lengths, k_lengths,    \
         heads, key_heads, block_size, layout, {scale, before, after, sparse}},                   \
        out, with_lse ? lse : Tensor());

// The preprocessor must see the parameters one by one, so the lists are expanded first.
#define ACLNN_EXPANDED(NAME, ...) ACLNN(NAME, __VA_ARGS__)

ACLNN_EXPANDED(FusedInferAttentionScoreV3, INFER_BEGIN, Tensor q_rope, Tensor k_rope,
               Tensor rope_scale, INFER_MIDDLE, Tensor out, Tensor lse) {
  INFER_BODY(q_rope, k_rope, {})
}
ACLNN_EXPANDED(FusedInferAttentionScoreV4, INFER_BEGIN, Tensor q_rope, Tensor k_rope,
               Tensor rope_scale, Tensor q_scale, Tensor sink, INFER_MIDDLE, Int q_mode,
               Tensor out, Tensor lse) {
  INFER_BODY(q_rope, k_rope, sink)
}

// The largest workspace that a call with the same parameters can need, for updates of a capture.
#define MAX_WORKSPACE(NAME, ...) ACLNN_EXPORT(NAME, GetMaxWorkspaceSize, __VA_ARGS__)
MAX_WORKSPACE(FusedInferAttentionScoreV3, INFER_BEGIN, Tensor q_rope, Tensor k_rope,
              Tensor rope_scale, INFER_MIDDLE, Tensor out, Tensor lse)
MAX_WORKSPACE(FusedInferAttentionScoreV4, INFER_BEGIN, Tensor q_rope, Tensor k_rope,
              Tensor rope_scale, Tensor q_scale, Tensor sink, INFER_MIDDLE, Int q_mode,
              Tensor out, Tensor lse)
