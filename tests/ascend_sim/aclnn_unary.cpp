// Functions of one tensor, element by element, and activations.
#include "aclnn.h"

using namespace sim::aclnn;

#define UNARY(NAME, FUNCTION) \
  ACLNN(NAME, Tensor x, Tensor out) { put(out, FUNCTION(x)); }
#define UNARY_AND_INPLACE(NAME, FUNCTION) \
  UNARY(NAME, FUNCTION)                   \
  ACLNN(Inplace##NAME, Tensor x) { put(x, FUNCTION(x)); }

UNARY(Abs, at::abs)
UNARY(AngleV2, at::angle)
UNARY(BitwiseNot, at::bitwise_not)
UNARY(IsFinite, at::isfinite)
UNARY(IsNegInf, at::isneginf)
UNARY(IsPosInf, at::isposinf)
UNARY(LogSigmoid, at::log_sigmoid)  // asked for by name before LogSigmoidForward is called
UNARY(Round, at::round)
UNARY(Sign, at::sign)
UNARY(Signbit, at::signbit)
UNARY(Silu, at::silu)
UNARY(Trunc, at::trunc)
UNARY(Gelu, at::gelu)
UNARY_AND_INPLACE(Acos, at::acos)
UNARY_AND_INPLACE(Acosh, at::acosh)
UNARY_AND_INPLACE(Asin, at::asin)
UNARY_AND_INPLACE(Asinh, at::asinh)
UNARY_AND_INPLACE(Atan, at::atan)
UNARY_AND_INPLACE(Atanh, at::atanh)
UNARY_AND_INPLACE(Ceil, at::ceil)
UNARY_AND_INPLACE(Cos, at::cos)
UNARY_AND_INPLACE(Cosh, at::cosh)
UNARY_AND_INPLACE(Erf, at::erf)
UNARY_AND_INPLACE(Erfc, at::erfc)
UNARY_AND_INPLACE(Erfinv, at::erfinv)
UNARY_AND_INPLACE(Exp, at::exp)
UNARY_AND_INPLACE(Exp2, at::exp2)
UNARY_AND_INPLACE(Expm1, at::expm1)
UNARY_AND_INPLACE(Floor, at::floor)
UNARY_AND_INPLACE(Frac, at::frac)
UNARY_AND_INPLACE(Hardsigmoid, at::hardsigmoid)
UNARY_AND_INPLACE(Hardswish, at::hardswish)
UNARY_AND_INPLACE(Log, at::log)
UNARY_AND_INPLACE(Log10, at::log10)
UNARY_AND_INPLACE(Log1p, at::log1p)
UNARY_AND_INPLACE(Log2, at::log2)
UNARY_AND_INPLACE(LogicalNot, at::logical_not)
UNARY_AND_INPLACE(Mish, at::mish)
UNARY(Neg, at::neg)
UNARY_AND_INPLACE(Reciprocal, at::reciprocal)
UNARY_AND_INPLACE(Relu, at::relu)
UNARY_AND_INPLACE(Rsqrt, at::rsqrt)
UNARY_AND_INPLACE(Sigmoid, at::sigmoid)
UNARY_AND_INPLACE(Sin, at::sin)
UNARY_AND_INPLACE(Sinc, at::sinc)
UNARY_AND_INPLACE(Sinh, at::sinh)
UNARY_AND_INPLACE(Sqrt, at::sqrt)
UNARY_AND_INPLACE(Tan, at::tan)
UNARY_AND_INPLACE(Tanh, at::tanh)

ACLNN(RoundDecimals, Tensor x, Int decimals, Tensor out) { put(out, at::round(x, decimals)); }
ACLNN(InplaceRoundDecimals, Tensor x, Int decimals) { put(x, at::round(x, decimals)); }

ACLNN(NanToNum, Tensor x, Float nan, Float high, Float low, Tensor out) {
  put(out, at::nan_to_num(x, nan, high, low));
}
ACLNN(InplaceNanToNum, Tensor x, Float nan, Float high, Float low) {
  put(x, at::nan_to_num(x, nan, high, low));
}

// --- activations ------------------------------------------------------------------------------

static const char* gelu_kind(int64_t mode) { return mode == 1 ? "tanh" : "none"; }

ACLNN(GeluV2, Tensor x, Int mode, Tensor out) { put(out, at::gelu(x, gelu_kind(mode))); }
ACLNN(FastGelu, Tensor x, Tensor out) { put(out, x * at::sigmoid(x * 1.702)); }
ACLNN(GeluMul, Tensor x, Text mode, Tensor out) {
  auto halves = x.chunk(2, -1);
  put(out, at::gelu(halves[0], mode) * halves[1]);
}
ACLNN(GeGluV3, Tensor x, Int dim, Int mode, Bool activate_left, Tensor out, Tensor gelu) {
  auto halves = x.to(sim::aclnn::wide(x.scalar_type())).chunk(2, dim);
  auto gate = at::gelu(halves[activate_left ? 0 : 1], gelu_kind(mode));
  put(out, gate * halves[activate_left ? 1 : 0]);
  put(gelu, gate);
}
ACLNN(Glu, Tensor x, Int dim, Tensor out) { put(out, at::glu(x, dim)); }
ACLNN(SwiGlu, Tensor x, Int dim, Tensor out) {
  auto halves = x.to(sim::aclnn::wide(x.scalar_type())).chunk(2, dim);
  put(out, at::silu(halves[0]) * halves[1]);
}
ACLNN(Prelu, Tensor x, Tensor weight, Tensor out) {
  put(out, at::prelu(x, weight.reshape(-1)));
}
ACLNN(LogSigmoidForward, Tensor x, Tensor out, Tensor buffer) {
  auto [result, kept] = at::log_sigmoid_forward(x);
  put(out, result);
  if (buffer.defined() && buffer.numel() == x.numel()) put(buffer, at::exp(-at::abs(x)));
}

ACLNN(LeakyRelu, Tensor x, Scalar slope, Tensor out) { put(out, at::leaky_relu(x, slope)); }
ACLNN(InplaceLeakyRelu, Tensor x, Scalar slope) { put(x, at::leaky_relu(x, slope)); }
ACLNN(Elu, Tensor x, Scalar alpha, Scalar scale, Scalar input_scale, Tensor out) {
  put(out, at::elu(x, alpha, scale, input_scale));
}
ACLNN(InplaceElu, Tensor x, Scalar alpha, Scalar scale, Scalar input_scale) {
  put(x, at::elu(x, alpha, scale, input_scale));
}
ACLNN(Celu, Tensor x, Scalar alpha, Tensor out) { put(out, at::celu(x, alpha)); }
ACLNN(InplaceCelu, Tensor x, Scalar alpha) { put(x, at::celu(x, alpha)); }
ACLNN(Hardtanh, Tensor x, Scalar low, Scalar high, Tensor out) {
  put(out, at::hardtanh(x, low, high));
}
ACLNN(InplaceHardtanh, Tensor x, Scalar low, Scalar high) { put(x, at::hardtanh(x, low, high)); }
ACLNN(Hardshrink, Tensor x, Scalar lambda, Tensor out) { put(out, at::hardshrink(x, lambda)); }
ACLNN(Softshrink, Tensor x, Scalar lambda, Tensor out) { put(out, at::softshrink(x, lambda)); }
ACLNN(Softplus, Tensor x, Scalar beta, Scalar threshold, Tensor out) {
  put(out, at::softplus(x, beta, threshold));
}
ACLNN(Threshold, Tensor x, Scalar threshold, Scalar value, Tensor out) {
  put(out, at::threshold(x, threshold, value));
}
ACLNN(InplaceThreshold, Tensor x, Scalar threshold, Scalar value) {
  put(x, at::threshold(x, threshold, value));
}
ACLNN(Logit, Tensor x, Double eps, Tensor out) {
  put(out, at::logit(x, eps < 0 ? std::nullopt : std::optional<double>(eps)));
}

// The slopes of the negative values are drawn in training and are kept in the noise.
static Tensor rrelu(const Tensor& x, const Tensor& noise, const Scalar& low, const Scalar& high,
                    bool training, int64_t seed, int64_t offset) {
  if (!training) return at::leaky_relu(x, (low.toDouble() + high.toDouble()) / 2);
  auto drawn = at::empty(x.sizes(), wide(x.scalar_type()));
  drawn.uniform_(low.toDouble(), high.toDouble(), generator(seed, offset));
  auto slopes = at::where(x.le(0), drawn, at::ones_like(drawn));
  put(noise, slopes);
  return x * slopes;
}

ACLNN(RReluWithNoise, Tensor x, Tensor noise, Scalar low, Scalar high, Bool training, Int seed,
      Int offset, Tensor out) {
  put(out, rrelu(x, noise, low, high, training, seed, offset));
}
ACLNN(InplaceRReluWithNoise, Tensor x, Tensor noise, Scalar low, Scalar high, Bool training,
      Int seed, Int offset) {
  put(x, rrelu(x, noise, low, high, training, seed, offset));
}
