// Events, and words of device memory that serve as events: what makes one stream wait for another.
#include "streams.h"

using sim::Event;
using sim::fail;
using sim::Lock;
using sim::Recorded;
using sim::Stream;
using sim::stream_of;

namespace {

// A handle is a reference of its own: tasks that are held up may outlive it.
using Handle = std::shared_ptr<Event>;
Handle event_of(void* handle) { return *static_cast<Handle*>(handle); }

}  // namespace

SIM_API int aclrtCreateEventExWithFlag(void** handle, uint32_t flag) {
  constexpr uint32_t kExternal = 0x20;
  auto event = std::make_shared<Event>();
  event->external = (flag & kExternal) != 0;
  *handle = new Handle(event);
  return 0;
}

SIM_API int aclrtCreateEventWithFlag(void** event, uint32_t flag) {
  return aclrtCreateEventExWithFlag(event, flag);
}
SIM_API int aclrtCreateEvent(void** event) { return aclrtCreateEventExWithFlag(event, 0); }

SIM_API int aclrtDestroyEvent(void* event) {
  delete static_cast<Handle*>(event);
  return 0;
}

namespace {

int submit_and_tell(void* stream, const char* name, sim::Task task,
                    std::function<bool()> ready = {}) {
  auto entry = std::make_shared<Recorded>(Recorded{name, std::move(task), std::move(ready)});
  int code = sim::submit(stream, std::move(entry));
  sim::advance_others();
  return code;
}

// An event that a capture has recorded says nothing before the replay.
int refuse_captured(const Handle& event, const char* what) {
  sim::Model* model = event->external ? nullptr : sim::capture_of(event->model);
  if (!model) return 0;
  return sim::invalidate(model, sim::kEventCaptured,
                         std::string("the event was recorded in a capture and cannot be ") + what);
}

}  // namespace

SIM_API int aclrtRecordEvent(void* handle, void* stream) {
  Lock lock(sim::mutex);
  Handle event = event_of(handle);
  if (event->external) {
    lock.unlock();
    return submit_and_tell(stream, "external event", [event] { event->flag = true; });
  }
  sim::remember(event.get(), stream_of(stream));
  if (stream_of(stream)->model) {
    sim::note("record event");
    return 0;
  }
  uint64_t number = ++event->issued;
  lock.unlock();
  return submit_and_tell(stream, "event", [event, number] {
    event->completed = number;
    event->time = std::chrono::steady_clock::now();
  });
}

SIM_API int aclrtResetEvent(void* handle, void* stream) {
  Handle event = event_of(handle);
  if (!event->external) return 0;
  return sim::launch(stream, "reset event", [event] { event->flag = false; });
}

SIM_API int aclrtStreamWaitEvent(void* handle, void* event_handle) {
  Lock lock(sim::mutex);
  Stream* stream = stream_of(handle);
  Handle event = event_of(event_handle);
  if (event->external) {
    lock.unlock();
    return submit_and_tell(handle, "wait", [] {}, [event] { return event->flag; });
  }
  if (stream->model || sim::capture_of(event->model)) {
    sim::note("wait");
    return sim::join(stream, *event);
  }
  uint64_t number = event->issued;
  lock.unlock();
  return submit_and_tell(handle, "wait", [] {},
                         [event, number] { return event->completed >= number; });
}

// A 64-bit word of device memory as an event; the modes are those of the runtime's manual.
SIM_API int aclrtValueWrite(void* address, uint64_t value, uint32_t, void* stream) {
  auto* word = static_cast<uint64_t*>(address);
  return submit_and_tell(stream, "value write", [word, value] { *word = value; });
}

SIM_API int aclrtValueWait(void* address, uint64_t value, uint32_t mode, void* stream) {
  const auto* word = static_cast<const uint64_t*>(address);
  if (mode > 3) return fail(sim::kParamInvalid, "there is no wait mode " + std::to_string(mode));
  return submit_and_tell(stream, "value wait", [] {}, [word, value, mode] {
    switch (mode) {
      case 0: return static_cast<int64_t>(*word - value) >= 0;
      case 1: return *word == value;
      case 2: return (*word & value) != 0;
      default: return ~(*word | value) != 0;
    }
  });
}

SIM_API int aclrtQueryEventStatus(void* handle, int* status) {
  Lock lock(sim::mutex);
  Handle event = event_of(handle);
  if (int code = refuse_captured(event, "asked")) return code;
  *status = event->external ? event->flag : event->completed >= event->issued;
  return 0;
}

SIM_API int aclQueryEventRecordedStatus(void* event, int* status) {
  return aclrtQueryEventStatus(event, status);
}

SIM_API int aclrtQueryEventWaitStatus(void* handle, int* status) {
  int recorded = 0;
  int code = aclrtQueryEventStatus(handle, &recorded);
  *status = recorded ? 0 : 1;  // complete is 0 here, and 1 there
  return code;
}

SIM_API int aclQueryEventWaitStatus(void* event, int* status) {
  return aclrtQueryEventWaitStatus(event, status);
}

SIM_API int aclrtSynchronizeEvent(void* handle) {
  Lock lock(sim::mutex);
  Handle event = event_of(handle);
  if (int code = refuse_captured(event, "waited for")) return code;
  if (event->external ? event->flag : event->completed >= event->issued) return 0;
  return fail(sim::kEventStuck, "the event is recorded on a stream that waits");
}

SIM_API int aclrtEventElapsedTime(float* milliseconds, void* start, void* end) {
  auto length = event_of(end)->time - event_of(start)->time;
  *milliseconds = std::chrono::duration<float, std::milli>(length).count();
  return 0;
}

SIM_API int aclrtEventGetTimestamp(void* event, uint64_t* timestamp) {
  auto since = event_of(event)->time.time_since_epoch();
  *timestamp = std::chrono::duration_cast<std::chrono::microseconds>(since).count();
  return 0;
}
