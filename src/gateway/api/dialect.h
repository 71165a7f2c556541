// A dialect is one vendor's API format for requests, answers, and errors. It parses a body into a GatewayRequest and
// renders an answer from Events.
//
//   body --Dialect::Parse--> GatewayRequest --calls--> Event... --Renderer--> WireEvent... | one JSON reply
//
// The code between Parse and Renderer is independent of the dialect. Some GatewayRequest fields are used by only one
// dialect. request.h lists the dialect next to each of these fields.
//
// Dialects are immutable and exist for the lifetime of the program. An invalid body causes an error that names the
// field. Unknown fields are ignored. Sampling fields are the same in all dialects (request_fields.h), so every dialect
// accepts other dialects' extensions.
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

// A stream event.
struct WireEvent {
  std::string name;           // written after "event:"; empty = no such line
  std::string data;           // written after "data:"
  std::vector<Token> tokens;  // the tokens that the event covers, if RawRequest::token_events is set

  void AppendSse(std::string& out) const;
  std::string Sse() const;
};

// Defines how stream events are framed in HTTP.
struct Framing {
  const char* content_type = "text/event-stream; charset=utf-8";
  const char* filler = ": keep-alive\n\n";  // bytes that clients ignore, sent between two events
  bool is_array = false;  // true = the events are elements of one JSON array; false = server-sent events
};

// An entry in the list of models that clients see.
struct ServedModel {
  std::string name;
  int64_t created_unix_s = 0;  // when its weights were loaded
  const char* weights = "";    // "follow", "pinned", or "external"
  int64_t version = -1;        // version of the pinned weights; -1 = not pinned
  int32_t context_tokens = 0;  // combined limit on prompt and answer; 0 = unknown
  int32_t max_answer_tokens = 0;
};

// The fields at the start of every reply.
struct ReplyHead {
  std::string id;  // the first call's id; dialects add a prefix such as "chatcmpl-"
  int64_t created_unix_s = 0;
  std::string model;
};

// Renders the answer to one request from its events, either as a stream or as a single reply. Not thread safe.
class Renderer {
 public:
  Renderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request);
  virtual ~Renderer() = default;

  // Add appends an event. A choice's events arrive in order, but different choices may interleave. Close is called
  // after all choices have ended.
  void Add(int choice, Event event);
  void Close();
  // Returns the stream's events since the last call.
  std::vector<WireEvent> TakeEvents();
  // Returns the reply to a request that is not streamed. REQUIRES: Close was called.
  virtual std::string Whole() = 0;
  virtual Framing framing() const { return {}; }
  // Returns the framed end of an HTTP stream. If `status` is an error that ended the stream early, the end reports it
  // in the dialect's format.
  virtual std::string Trailer(const absl::Status& status) = 0;

 protected:
  // Called only for streams, after the event was added to the choice. The event belongs to the choice's last part.
  virtual void OnBegin(const Choice&) {}
  virtual void OnPartBegin(const Choice&) {}
  virtual void OnDelta(const Choice&, const PartDelta&) {}
  virtual void OnPartEnd(const Choice&) {}
  virtual void OnEnd(const Choice&) {}
  virtual void OnClose() {}

  void Send(std::string name, const base::json::value& data);
  void SendText(std::string name, std::string json);
  // Returns the sum over all choices. A prompt that several choices share is counted once.
  Usage TotalUsage() const;
  const ReplyHead& head() const { return head_; }
  const GatewayRequest& request() const { return *request_; }
  std::span<const Choice> choices() const { return choices_; }

 private:
  const ReplyHead head_;
  const std::shared_ptr<const GatewayRequest> request_;
  std::vector<Choice> choices_;
  std::vector<WireEvent> events_;
  std::vector<Token> unsent_;  // tokens since the last event, if RawRequest::token_events is set
};

class Dialect {
 public:
  virtual ~Dialect() = default;
  virtual std::string_view name() const = 0;  // "chat.completions", "responses", ...
  // Returns the path after "/v1", such as "/chat/completions". "{model}" in a path is a placeholder for a model name.
  virtual std::string_view path() const = 0;
  virtual absl::StatusOr<GatewayRequest> Parse(const RawRequest& raw) const = 0;
  virtual std::unique_ptr<Renderer> NewRenderer(ReplyHead head,
                                                std::shared_ptr<const GatewayRequest> request) const = 0;

  // Formats the reply to a failed request. The default is OpenAI's {"error":{message,type,code,param}}.
  struct Error {
    int http = 500;
    std::string body;
  };
  virtual Error ErrorOf(const absl::Status& status) const;
  // Return the replies that describe one model and all models. The defaults have both OpenAI's and Anthropic's fields.
  // REQUIRES: there is a model.
  virtual std::string ModelJson(const ServedModel& model) const;
  virtual std::string ModelsJson(std::span<const ServedModel> models) const;
};

std::span<const Dialect* const> Dialects();
// Find a dialect by name or by path. Return nullptr if there is none. DialectAt sets `model` to the name in the path,
// or leaves it unchanged if the path has none.
const Dialect* FindDialect(std::string_view name);
const Dialect* DialectAt(std::string_view path, std::string& model);
const Dialect& ChatDialect();
const Dialect& GenerateContentDialect();
// Returns the dialect for errors on other paths. The headers select Anthropic's or Google's dialect. The default is
// chat completions.
const Dialect& DefaultDialect(const Headers& headers);

}  // namespace ingot::gateway
