// The objects that aclnn functions take: tensors, scalars, arrays, lists, and the executors that
// keep a prepared call. Every handle is known by what it is, so that a wrong parameter is found.
#include "aclnn.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>
#include <sstream>
#include <unordered_map>
#include <variant>

namespace sim::aclnn {

namespace {

using Bools = std::vector<bool>;
using Floats = std::vector<float>;
using Object = std::variant<Tensor, Scalar, Ints, Bools, Floats, Tensors, Scalars>;
constexpr const char* kKinds[] = {"a tensor",         "a scalar",        "an array of integers",
                                  "an array of bools", "an array of floats", "a list of tensors",
                                  "a list of scalars"};

std::mutex mutex;
std::unordered_map<void*, std::unique_ptr<Object>> objects;

struct Executor {
  std::string name;
  Task task;
};

template <class Value>
void* add(Value value) {
  auto object = std::make_unique<Object>(std::move(value));
  void* handle = object.get();
  std::lock_guard<std::mutex> lock(mutex);
  objects.emplace(handle, std::move(object));
  return handle;
}

int remove(const void* handle) {
  std::lock_guard<std::mutex> lock(mutex);
  return objects.erase(const_cast<void*>(handle)) == 1
             ? 0
             : fail(kParamInvalid, "the handle is not that of an aclnn object");
}

template <class Value>
const Value& get(void* handle) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = objects.find(handle);
  const char* wanted = kKinds[Object(Value{}).index()];
  if (found == objects.end()) {
    throw Refused(kParamInvalid, std::string("it is not ") + wanted);
  }
  const Value* value = std::get_if<Value>(found->second.get());
  if (!value) {
    throw Refused(kParamInvalid, std::string("it is ") + kKinds[found->second->index()] +
                                     ", not " + wanted);
  }
  return *value;
}

template <class Value>
void read_optional(void* handle, Value& value) {
  if (handle) value = get<Value>(handle);
}

template <class Value>
std::vector<Value> take(void* const* handles, uint64_t count) {
  std::vector<Value> values;
  for (uint64_t index = 0; index < count; ++index) {
    Value value{};
    if (handles[index]) {
      value = get<Value>(handles[index]);
      remove(handles[index]);
    }
    values.push_back(std::move(value));
  }
  return values;
}

Scalar scalar_at(const void* value, at::ScalarType type) {
  return at::from_blob(const_cast<void*>(value), {}, at::TensorOptions().dtype(type)).item();
}

}  // namespace

void read(void* handle, Tensor& value) { read_optional(handle, value); }
void read(void* handle, Scalar& value) { value = get<Scalar>(handle); }
void read(void* handle, OptScalar& value) {
  if (handle) value = get<Scalar>(handle);
}
void read(void* handle, Ints& value) { read_optional(handle, value); }
void read(void* handle, Tensors& value) { read_optional(handle, value); }
void read(void* handle, Scalars& value) { read_optional(handle, value); }
void read(void* handle, Grown& value) { value = {get<Tensor>(handle), handle}; }
void read(int32_t passed, Type& value) {
  if (passed >= 0) value.type = scalar_type(passed);
}

std::string describe(const Tensor& value) {
  if (!value.defined()) return "none";
  std::ostringstream text;
  text << c10::toString(value.scalar_type()) << value.sizes();
  return text.str();
}

std::string describe(const Scalar& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

std::string describe(const Ints& value) {
  std::ostringstream text;
  text << at::IntArrayRef(value);
  return text.str();
}

std::string describe(const Tensors& value) {
  std::string text = "(";
  for (const auto& member : value) text += describe(member) + " ";
  return text + ")";
}

void keep(void** executor, const char* name, Task task) {
  *executor = new Executor{name, std::move(task)};
}

int launch_kept(void* handle, void* stream) {
  std::unique_ptr<Executor> executor(static_cast<Executor*>(handle));
  return launch(stream, executor->name, std::move(executor->task));
}

void put(const Tensor& out, const Tensor& value) {
  if (!out.defined()) return;
  if (out.sizes() == value.sizes()) {
    out.copy_(value);
    return;
  }
  TORCH_CHECK(out.numel() == value.numel(), "the output has the shape ", out.sizes(),
              ", the result ", value.sizes());
  out.copy_(value.reshape(out.sizes()));
}

void put(const Grown& out, const Tensor& value) {
  TORCH_CHECK(value.numel() <= out.room.numel(), "the output has room for ", out.room.numel(),
              " elements, the result has ", value.numel());
  auto shaped = wrap(out.room.data_ptr(), value.sizes(), value.contiguous().strides(), 0,
                     out.room.scalar_type());
  shaped.copy_(value);
  std::lock_guard<std::mutex> lock(mutex);
  auto found = objects.find(out.handle);
  TORCH_CHECK(found != objects.end(), "a shape that values decide cannot be captured");
  *found->second = shaped;
}

at::ScalarType wide(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

at::Generator generator(int64_t seed, int64_t offset) {
  uint64_t mixed = static_cast<uint64_t>(seed) * 0x9E3779B97F4A7C15ull;
  mixed += static_cast<uint64_t>(offset);
  return at::detail::createCPUGenerator(mixed);
}

Tensor unpack_bits(const Tensor& bytes, int64_t count) {
  auto bits = at::bitwise_right_shift(bytes.reshape({-1, 1}), at::arange(8, at::kByte));
  return at::bitwise_and(bits, 1).to(at::kBool).reshape(-1).narrow(0, 0, count);
}

}  // namespace sim::aclnn

namespace aclnn = sim::aclnn;

SIM_API void* aclCreateTensor(const int64_t* sizes, uint64_t rank, int dtype,
                              const int64_t* strides, int64_t offset, int, const int64_t*,
                              uint64_t, void* data) {
  void* handle = nullptr;
  sim::guarded("aclCreateTensor", [&] {
    at::Tensor tensor;
    if (dtype >= 0) {
      tensor = sim::wrap(data, {sizes, rank}, {strides, rank}, offset, sim::scalar_type(dtype));
    }
    handle = aclnn::add(std::move(tensor));
  });
  return handle;
}

SIM_API void* aclCreateScalar(void* value, int dtype) {
  void* handle = nullptr;
  sim::guarded("aclCreateScalar",
               [&] { handle = aclnn::add(aclnn::scalar_at(value, sim::scalar_type(dtype))); });
  return handle;
}

SIM_API void* aclCreateIntArray(const int64_t* values, uint64_t count) {
  return aclnn::add(aclnn::Ints(values, values + count));
}

SIM_API void* aclCreateBoolArray(const bool* values, uint64_t count) {
  return aclnn::add(aclnn::Bools(values, values + count));
}

SIM_API void* aclCreateFloatArray(const float* values, uint64_t count) {
  return aclnn::add(aclnn::Floats(values, values + count));
}

SIM_API void* aclCreateTensorList(void* const* members, uint64_t count) {
  return aclnn::add(aclnn::take<at::Tensor>(members, count));
}

SIM_API void* aclCreateScalarList(void* const* members, uint64_t count) {
  return aclnn::add(aclnn::take<at::Scalar>(members, count));
}

SIM_API int aclDestroyTensor(const void* handle) { return aclnn::remove(handle); }
SIM_API int aclDestroyScalar(const void* handle) { return aclnn::remove(handle); }
SIM_API int aclDestroyIntArray(const void* handle) { return aclnn::remove(handle); }
SIM_API int aclDestroyBoolArray(const void* handle) { return aclnn::remove(handle); }
SIM_API int aclDestroyFloatArray(const void* handle) { return aclnn::remove(handle); }
SIM_API int aclDestroyTensorList(const void* handle) { return aclnn::remove(handle); }
SIM_API int aclDestroyScalarList(const void* handle) { return aclnn::remove(handle); }

SIM_API int aclDestroyAclOpExecutor(void* executor) {
  delete static_cast<aclnn::Executor*>(executor);
  return 0;
}

// The sizes of a tensor, in memory that the caller frees with delete[].
SIM_API int aclGetViewShape(void* handle, int64_t** sizes, uint64_t* rank) {
  return sim::guarded("aclGetViewShape", [&] {
    auto shape = aclnn::get<at::Tensor>(handle).sizes();
    *rank = shape.size();
    *sizes = new int64_t[shape.size()];
    std::copy(shape.begin(), shape.end(), *sizes);
  });
}
