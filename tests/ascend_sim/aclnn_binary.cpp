// Functions of two or three tensors or scalars, element by element.
#include "aclnn.h"

using namespace sim::aclnn;

#define BINARY(NAME, OTHER, FUNCTION) \
  ACLNN(NAME, Tensor x, OTHER y, Tensor out) { put(out, FUNCTION(x, y)); }
#define BINARY_AND_INPLACE(NAME, OTHER, FUNCTION) \
  BINARY(NAME, OTHER, FUNCTION)                   \
  ACLNN(Inplace##NAME, Tensor x, OTHER y) { put(x, FUNCTION(x, y)); }

BINARY_AND_INPLACE(Mul, Tensor, at::mul)
BINARY_AND_INPLACE(Muls, Scalar, at::mul)
BINARY_AND_INPLACE(Div, Tensor, at::div)
BINARY_AND_INPLACE(Divs, Scalar, at::div)
BINARY_AND_INPLACE(FloorDivide, Tensor, at::floor_divide)
BINARY_AND_INPLACE(FloorDivides, Scalar, at::floor_divide)
BINARY_AND_INPLACE(FmodScalar, Scalar, at::fmod)
BINARY_AND_INPLACE(FmodTensor, Tensor, at::fmod)
BINARY_AND_INPLACE(RemainderTensorScalar, Scalar, at::remainder)
BINARY_AND_INPLACE(RemainderTensorTensor, Tensor, at::remainder)
BINARY_AND_INPLACE(PowTensorScalar, Scalar, at::pow)
BINARY_AND_INPLACE(PowTensorTensor, Tensor, at::pow)
BINARY_AND_INPLACE(Atan2, Tensor, at::atan2)
BINARY_AND_INPLACE(XLogYScalarOther, Scalar, at::xlogy)
BINARY(XLogYTensor, Tensor, at::xlogy)
BINARY(Maximum, Tensor, at::maximum)
BINARY(Minimum, Tensor, at::minimum)
BINARY(LogAddExp, Tensor, at::logaddexp)
BINARY(LogAddExp2, Tensor, at::logaddexp2)
BINARY(Gcd, Tensor, at::gcd)
ACLNN(RemainderScalarTensor, Scalar x, Tensor y, Tensor out) { put(out, at::remainder(x, y)); }
ACLNN(PowScalarTensor, Scalar x, Tensor y, Tensor out) { put(out, at::pow(x, y)); }
ACLNN(XLogYScalarSelf, Scalar x, Tensor y, Tensor out) { put(out, at::xlogy(x, y)); }

BINARY_AND_INPLACE(EqScalar, Scalar, at::eq)
BINARY_AND_INPLACE(EqTensor, Tensor, at::eq)
BINARY_AND_INPLACE(NeScalar, Scalar, at::ne)
BINARY_AND_INPLACE(NeTensor, Tensor, at::ne)
BINARY_AND_INPLACE(GeScalar, Scalar, at::ge)
BINARY_AND_INPLACE(GeTensor, Tensor, at::ge)
BINARY_AND_INPLACE(GtScalar, Scalar, at::gt)
BINARY_AND_INPLACE(GtTensor, Tensor, at::gt)
BINARY_AND_INPLACE(LeScalar, Scalar, at::le)
BINARY_AND_INPLACE(LeTensor, Tensor, at::le)
BINARY_AND_INPLACE(LtScalar, Scalar, at::lt)
BINARY_AND_INPLACE(LtTensor, Tensor, at::lt)

BINARY_AND_INPLACE(LogicalAnd, Tensor, at::logical_and)
BINARY_AND_INPLACE(LogicalOr, Tensor, at::logical_or)
BINARY(LogicalXor, Tensor, at::logical_xor)
BINARY_AND_INPLACE(BitwiseAndScalar, Scalar, at::bitwise_and)
BINARY_AND_INPLACE(BitwiseAndTensor, Tensor, at::bitwise_and)
BINARY(BitwiseOrScalar, Scalar, at::bitwise_or)
BINARY(BitwiseOrTensor, Tensor, at::bitwise_or)
BINARY_AND_INPLACE(BitwiseXorScalar, Scalar, at::bitwise_xor)
BINARY_AND_INPLACE(BitwiseXorTensor, Tensor, at::bitwise_xor)
BINARY(LeftShift, Tensor, at::bitwise_left_shift)
BINARY(LeftShifts, Scalar, at::bitwise_left_shift)
BINARY(RightShift, Tensor, at::bitwise_right_shift)

// --- with a factor ----------------------------------------------------------------------------

#define SCALED(NAME, OTHER, FUNCTION)                                                         \
  ACLNN(NAME, Tensor x, OTHER y, Scalar alpha, Tensor out) { put(out, FUNCTION(x, y, alpha)); }
#define SCALED_AND_INPLACE(NAME, OTHER, FUNCTION) \
  SCALED(NAME, OTHER, FUNCTION)                   \
  ACLNN(Inplace##NAME, Tensor x, OTHER y, Scalar alpha) { put(x, FUNCTION(x, y, alpha)); }

static Tensor add_relu(const Tensor& x, const Tensor& y, const Scalar& alpha) {
  return at::relu(at::add(x, y, alpha));
}

// The scalar is the first term, as in 1 + x.
ACLNN(AddV3, Scalar x, Tensor y, Scalar alpha, Tensor out) {
  put(out, at::add(at::mul(y, alpha), x));
}
SCALED_AND_INPLACE(Add, Tensor, at::add)
SCALED_AND_INPLACE(Adds, Scalar, at::add)
SCALED_AND_INPLACE(Sub, Tensor, at::sub)
SCALED_AND_INPLACE(Subs, Scalar, at::sub)
SCALED_AND_INPLACE(AddRelu, Tensor, add_relu)
SCALED(Rsub, Tensor, at::rsub)
SCALED(Rsubs, Scalar, at::rsub)

// --- division with rounding: 0 exact, 1 towards zero, 2 down ----------------------------------

template <class Other>
static Tensor divide(const Tensor& x, const Other& y, int64_t mode) {
  if (mode == 0) return at::div(x, y);
  return at::div(x, y, mode == 1 ? "trunc" : "floor");
}

ACLNN(DivMod, Tensor x, Tensor y, Int mode, Tensor out) { put(out, divide(x, y, mode)); }
ACLNN(DivMods, Tensor x, Scalar y, Int mode, Tensor out) { put(out, divide(x, y, mode)); }
ACLNN(InplaceDivMod, Tensor x, Tensor y, Int mode) { put(x, divide(x, y, mode)); }
ACLNN(InplaceDivMods, Tensor x, Scalar y, Int mode) { put(x, divide(x, y, mode)); }

// --- limits -----------------------------------------------------------------------------------

ACLNN(Clamp, Tensor x, OptScalar low, OptScalar high, Tensor out) {
  put(out, at::clamp(x, low, high));
}
ACLNN(ClampMin, Tensor x, Scalar low, Tensor out) { put(out, at::clamp_min(x, low)); }
ACLNN(ClampMax, Tensor x, Scalar high, Tensor out) { put(out, at::clamp_max(x, high)); }
ACLNN(InplaceClampMax, Tensor x, Scalar high) { put(x, at::clamp_max(x, high)); }
ACLNN(ClampTensor, Tensor x, Tensor low, Tensor high, Tensor out) {
  put(out, at::clamp(x, opt(low), opt(high)));
}
ACLNN(ClampMinTensor, Tensor x, Tensor low, Tensor out) { put(out, at::clamp_min(x, low)); }
ACLNN(ClampMaxTensor, Tensor x, Tensor high, Tensor out) { put(out, at::clamp_max(x, high)); }
ACLNN(InplaceClampMinTensor, Tensor x, Tensor low) { put(x, at::clamp_min(x, low)); }
ACLNN(InplaceClampMaxTensor, Tensor x, Tensor high) { put(x, at::clamp_max(x, high)); }

// --- three operands ---------------------------------------------------------------------------

ACLNN(Addcmul, Tensor x, Tensor a, Tensor b, Scalar value, Tensor out) {
  put(out, at::addcmul(x, a, b, value));
}
ACLNN(InplaceAddcmul, Tensor x, Tensor a, Tensor b, Scalar value) {
  put(x, at::addcmul(x, a, b, value));
}
ACLNN(Addcdiv, Tensor x, Tensor a, Tensor b, Scalar value, Tensor out) {
  put(out, at::addcdiv(x, a, b, value));
}
ACLNN(InplaceAddcdiv, Tensor x, Tensor a, Tensor b, Scalar value) {
  put(x, at::addcdiv(x, a, b, value));
}
ACLNN(Lerp, Tensor x, Tensor end, Tensor weight, Tensor out) { put(out, at::lerp(x, end, weight)); }
ACLNN(Lerps, Tensor x, Tensor end, Scalar weight, Tensor out) {
  put(out, at::lerp(x, end, weight));
}
ACLNN(InplaceLerp, Tensor x, Tensor end, Tensor weight) { put(x, at::lerp(x, end, weight)); }
ACLNN(InplaceLerps, Tensor x, Tensor end, Scalar weight) { put(x, at::lerp(x, end, weight)); }
ACLNN(SWhere, Tensor condition, Tensor x, Tensor y, Tensor out) {
  put(out, at::where(condition.to(at::kBool), x, y));
}
ACLNN(IsClose, Tensor x, Tensor y, Double rtol, Double atol, Bool equal_nan, Tensor out) {
  put(out, at::isclose(x, y, rtol, atol, equal_nan));
}
ACLNN(Equal, Tensor x, Tensor y, Tensor out) { out.fill_(at::equal(x, y)); }
ACLNN(IsInTensorScalar, Tensor x, Scalar y, Bool unique, Bool invert, Tensor out) {
  put(out, at::isin(x, y, unique, invert));
}
ACLNN(IsInScalarTensor, Scalar x, Tensor y, Bool unique, Bool invert, Tensor out) {
  put(out, at::isin(x, y, unique, invert));
}

// --- copies and constants ---------------------------------------------------------------------

ACLNN(Cast, Tensor x, Type type, Tensor out) { put(out, x); }
ACLNN(InplaceCopy, Tensor target, Tensor source) { target.copy_(source); }
ACLNN(InplaceZero, Tensor x) { x.zero_(); }
ACLNN(InplaceOne, Tensor x) { x.fill_(1); }
ACLNN(InplaceFillScalar, Tensor x, Scalar value) { x.fill_(value); }
ACLNN(InplaceFillTensor, Tensor x, Tensor value) { x.fill_(value.reshape({})); }
ACLNN(InplaceFillDiagonal, Tensor x, Scalar value, Bool wrap) { x.fill_diagonal_(value, wrap); }
ACLNN(InplaceMaskedFillScalar, Tensor x, Tensor mask, Scalar value) {
  x.masked_fill_(mask.to(at::kBool), value);
}
ACLNN(InplaceMaskedFillTensor, Tensor x, Tensor mask, Tensor value) {
  x.masked_fill_(mask.to(at::kBool), value.reshape({}).to(x.scalar_type()));
}
ACLNN(Complex, Tensor real, Tensor imaginary, Tensor out) {
  put(out, at::complex(real, imaginary));
}
ACLNN(Polar, Tensor length, Tensor angle, Tensor out) { put(out, at::polar(length, angle)); }
