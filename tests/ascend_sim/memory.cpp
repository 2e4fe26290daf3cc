// Device and host memory. Fresh and freed blocks are filled with a pattern, so that a value nobody
// wrote does not look like a zero.
#include "sim.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace sim {

int device_of_thread();
bool thread_refuses(const char* function);

namespace {

constexpr unsigned char kPoison = 0xCB;
constexpr size_t kAlignment = 512;

struct Block {
  size_t size;
  int device;
};

std::mutex mutex;
std::map<void*, Block> blocks;
std::map<int, size_t> used;

size_t total_memory() {
  const char* bytes = std::getenv("ASCEND_SIM_MEMORY");
  return bytes ? std::strtoull(bytes, nullptr, 10) : size_t{8} << 30;
}

int allocate(void** pointer, size_t size) {
  size_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
  std::lock_guard<std::mutex> lock(mutex);
  int device = device_of_thread();
  if (used[device] + rounded > total_memory()) {
    return fail(kOutOfMemory, "the device has " + std::to_string(total_memory()) + " bytes, " +
                                  std::to_string(used[device]) + " of them in use");
  }
  void* block = std::aligned_alloc(kAlignment, rounded);
  if (block == nullptr) return fail(kOutOfMemory, "the host has no memory left");
  std::memset(block, kPoison, rounded);
  blocks[block] = {rounded, device};
  used[device] += rounded;
  *pointer = block;
  return 0;
}

}  // namespace
}  // namespace sim

SIM_API int aclrtMalloc(void** pointer, size_t size, int) { return sim::allocate(pointer, size); }
SIM_API int aclrtMallocAlign32(void** pointer, size_t size, int) {
  return sim::allocate(pointer, size);
}

SIM_API int aclrtFree(void* pointer) {
  std::lock_guard<std::mutex> lock(sim::mutex);
  auto found = sim::blocks.find(pointer);
  if (found == sim::blocks.end()) return sim::fail(sim::kParamInvalid, "not a block of the device");
  std::memset(pointer, sim::kPoison, found->second.size);
  sim::used[found->second.device] -= found->second.size;
  sim::blocks.erase(found);
  std::free(pointer);
  return 0;
}

SIM_API int aclrtGetMemInfo(int, size_t* free, size_t* total) {
  std::lock_guard<std::mutex> lock(sim::mutex);
  *total = sim::total_memory();
  *free = *total - sim::used[sim::device_of_thread()];
  return 0;
}

SIM_API int aclrtMallocHost(void** pointer, size_t size) {
  *pointer = std::aligned_alloc(sim::kAlignment, (size / sim::kAlignment + 1) * sim::kAlignment);
  if (*pointer == nullptr) return sim::fail(sim::kOutOfMemory, "the host has no memory left");
  std::memset(*pointer, sim::kPoison, size);
  return 0;
}

SIM_API int aclrtMallocHostWithCfg(void** pointer, uint64_t size, void*) {
  return aclrtMallocHost(pointer, size);
}

SIM_API int aclrtFreeHost(void* pointer) {
  std::free(pointer);
  return 0;
}

// Host memory is what the device sees, too.
SIM_API int aclrtHostRegister(void* pointer, uint64_t, int, void** device_pointer) {
  *device_pointer = pointer;
  return 0;
}
SIM_API int aclrtHostRegisterV2(void*, uint64_t, uint32_t) { return 0; }
SIM_API int aclrtHostUnregister(void*) { return 0; }

// aclrtPtrAttributes: the device, where the memory is, the page size.
SIM_API int aclrtPointerGetAttributes(const void* pointer, uint32_t* attributes) {
  constexpr uint32_t kDevice = 1;
  constexpr uint32_t kUnregistered = 2;
  std::lock_guard<std::mutex> lock(sim::mutex);
  auto next = sim::blocks.upper_bound(const_cast<void*>(pointer));
  const auto* byte = static_cast<const char*>(pointer);
  attributes[0] = 0;
  attributes[1] = kUnregistered;
  attributes[2] = 4096;
  if (next == sim::blocks.begin()) return 0;
  const auto& [start, block] = *--next;
  if (byte < static_cast<const char*>(start) + block.size) {
    attributes[0] = static_cast<uint32_t>(block.device);
    attributes[1] = kDevice;
  }
  return 0;
}

SIM_API int aclrtMemcpy(void* target, size_t room, const void* source, size_t size, int) {
  if (sim::thread_refuses("aclrtMemcpy")) return 107030;
  if (size > room) return sim::fail(sim::kParamInvalid, "the copy is larger than its target");
  std::memcpy(target, source, size);
  return 0;
}

SIM_API int aclrtMemset(void* target, size_t room, int value, size_t size) {
  if (sim::thread_refuses("aclrtMemset")) return 107030;
  if (size > room) return sim::fail(sim::kParamInvalid, "more is set than the target holds");
  std::memset(target, value, size);
  return 0;
}

SIM_API int aclrtMemcpyAsync(void* target, size_t room, const void* source, size_t size, int,
                             void* stream) {
  if (size > room) return sim::fail(sim::kParamInvalid, "the copy is larger than its target");
  return sim::launch(stream, "memcpy", [=] { std::memmove(target, source, size); });
}

SIM_API int aclrtMemcpyAsyncWithCondition(void* target, size_t room, const void* source,
                                          size_t size, int kind, void* stream) {
  return aclrtMemcpyAsync(target, room, source, size, kind, stream);
}

SIM_API int aclrtMemsetAsync(void* target, size_t room, int value, size_t size, void* stream) {
  if (size > room) return sim::fail(sim::kParamInvalid, "more is set than the target holds");
  return sim::launch(stream, "memset", [=] { std::memset(target, value, size); });
}

SIM_API int aclrtMemcpyBatchAsync(void** targets, size_t* rooms, void** sources, size_t* sizes,
                                  size_t count, void*, size_t*, size_t, size_t* failed,
                                  void* stream) {
  for (size_t i = 0; i < count; ++i) {
    int code = aclrtMemcpyAsync(targets[i], rooms[i], sources[i], sizes[i], 0, stream);
    if (code == 0) continue;
    *failed = i;
    return code;
  }
  return 0;
}

SIM_API int aclrtMemcpyBatch(void** targets, size_t* rooms, void** sources, size_t* sizes,
                             size_t count, void*, size_t*, size_t, size_t* failed) {
  for (size_t i = 0; i < count; ++i) {
    int code = aclrtMemcpy(targets[i], rooms[i], sources[i], sizes[i], 0);
    if (code == 0) continue;
    *failed = i;
    return code;
  }
  return 0;
}
