// Streams and launches. A launch runs at once in the calling thread, unless its stream
// captures, or waits for something that has not happened yet: then it runs when that happens.
#include "streams.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>

namespace sim {

std::recursive_mutex mutex;

namespace {

std::set<Stream*> streams;
std::atomic<int> next_stream{1};
std::vector<std::string> log;
int listeners = 0;
std::string failing;  // the launch that a test wants to fail, by name
thread_local Stream* limiting_stream = nullptr;

Stream* new_stream(int id, int device) {
  auto* stream = new Stream{id, device};
  streams.insert(stream);
  return stream;
}

Stream* default_stream() {
  static std::map<int, Stream*> defaults;
  int device = std::max(device_of_thread(), 0);
  if (!defaults.count(device)) defaults[device] = new_stream(0, device);
  return defaults[device];
}

bool can_go_on(const Stream& stream) {
  return !stream.waiting.empty() &&
         (!stream.waiting.front()->ready || stream.waiting.front()->ready());
}

// Run what is ready at the head of a stream. A task that fails takes the ones behind it along.
int advance(Stream* stream) {
  Lock one_at_a_time(stream->running);
  while (true) {
    std::shared_ptr<Recorded> next;
    {
      Lock lock(mutex);
      if (!can_go_on(*stream)) return 0;
      next = stream->waiting.front();
      stream->waiting.pop_front();
    }
    int code = guarded(next->name.c_str(), [&] { run(next->task); });
    if (code != 0) {
      Lock lock(mutex);
      stream->waiting.clear();
      return code;
    }
  }
}

Stream* held_up_but_ready() {
  Lock lock(mutex);
  for (Stream* stream : streams) {
    if (can_go_on(*stream)) return stream;
  }
  return nullptr;
}

}  // namespace

void advance_others() {
  while (Stream* stream = held_up_but_ready()) {
    if (advance(stream) != 0) {
      Lock lock(mutex);
      stream->error = "a task failed after the launch: " + std::string(aclGetRecentErrMsg());
    }
  }
}

void note(const std::string& line) {
  if (listeners > 0) log.push_back(line);
}

Stream* stream_of(void* handle) {
  return handle ? static_cast<Stream*>(handle) : default_stream();
}

void run(const Task& task) {
  // Tasks compute on CPU tensors, whatever the calling thread is in the middle of.
  c10::impl::ExcludeDispatchKeyGuard no_modes(
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                           c10::DispatchKey::PythonDispatcher, c10::DispatchKey::Functionalize,
                           c10::DispatchKey::AutocastCPU,
                           c10::DispatchKey::AutocastPrivateUse1}));
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  task();
}

int enqueue(Stream* stream, const std::vector<std::shared_ptr<Recorded>>& tasks) {
  {
    Lock lock(mutex);
    stream->waiting.insert(stream->waiting.end(), tasks.begin(), tasks.end());
  }
  return advance(stream);
}

int submit(void* handle, std::shared_ptr<Recorded> task) {
  Stream* stream;
  {
    Lock lock(mutex);
    stream = stream_of(handle);
    if (!failing.empty() && task->name == failing) {
      return fail(kInternalError, failing + " fails because a test asked for it");
    }
    if (stream->updated) return update(stream, std::move(*task));
    if (stream->model) {
      record(stream, std::move(task));
      return 0;
    }
    note(task->name);
  }
  return enqueue(stream, {std::move(task)});
}

int launch(void* stream, const std::string& name, Task task) {
  return submit(stream, std::make_shared<Recorded>(Recorded{name, std::move(task), {}}));
}

int finish(Stream* stream) {
  Lock wait_for_other_threads(stream->running);
  Lock lock(mutex);
  if (!stream->error.empty()) {
    std::string error;
    error.swap(stream->error);
    return fail(kInternalError, error);
  }
  if (stream->waiting.empty()) return 0;
  std::string text = "stream " + std::to_string(stream->id) + " waits at \"" +
                     stream->waiting.front()->name +
                     "\" for something that nothing launched so far does";
  stream->waiting.clear();  // a device gives a stream up that timed out, too
  return fail(kStreamStuck, text);
}

}  // namespace sim

using sim::fail;
using sim::Lock;
using sim::Stream;
using sim::stream_of;

// --- what tests read --------------------------------------------------------------------------

// Where the lines of a trace begin.
SIM_API size_t sim_log_start() {
  Lock lock(sim::mutex);
  ++sim::listeners;
  return sim::log.size();
}

SIM_API const char* sim_log_stop(size_t start) {
  Lock lock(sim::mutex);
  static std::string text;
  text.clear();
  for (size_t i = start; i < sim::log.size(); ++i) text += sim::log[i] + "\n";
  if (--sim::listeners == 0) sim::log.clear();
  return text.c_str();
}

SIM_API void sim_fail(const char* name) {
  Lock lock(sim::mutex);
  sim::failing = name ? name : "";
}

// --- streams ----------------------------------------------------------------------------------

SIM_API int aclrtCreateStreamWithConfig(void** stream, uint32_t, uint32_t) {
  Lock lock(sim::mutex);
  *stream = sim::new_stream(sim::next_stream++, std::max(sim::device_of_thread(), 0));
  return 0;
}

SIM_API int aclrtCreateStream(void** stream) { return aclrtCreateStreamWithConfig(stream, 0, 0); }

SIM_API int aclrtDestroyStream(void* handle) {
  Lock lock(sim::mutex);
  auto* stream = static_cast<Stream*>(handle);
  if (sim::streams.erase(stream) == 0) return fail(sim::kParamInvalid, "not a stream");
  sim::leave(stream);
  delete stream;
  return 0;
}

SIM_API int aclrtDestroyStreamForce(void* stream) { return aclrtDestroyStream(stream); }

SIM_API int aclrtStreamGetId(void* stream, int32_t* id) {
  *id = stream_of(stream)->id;
  return 0;
}

SIM_API int aclrtSynchronizeStream(void* handle) {
  Lock lock(sim::mutex);
  Stream* stream = stream_of(handle);
  if (stream->model) {
    return sim::invalidate(stream->model, sim::kStreamCaptured,
                           "the stream is captured and cannot be waited for");
  }
  lock.unlock();
  return sim::finish(stream);
}

SIM_API int aclrtSynchronizeStreamWithTimeout(void* stream, int32_t) {
  return aclrtSynchronizeStream(stream);
}

SIM_API int aclrtSynchronizeDevice() {
  if (sim::thread_refuses("aclrtSynchronizeDevice")) return sim::kForbiddenInCapture;
  Lock lock(sim::mutex);
  std::vector<Stream*> all(sim::streams.begin(), sim::streams.end());
  lock.unlock();
  for (Stream* stream : all) {
    if (stream->device != std::max(sim::device_of_thread(), 0)) continue;
    if (int code = sim::finish(stream)) return code;
  }
  return 0;
}

SIM_API int aclrtSynchronizeDeviceWithTimeout(int32_t) { return aclrtSynchronizeDevice(); }

SIM_API int aclrtStreamQuery(void* handle, int* status) {
  Lock lock(sim::mutex);
  Stream* stream = stream_of(handle);
  if (stream->model) {
    return sim::invalidate(stream->model, sim::kStreamCaptured,
                           "the stream is captured and cannot be asked");
  }
  *status = stream->waiting.empty() ? 0 : 1;
  return 0;
}

SIM_API int aclrtLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  return sim::launch(stream, "host function", [=] { function(data); });
}

SIM_API int aclrtLaunchCallback(void (*function)(void*), void* data, int, void* stream) {
  return aclrtLaunchHostFunc(stream, function, data);
}

// A hint to load memory into a cache: nothing to see.
SIM_API int aclrtCmoAsync(void*, size_t, int, void* stream) {
  return sim::launch(stream, "cmo", [] {});
}

// --- core limits, by kind: 0 cube, 1 vector -----------------------------------------------------

SIM_API int aclrtSetStreamResLimit(void* stream, int kind, uint32_t value) {
  Lock lock(sim::mutex);
  stream_of(stream)->limits[kind & 1] = value;
  sim::note("limit " + std::to_string(kind) + " " + std::to_string(value));
  return 0;
}

SIM_API int aclrtGetStreamResLimit(void* handle, int kind, uint32_t* value) {
  Lock lock(sim::mutex);
  Stream* stream = stream_of(handle);
  *value = stream->limits[kind & 1].value_or(sim::device_limit(stream->device, kind));
  return 0;
}

SIM_API int aclrtResetStreamResLimit(void* stream) {
  Lock lock(sim::mutex);
  for (auto& limit : stream_of(stream)->limits) limit.reset();
  return 0;
}

SIM_API int aclrtUseStreamResInCurrentThread(void* stream) {
  sim::limiting_stream = stream_of(stream);
  return 0;
}

SIM_API int aclrtUnuseStreamResInCurrentThread(void*) {
  sim::limiting_stream = nullptr;
  return 0;
}

SIM_API int aclrtGetResInCurrentThread(int kind, uint32_t* value) {
  Lock lock(sim::mutex);
  if (sim::streams.count(sim::limiting_stream)) {
    return aclrtGetStreamResLimit(sim::limiting_stream, kind, value);
  }
  *value = sim::device_limit(std::max(sim::device_of_thread(), 0), kind);
  return 0;
}
