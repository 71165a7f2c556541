// A dialect: how one vendor's API words a request, an answer and an error. Requests are read into a GatewayRequest,
// answers written from Events; between them no code knows which dialect is spoken.
//
//   body --Dialect::Parse--> GatewayRequest --calls--> Event... --Renderer--> WireEvent... | one JSON reply
//
// Dialects are immutable and live as long as the program. A body that is not what the dialect says gives an error that
// names the field, never a crash; fields a dialect does not know are ignored. Sampling fields are the same in all of
// them (request_fields.h), so that each takes the others' extensions.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gateway/api/event.h"
#include "gateway/api/request.h"

namespace ingot::gateway {

// One event of a stream: what stands behind "event:" (empty: there is no such line) and behind "data:".
struct WireEvent {
  std::string name;
  std::string data;
  std::vector<Token> tokens;  // RawRequest::token_events: the ids it covers

  void AppendSse(std::string& out) const;
  std::string Sse() const;
};

// What every reply says of itself.
struct ReplyHead {
  std::string id;  // of the first call: "chatcmpl-" and the like stand before it
  int64_t created_unix_s = 0;
  std::string model;
};

// Words the answer to one request, streamed or whole: both come from the same events. Not thread safe.
class Renderer {
 public:
  Renderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request);
  virtual ~Renderer() = default;

  // Events of a choice, in order; those of different choices may mix. Close: every choice has ended.
  void Add(int choice, Event event);
  void Close();
  // The events of a stream that came of it since the last call.
  std::vector<WireEvent> TakeEvents();
  // The one reply of a request that does not stream. REQUIRES: Close was called.
  virtual std::string Whole() = 0;
  // What ends the stream over HTTP: with an error that it broke off, in the dialect's own way. SSE text.
  virtual std::string Trailer(const absl::Status& status) = 0;

 protected:
  // Of a stream only. A choice's state includes the event; the last part is the one it is about.
  virtual void OnBegin(const Choice&) {}
  virtual void OnPartBegin(const Choice&) {}
  virtual void OnDelta(const Choice&, const PartDelta&) {}
  virtual void OnPartEnd(const Choice&) {}
  virtual void OnEnd(const Choice&) {}
  virtual void OnClose() {}

  void Send(std::string name, const base::json::value& data);
  void SendText(std::string name, std::string json);  // printed already
  // Of all choices, whose prompt counts once per prompt.
  Usage TotalUsage() const;
  const ReplyHead& head() const { return head_; }
  const GatewayRequest& request() const { return *request_; }
  std::span<const Choice> choices() const { return choices_; }

 private:
  const ReplyHead head_;
  const std::shared_ptr<const GatewayRequest> request_;
  std::vector<Choice> choices_;
  std::vector<WireEvent> events_;
  std::vector<Token> untold_;  // RawRequest::token_events: since the last event
};

class Dialect {
 public:
  virtual ~Dialect() = default;
  virtual std::string_view name() const = 0;  // "chat.completions", "responses", ...
  virtual std::string_view path() const = 0;  // behind /v1: "/chat/completions", ...
  virtual absl::StatusOr<GatewayRequest> Parse(const RawRequest& raw) const = 0;
  virtual std::unique_ptr<Renderer> NewRenderer(ReplyHead head,
                                                std::shared_ptr<const GatewayRequest> request) const = 0;

  // An error that comes instead of an answer: OpenAI's {"error":{message,type,code,param}} unless the dialect differs.
  struct Error {
    int http = 500;
    std::string body;
  };
  virtual Error ErrorOf(const absl::Status& status) const;
};

std::span<const Dialect* const> Dialects();
// By name or by path; nullptr if there is none.
const Dialect* FindDialect(std::string_view name);
const Dialect* DialectAt(std::string_view path);
const Dialect& ChatDialect();
// For what no dialect was asked: chat completions' errors, or Anthropic's where the headers speak it.
const Dialect& DefaultDialect(const Headers& headers);

}  // namespace ingot::gateway
