// Devices, versions, settings, and the border to the vendor's code: error texts and data types.
#include "sim.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

namespace sim {

namespace {

thread_local std::string recent_text;
thread_local int current_device = -1;

std::mutex settings_mutex;
std::map<int, int64_t> system_parameters;
std::map<std::pair<int, int>, uint32_t> core_limits;  // by device and kind
std::set<std::string> unknown_names;

const std::map<int, at::ScalarType>& data_types() {
  static const std::map<int, at::ScalarType> types = {
      {0, at::kFloat},          {1, at::kHalf},           {2, at::kChar},
      {3, at::kInt},            {4, at::kByte},           {6, at::kShort},
      {9, at::kLong},           {11, at::kDouble},        {12, at::kBool},
      {16, at::kComplexFloat},  {17, at::kComplexDouble}, {27, at::kBFloat16},
  };
  return types;
}

}  // namespace

int device_count() {
  const char* count = std::getenv("ASCEND_SIM_DEVICES");
  return count ? std::atoi(count) : 2;
}

int device_of_thread() { return current_device; }

int fail(int code, const std::string& text) {
  recent_text = text;
  return code;
}

int guarded(const char* function, const std::function<void()>& body) {
  try {
    body();
    return 0;
  } catch (const Refused& error) {
    return fail(error.code, std::string(function) + ": " + error.what());
  } catch (const std::exception& error) {
    return fail(kInternalError, std::string(function) + ": " + error.what());
  }
}

int unknown(const char* name) {
  {
    std::lock_guard<std::mutex> lock(settings_mutex);
    if (unknown_names.insert(name).second) {
      std::fprintf(stderr, "ascend_sim: %s is not simulated\n", name);
    }
  }
  return fail(kFeatureNotSupported, std::string(name) + " is not simulated");
}

at::ScalarType scalar_type(int acl_dtype) {
  auto found = data_types().find(acl_dtype);
  if (found == data_types().end()) {
    throw Refused(kParamInvalid, "data type " + std::to_string(acl_dtype) + " is not simulated");
  }
  return found->second;
}

int acl_dtype(at::ScalarType type) {
  for (const auto& [code, known] : data_types()) {
    if (known == type) return code;
  }
  throw Refused(kParamInvalid, std::string("type ") + c10::toString(type) + " is not simulated");
}

at::Tensor wrap(void* data, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset,
                at::ScalarType type) {
  auto* start = static_cast<char*>(data) + offset * static_cast<int64_t>(c10::elementSize(type));
  return at::from_blob(start, sizes, strides, at::TensorOptions().dtype(type));
}

}  // namespace sim

using sim::fail;

SIM_API int sim_unknown(const char* name) { return sim::unknown(name); }
// For C++ names, whose callers expect an object of any size, or nothing.
SIM_API void sim_unknown_cpp(const char* name) {
  sim::unknown(name);
  throw std::runtime_error(std::string(name) + " is not simulated");
}

SIM_API int aclInit(const char*) { return 0; }
SIM_API int aclFinalize() { return 0; }
SIM_API const char* aclGetRecentErrMsg() {
  thread_local std::string given;
  given.swap(sim::recent_text);
  sim::recent_text.clear();
  return given.c_str();
}

SIM_API int aclrtGetDeviceCount(uint32_t* count) {
  *count = static_cast<uint32_t>(sim::device_count());
  return 0;
}

SIM_API const char* aclrtGetSocName() { return "Ascend910B1"; }

SIM_API int aclrtSetDevice(int device) {
  if (device < 0 || device >= sim::device_count()) {
    return fail(107001, "there is no device " + std::to_string(device));
  }
  sim::current_device = device;
  return 0;
}

SIM_API int aclrtGetDevice(int* device) {
  if (sim::current_device < 0) return fail(107002, "no device is set in this thread");
  *device = sim::current_device;
  return 0;
}

SIM_API int aclrtResetDevice(int) { return 0; }

// A context is a number: the device and one.
SIM_API int aclrtGetCurrentContext(void** context) {
  if (sim::current_device < 0) return fail(107002, "no context is set in this thread");
  *context = reinterpret_cast<void*>(static_cast<intptr_t>(sim::current_device) + 1);
  return 0;
}

SIM_API int aclrtSetCurrentContext(void* context) {
  sim::current_device = static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1;
  return 0;
}

SIM_API int aclrtGetPrimaryCtxState(int, uint32_t* flags, int* active) {
  if (flags) *flags = 0;
  *active = 1;
  return 0;
}

SIM_API size_t aclGetCompileoptSize(int) { return 32; }
SIM_API int aclGetCompileopt(int, char* value, size_t size) {
  std::snprintf(value, size, "disable");
  return 0;
}

SIM_API int aclsysGetVersionStr(const char*, char* version) {
  std::strcpy(version, "8.5.0");
  return 0;
}

// The older form: a structure that begins with 128 bytes for the version.
SIM_API int aclsysGetCANNVersion(int, char* version) {
  return aclsysGetVersionStr(nullptr, version);
}

SIM_API int aclGetCannAttribute(int, int32_t* value) {
  *value = 1;  // infinities and NaN, bfloat16, and so on: the device has them
  return 0;
}

SIM_API int aclGetCannAttributeList(const int** list, size_t* count) {
  static const int attributes[] = {0, 1, 2, 3};
  *list = attributes;
  *count = 4;
  return 0;
}

// Cores by kind, 0 cube and 1 vector, of a device and of what a program leaves itself of it.
namespace sim {

constexpr uint32_t kCores[] = {24, 48};
constexpr int64_t kCacheBytes = int64_t{192} << 20;

uint32_t device_limit(int device, int kind) {
  std::lock_guard<std::mutex> lock(settings_mutex);
  auto found = core_limits.find({device, kind & 1});
  return found == core_limits.end() ? kCores[kind & 1] : found->second;
}

}  // namespace sim

SIM_API int aclGetDeviceCapability(uint32_t, int kind, int64_t* value) {
  if (kind < 0 || kind > 2) {
    return fail(sim::kParamInvalid, "no device capability " + std::to_string(kind));
  }
  *value = kind == 2 ? sim::kCacheBytes : sim::kCores[kind];
  return 0;
}

SIM_API int aclrtGetDeviceInfo(uint32_t, int attribute, int64_t* value) {
  switch (attribute) {
    case 101:
    case 102: *value = sim::kCores[0]; return 0;
    case 201: *value = sim::kCores[1]; return 0;
    case 302: *value = sim::kCacheBytes; return 0;
    default:
      return fail(sim::kParamInvalid,
                  "device attribute " + std::to_string(attribute) + " is not simulated");
  }
}

SIM_API int aclrtGetDeviceResLimit(int device, int kind, uint32_t* value) {
  *value = sim::device_limit(device, kind);
  return 0;
}

SIM_API int aclrtSetDeviceResLimit(int device, int kind, uint32_t value) {
  std::lock_guard<std::mutex> lock(sim::settings_mutex);
  sim::core_limits[{device, kind & 1}] = value;
  return 0;
}

SIM_API int aclrtResetDeviceResLimit(int device) {
  std::lock_guard<std::mutex> lock(sim::settings_mutex);
  sim::core_limits.erase({device, 0});
  sim::core_limits.erase({device, 1});
  return 0;
}

SIM_API int aclrtDeviceCanAccessPeer(int32_t* can, int32_t device, int32_t peer) {
  *can = device != peer;
  return 0;
}

// 16 bytes that differ by device.
SIM_API int aclrtDeviceGetUuid(int32_t device, char* uuid) {
  std::memset(uuid, 0, 16);
  uuid[15] = static_cast<char>(device + 1);
  return 0;
}

SIM_API int aclrtSetSysParamOpt(int option, int64_t value) {
  std::lock_guard<std::mutex> lock(sim::settings_mutex);
  sim::system_parameters[option] = value;
  return 0;
}

SIM_API int aclrtCtxSetSysParamOpt(int option, int64_t value) {
  return aclrtSetSysParamOpt(option, value);
}

SIM_API int aclrtGetSysParamOpt(int option, int64_t* value) {
  std::lock_guard<std::mutex> lock(sim::settings_mutex);
  *value = sim::system_parameters[option];
  return 0;
}

// Bounded string functions of libc_sec.
SIM_API int vsnprintf_s(char* buffer, size_t size, size_t count, const char* format, va_list args) {
  int written = std::vsnprintf(buffer, std::min(size, count + 1), format, args);
  return written < 0 || static_cast<size_t>(written) > count ? -1 : written;
}

SIM_API int snprintf_s(char* buffer, size_t size, size_t count, const char* format, ...) {
  va_list args;
  va_start(args, format);
  int written = vsnprintf_s(buffer, size, count, format, args);
  va_end(args);
  return written;
}

SIM_API int strcpy_s(char* target, size_t size, const char* source) {
  if (std::strlen(source) + 1 > size) return 34;
  std::strcpy(target, source);
  return 0;
}
