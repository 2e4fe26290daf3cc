// The older operator interface: nothing of it is computed. torch_npu takes it where it finds no
// aclnn function, so its call fails and names the operator, the data types and the shapes.
#include "sim.h"

#include <sstream>

namespace sim {
namespace {

struct Description {
  int type;
  int format;
  std::vector<int64_t> sizes;
};

std::string words(int count, void* const* descriptions) {
  std::ostringstream text;
  for (int index = 0; index < count; ++index) {
    auto* description = static_cast<Description*>(descriptions[index]);
    if (index) text << ", ";
    if (!description || description->type < 0) {
      text << "none";
      continue;
    }
    text << c10::toString(scalar_type(description->type)) << at::IntArrayRef(description->sizes);
  }
  return text.str();
}

}  // namespace
}  // namespace sim

using sim::Description;

SIM_API void* aclCreateTensorDesc(int type, int rank, const int64_t* sizes, int format) {
  return new Description{type, format, {sizes, sizes + rank}};
}
SIM_API void aclDestroyTensorDesc(const void* description) {
  delete static_cast<const Description*>(description);
}
SIM_API void aclSetTensorDescName(void*, const char*) {}
SIM_API int aclSetTensorShape(void*, int, const int64_t*) { return 0; }
SIM_API int aclSetTensorFormat(void*, int) { return 0; }
SIM_API int aclSetTensorPlaceMent(void*, int) { return 0; }
SIM_API int aclGetTensorDescType(const void* description) {
  return static_cast<const Description*>(description)->type;
}
SIM_API int aclGetTensorDescFormat(const void* description) {
  return static_cast<const Description*>(description)->format;
}
SIM_API size_t aclGetTensorDescNumDims(const void* description) {
  return static_cast<const Description*>(description)->sizes.size();
}
SIM_API int aclGetTensorDescDimV2(const void* description, size_t index, int64_t* size) {
  *size = static_cast<const Description*>(description)->sizes.at(index);
  return 0;
}

// Buffers and attributes are never read; a handle must only not be null.
SIM_API void* aclCreateDataBuffer(void*, size_t) { return new char; }
SIM_API int aclDestroyDataBuffer(const void* buffer) {
  delete static_cast<const char*>(buffer);
  return 0;
}
SIM_API void* aclopCreateAttr() { return new char; }
SIM_API void aclopDestroyAttr(const void* attributes) {
  delete static_cast<const char*>(attributes);
}
SIM_API int aclopSetAttrBool(void*, const char*, uint8_t) { return 0; }
SIM_API int aclopSetAttrInt(void*, const char*, int64_t) { return 0; }
SIM_API int aclopSetAttrFloat(void*, const char*, float) { return 0; }
SIM_API int aclopSetAttrString(void*, const char*, const char*) { return 0; }
SIM_API int aclopSetAttrDataType(void*, const char*, int) { return 0; }
SIM_API int aclopSetAttrListInt(void*, const char*, int, const int64_t*) { return 0; }
SIM_API int aclopSetAttrListBool(void*, const char*, int, const uint8_t*) { return 0; }
SIM_API int aclopSetAttrListFloat(void*, const char*, int, const float*) { return 0; }
SIM_API int aclopSetAttrListListInt(void*, const char*, int, const int*, const int64_t* const*) {
  return 0;
}

SIM_API int aclopCompileAndExecute(const char* type, int inputs, void* const* input_descriptions,
                                   void* const*, int outputs, void* const* output_descriptions,
                                   void* const*, const void*, int, int, const char*, void*) {
  return sim::guarded("aclopCompileAndExecute", [&] {
    auto call = std::string("operator ") + type + "(" + sim::words(inputs, input_descriptions) +
                ") -> " + sim::words(outputs, output_descriptions);
    throw sim::Refused(sim::kFeatureNotSupported,
                       call + ": no aclnn function that stands for it is simulated");
  });
}

SIM_API int aclopCompileAndExecuteV2(const char* type, int inputs, void** input_descriptions,
                                     void** buffers, int outputs, void** output_descriptions,
                                     void** output_buffers, void* attributes, int engine, int flag,
                                     const char* path, void* stream) {
  return aclopCompileAndExecute(type, inputs, input_descriptions, buffers, outputs,
                                output_descriptions, output_buffers, attributes, engine, flag,
                                path, stream);
}
