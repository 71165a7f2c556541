// Runs Python cells in one of a session's processes (kernel.py). State is kept between cells. Cells run one at a time
// in order of arrival. The process starts with the first cell. If it dies, the queued cells fail with the error
// InterpreterDied, and the next cell starts a new process without the old state.
//
//   Run ──▶ queued cells ──stdin──▶ kernel.py ──stdout, stderr, notes──▶ the running cell ──▶ Cell::TakeEvents
//
// If a client does not read events, its cell is paused, as described in process.h. Thread safe. Must be destroyed
// before its session.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/utf8.h"
#include "execution/session.h"

namespace ingot::execution {

struct CellEvent {
  enum Kind { kOut, kErr, kResult, kError, kDone };
  Kind kind = kDone;
  std::string text = {};          // UTF-8 text for kOut and kErr
  base::json::object value = {};  // kResult: representations by name, such as "text". kError: name, value, traceback
  int64_t count = 0;              // kDone: number of cells that this process has run; 0 = the cell did not finish
  bool timed_out = false;         // for kDone
  std::shared_ptr<const Chunk> holds = {};  // the output chunk that contained the event
};

struct CellRequest {
  std::string code = {};
  std::map<std::string, std::string> env = {};  // additional variables for this cell
  // Time until SIGINT. If the cell is still running two seconds later, its interpreter is killed. 0 = no limit.
  std::chrono::nanoseconds wall_time{0};
};

class Cell {
 public:
  // Returns the events since the last call. The last event of a cell is kDone.
  std::vector<CellEvent> TakeEvents();

 private:
  friend class Interpreter;
  Cell(CellRequest request, std::function<void()> news) : request_(std::move(request)), news_(std::move(news)) {}
  void Add(CellEvent event);

  const CellRequest request_;
  const std::function<void()> news_;
  base::Mutex mu_;
  std::vector<CellEvent> events_ ABSL_GUARDED_BY(mu_);
};

class Interpreter : public std::enable_shared_from_this<Interpreter> {
 public:
  // `folder` is the initial working directory for cells; empty = the session's.
  Interpreter(Session& session, std::string folder) : session_(session), folder_(std::move(folder)) {}

  // Queues a cell. Blocks until the process is running. Calls `news` after each event, on any thread. `news` must not
  // block. Returns RESOURCE_EXHAUSTED if too many cells are queued, and otherwise the errors of Session::Start.
  absl::StatusOr<std::shared_ptr<Cell>> Run(CellRequest request, std::function<void()> news);
  // Sends SIGINT to a running cell. A queued cell ends with the error Cancelled.
  void Cancel(const Cell& cell);
  // Interrupts the running cell, if any.
  void Interrupt();
  // Ends the process and discards its state. Cells end as if the process had died.
  void Restart();

  const std::string& folder() const { return folder_; }

 private:
  absl::Status StartProcess();
  // Sends the first queued cell to the process.
  void Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteBegin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void InterruptRunning() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnNews();
  void TakeChunk(const std::shared_ptr<const Chunk>& chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TakeNote(std::string_view line, const std::shared_ptr<const Chunk>& chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TakeEnd(const ProcessEnd& end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Events are delivered after mu_ is released, because `news` may call this object.
  void Post(const std::shared_ptr<Cell>& cell, CellEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void GivePosts();

  Session& session_;
  const std::string folder_;
  base::Mutex mu_;
  std::shared_ptr<Process> process_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Subscription> subscription_ ABSL_GUARDED_BY(mu_);
  bool starts_ ABSL_GUARDED_BY(mu_) = false;  // a thread is starting the process
  std::deque<std::shared_ptr<Cell>> waiting_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Cell> running_ ABSL_GUARDED_BY(mu_);
  // The state of running_. The process ignores SIGINT until a cell has started.
  bool has_begun_ ABSL_GUARDED_BY(mu_) = false, is_unwanted_ ABSL_GUARDED_BY(mu_) = false;
  base::Utf8Stream out_ ABSL_GUARDED_BY(mu_), err_ ABSL_GUARDED_BY(mu_);
  std::string note_ ABSL_GUARDED_BY(mu_);  // an incomplete line
  std::deque<std::pair<std::shared_ptr<Cell>, CellEvent>> posts_ ABSL_GUARDED_BY(mu_);
  bool gives_ ABSL_GUARDED_BY(mu_) = false;  // a thread is delivering posts
};

}  // namespace ingot::execution
