// Streams, events, and the models that captures make: what streams.cpp and capture.cpp share.
#pragma once

#include "sim.h"

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

SIM_API const char* aclGetRecentErrMsg();

namespace sim {

// Further codes of error_codes/rt_error_codes.h; which misuse a real device answers with which of
// them is read from their names.
constexpr int kInvalidDevice = 107001;
constexpr int kNoContext = 107002;
constexpr int kUnjoined = 107025;
constexpr int kStreamCaptured = 107027;
constexpr int kEventCaptured = 107028;
constexpr int kNotCaptured = 107029;
constexpr int kForbiddenInCapture = 107030;
constexpr int kCaptureConflict = 107032;
constexpr int kGroupStatus = 107033;
constexpr int kOtherOrigin = 107036;
constexpr int kOtherThread = 107038;
constexpr int kUpdateNotSupported = 207019;
constexpr int kStreamStuck = 507046;
constexpr int kEventStuck = 507047;
constexpr int kInvalidated = 507903;

// A task of a stream. One that is not ready yet holds up everything behind it on its stream.
struct Recorded {
  std::string name;
  Task task;
  std::function<bool()> ready;  // empty: always
};

struct Stream;

// How many tasks of each captured stream are known to precede a point of a capture.
using Order = std::map<Stream*, uint64_t>;

struct Group {
  std::vector<std::shared_ptr<Recorded>> tasks;
};

struct Model {
  uint32_t id;
  int mode;
  Stream* origin;
  std::thread::id thread;
  std::string invalid;               // what invalidated the capture; empty: nothing did
  std::map<Stream*, Order> streams;  // those that capture into it
  std::vector<std::shared_ptr<Recorded>> tasks;
  std::vector<std::unique_ptr<Group>> groups;
};

struct Stream {
  int id;
  int device;
  Model* model = nullptr;                         // set while the stream captures
  Group* group = nullptr;                         // set between the ends of a task group
  Group* updated = nullptr;                       // set while the tasks of a group are replaced
  size_t next_update = 0;
  std::optional<uint32_t> limits[2];              // cube and vector cores
  std::deque<std::shared_ptr<Recorded>> waiting;  // what a task that is not ready holds up
  std::string error;                              // of a task that was held up, until told
  std::recursive_mutex running;                   // one task of a stream at a time
};

struct Event {
  bool external = false;   // can be waited for before it is recorded, and across a capture
  bool flag = false;       // of external events: recorded, and not reset since
  uint64_t issued = 0;     // records that were launched
  uint64_t completed = 0;  // the last of them that ran
  uint32_t model = 0;      // the capture that the last record belongs to
  Order order;             // and what precedes it there
  std::chrono::steady_clock::time_point time;
};

// Guards every state of this header; never held while a task runs.
extern std::recursive_mutex mutex;
using Lock = std::unique_lock<std::recursive_mutex>;

int device_of_thread();
int device_count();
// The cores of a device that a program may use: 0 cube, 1 vector.
uint32_t device_limit(int device, int kind);

// The stream behind a handle; null is the one a program gets when it names none.
Stream* stream_of(void* handle);

// Add a line to the trace, where somebody listens.
void note(const std::string& line);

// Run a task without the dispatch modes, autocast and autograd of this thread.
void run(const Task& task);

// Put a task on a stream: record it, replace one of a group, or run it as soon as it is ready.
int submit(void* stream, std::shared_ptr<Recorded> task);
// Put tasks on a stream that does not capture.
int enqueue(Stream* stream, const std::vector<std::shared_ptr<Recorded>>& tasks);
// Let the streams go on that waited for what a task has just done.
void advance_others();
// A code, with its text, where a stream cannot finish or did not; 0 otherwise.
int finish(Stream* stream);

// --- capture.cpp ----------------------------------------------------------------------------

// The capture of that number while it lasts, or null.
Model* capture_of(uint32_t id);
// Mark a capture as failed; gives the code back, with the text.
int invalidate(Model* model, int code, const std::string& why);
// Whether a capture forbids this thread a call that waits for the device; then it is invalid.
bool thread_refuses(const char* function);
// Add a task to the model that a stream captures into, or to the group that it updates.
void record(Stream* stream, std::shared_ptr<Recorded> task);
int update(Stream* stream, Recorded task);
// What events do to a capture: a record remembers it, a wait makes a stream join it.
void remember(Event* event, Stream* stream);
int join(Stream* stream, const Event& event);
// A stream that goes away leaves its capture.
void leave(Stream* stream);

}  // namespace sim
