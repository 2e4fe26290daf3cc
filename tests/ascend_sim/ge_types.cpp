// The value classes of ge:: that torchair links against.
#include "ge.h"

namespace ge {

struct ShapeImpl {
  std::vector<int64_t> dims;
};
struct TensorDescImpl {
  std::vector<int64_t> dims, origin_dims;
  Format format = Format(2);  // ND
  Format origin_format = Format(2);
  DataType type = DataType(0);
  Placement placement = kHost;
};
struct TensorImpl {
  TensorDesc desc;
  uint8_t* data = nullptr;
  size_t size = 0;
  Tensor::DeleteFunc deleter;

  void let_go() {
    if (data != nullptr && deleter) deleter(data);
    data = nullptr;
    size = 0;
    deleter = nullptr;
  }
  ~TensorImpl() { let_go(); }
};

AscendString::AscendString(const char* text)
    : text_(std::make_shared<std::string>(text ? text : "")) {}
const char* AscendString::GetString() const { return text_ ? text_->c_str() : ""; }
bool AscendString::operator<(const AscendString& other) const {
  return std::string_view(GetString()) < std::string_view(other.GetString());
}
bool AscendString::operator==(const AscendString& other) const {
  return std::string_view(GetString()) == std::string_view(other.GetString());
}

Shape::Shape(const std::vector<int64_t>& dims) : impl_(new ShapeImpl{dims}) {}
std::vector<int64_t> Shape::GetDims() const {
  return impl_ ? impl_->dims : std::vector<int64_t>{};
}

TensorDesc::TensorDesc() : impl_(new TensorDescImpl) {}
Shape TensorDesc::GetShape() const { return Shape(impl_->dims); }
Format TensorDesc::GetFormat() const { return impl_->format; }
void TensorDesc::SetFormat(Format format) { impl_->format = format; }
void TensorDesc::SetOriginShape(const Shape& shape) { impl_->origin_dims = shape.GetDims(); }
void TensorDesc::SetOriginFormat(Format format) { impl_->origin_format = format; }
DataType TensorDesc::GetDataType() const { return impl_->type; }
void TensorDesc::SetDataType(DataType type) { impl_->type = type; }
void TensorDesc::SetPlacement(Placement placement) { impl_->placement = placement; }
Placement TensorDesc::GetPlacement() const { return impl_->placement; }

Tensor::Tensor() : impl_(new TensorImpl) {}
Status Tensor::SetTensorDesc(const TensorDesc& desc) {
  *impl_->desc.impl_ = *desc.impl_;  // a value: the caller goes on changing its own
  return kSuccess;
}
TensorDesc Tensor::GetTensorDesc() const {
  TensorDesc copy;
  *copy.impl_ = *impl_->desc.impl_;
  return copy;
}
Status Tensor::SetDataType(const DataType& type) {
  impl_->desc.SetDataType(type);
  return kSuccess;
}
DataType Tensor::GetDataType() const { return impl_->desc.GetDataType(); }
Status Tensor::SetPlacement(const Placement& placement) {
  impl_->desc.SetPlacement(placement);
  return kSuccess;
}
Placement Tensor::GetPlacement() const { return impl_->desc.GetPlacement(); }
Status Tensor::SetFormat(const Format& format) {
  impl_->desc.SetFormat(format);
  return kSuccess;
}
Format Tensor::GetFormat() const { return impl_->desc.GetFormat(); }

Status Tensor::SetShapeDimNum(size_t count) {
  impl_->desc.impl_->dims.resize(count);
  return kSuccess;
}
size_t Tensor::GetShapeDimNum() const { return impl_->desc.impl_->dims.size(); }
Status Tensor::SetShapeDim(size_t index, int64_t size) {
  auto& dims = impl_->desc.impl_->dims;
  if (index >= dims.size()) return kFailed;
  dims[index] = size;
  return kSuccess;
}
int64_t Tensor::GetShapeDim(size_t index) const {
  const auto& dims = impl_->desc.impl_->dims;
  return index < dims.size() ? dims[index] : 0;
}
Status Tensor::SetOriginShapeDimNum(size_t count) {
  impl_->desc.impl_->origin_dims.resize(count);
  return kSuccess;
}
size_t Tensor::GetOriginShapeDimNum() const { return impl_->desc.impl_->origin_dims.size(); }
Status Tensor::SetOriginShapeDim(size_t index, int64_t size) {
  auto& dims = impl_->desc.impl_->origin_dims;
  if (index >= dims.size()) return kFailed;
  dims[index] = size;
  return kSuccess;
}

const uint8_t* Tensor::GetData() const { return impl_->data; }
uint8_t* Tensor::GetData() { return impl_->data; }
Status Tensor::SetData(uint8_t* data, size_t size, const DeleteFunc& deleter) {
  impl_->let_go();
  impl_->data = data;
  impl_->size = size;
  impl_->deleter = deleter;
  return kSuccess;
}
Status Tensor::ResetData(uint8_t* data, size_t size, const DeleteFunc& deleter) {
  return SetData(data, size, deleter);
}
std::unique_ptr<uint8_t[], Tensor::DeleteFunc> Tensor::ResetData() {
  auto deleter = impl_->deleter ? impl_->deleter : [](uint8_t*) {};
  std::unique_ptr<uint8_t[], DeleteFunc> given(impl_->data, deleter);
  impl_->data = nullptr;
  impl_->size = 0;
  impl_->deleter = nullptr;
  return given;
}


at::Tensor Tensor::view() const {
  const auto& desc = *impl_->desc.impl_;
  // An NPU tensor in an internal format has the shape it seems to have in the origin shape.
  const auto& dims = desc.origin_dims.size() ? desc.origin_dims : desc.dims;
  auto type = sim::scalar_type(desc.type);
  return at::from_blob(impl_->data, dims, at::TensorOptions().dtype(type));
}

}  // namespace ge
