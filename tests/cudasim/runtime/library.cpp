// See library.h.
#include "runtime/library.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace cudasim {
namespace {

constexpr int kNaN = 0xFF;

// ---- handles used by several threads ------------------------------------------------------------

struct Users {
  std::mutex mutex;
  std::map<const void*, std::vector<std::thread::id>> inside;
};
Users& users() {
  static Users* const all = new Users;  // never destroyed, as State
  return *all;
}

// ---- the memory of an operation -----------------------------------------------------------------

// Why an operation on `device` must not touch the run: "" or the reason.
std::string obstacle(const State& s, int device, const Run& run) {
  const Place place = locate(s, run.begin);
  if (place.home == Home::pageable) return "is pageable host memory, or no memory at all";
  if (place.home == Home::device && place.device != device &&
      !s.devices[device].reaches[place.device])
    return "lies in " + describe(s, run.begin) + ", without peer access";
  return objection(s, run.begin, run.bytes);
}

// The flags of a run, one per byte; null: all of it counts as written.
std::uint8_t* flags_of(State& s, const Run& run) {
  const Place place = locate(s, run.begin);
  if (place.home != Home::device) return nullptr;
  Device& device = s.devices[place.device];
  return device.written + (run.begin - device.arena);
}

void report_unwritten(State& s, const std::string& function, const Operand& o,
                      const std::vector<Run>& runs) {
  std::size_t missing = 0;
  const char* first = nullptr;
  for (const Run& run : runs) {
    const std::uint8_t* flags = flags_of(s, run);
    if (!flags || !std::memchr(flags, 0, run.bytes)) continue;
    missing += std::count(flags, flags + run.bytes, 0);
    if (!first)
      first =
          run.begin + (static_cast<const std::uint8_t*>(std::memchr(flags, 0, run.bytes)) - flags);
  }
  if (missing > 0)
    violation(s, function + " reads " + std::to_string(missing) + " bytes of " + o.name +
                     " that nobody has written, the first one " + describe(s, first));
}

struct Job {
  LibraryOperation operation;
  std::vector<std::vector<Run>> runs;  // of each operand
  int device;
  std::string objection{};  // of the computation
};

// As a faulting kernel: the device is lost.
std::string fatal(State& s, const Job& job, cudaError_t error, const std::string& text) {
  s.devices[job.device].lost = error;
  return text;
}

std::string check(State& s, const Job& job) {
  const LibraryOperation& op = job.operation;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const Operand& o = op.operands[i];
    if (reinterpret_cast<std::uintptr_t>(o.data) % size_of(o.type) != 0)
      return fatal(s, job, cudaErrorMisalignedAddress,
                   std::string("finds ") + o.name + " not aligned to its elements");
    for (const Run& run : job.runs[i])
      if (std::string text = obstacle(s, job.device, run); !text.empty())
        return fatal(s, job, cudaErrorIllegalAddress, "fails: " + std::string(o.name) + " " + text);
  }
  for (std::size_t i = 0; i < op.operands.size(); ++i)
    if (op.operands[i].reads()) report_unwritten(s, op.function, op.operands[i], job.runs[i]);
  if (op.workspace.bytes > 0) {
    const Run whole{static_cast<const char*>(op.workspace.data), op.workspace.bytes};
    if (std::string text = obstacle(s, job.device, whole); !text.empty())
      return fatal(s, job, cudaErrorIllegalAddress, "fails: the workspace " + text);
  }
  return "";
}

void spoil(const State& s, const Workspace& w) {
  if (w.bytes == 0) return;
  {
    Loud loud;
    note_write(w.data, w.bytes);
  }
  std::memset(bytes_at(s, w.data), kNaN, w.bytes);
}

void run(const State& s, Job& job) {
  {
    Loud loud;
    for (std::size_t i = 0; i < job.runs.size(); ++i)
      for (const Run& r : job.runs[i]) {
        if (job.operation.operands[i].reads()) note_read(r.begin, r.bytes);
        if (job.operation.operands[i].writes()) note_write(const_cast<char*>(r.begin), r.bytes);
      }
  }
  std::vector<Operand> operands = job.operation.operands;
  for (Operand& o : operands) o.data = bytes_at(s, o.data);
  spoil(s, job.operation.workspace);
  job.objection = job.operation.compute(operands);
  spoil(s, job.operation.workspace);
}

void account_for(State& s, const Job& job) {
  if (!job.objection.empty())
    violation(s, std::string(job.operation.function) + ": " + job.objection);
  for (std::size_t i = 0; i < job.runs.size(); ++i)
    if (job.operation.operands[i].writes())
      for (const Run& r : job.runs[i]) mark_written(s, r.begin, r.bytes);
  const Workspace& w = job.operation.workspace;
  if (w.bytes == 0) return;
  if (std::uint8_t* flags = flags_of(s, {static_cast<const char*>(w.data), w.bytes}))
    std::memset(flags, 0, w.bytes);
}

// What an operation leaves undefined: an output that shares memory with anything.
void report_overlaps(State& s, const Job& job) {
  const std::string function = job.operation.function;
  std::vector<Operand> all = job.operation.operands;
  std::vector<std::vector<Run>> runs = job.runs;
  if (job.operation.workspace.bytes > 0) {
    const Workspace& w = job.operation.workspace;
    all.push_back({"the workspace", w.data, Real::float16, {}, {}, Access::write});
    runs.push_back({{static_cast<const char*>(w.data), w.bytes}});
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].writes()) continue;
    if (overlaps_itself(all[i]))
      violation(s, function + ": elements of " + all[i].name + " overlap one another");
    for (std::size_t j = 0; j < all.size(); ++j)
      if ((j < i || !all[j].writes()) && overlap(runs[i], runs[j]))
        violation(s, function + ": " + all[i].name + " overlaps " + all[j].name);
  }
}

}  // namespace

HandleUse::HandleUse(const void* handle) : handle_(handle) {
  if (!handle) return;
  const std::lock_guard<std::mutex> guard(users().mutex);
  auto& inside = users().inside[handle];
  for (std::thread::id id : inside) contested_ = contested_ || id != std::this_thread::get_id();
  inside.push_back(std::this_thread::get_id());
}

HandleUse::~HandleUse() {
  if (!handle_) return;
  const std::lock_guard<std::mutex> guard(users().mutex);
  auto& inside = users().inside[handle_];
  inside.erase(std::find(inside.begin(), inside.end(), std::this_thread::get_id()));
  if (inside.empty()) users().inside.erase(handle_);
}

void add_object(State& s, const std::string& kind, const std::shared_ptr<void>& object) {
  s.objects[object.get()] = object;
  s.handles[{kind, object.get()}] = ++s.handles_made;
}

void remove_object(State& s, const std::string& kind, const void* object) {
  s.handles.erase({kind, object});
  s.destroyed_objects.push_back(object);
  if (s.destroyed_objects.size() <= kDestroyedKept) return;
  s.objects.erase(s.destroyed_objects.front());
  s.destroyed_objects.pop_front();
}

bool find_object(State& s, const std::string& kind, const void* object, const char* function,
                 Access access) {
  if (!object) return false;
  if (!s.handles.contains({kind, object})) {
    violation(s, std::string(function) + ": not a live " + kind);
    return false;
  }
  Loud loud;
  access == Access::read ? note_read(object, 1) : note_write(const_cast<void*>(object), 1);
  return true;
}

bool is_current(State& s, int device, const char* function) {
  const int current = this_thread().device;
  if (device == current) return true;
  violation(s, std::string(function) + ": the handle belongs to device " + std::to_string(device) +
                   ", but device " + std::to_string(current) + " is current");
  return false;
}

void enqueue_library(State& s, Lock& lock, CUstream_st& stream, LibraryOperation operation) {
  auto job = std::make_shared<Job>();
  job->operation = std::move(operation);
  job->device = stream.device;
  for (const Operand& o : job->operation.operands) job->runs.push_back(runs_of(o));
  report_overlaps(s, *job);
  enqueue(s, lock, stream,
          {.kind = Operation::Kind::work,
           .what = job->operation.function,
           .check = [&s, job] { return check(s, *job); },
           .run = [&s, job] { run(s, *job); },
           .after = [&s, job] { account_for(s, *job); }});
}

}  // namespace cudasim
