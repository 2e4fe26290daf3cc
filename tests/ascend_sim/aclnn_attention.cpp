// Attention for training.
#include "aclnn_attention.h"

#include <limits>

namespace sim::aclnn {

// True where a key is hidden, [queries, keys]; undefined when none is.
static Tensor hidden_by_rule(const Rules& rules, int64_t queries, int64_t keys) {
  if (rules.sparse < 2) return {};
  TORCH_CHECK(rules.sparse <= 4, "sparse mode ", rules.sparse, " of attention is not simulated");
  auto shift = rules.sparse == 2 ? 0 : keys - queries;
  auto distance = at::arange(keys).unsqueeze(0) - at::arange(queries).unsqueeze(1) - shift;
  if (rules.sparse != 4) return distance.gt(0);
  return distance.gt(rules.after).logical_or(distance.lt(-rules.before));
}

Attended attend(const Tensor& q, Tensor k, Tensor v, const Tensor& shift, const Tensor& mask,
                const Tensor& kept, const Tensor& sink, const Rules& rules) {
  auto repeats = q.size(0) / k.size(0);
  k = k.to(at::kFloat).repeat_interleave(repeats, 0);
  v = v.to(at::kFloat).repeat_interleave(repeats, 0);
  auto scores = at::matmul(q.to(at::kFloat), k.transpose(-1, -2));
  if (shift.defined() && rules.shift_scaled) scores = scores + shift.to(at::kFloat);
  scores = scores * rules.scale;
  if (shift.defined() && !rules.shift_scaled) scores = scores + shift.to(at::kFloat);
  auto hidden = hidden_by_rule(rules, q.size(1), k.size(1));
  if (!hidden.defined() && mask.defined()) hidden = mask.to(at::kBool);
  if (hidden.defined()) {
    scores = scores.masked_fill(hidden, -std::numeric_limits<float>::infinity());
  }
  if (k.size(1) == 0) {
    auto nothing = at::zeros({q.size(0), q.size(1), 1});
    return {at::zeros({q.size(0), q.size(1), v.size(2)}), nothing, nothing};
  }
  auto largest = scores.amax(-1, true);
  if (sink.defined()) largest = at::maximum(largest, sink.to(at::kFloat).reshape({-1, 1, 1}));
  auto weights = at::exp(scores - largest).nan_to_num(0);
  auto sum = weights.sum(-1, true);
  if (sink.defined()) sum = sum + at::exp(sink.to(at::kFloat).reshape({-1, 1, 1}) - largest);
  weights = at::where(sum.eq(0), at::zeros_like(weights), weights / sum);
  if (kept.defined()) weights = weights.masked_fill(kept.logical_not(), 0) / rules.keep;
  return {at::matmul(weights, v), largest, sum};
}

Tensor as_bnsd(const Tensor& x, const std::string& layout, int64_t heads) {
  if (layout.rfind("BNSD", 0) == 0) return x;
  if (layout.rfind("BSND", 0) == 0) return x.transpose(1, 2);
  if (layout.rfind("BSH", 0) == 0) return x.unflatten(2, {heads, -1}).transpose(1, 2);
  if (layout.rfind("SBH", 0) == 0) return x.unflatten(2, {heads, -1}).permute({1, 2, 0, 3});
  TORCH_CHECK(false, "the layout ", layout, " of attention is not simulated");
}

Tensor of_batch(const Tensor& x, int64_t batch, int64_t queries, int64_t keys) {
  if (!x.defined() || x.numel() == 0) return {};
  Tensor entry = x;
  while (entry.dim() > 3) entry = entry[entry.size(0) == 1 ? 0 : batch];
  if (entry.dim() == 3 && x.dim() == 3) entry = entry[entry.size(0) == 1 ? 0 : batch];
  auto rows = entry.size(-2) == 1 ? 1 : queries;
  if (entry.size(-2) < rows || entry.size(-1) < keys) return entry;
  return entry.narrow(-2, 0, rows).narrow(-1, 0, keys);
}

}  // namespace sim::aclnn

using namespace sim::aclnn;

// --- training: all tokens of all batches, or packed sequences ---------------------------------

namespace {

struct Outputs {
  Tensor largest, sum, out;
};

void put_statistics(const Tensor& out, const Tensor& value) {
  if (out.defined() && out.numel() > 0) out.copy_(value.expand_as(out));
}

void flash(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& shift,
           const Tensor& drop, const Tensor& mask, const Tensor& sink, int64_t heads,
           const std::string& layout, Rules rules, const Outputs& outputs) {
  auto q4 = as_bnsd(q, layout, heads);
  auto width = q4.size(3);
  auto key_heads = layout == "BSH" || layout == "SBH" ? k.size(2) / width : 0;
  auto k4 = as_bnsd(k, layout, key_heads), v4 = as_bnsd(v, layout, key_heads);
  auto out4 = as_bnsd(outputs.out, layout, heads);
  auto queries = q4.size(2), keys = k4.size(2);
  Tensor kept;
  if (drop.defined() && drop.numel() > 0 && rules.keep < 1) {
    kept = unpack_bits(drop, q4.size(0) * heads * queries * keys);
    kept = kept.reshape({q4.size(0), heads, queries, keys});
  }
  for (int64_t batch = 0; batch < q4.size(0); ++batch) {
    auto result = attend(q4[batch], k4[batch], v4[batch], of_batch(shift, batch, queries, keys),
                         of_batch(mask, batch, queries, keys),
                         kept.defined() ? kept[batch] : kept, sink, rules);
    out4[batch].copy_(result.out);
    if (outputs.largest.defined() && outputs.largest.dim() == 4) {
      put_statistics(outputs.largest[batch], result.largest);
      put_statistics(outputs.sum[batch], result.sum);
    }
  }
}

// Packed sequences [tokens, heads, width]; the ends of the sequences are cumulative.
void flash_packed(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                  const Ints& query_ends, const Ints& key_ends, Rules rules,
                  const Outputs& outputs) {
  int64_t q_start = 0, k_start = 0;
  for (size_t batch = 0; batch < query_ends.size(); ++batch) {
    auto queries = query_ends[batch] - q_start, keys = key_ends[batch] - k_start;
    auto part = [](const Tensor& x, int64_t start, int64_t count) {
      return x.narrow(0, start, count).transpose(0, 1);
    };
    auto hidden = of_batch(mask, static_cast<int64_t>(batch), queries, keys);
    auto result = attend(part(q, q_start, queries), part(k, k_start, keys),
                         part(v, k_start, keys), {}, hidden, {}, {}, rules);
    part(outputs.out, q_start, queries).copy_(result.out);
    if (outputs.largest.defined() && outputs.largest.dim() == 3) {
      put_statistics(part(outputs.largest, q_start, queries), result.largest);
      put_statistics(part(outputs.sum, q_start, queries), result.sum);
    }
    q_start += queries;
    k_start += keys;
  }
}

}  // namespace

ACLNN(FlashAttentionScore, Tensor q, Tensor k, Tensor v, Tensor shift, Tensor drop, Tensor padding,
      Tensor mask, Ints prefix, Double scale, Double keep, Int before, Int after, Int heads,
      Text layout, Int precision, Int sparse, Tensor largest, Tensor sum, Tensor weights,
      Tensor out) {
  flash(q, k, v, shift, drop, mask, {}, heads, layout, {scale, before, after, sparse, keep, true},
        {largest, sum, out});
}
ACLNN(FlashAttentionScoreV2, Tensor q, Tensor k, Tensor v, Tensor shift, Tensor drop,
      Tensor padding, Tensor mask, Ints prefix, Ints q_start, Ints k_start, Double scale,
      Double keep, Int before, Int after, Int heads, Text layout, Int precision, Int sparse,
      Int shift_kind, Tensor largest, Tensor sum, Tensor weights, Tensor out) {
  flash(q, k, v, shift, drop, mask, {}, heads, layout,
        {scale, before, after, sparse, keep, shift_kind == 1}, {largest, sum, out});
}
ACLNN(FlashAttentionScoreV3, Tensor q, Tensor k, Tensor v, Tensor shift, Tensor drop,
      Tensor padding, Tensor mask, Tensor sink, Ints prefix, Ints q_start, Ints k_start,
      Double scale, Double keep, Int before, Int after, Int heads, Text layout, Int precision,
      Int sparse, Int shift_kind, Tensor largest, Tensor sum, Tensor weights, Tensor out) {
  flash(q, k, v, shift, drop, mask, sink, heads, layout,
        {scale, before, after, sparse, keep, shift_kind == 1}, {largest, sum, out});
}
ACLNN(FlashAttentionVarLenScore, Tensor q, Tensor k, Tensor v, Tensor shift, Tensor drop,
      Tensor padding, Tensor mask, Ints prefix, Ints query_ends, Ints key_ends, Double scale,
      Double keep, Int before, Int after, Int heads, Text layout, Int precision, Int sparse,
      Tensor largest, Tensor sum, Tensor weights, Tensor out) {
  flash_packed(q, k, v, mask, query_ends, key_ends, {scale, before, after, sparse, keep},
               {largest, sum, out});
}
