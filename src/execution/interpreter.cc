#include "execution/interpreter.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "execution/kernel_text.h"

namespace ingot::execution {
namespace {

using base::json::object;
using base::json::value;

constexpr size_t kMaxWaiting = 64;
// Maximum time from sending a cell to the process until the cell begins, even on a busy machine.
constexpr std::chrono::nanoseconds kBeginTimeout = std::chrono::seconds(10);
constexpr size_t kLongestNote = 16 << 20;

CellEvent ErrorEvent(const std::string& name, const std::string& text) {
  return {.kind = CellEvent::kError, .value = {{"name", name}, {"value", text}, {"traceback", name + ": " + text}}};
}

std::string Died(const ProcessEnd& end) {
  switch (end.ending) {
    case sandbox::Ending::kCancelled:
      return end.why;
    case sandbox::Ending::kTimedOut:
      return "the cell did not stop at its time limit: the interpreter was killed, and its state is lost";
    case sandbox::Ending::kMemoryFull:
      return "the sandbox's memory was used up: the interpreter was killed, and its state is lost";
    case sandbox::Ending::kSignalled:
      return absl::StrCat("signal ", end.signal, " killed the interpreter, and its state is lost");
    default:
      return absl::StrCat("the interpreter exited with ", end.exit_code, ", and its state is lost");
  }
}

}  // namespace

std::vector<CellEvent> Cell::TakeEvents() {
  base::MutexLock lock(mu_);
  return std::exchange(events_, {});
}

void Cell::Add(CellEvent event) {
  {
    base::MutexLock lock(mu_);
    events_.push_back(std::move(event));
  }
  news_();
}

absl::StatusOr<std::shared_ptr<Cell>> Interpreter::Run(CellRequest request, std::function<void()> news) {
  const std::shared_ptr<Cell> cell(new Cell(std::move(request), std::move(news)));
  {
    base::MutexLock lock(mu_);
    if (waiting_.size() >= kMaxWaiting)
      return absl::ResourceExhaustedError(absl::StrCat(kMaxWaiting, " cells are already waiting: try again later"));
    waiting_.push_back(cell);
    if (running_ == nullptr) Next();
    if (process_ != nullptr || std::exchange(starts_, true)) return cell;
  }
  const absl::Status started = StartProcess();
  OnNews();  // reads news that arrived before the subscription was set
  if (started.ok()) return cell;
  return started;
}

// Called without mu_, because the session's loop thread reports the start and locks mu_ for news.
absl::Status Interpreter::StartProcess() {
  Program program;
  program.argv = {"python3", "-c", std::string(kKernelText)};
  program.folder = folder_;
  program.has_input = true;
  program.has_notes = true;
  program.env = {{"PYTHONIOENCODING", "utf-8"}, {"MPLBACKEND", "Agg"}};
  auto started = session_.Start(std::move(program), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->OnNews();
  });
  base::MutexLock lock(mu_);
  starts_ = false;
  if (!started.ok()) {
    const absl::Status status = base::Annotate(started.status(), "cannot start a Python interpreter");
    for (const auto& cell : std::exchange(waiting_, {})) {
      Post(cell, ErrorEvent("InterpreterDied", std::string(status.message())));
      Post(cell, {.kind = CellEvent::kDone});
    }
    return status;
  }
  process_ = std::move(started->process);
  subscription_ = std::move(started->subscription);
  out_ = err_ = base::Utf8Stream();
  note_.clear();
  Next();
  return absl::OkStatus();
}

void Interpreter::Next() {
  while (running_ == nullptr && !waiting_.empty() && process_ != nullptr) {
    running_ = std::move(waiting_.front());
    waiting_.pop_front();
    object env;
    for (const auto& [name, text] : running_->request_.env) env[name] = text;
    const std::string line = base::PrintJson(object{{"code", running_->request_.code}, {"env", std::move(env)}}) + "\n";
    if (const absl::Status sent = session_.Send(*process_, line); !sent.ok()) {
      const char* const name = absl::IsNotFound(sent) ? "InterpreterDied" : "CellRejected";
      Post(running_, ErrorEvent(name, std::string(sent.message())));
      Post(running_, {.kind = CellEvent::kDone});
      running_ = nullptr;
      continue;
    }
    has_begun_ = is_unwanted_ = false;
    const auto wall_time = running_->request_.wall_time;
    if (wall_time.count() > 0) session_.SetDeadline(*process_, wall_time + kBeginTimeout, SIGINT);
  }
}

void Interpreter::NoteBegin() {
  if (std::exchange(has_begun_, true)) return;  // the cell wrote this note a second time, to extend its deadline
  const auto wall_time = running_->request_.wall_time;
  if (is_unwanted_) {
    InterruptRunning();
  } else if (wall_time.count() > 0) {
    session_.SetDeadline(*process_, wall_time, SIGINT);
  }
}

void Interpreter::InterruptRunning() {
  is_unwanted_ = true;
  session_.SetDeadline(*process_, has_begun_ ? std::chrono::nanoseconds(0) : kBeginTimeout, SIGINT);
}

void Interpreter::OnNews() {
  {
    base::MutexLock lock(mu_);
    const Subscription::News news = subscription_ == nullptr ? Subscription::News() : subscription_->TakeNews();
    for (const auto& chunk : news.chunks) TakeChunk(chunk);
    if (news.end.has_value()) TakeEnd(*news.end);
  }
  GivePosts();
}

void Interpreter::TakeChunk(const std::shared_ptr<const Chunk>& chunk) {
  if (chunk->stream != Stream::kNotes) {
    const bool is_out = chunk->stream == Stream::kOut;
    std::string text = (is_out ? out_ : err_).Push(chunk->bytes);
    if (running_ == nullptr || text.empty()) return;  // output from a thread that outlived its cell
    Post(running_,
         {.kind = is_out ? CellEvent::kOut : CellEvent::kErr, .text = std::move(text), .value = {}, .holds = chunk});
    return;
  }
  note_ += chunk->bytes;
  size_t begin = 0;
  for (size_t end = note_.find('\n'); end != std::string::npos; end = note_.find('\n', begin)) {
    TakeNote(std::string_view(note_).substr(begin, end - begin), chunk);
    begin = end + 1;
  }
  note_.erase(0, begin);
  if (note_.size() > kLongestNote) session_.Signal(*process_, SIGKILL);
}

// A cell may write its own notes, but it can corrupt only its own result.
void Interpreter::TakeNote(std::string_view line, const std::shared_ptr<const Chunk>& chunk) {
  const auto note = base::ParseJson(line);
  if (!note.ok() || !note->is_object() || running_ == nullptr) return;
  const auto add = [&](const value& found, CellEvent::Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (found.is_object()) Post(running_, {.kind = kind, .text = "", .value = found.get_object(), .holds = chunk});
  };
  if (base::Find(*note, "begun") != nullptr) NoteBegin();
  if (const value* const result = base::Find(*note, "result")) add(*result, CellEvent::kResult);
  if (const value* const error = base::Find(*note, "error")) add(*error, CellEvent::kError);
  const value* const done = base::Find(*note, "done");
  if (done == nullptr || !done->is_int64()) return;
  session_.SetDeadline(*process_, std::chrono::nanoseconds(0), 0);
  for (const auto& [kind, text] :
       {std::pair(CellEvent::kOut, out_.Flush()), std::pair(CellEvent::kErr, err_.Flush())}) {
    if (!text.empty()) Post(running_, {.kind = kind, .text = text});
  }
  Post(running_, {.kind = CellEvent::kDone, .text = "", .value = {}, .count = done->get_int64()});
  running_ = nullptr;
  Next();
}

void Interpreter::TakeEnd(const ProcessEnd& end) {
  process_ = nullptr;
  subscription_ = nullptr;
  std::deque<std::shared_ptr<Cell>> ended = std::exchange(waiting_, {});
  if (running_ != nullptr) ended.push_front(std::exchange(running_, nullptr));
  for (const auto& cell : ended) {
    Post(cell, ErrorEvent("InterpreterDied", Died(end)));
    Post(cell, {.kind = CellEvent::kDone, .timed_out = end.ending == sandbox::Ending::kTimedOut});
  }
}

void Interpreter::Cancel(const Cell& cell) {
  {
    base::MutexLock lock(mu_);
    if (running_.get() == &cell && process_ != nullptr) InterruptRunning();
    const auto found =
        std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& each) { return each.get() == &cell; });
    if (found != waiting_.end()) {
      Post(*found, ErrorEvent("Cancelled", "the client disconnected before the cell ran"));
      Post(*found, {.kind = CellEvent::kDone});
      waiting_.erase(found);
    }
  }
  GivePosts();
}

void Interpreter::Interrupt() {
  base::MutexLock lock(mu_);
  if (running_ == nullptr || process_ == nullptr) return;
  if (has_begun_) {
    session_.Signal(*process_, SIGINT);
  } else {
    InterruptRunning();
  }
}

void Interpreter::Restart() {
  base::MutexLock lock(mu_);
  if (process_ != nullptr) session_.Signal(*process_, SIGKILL);
}

void Interpreter::Post(const std::shared_ptr<Cell>& cell, CellEvent event) {
  posts_.emplace_back(cell, std::move(event));
}

void Interpreter::GivePosts() {
  {
    base::MutexLock lock(mu_);
    if (std::exchange(gives_, true)) return;  // one thread at a time, to keep the order
  }
  while (true) {
    std::pair<std::shared_ptr<Cell>, CellEvent> post;
    {
      base::MutexLock lock(mu_);
      if (posts_.empty()) {
        gives_ = false;
        return;
      }
      post = std::move(posts_.front());
      posts_.pop_front();
    }
    post.first->Add(std::move(post.second));
  }
}

}  // namespace ingot::execution
