// Products of matrices, and convolutions. Half types are computed as the CPU does.
#include "aclnn.h"

using namespace sim::aclnn;

ACLNN(Matmul, Tensor x, Tensor y, Tensor out, Byte precision) { put(out, at::matmul(x, y)); }
ACLNN(Mm, Tensor x, Tensor y, Tensor out, Byte precision) { put(out, at::mm(x, y)); }
ACLNN(BatchMatMul, Tensor x, Tensor y, Tensor out, Byte precision) { put(out, at::bmm(x, y)); }
ACLNN(Mv, Tensor x, Tensor y, Tensor out, Byte precision) { put(out, at::mv(x, y)); }
ACLNN(Dot, Tensor x, Tensor y, Tensor out) { put(out, at::dot(x, y)); }
ACLNN(Addmm, Tensor c, Tensor x, Tensor y, Scalar beta, Scalar alpha, Tensor out, Byte precision) {
  put(out, at::addmm(c, x, y, beta, alpha));
}
ACLNN(InplaceAddmm, Tensor c, Tensor x, Tensor y, Scalar beta, Scalar alpha, Byte precision) {
  put(c, at::addmm(c, x, y, beta, alpha));
}
ACLNN(Baddbmm, Tensor c, Tensor x, Tensor y, Scalar beta, Scalar alpha, Tensor out,
      Byte precision) {
  put(out, at::baddbmm(c, x, y, beta, alpha));
}
ACLNN(Addbmm, Tensor c, Tensor x, Tensor y, Scalar beta, Scalar alpha, Tensor out,
      Byte precision) {
  put(out, at::addbmm(c, x, y, beta, alpha));
}
ACLNN(Addmv, Tensor c, Tensor x, Tensor y, Scalar beta, Scalar alpha, Tensor out, Byte precision) {
  put(out, at::addmv(c, x, y, beta, alpha));
}
ACLNN(Addr, Tensor c, Tensor x, Tensor y, Scalar beta, Scalar alpha, Tensor out) {
  put(out, at::addr(c, x, y, beta, alpha));
}
ACLNN(InplaceAddr, Tensor c, Tensor x, Tensor y, Scalar beta, Scalar alpha) {
  put(c, at::addr(c, x, y, beta, alpha));
}
ACLNN(Inverse, Tensor x, Tensor out) { put(out, at::inverse(x)); }
ACLNN(LinalgCross, Tensor x, Tensor y, Int dim, Tensor out) {
  put(out, at::linalg_cross(x, y, dim));
}

// --- convolutions -----------------------------------------------------------------------------

ACLNN(Convolution, Tensor x, Tensor weight, Tensor bias, Ints stride, Ints padding, Ints dilation,
      Bool transposed, Ints output_padding, Int groups, Tensor out, Byte precision) {
  auto type = wide(x.scalar_type());
  auto added = bias.defined() ? opt(bias.to(type)) : std::nullopt;
  put(out, at::convolution(x.to(type), weight.to(type), added, stride, padding, dilation,
                           transposed, output_padding, groups));
}
ACLNN(ConvDepthwise2d, Tensor x, Tensor weight, Ints kernel, Tensor bias, Ints stride,
      Ints padding, Ints dilation, Tensor out, Byte precision) {
  auto type = wide(x.scalar_type());
  auto added = bias.defined() ? opt(bias.to(type)) : std::nullopt;
  put(out, at::convolution(x.to(type), weight.to(type), added, stride, padding, dilation, false,
                           {0, 0}, x.size(1)));
}
