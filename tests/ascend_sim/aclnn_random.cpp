// Random numbers: a seed and an offset determine them; they are not those of a device.
//
// In a capture the caller gives tensors for the seed and the offset, which replays change, and the
// offset of the call within the graph. Those are read when the task runs.
#include "aclnn.h"

using namespace sim::aclnn;

static at::Generator generator(const Tensor& seed, const Tensor& offset, int64_t within) {
  return sim::aclnn::generator(seed.item<int64_t>(), offset.item<int64_t>() + within);
}

static Tensor uniform_like(const Tensor& x, double low, double high, at::Generator source) {
  return at::empty(x.sizes(), wide(x.scalar_type())).uniform_(low, high, std::move(source));
}

static Tensor normal_like(const Tensor& x, at::Generator source) {
  return at::empty(x.sizes(), wide(x.scalar_type())).normal_(0, 1, std::move(source));
}

// Zeros and ones, one with the probability that a number or a tensor gives.
static Tensor bernoulli_like(const Tensor& x, const Tensor& probability, at::Generator source) {
  auto drawn = at::empty(x.sizes(), at::kFloat).uniform_(0, 1, std::move(source));
  return drawn.lt(probability.to(at::kFloat));
}

static Tensor number(const Scalar& value) { return at::scalar_tensor(value, at::kFloat); }

ACLNN(InplaceUniform, Tensor x, Double low, Double high, Int seed, Int offset) {
  put(x, uniform_like(x, low, high, generator(seed, offset)));
}
ACLNN(InplaceUniformTensor, Tensor x, Double low, Double high, Tensor seed, Tensor offset,
      Int within) {
  put(x, uniform_like(x, low, high, generator(seed, offset, within)));
}
ACLNN(InplaceNormal, Tensor x, Float mean, Float std, Int seed, Int offset) {
  put(x, normal_like(x, generator(seed, offset)) * std + mean);
}
ACLNN(InplaceNormalTensor, Tensor x, Float mean, Float std, Tensor seed, Tensor offset,
      Int within) {
  put(x, normal_like(x, generator(seed, offset, within)) * std + mean);
}
ACLNN(NormalTensorTensor, Tensor mean, Tensor std, Int seed, Int offset, Tensor out) {
  put(out, normal_like(out, generator(seed, offset)) * std + mean);
}
ACLNN(NormalTensorFloat, Tensor mean, Float std, Int seed, Int offset, Tensor out) {
  put(out, normal_like(out, generator(seed, offset)) * std + mean);
}
ACLNN(NormalFloatTensor, Float mean, Tensor std, Int seed, Int offset, Tensor out) {
  put(out, normal_like(out, generator(seed, offset)) * std + mean);
}
ACLNN(NormalFloatFloat, Float mean, Float std, Int seed, Int offset, Tensor out) {
  put(out, normal_like(out, generator(seed, offset)) * std + mean);
}
ACLNN(InplaceBernoulli, Tensor x, Scalar probability, Int seed, Int offset) {
  put(x, bernoulli_like(x, number(probability), generator(seed, offset)));
}
ACLNN(InplaceBernoulliTensor, Tensor x, Tensor probability, Int seed, Int offset) {
  put(x, bernoulli_like(x, probability, generator(seed, offset)));
}
ACLNN(InplaceRandom, Tensor x, Int low, Int high, Int seed, Int offset) {
  put(x, at::empty(x.sizes(), at::kLong).random_(low, high, generator(seed, offset)));
}
ACLNN(InplaceRandomTensor, Tensor x, Int low, Int high, Tensor seed, Tensor offset, Int within) {
  put(x, at::empty(x.sizes(), at::kLong).random_(low, high, generator(seed, offset, within)));
}
ACLNN(Multinomial, Tensor x, Int count, Bool again, Int seed, Int offset, Tensor out) {
  put(out, at::multinomial(x.to(at::kFloat), count, again, generator(seed, offset)));
}
ACLNN(MultinomialTensor, Tensor x, Int count, Bool again, Tensor seed, Tensor offset, Int within,
      Tensor out) {
  put(out, at::multinomial(x.to(at::kFloat), count, again, generator(seed, offset, within)));
}
ACLNN(Randperm, Int count, Int seed, Int offset, Tensor out) {
  put(out, at::randperm(count, generator(seed, offset), at::kLong));
}

// --- dropout: a bit for each element, one where it is kept ----------------------------------

static void pack_bits(const Tensor& kept, const Tensor& out) {
  out.zero_();
  auto* bytes = static_cast<uint8_t*>(out.data_ptr());
  const auto* flags = kept.const_data_ptr<bool>();
  for (int64_t index = 0; index < kept.numel(); ++index) {
    bytes[index / 8] |= static_cast<uint8_t>(flags[index] ? 1 << index % 8 : 0);
  }
}

static void dropout_mask(const Ints& shape, double probability, at::Generator source,
                         const Tensor& out) {
  auto drawn = at::empty(shape, at::kFloat).uniform_(0, 1, std::move(source));
  pack_bits(drawn.ge(probability), out);
}

ACLNN(DropoutGenMaskV2, Ints shape, Double probability, Int seed, Int offset, Type type,
      Tensor out) {
  dropout_mask(shape, probability, generator(seed, offset), out);
}
ACLNN(DropoutGenMaskV2Tensor, Ints shape, Double probability, Tensor seed, Tensor offset,
      Int within, Type type, Tensor out) {
  dropout_mask(shape, probability, generator(seed, offset, within), out);
}
ACLNN(DropoutDoMask, Tensor x, Tensor mask, Double probability, Tensor out) {
  auto kept = unpack_bits(mask, x.numel()).reshape(x.sizes());
  auto scaled = probability < 1 ? x / (1 - probability) : at::zeros_like(x);
  put(out, scaled.masked_fill(kept.logical_not(), 0));
}
