// What the parts of the simulated CANN share. One process, device memory is host memory, and every
// launch runs at once in the calling thread, or is recorded where its stream captures.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#define SIM_API extern "C" __attribute__((visibility("default")))

namespace sim {

using Task = std::function<void()>;

// A refusal that becomes an error code and a text at the border to the vendor's code.
struct Refused : std::runtime_error {
  Refused(int code, const std::string& text) : std::runtime_error(text), code(code) {}
  int code;
};

// Codes of error_codes/rt_error_codes.h that the simulator answers with.
constexpr int kParamInvalid = 107000;
constexpr int kFeatureNotSupported = 207000;
constexpr int kOutOfMemory = 207001;
constexpr int kInternalError = 507000;

// Remember a text for aclGetRecentErrMsg in this thread, and give the code back.
int fail(int code, const std::string& text);

// Run a body of an exported function; whatever it throws becomes a code and a text.
int guarded(const char* function, const std::function<void()>& body);

// Run a task now, or record it when the stream captures. The name is what traces show, and is that
// of the aclnn function, "memcpy", "memset", ... A task owns what it needs: vendor objects are
// destroyed right after the call. Tasks run without autograd, dispatch modes and autocast of the
// calling thread.
int launch(void* stream, const std::string& name, Task task);

// ACL data types (aclDataType): FLOAT=0 FLOAT16=1 INT8=2 INT32=3 UINT8=4 INT16=6 INT64=9 DOUBLE=11
// BOOL=12 COMPLEX64=16 COMPLEX128=17 BF16=27. Unknown ones are Refused.
at::ScalarType scalar_type(int acl_dtype);
int acl_dtype(at::ScalarType type);

// A CPU tensor over device memory; strides and offset in elements. Keeps nothing alive.
at::Tensor wrap(void* data, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset,
                at::ScalarType type);

}  // namespace sim
