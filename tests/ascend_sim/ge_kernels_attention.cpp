// Attention, and random numbers.
#include "aclnn_attention.h"
#include "ge.h"

namespace sim::graph {

namespace {

using aclnn::as_bnsd;
using aclnn::attend;
using aclnn::of_batch;
using aclnn::Rules;
using at::Tensor;

// Queries, keys and values [batch, heads, tokens, width].
struct Sequences {
  Tensor q, k, v;
};

Sequences sequences(const Tensor& q, const Tensor& k, const Tensor& v, const std::string& layout,
                    int64_t heads, int64_t key_heads) {
  return {as_bnsd(q, layout, heads), as_bnsd(k, layout, key_heads), as_bnsd(v, layout, key_heads)};
}

// How many heads the keys have, where the layout does not show it.
int64_t key_heads_of(const Call& call, int64_t heads) {
  auto given = call.i("num_key_value_heads", 0);
  return given ? given : heads;
}

int64_t length(const Ints& lengths, int64_t batch, int64_t all) {
  if (lengths.empty()) return all;
  return lengths[lengths.size() == 1 ? 0 : batch];
}

// Keys or values [batch, heads, tokens, width] from blocks [blocks, tokens, heads * width] or
// [blocks, heads, tokens, width]; a row of the table has the blocks of a batch entry.
Tensor from_blocks(const Tensor& cache, const Tensor& table, int64_t heads) {
  auto rows = table.to(at::kLong).clamp_min(0);
  auto blocks = cache.dim() == 4 ? cache : cache.unflatten(2, {heads, -1}).transpose(1, 2);
  auto picked = blocks.index_select(0, rows.reshape({-1}));  // [entries, heads, tokens, width]
  auto grouped = picked.unflatten(0, {rows.size(0), rows.size(1)}).transpose(1, 2);
  return grouped.flatten(2, 3);
}

struct Options {
  Ints q_lengths, k_lengths;
  Tensor shift, mask;
  Rules rules;
};

struct Attended {
  Tensor out, largest, sum;  // [batch, heads, tokens, width or 1]
};

Attended attention(const Sequences& from, const Options& options) {
  auto batches = from.q.size(0), heads = from.q.size(1), tokens = from.q.size(2);
  Attended all{at::zeros({batches, heads, tokens, from.v.size(3)}),
               at::zeros({batches, heads, tokens, 1}), at::zeros({batches, heads, tokens, 1})};
  for (int64_t batch = 0; batch < batches; ++batch) {
    auto queries = length(options.q_lengths, batch, tokens);
    auto keys = length(options.k_lengths, batch, from.k.size(2));
    auto shift = of_batch(options.shift, batch, queries, keys);
    auto mask = of_batch(options.mask, batch, queries, keys);
    auto one = attend(from.q[batch].narrow(1, 0, queries), from.k[batch].narrow(1, 0, keys),
                      from.v[batch].narrow(1, 0, keys), shift, mask, {}, {}, options.rules);
    all.out[batch].narrow(1, 0, queries).copy_(one.out);
    all.largest[batch].narrow(1, 0, queries).copy_(one.largest);
    all.sum[batch].narrow(1, 0, queries).copy_(one.sum);
  }
  return all;
}

// A result in the layout, shape and type of the queries.
Tensor laid_out(const Tensor& out, const Tensor& like, const std::string& layout, int64_t heads) {
  auto sizes = like.sizes().vec();
  auto width = out.size(3);
  sizes.back() = layout == "BSH" || layout == "SBH" ? heads * width : width;
  auto result = at::empty(sizes, like.options());
  as_bnsd(result, layout, heads).copy_(out);
  return result;
}

Tensors flash(const Call& call) {
  auto heads = call.i("head_num", 1);
  auto layout = call.s("input_layout", "BSH");
  if (call.f("keep_prob", 1) != 1) {
    throw Refused(kFeatureNotSupported, "dropout of attention is not simulated");
  }
  auto flat = layout == "BSH" || layout == "SBH";
  auto key_heads = flat ? call[1].size(2) / (call[0].size(2) / heads) : heads;
  auto all = sequences(call[0], call[1], call[2], layout, heads, key_heads);
  Rules rules{call.f("scale_value", 1), call.i("pre_tockens", INT32_MAX),
              call.i("next_tockens", INT32_MAX), call.i("sparse_mode", 0), 1, true};
  auto result = attention(all, {{}, {}, call.in("real_shift"), call.in("atten_mask"), rules});
  auto statistic = [](const Tensor& value) {
    return value.expand({value.size(0), value.size(1), value.size(2), 8});
  };
  return {statistic(result.largest), statistic(result.sum), at::empty({0}, call[0].options()),
          laid_out(result.out, call[0], layout, heads)};
}

// What the operators for inference have in common; lists of keys have one entry.
Tensors infer(const Call& call, const char* scale, bool in_lists) {
  auto heads = call.i("num_heads", 1), key_heads = key_heads_of(call, heads);
  auto layout = call.s("input_layout", "BSH");
  auto key = call.in(in_lists ? "key0" : "key"), value = call.in(in_lists ? "value0" : "value");
  for (const char* name : {"dequant_scale1", "quant_scale1", "dequant_scale2", "quant_scale2",
                           "antiquant_scale", "key_antiquant_scale", "value_antiquant_scale",
                           "key_shared_prefix", "query_rope", "learnable_sink", "deq_scale1"}) {
    if (call.in(name).defined() && call.in(name).numel()) {
      throw Refused(kFeatureNotSupported, std::string(name) + " of attention is not simulated");
    }
  }
  Sequences all;
  if (call.in("block_table").defined()) {
    auto table = call.in("block_table");
    all = {as_bnsd(call[0], layout, heads), from_blocks(key, table, key_heads),
           from_blocks(value, table, key_heads)};
  } else {
    all = sequences(call[0], key, value, layout, heads, key_heads);
  }
  auto queries = call.ints("actual_seq_lengths"), keys = call.ints("actual_seq_lengths_kv");
  if (in_lists && keys.empty() && !call.has("pre_tokens")) std::swap(queries, keys);
  Rules rules{call.f(scale, 1), call.i("pre_tokens", INT32_MAX), call.i("next_tokens", INT32_MAX),
              call.i("sparse_mode", 0)};
  auto result =
      attention(all, {queries, keys, call.in("pse_shift"), call.in("atten_mask"), rules});
  auto statistics = call.b("softmax_lse_flag", false)
                        ? result.largest + at::log(result.sum)
                        : at::zeros({1});
  return {laid_out(result.out, call[0], layout.substr(0, layout.find('_')), heads), statistics};
}

const Kernels attentions({
    {"FlashAttentionScore", flash},
    {"FusedInferAttentionScore", [](const Call& call) { return infer(call, "scale", true); }},
    // Its lengths are those of the keys; it has one query for each batch entry.
    {"IncreFlashAttention", [](const Call& call) { return infer(call, "scale_value", true); }},
    {"PromptFlashAttention", [](const Call& call) { return infer(call, "scale_value", false); }},
});

// --- random numbers: a seed and an offset determine them ----------------------------------------

at::Generator generator(const Call& call) {
  return aclnn::generator(call.ints("key").at(0), call.ints("counter").back());
}

template <class Function>
Kernel random(Function fill) {
  return [fill](const Call& call) {
    auto type = type_of_code(call.i("dtype", 0));
    auto values = at::empty(call.ints("shape"), at::kFloat);
    fill(values, generator(call));
    return Tensors{values.to(type)};
  };
}

at::Generator seeded(const Call& call) {
  return aclnn::generator(call.ints("seed").at(0), call.ints("offset").back());
}
Tensor drawn(const Call& call, double probability) {
  return at::empty(call.ints("shape"), at::kFloat).bernoulli_(probability, seeded(call));
}

const Kernels randoms({
    {"StatelessBernoulli",
     [](const Call& call) {
       auto type = type_of_code(call.i("dtype", 0));
       auto prob = call.in("prob").to(at::kFloat);
       if (prob.numel() == 1) return Tensors{drawn(call, prob.item<double>()).to(type)};
       return Tensors{at::bernoulli(prob, seeded(call)).to(type)};
     }},
    // The mask has a number for each value here, not a bit; only DropOutDoMask reads it.
    {"StatelessDropOutGenMask",
     [](const Call& call) {
       return Tensors{drawn(call, call.in("prob").item<double>()).to(at::kByte)};
     }},
    {"DropOutDoMask",
     [](const Call& call) {
       auto kept = call[1].to(at::kBool).reshape(call[0].sizes());
       return Tensors{at::where(kept, call[0] / call[2], 0).to(call[0].scalar_type())};
     }},
    {"StatelessRandomUniformV2",
     random([](Tensor& values, const at::Generator& from) { values.uniform_(0, 1, from); })},
    {"StatelessRandomNormalV2",
     random([](Tensor& values, const at::Generator& from) { values.normal_(0, 1, from); })},
});

}  // namespace
}  // namespace sim::graph
