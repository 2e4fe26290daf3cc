// Streams, events, launches, and the capture of launches into models that can be replayed.
#include "sim.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

namespace sim {

int device_of_thread();

namespace {

enum Status { kNone = 0, kActive = 1, kInvalidated = 2 };
enum Mode { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };

struct Recorded {
  std::string name;
  Task task;
};

struct Stream;

struct Model {
  uint32_t id;
  int mode = kGlobal;
  bool invalid = false;
  Stream* origin = nullptr;
  std::thread::id thread;
  std::set<Stream*> streams;
  std::vector<std::shared_ptr<Recorded>> tasks;
};

struct Group {
  std::vector<std::shared_ptr<Recorded>> tasks;
};

struct Stream {
  int id;
  int device;
  Model* model = nullptr;            // set while the stream captures
  std::unique_ptr<Group> group;      // set between the ends of a task group
  Group* updated = nullptr;          // set while the tasks of a group are replaced
  size_t next_update = 0;
  uint32_t limits[2] = {24, 48};     // cube and vector cores
};

struct Event {
  Model* model = nullptr;
  std::chrono::steady_clock::time_point time;
  bool recorded = false;
};

std::recursive_mutex mutex;
std::set<Model*> capturing;
std::atomic<int> next_stream{1};
std::atomic<uint32_t> next_model{1};
std::vector<std::string> log;
bool is_logging = false;
std::string failing;  // the launch that a test wants to fail, by name
thread_local int thread_mode = kGlobal;

// The stream a program gets when it names none, one a device.
Stream* default_stream() {
  static std::vector<std::unique_ptr<Stream>> streams(64);
  int device = std::max(device_of_thread(), 0);
  if (!streams[device]) streams[device] = std::make_unique<Stream>(Stream{0, device});
  return streams[device].get();
}

Stream* stream_of(void* handle) {
  return handle ? static_cast<Stream*>(handle) : default_stream();
}

void note(const std::string& line) {
  if (is_logging) log.push_back(line);
}

// Tasks compute on CPU tensors, whatever the calling thread is in the middle of.
void run(const Task& task) {
  c10::impl::ExcludeDispatchKeyGuard no_modes(
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                           c10::DispatchKey::PythonDispatcher, c10::DispatchKey::Functionalize,
                           c10::DispatchKey::AutocastCPU,
                           c10::DispatchKey::AutocastPrivateUse1}));
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  task();
}

bool refuses(const Model& model) {
  if (thread_mode == kRelaxed || model.mode == kRelaxed) return false;
  return model.mode == kGlobal || model.thread == std::this_thread::get_id();
}

}  // namespace

bool thread_refuses(const char* function) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  for (Model* model : capturing) {
    if (!refuses(*model)) continue;
    model->invalid = true;
    fail(107030, std::string(function) + " is not allowed while a stream is captured");
    return true;
  }
  return false;
}

int launch(void* handle, const std::string& name, Task task) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  Stream* stream = stream_of(handle);
  if (!failing.empty() && name == failing) {
    return fail(kInternalError, name + " fails because a test asked for it");
  }
  if (stream->updated) {
    auto& tasks = stream->updated->tasks;
    if (stream->next_update >= tasks.size()) {
      return fail(kParamInvalid, "an update has more tasks than the group it updates");
    }
    note("update " + name);
    *tasks[stream->next_update++] = {name, std::move(task)};
    return 0;
  }
  if (stream->model) {
    note("record " + name);
    auto recorded = std::make_shared<Recorded>(Recorded{name, std::move(task)});
    stream->model->tasks.push_back(recorded);
    if (stream->group) stream->group->tasks.push_back(recorded);
    return 0;
  }
  note(name);
  return guarded(name.c_str(), [&] { run(task); });
}

}  // namespace sim

using sim::Event;
using sim::fail;
using sim::Group;
using sim::Model;
using sim::Stream;
using sim::stream_of;
using Lock = std::lock_guard<std::recursive_mutex>;

// --- what tests read --------------------------------------------------------------------------

SIM_API void sim_log_start() {
  Lock lock(sim::mutex);
  sim::log.clear();
  sim::is_logging = true;
}

SIM_API void sim_fail(const char* name) {
  Lock lock(sim::mutex);
  sim::failing = name ? name : "";
}

SIM_API const char* sim_log_stop() {
  Lock lock(sim::mutex);
  static std::string text;
  text.clear();
  for (const auto& line : sim::log) text += line + "\n";
  sim::is_logging = false;
  return text.c_str();
}

// --- streams ----------------------------------------------------------------------------------

SIM_API int aclrtCreateStreamWithConfig(void** stream, uint32_t, uint32_t) {
  *stream = new Stream{sim::next_stream++, std::max(sim::device_of_thread(), 0)};
  return 0;
}

SIM_API int aclrtCreateStream(void** stream) { return aclrtCreateStreamWithConfig(stream, 0, 0); }
SIM_API int aclrtDestroyStream(void* stream) {
  delete static_cast<Stream*>(stream);
  return 0;
}
SIM_API int aclrtDestroyStreamForce(void* stream) { return aclrtDestroyStream(stream); }

SIM_API int aclrtStreamGetId(void* stream, int32_t* id) {
  *id = stream_of(stream)->id;
  return 0;
}

SIM_API int aclrtSynchronizeStream(void* handle) {
  Lock lock(sim::mutex);
  if (Model* model = stream_of(handle)->model) {
    model->invalid = true;
    return fail(107027, "the stream is captured and cannot be waited for");
  }
  return 0;
}

SIM_API int aclrtSynchronizeStreamWithTimeout(void* stream, int32_t) {
  return aclrtSynchronizeStream(stream);
}

SIM_API int aclrtSynchronizeDevice() {
  return sim::thread_refuses("aclrtSynchronizeDevice") ? 107030 : 0;
}

SIM_API int aclrtSynchronizeDeviceWithTimeout(int32_t) { return aclrtSynchronizeDevice(); }

SIM_API int aclrtStreamQuery(void* handle, int* status) {
  Lock lock(sim::mutex);
  if (Model* model = stream_of(handle)->model) {
    model->invalid = true;
    return fail(107027, "the stream is captured and cannot be asked");
  }
  *status = 0;
  return 0;
}

SIM_API int aclrtLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  return sim::launch(stream, "host function", [=] { function(data); });
}

SIM_API int aclrtLaunchCallback(void (*function)(void*), void* data, int, void* stream) {
  return aclrtLaunchHostFunc(stream, function, data);
}

// Core limits, by kind: 0 cube, 1 vector.
SIM_API int aclrtSetStreamResLimit(void* stream, int kind, uint32_t value) {
  stream_of(stream)->limits[kind & 1] = value;
  sim::note("limit " + std::to_string(kind) + " " + std::to_string(value));
  return 0;
}

SIM_API int aclrtGetStreamResLimit(void* stream, int kind, uint32_t* value) {
  *value = stream_of(stream)->limits[kind & 1];
  return 0;
}

SIM_API int aclrtResetStreamResLimit(void* stream) {
  stream_of(stream)->limits[0] = 24;
  stream_of(stream)->limits[1] = 48;
  return 0;
}

namespace {
thread_local Stream* limiting_stream = nullptr;
}

SIM_API int aclrtUseStreamResInCurrentThread(void* stream) {
  limiting_stream = stream_of(stream);
  return 0;
}

SIM_API int aclrtUnuseStreamResInCurrentThread(void*) {
  limiting_stream = nullptr;
  return 0;
}

SIM_API int aclrtGetResInCurrentThread(int kind, uint32_t* value) {
  return aclrtGetStreamResLimit(limiting_stream, kind, value);
}

// --- events -----------------------------------------------------------------------------------

SIM_API int aclrtCreateEvent(void** event) {
  *event = new Event();
  return 0;
}
SIM_API int aclrtCreateEventWithFlag(void** event, uint32_t) { return aclrtCreateEvent(event); }
SIM_API int aclrtCreateEventExWithFlag(void** event, uint32_t) { return aclrtCreateEvent(event); }

SIM_API int aclrtDestroyEvent(void* event) {
  delete static_cast<Event*>(event);
  return 0;
}

SIM_API int aclrtRecordEvent(void* handle, void* stream) {
  Lock lock(sim::mutex);
  auto* event = static_cast<Event*>(handle);
  event->model = stream_of(stream)->model;
  event->time = std::chrono::steady_clock::now();
  event->recorded = true;
  sim::note(event->model ? "record event" : "event");
  return 0;
}

SIM_API int aclrtResetEvent(void* handle, void*) {
  static_cast<Event*>(handle)->recorded = false;
  return 0;
}

SIM_API int aclrtStreamWaitEvent(void* handle, void* event_handle) {
  Lock lock(sim::mutex);
  Stream* stream = stream_of(handle);
  auto* event = static_cast<Event*>(event_handle);
  sim::note("wait");
  if (event->model && sim::capturing.count(event->model) && stream->model != event->model) {
    if (stream->model) return fail(107032, "the event belongs to another capture");
    stream->model = event->model;
    event->model->streams.insert(stream);
  }
  return 0;
}

SIM_API int aclrtQueryEventStatus(void* handle, int* status) {
  Lock lock(sim::mutex);
  auto* event = static_cast<Event*>(handle);
  if (event->model && sim::capturing.count(event->model)) {
    event->model->invalid = true;
    return fail(107028, "the event was recorded in a capture and cannot be asked");
  }
  *status = 1;
  return 0;
}

SIM_API int aclQueryEventRecordedStatus(void* event, int* status) {
  return aclrtQueryEventStatus(event, status);
}

SIM_API int aclrtQueryEventWaitStatus(void*, int* status) {
  *status = 0;
  return 0;
}
SIM_API int aclQueryEventWaitStatus(void* event, int* status) {
  return aclrtQueryEventWaitStatus(event, status);
}

SIM_API int aclrtSynchronizeEvent(void* handle) {
  Lock lock(sim::mutex);
  auto* event = static_cast<Event*>(handle);
  if (event->model && sim::capturing.count(event->model)) {
    event->model->invalid = true;
    return fail(107028, "the event was recorded in a capture and cannot be waited for");
  }
  return 0;
}

SIM_API int aclrtEventElapsedTime(float* milliseconds, void* start, void* end) {
  auto length = static_cast<Event*>(end)->time - static_cast<Event*>(start)->time;
  *milliseconds = std::chrono::duration<float, std::milli>(length).count();
  return 0;
}

SIM_API int aclrtEventGetTimestamp(void* event, uint64_t* timestamp) {
  auto since = static_cast<Event*>(event)->time.time_since_epoch();
  *timestamp = std::chrono::duration_cast<std::chrono::microseconds>(since).count();
  return 0;
}

// --- capture ----------------------------------------------------------------------------------

SIM_API int aclmdlRICaptureBegin(void* handle, int mode) {
  Lock lock(sim::mutex);
  Stream* stream = stream_of(handle);
  if (stream->model) return fail(107027, "the stream is captured already");
  auto* model = new Model{sim::next_model++, mode};
  model->origin = stream;
  model->thread = std::this_thread::get_id();
  model->streams = {stream};
  stream->model = model;
  sim::capturing.insert(model);
  sim::note("begin");
  return 0;
}

SIM_API int aclmdlRICaptureGetInfo(void* handle, int* status, void** model) {
  Lock lock(sim::mutex);
  Model* found = stream_of(handle)->model;
  *status = !found ? sim::kNone : found->invalid ? sim::kInvalidated : sim::kActive;
  if (model) *model = found;
  return 0;
}

SIM_API int aclmdlRICaptureEnd(void* handle, void** result) {
  Lock lock(sim::mutex);
  Stream* stream = stream_of(handle);
  Model* model = stream->model;
  if (!model) return fail(107029, "the stream is not captured");
  if (model->origin != stream) return fail(107036, "the capture began on another stream");
  for (Stream* member : model->streams) member->model = nullptr;
  model->streams.clear();
  sim::capturing.erase(model);
  *result = model;
  sim::note("end");
  if (model->invalid) return fail(507903, "an illegal call invalidated the capture");
  return 0;
}

SIM_API int aclmdlRIExecuteAsync(void* handle, void* stream) {
  auto* model = static_cast<Model*>(handle);
  return sim::launch(stream, "replay", [model] {
    for (const auto& recorded : model->tasks) sim::run(recorded->task);
  });
}

SIM_API int aclmdlRIExecute(void* model, int32_t) { return aclmdlRIExecuteAsync(model, nullptr); }

SIM_API int aclmdlRIDestroy(void* model) {
  Lock lock(sim::mutex);
  sim::capturing.erase(static_cast<Model*>(model));
  delete static_cast<Model*>(model);
  return 0;
}

SIM_API int aclmdlRIGetId(void* model, uint32_t* id) {
  *id = static_cast<Model*>(model)->id;
  return 0;
}

SIM_API int aclmdlRICaptureThreadExchangeMode(int* mode) {
  std::swap(sim::thread_mode, *mode);
  return 0;
}

SIM_API int aclmdlRICaptureTaskGrpBegin(void* stream) {
  Lock lock(sim::mutex);
  stream_of(stream)->group = std::make_unique<Group>();
  return 0;
}

SIM_API int aclmdlRICaptureTaskGrpEnd(void* stream, void** group) {
  Lock lock(sim::mutex);
  *group = stream_of(stream)->group.release();
  return 0;
}

SIM_API int aclmdlRICaptureTaskUpdateBegin(void* stream, void* group) {
  Lock lock(sim::mutex);
  stream_of(stream)->updated = static_cast<Group*>(group);
  stream_of(stream)->next_update = 0;
  return 0;
}

SIM_API int aclmdlRICaptureTaskUpdateEnd(void* stream) {
  Lock lock(sim::mutex);
  stream_of(stream)->updated = nullptr;
  return 0;
}

// torch_npu reads the file again as a list of trace events.
SIM_API int aclmdlRIDebugJsonPrint(void* handle, const char* path, uint32_t) {
  std::FILE* file = std::fopen(path, "w");
  if (!file) return fail(sim::kParamInvalid, std::string("cannot write ") + path);
  std::fprintf(file, "[");
  int number = 0;
  for (const auto& recorded : static_cast<Model*>(handle)->tasks) {
    std::fprintf(file, "%s{\"name\": \"%s\", \"ph\": \"X\", \"pid\": 0, \"tid\": 0, \"ts\": %d, \"dur\": 1}",
                 number ? ", " : "", recorded->name.c_str(), number);
    ++number;
  }
  std::fprintf(file, "]");
  std::fclose(file);
  return 0;
}
