#include "execution/program_feeds.h"

#include <csignal>
#include <utility>

#include "base/utf8.h"
#include "execution/requests.h"

namespace ingot::execution {
namespace {

using base::json::object;
using base::json::value;

double Seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

class ProgramFeed final : public Feed {
 public:
  ProgramFeed(std::shared_ptr<HeldSession> held, Session::StartedProgram started, ProgramWords words)
      : held_(std::move(held)), started_(std::move(started)), words_(std::move(words)) {}

  http::Output Next() override {
    http::Output output;
    if (!std::exchange(begun_, true)) {
      output.stream = words_.head;
      output.data = words_.start(*started_.process);
    }
    const Subscription::News news = started_.subscription->TakeNews();
    for (const auto& chunk : news.chunks) output.data += words_.chunk(*chunk);
    if (news.end.has_value()) {
      output.data += words_.end(*news.end);
      output.done = true;
    }
    return output;
  }

  void Closed() override {
    if (words_.ends_program) held_->session->Signal(*started_.process, SIGKILL);
  }

 private:
  const std::shared_ptr<HeldSession> held_;
  const Session::StartedProgram started_;
  const ProgramWords words_;
  bool begun_ = false;
};

class CellFeed final : public Feed {
 public:
  CellFeed(std::shared_ptr<HeldSession> held, std::shared_ptr<Interpreter> interpreter, CellWords words)
      : held_(std::move(held)), interpreter_(std::move(interpreter)), words_(std::move(words)) {}
  void Begin(std::shared_ptr<Cell> cell) { cell_ = std::move(cell); }

  http::Output Next() override {
    http::Output output;
    if (!std::exchange(begun_, true)) output.stream = words_.head;
    for (const CellEvent& event : cell_->TakeEvents()) {
      output.data += words_.event(event);
      output.done = output.done || event.kind == CellEvent::kDone;
    }
    return output;
  }
  void Closed() override { interpreter_->Cancel(*cell_); }

 private:
  const std::shared_ptr<HeldSession> held_;
  const std::shared_ptr<Interpreter> interpreter_;
  const CellWords words_;
  std::shared_ptr<Cell> cell_;
  bool begun_ = false;
};

class WholeCell final : public Feed {
 public:
  WholeCell(std::shared_ptr<HeldSession> held, std::shared_ptr<Interpreter> interpreter, size_t output_bytes)
      : held_(std::move(held)), interpreter_(std::move(interpreter)), left_(output_bytes) {}
  void Begin(std::shared_ptr<Cell> cell) { cell_ = std::move(cell); }

  http::Output Next() override {
    for (CellEvent& event : cell_->TakeEvents()) Add(event);
    http::Output output;
    output.reply = std::exchange(reply_, std::nullopt);
    output.done = output.reply.has_value();
    return output;
  }
  void Closed() override { interpreter_->Cancel(*cell_); }

 private:
  void Add(CellEvent& event) {
    const auto size = event.text.size() + (event.value.empty() ? 0 : base::PrintJson(event.value).size());
    if (event.kind != CellEvent::kDone && event.kind != CellEvent::kError && size > left_) {
      if (!std::exchange(overflows_, true)) interpreter_->Cancel(*cell_);
      event.text.resize(std::min(event.text.size(), left_));
      event.text = base::ToUtf8(event.text);
      event.value.clear();
    }
    left_ -= std::min(left_, size);
    if (event.kind == CellEvent::kOut) out_ += event.text;
    if (event.kind == CellEvent::kErr) err_ += event.text;
    if (event.kind == CellEvent::kResult && !event.value.empty()) results_.push_back(std::move(event.value));
    if (event.kind == CellEvent::kError) error_ = std::move(event.value);
    if (event.kind != CellEvent::kDone) return;
    const char* const ending = overflows_         ? "output_overflow"
                               : event.timed_out  ? "timeout"
                               : event.count == 0 ? "died"
                                                  : "done";
    reply_ = JsonReply(200, object{{"stdout", std::move(out_)},
                                   {"stderr", std::move(err_)},
                                   {"results", std::move(results_)},
                                   {"error", std::move(error_)},
                                   {"ending", ending},
                                   {"count", event.count}});
  }

  const std::shared_ptr<HeldSession> held_;
  const std::shared_ptr<Interpreter> interpreter_;
  std::shared_ptr<Cell> cell_;
  size_t left_;
  bool overflows_ = false;
  std::string out_, err_;
  base::json::array results_;
  value error_;
  std::optional<http::Reply> reply_;
};

std::string Event(const object& json) { return absl::StrCat("data: ", base::PrintJson(json), "\n\n"); }

http::StreamHead EventStream() {
  return {.content_type = "text/event-stream", .fields = {{"Cache-Control", "no-cache"}}, .filler = ": \n\n"};
}

}  // namespace

std::shared_ptr<Feed> MakeProgramFeed(std::shared_ptr<HeldSession> held, Session::StartedProgram started,
                                      ProgramWords words) {
  return std::make_shared<ProgramFeed>(std::move(held), std::move(started), std::move(words));
}

absl::StatusOr<std::shared_ptr<Feed>> MakeCellFeed(std::shared_ptr<HeldSession> held,
                                                   std::shared_ptr<Interpreter> interpreter, CellRequest request,
                                                   CellWords words, std::function<void()> wake) {
  const auto feed = std::make_shared<CellFeed>(std::move(held), interpreter, std::move(words));
  INGOT_ASSIGN_OR_RETURN(std::shared_ptr<Cell> cell, interpreter->Run(std::move(request), std::move(wake)));
  feed->Begin(std::move(cell));
  return feed;
}

absl::StatusOr<std::shared_ptr<Feed>> MakeWholeCell(std::shared_ptr<HeldSession> held,
                                                    std::shared_ptr<Interpreter> interpreter, CellRequest request,
                                                    size_t output_bytes, std::function<void()> wake) {
  const auto feed = std::make_shared<WholeCell>(std::move(held), interpreter, output_bytes);
  INGOT_ASSIGN_OR_RETURN(std::shared_ptr<Cell> cell, interpreter->Run(std::move(request), std::move(wake)));
  feed->Begin(std::move(cell));
  return feed;
}

ProgramWords OwnProgramWords() {
  struct Texts {
    base::Utf8Stream out, err;
  };
  const auto texts = std::make_shared<Texts>();
  return {.head = EventStream(),
          .start = [](const Process&) { return std::string(); },
          .chunk =
              [texts](const Chunk& chunk) {
                const bool is_out = chunk.stream == Stream::kOut;
                const std::string text = (is_out ? texts->out : texts->err).Push(chunk.bytes);
                return text.empty() ? std::string() : Event({{is_out ? "stdout" : "stderr", text}});
              },
          .end =
              [texts](const ProcessEnd& end) {
                std::string events;
                if (const std::string rest = texts->out.Flush(); !rest.empty()) events += Event({{"stdout", rest}});
                if (const std::string rest = texts->err.Flush(); !rest.empty()) events += Event({{"stderr", rest}});
                object json = {{"ending", std::string(EndingOf(end.ending, end.memory_kills))},
                               {"exit_code", end.exit_code},
                               {"signal", end.signal},
                               {"wall_s", Seconds(end.wall)},
                               {"cpu_s", Seconds(end.cpu)},
                               {"max_rss_bytes", end.max_rss_bytes}};
                if (!end.why.empty()) json["why"] = end.why;
                return events + Event({{"end", std::move(json)}});
              },
          .ends_program = true};
}

CellWords OwnCellWords() {
  return {.head = EventStream(), .event = [](const CellEvent& event) {
            switch (event.kind) {
              case CellEvent::kOut:
                return Event({{"stdout", event.text}});
              case CellEvent::kErr:
                return Event({{"stderr", event.text}});
              case CellEvent::kResult:
                return Event({{"result", event.value}});
              case CellEvent::kError:
                return Event({{"error", event.value}});
              case CellEvent::kDone:
                break;
            }
            const char* const ending = event.timed_out ? "timeout" : event.count == 0 ? "died" : "done";
            return Event({{"end", object{{"ending", ending}, {"count", event.count}}}});
          }};
}

}  // namespace ingot::execution
