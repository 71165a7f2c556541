// An Interpreter runs Python cells in one process of a session (kernel.py), whose state stays between cells. Cells run
// one at a time, in the order in which they came. The process starts with the first cell. If it dies, the waiting cells
// fail with the error InterpreterDied, and the next one starts a process without the old state.
//
//   Run ──▶ cells that wait ──stdin──▶ kernel.py ──stdout, stderr, notes──▶ the cell that runs ──▶ Cell::TakeEvents
//
// A client that takes no events holds its cell back, as process.h says. Thread safe; must be destroyed before its
// session.
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
  std::string text = {};                    // kOut, kErr: UTF-8
  base::json::object value = {};            // kResult: forms by name, such as "text"; kError: name, value, traceback
  int64_t count = 0;                        // kDone: cells of this process so far; 0 = it did not end this one
  bool timed_out = false;                   // kDone
  std::shared_ptr<const Chunk> holds = {};  // the output that it came with
};

struct CellRequest {
  std::string code = {};
  std::map<std::string, std::string> env = {};  // for this cell
  // Until SIGINT; a cell that still runs two seconds later loses its interpreter. 0 = no limit.
  std::chrono::nanoseconds wall_time{0};
};

class Cell {
 public:
  // Events since the last call; the last one of a cell is kDone.
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
  // `folder`: where cells begin; "" = the session's.
  Interpreter(Session& session, std::string folder) : session_(session), folder_(std::move(folder)) {}

  // `news` runs after each event, on any thread; it must not block. Blocks until the process runs. RESOURCE_EXHAUSTED:
  // too many cells wait; other errors are Session::Start's.
  absl::StatusOr<std::shared_ptr<Cell>> Run(CellRequest request, std::function<void()> news);
  // A running cell gets SIGINT; a waiting cell ends with the error Cancelled.
  void Cancel(const Cell& cell);
  // Interrupts the running cell, if any.
  void Interrupt();
  // Ends the process and its state; cells end as if it had died.
  void Restart();

  const std::string& folder() const { return folder_; }

 private:
  absl::Status StartProcess();
  // Gives the process the first waiting cell.
  void Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteBegin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void InterruptRunning() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnNews();
  void TakeChunk(const std::shared_ptr<const Chunk>& chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TakeNote(std::string_view line, const std::shared_ptr<const Chunk>& chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TakeEnd(const ProcessEnd& end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Events are given after mu_ is released: `news` may come back here.
  void Post(const std::shared_ptr<Cell>& cell, CellEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void GivePosts();

  Session& session_;
  const std::string folder_;
  base::Mutex mu_;
  std::shared_ptr<Process> process_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Subscription> subscription_ ABSL_GUARDED_BY(mu_);
  bool starts_ ABSL_GUARDED_BY(mu_) = false;  // a thread starts the process
  std::deque<std::shared_ptr<Cell>> waiting_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Cell> running_ ABSL_GUARDED_BY(mu_);
  // Of running_. Before a cell has begun the process ignores SIGINT.
  bool has_begun_ ABSL_GUARDED_BY(mu_) = false, is_unwanted_ ABSL_GUARDED_BY(mu_) = false;
  base::Utf8Stream out_ ABSL_GUARDED_BY(mu_), err_ ABSL_GUARDED_BY(mu_);
  std::string note_ ABSL_GUARDED_BY(mu_);  // a line that has not ended
  std::deque<std::pair<std::shared_ptr<Cell>, CellEvent>> posts_ ABSL_GUARDED_BY(mu_);
  bool gives_ ABSL_GUARDED_BY(mu_) = false;  // a thread gives posts
};

}  // namespace ingot::execution
