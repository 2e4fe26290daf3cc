// The capture of launches into models that can be replayed, and what is illegal in a capture.
#include "streams.h"

#include <atomic>
#include <cstdio>

namespace sim {

namespace {

enum Status { kNone = 0, kActive = 1, kBroken = 2 };
enum Mode { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };

std::map<uint32_t, Model*> capturing;
std::atomic<uint32_t> next_model{1};
thread_local int thread_mode = kGlobal;

// A capture forbids its own thread what is unsafe, and other threads where both say "global".
bool refuses(const Model& model) {
  if (thread_mode == kRelaxed || model.mode == kRelaxed) return false;
  if (model.thread == std::this_thread::get_id()) return true;
  return thread_mode == kGlobal && model.mode == kGlobal;
}

void merge(Order& order, const Order& other) {
  for (const auto& [stream, count] : other) order[stream] = std::max(order[stream], count);
}

// A stream whose tasks the origin did not wait for, or null.
Stream* unjoined(Model& model) {
  for (auto& [stream, order] : model.streams) {
    if (model.streams[model.origin][stream] < order[stream]) return stream;
  }
  return nullptr;
}

void stop(Model* model) {
  for (auto& [stream, order] : model->streams) {
    stream->model = nullptr;
    stream->group = nullptr;
  }
  model->streams.clear();
  capturing.erase(model->id);
}

void end(Stream* stream, void** result) {
  Model* model = stream->model;
  if (!model) throw Refused(kNotCaptured, "the stream is not captured");
  if (model->origin != stream) throw Refused(kOtherOrigin, "the capture began on another stream");
  if (model->mode != kRelaxed && model->thread != std::this_thread::get_id()) {
    throw Refused(kOtherThread, "the capture began in another thread");
  }
  Stream* forgotten = unjoined(*model);
  bool grouping = stream->group != nullptr;
  stop(model);
  *result = model;
  note("end");
  if (!model->invalid.empty()) {
    throw Refused(kInvalidated, "the capture is invalid: " + model->invalid);
  }
  if (forgotten) {
    throw Refused(kUnjoined, "the capture does not wait for stream " +
                                 std::to_string(forgotten->id) + ", which it joined");
  }
  if (grouping) throw Refused(kGroupStatus, "a task group is still open");
}

// A string within JSON text; names hold no control characters.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char character : text) {
    if (character == '"' || character == '\\') result += '\\';
    result += character;
  }
  return result + "\"";
}

}  // namespace

Model* capture_of(uint32_t id) {
  auto found = capturing.find(id);
  return found == capturing.end() ? nullptr : found->second;
}

int invalidate(Model* model, int code, const std::string& why) {
  if (model->invalid.empty()) model->invalid = why;
  return fail(code, why);
}

bool thread_refuses(const char* function) {
  Lock lock(mutex);
  for (auto& [id, model] : capturing) {
    if (!refuses(*model)) continue;
    invalidate(model, kForbiddenInCapture,
               std::string(function) + " is not allowed while a stream is captured");
    return true;
  }
  return false;
}

void record(Stream* stream, std::shared_ptr<Recorded> task) {
  note("record " + task->name);
  Model* model = stream->model;
  ++model->streams[stream][stream];
  if (stream->group) stream->group->tasks.push_back(task);
  model->tasks.push_back(std::move(task));
}

int update(Stream* stream, Recorded task) {
  auto& tasks = stream->updated->tasks;
  if (stream->next_update >= tasks.size()) {
    return fail(kGroupStatus, "an update launches " + task.name + " beyond the " +
                                  std::to_string(tasks.size()) + " tasks of its group");
  }
  Recorded& old = *tasks[stream->next_update++];
  if (old.name != task.name) {
    return fail(kUpdateNotSupported, "an update launches " + task.name + " for " + old.name);
  }
  note("update " + task.name);
  old = std::move(task);
  return 0;
}

void remember(Event* event, Stream* stream) {
  event->model = stream->model ? stream->model->id : 0;
  event->order = stream->model ? stream->model->streams[stream] : Order{};
}

int join(Stream* stream, const Event& event) {
  Model* model = capture_of(event.model);
  if (!model) return 0;  // recorded before the capture, which begins after it anyway
  if (stream->model && stream->model != model) {
    return invalidate(stream->model, kCaptureConflict, "the event belongs to another capture");
  }
  stream->model = model;
  merge(model->streams[stream], event.order);
  return 0;
}

void leave(Stream* stream) {
  Model* model = stream->model;
  if (!model) return;
  invalidate(model, kStreamCaptured, "a stream was destroyed during the capture");
  if (model->origin == stream) {
    stop(model);
  } else {
    model->streams.erase(stream);
  }
}

}  // namespace sim

using sim::fail;
using sim::Group;
using sim::Lock;
using sim::Model;
using sim::Stream;
using sim::stream_of;

SIM_API int aclmdlRICaptureBegin(void* handle, int mode) {
  Lock lock(sim::mutex);
  Stream* stream = stream_of(handle);
  if (stream->model) return fail(sim::kStreamCaptured, "the stream is captured already");
  auto* model = new Model{sim::next_model++, mode, stream, std::this_thread::get_id()};
  model->streams[stream];
  stream->model = model;
  sim::capturing[model->id] = model;
  sim::note("begin");
  return 0;
}

SIM_API int aclmdlRICaptureGetInfo(void* handle, int* status, void** model) {
  Lock lock(sim::mutex);
  Model* found = stream_of(handle)->model;
  *status = !found ? sim::kNone : found->invalid.empty() ? sim::kActive : sim::kBroken;
  if (model) *model = found;
  return 0;
}

SIM_API int aclmdlRICaptureEnd(void* handle, void** result) {
  Lock lock(sim::mutex);
  return sim::guarded("aclmdlRICaptureEnd", [&] { sim::end(stream_of(handle), result); });
}

SIM_API int aclmdlRIExecuteAsync(void* handle, void* stream_handle) {
  Lock lock(sim::mutex);
  auto* model = static_cast<Model*>(handle);
  auto tasks = model->tasks;
  Stream* stream = stream_of(stream_handle);
  if (sim::capture_of(model->id)) {
    return fail(sim::kStreamCaptured, "the model is still being captured");
  }
  lock.unlock();
  if (stream->model) {
    return sim::launch(stream_handle, "replay", [tasks] {
      for (const auto& task : tasks) task->task();
    });
  }
  if (int code = sim::launch(stream_handle, "replay", [] {})) return code;
  return sim::enqueue(stream, tasks);
}

SIM_API int aclmdlRIExecute(void* model, int32_t) {
  int code = aclmdlRIExecuteAsync(model, nullptr);
  return code ? code : sim::finish(stream_of(nullptr));
}

SIM_API int aclmdlRIDestroy(void* handle) {
  Lock lock(sim::mutex);
  auto* model = static_cast<Model*>(handle);
  sim::stop(model);
  delete model;
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

// --- task groups --------------------------------------------------------------------------------

SIM_API int aclmdlRICaptureTaskGrpBegin(void* handle) {
  Lock lock(sim::mutex);
  Stream* stream = stream_of(handle);
  if (!stream->model) return fail(sim::kNotCaptured, "the stream is not captured");
  if (stream->group) return fail(sim::kGroupStatus, "a task group is open on the stream");
  stream->model->groups.push_back(std::make_unique<Group>());
  stream->group = stream->model->groups.back().get();
  return 0;
}

SIM_API int aclmdlRICaptureTaskGrpEnd(void* handle, void** group) {
  Lock lock(sim::mutex);
  Stream* stream = stream_of(handle);
  if (!stream->group) return fail(sim::kGroupStatus, "no task group is open on the stream");
  *group = stream->group;
  stream->group = nullptr;
  return 0;
}

SIM_API int aclmdlRICaptureTaskUpdateBegin(void* handle, void* group) {
  Lock lock(sim::mutex);
  Stream* stream = stream_of(handle);
  if (stream->model) return fail(sim::kStreamCaptured, "the stream is captured");
  if (stream->updated) return fail(sim::kGroupStatus, "an update is open on the stream");
  stream->updated = static_cast<Group*>(group);
  stream->next_update = 0;
  return 0;
}

SIM_API int aclmdlRICaptureTaskUpdateEnd(void* handle) {
  Lock lock(sim::mutex);
  Stream* stream = stream_of(handle);
  if (!stream->updated) return fail(sim::kGroupStatus, "no update is open on the stream");
  bool complete = stream->next_update == stream->updated->tasks.size();
  stream->updated = nullptr;
  return complete ? 0 : fail(sim::kGroupStatus, "an update has fewer tasks than its group");
}

// --- dumps --------------------------------------------------------------------------------------

// torch_npu reads the file again as a list of trace events.
SIM_API int aclmdlRIDebugJsonPrint(void* handle, const char* path, uint32_t) {
  Lock lock(sim::mutex);
  std::FILE* file = std::fopen(path, "w");
  if (!file) return fail(sim::kParamInvalid, std::string("cannot write ") + path);
  std::fprintf(file, "[");
  int number = 0;
  for (const auto& task : static_cast<Model*>(handle)->tasks) {
    std::fprintf(file,
                 "%s{\"name\": %s, \"ph\": \"X\", \"pid\": 0, \"tid\": 0, \"ts\": %d, \"dur\": 1}",
                 number ? ", " : "", sim::quoted(task->name).c_str(), number);
    ++number;
  }
  std::fprintf(file, "]");
  std::fclose(file);
  return 0;
}
