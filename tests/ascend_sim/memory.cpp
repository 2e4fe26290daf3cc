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
