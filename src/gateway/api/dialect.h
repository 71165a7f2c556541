// A dialect: the requests, answers and errors of one vendor's API. It reads a body into a GatewayRequest and words an
// answer from Events.
//
//   body --Dialect::Parse--> GatewayRequest --calls--> Event... --Renderer--> WireEvent... | one JSON reply
//
// The code between Parse and Renderer does not depend on the dialect. It passes on the GatewayRequest, in which some
// fields are set and read by only one dialect; request.h names the dialect at each such field.
//
// Dialects are immutable and live as long as the program. A body that breaks the dialect's rules gives an error that
// names the field; unknown fields are ignored. Sampling fields are the same in all dialects (request_fields.h), so each
// accepts the extensions of the others.
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

// One event of a stream.
struct WireEvent {
  std::string name;           // after "event:"; empty = no such line
  std::string data;           // after "data:"
  std::vector<Token> tokens;  // that the event covers, if RawRequest::token_events asks for them

  void AppendSse(std::string& out) const;
  std::string Sse() const;
};

// How the events of a stream follow each other over HTTP.
struct Framing {
  const char* content_type = "text/event-stream; charset=utf-8";
  const char* filler = ": keep-alive\n\n";  // bytes between two events that clients ignore
  bool is_array = false;                    // the events are the elements of one JSON array; false = server-sent
};

// A model as a client's list of models shows it.
struct ServedModel {
  std::string name;
  int64_t created_unix_s = 0;  // when its weights were loaded
  const char* weights = "";    // "follow", "pinned" or "external"
  int64_t version = -1;        // of pinned weights; -1 = none is pinned
  int32_t context_tokens = 0;  // of prompt and answer together; 0 = not known
  int32_t max_answer_tokens = 0;
};

// The fields with which every reply begins.
struct ReplyHead {
  std::string id;  // of the first call; dialects prefix it with "chatcmpl-" and the like
  int64_t created_unix_s = 0;
  std::string model;
};

// Words the answer to one request, streamed or whole, from the same events. Not thread safe.
class Renderer {
 public:
  Renderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request);
  virtual ~Renderer() = default;

  // Adds an event. Events of one choice come in order; events of different choices may mix. Close: all choices ended.
  void Add(int choice, Event event);
  void Close();
  // The stream's events since the last call.
  std::vector<WireEvent> TakeEvents();
  // The single reply to a request without a stream. REQUIRES: Close was called.
  virtual std::string Whole() = 0;
  virtual Framing framing() const { return {}; }
  // The end of an HTTP stream, framed; with an error it reports in the dialect's format that the stream broke off.
  virtual std::string Trailer(const absl::Status& status) = 0;

 protected:
  // Called for streams only, after the event was added to the choice. The event is about the choice's last part.
  virtual void OnBegin(const Choice&) {}
  virtual void OnPartBegin(const Choice&) {}
  virtual void OnDelta(const Choice&, const PartDelta&) {}
  virtual void OnPartEnd(const Choice&) {}
  virtual void OnEnd(const Choice&) {}
  virtual void OnClose() {}

  void Send(std::string name, const base::json::value& data);
  void SendText(std::string name, std::string json);
  // The sum over all choices. Choices of one prompt count its tokens once.
  Usage TotalUsage() const;
  const ReplyHead& head() const { return head_; }
  const GatewayRequest& request() const { return *request_; }
  std::span<const Choice> choices() const { return choices_; }

 private:
  const ReplyHead head_;
  const std::shared_ptr<const GatewayRequest> request_;
  std::vector<Choice> choices_;
  std::vector<WireEvent> events_;
  std::vector<Token> unsent_;  // since the last event, if RawRequest::token_events asks for them
};

class Dialect {
 public:
  virtual ~Dialect() = default;
  virtual std::string_view name() const = 0;  // "chat.completions", "responses", ...
  // The path after "/v1": "/chat/completions", ... A path with "{model}" has a model's name in that place.
  virtual std::string_view path() const = 0;
  virtual absl::StatusOr<GatewayRequest> Parse(const RawRequest& raw) const = 0;
  virtual std::unique_ptr<Renderer> NewRenderer(ReplyHead head,
                                                std::shared_ptr<const GatewayRequest> request) const = 0;

  // The reply of a failed request: OpenAI's {"error":{message,type,code,param}} unless the dialect differs.
  struct Error {
    int http = 500;
    std::string body;
  };
  virtual Error ErrorOf(const absl::Status& status) const;
  // The replies with one model and with all models: with OpenAI's and Anthropic's fields unless the dialect differs.
  // REQUIRES: there is a model.
  virtual std::string ModelJson(const ServedModel& model) const;
  virtual std::string ModelsJson(std::span<const ServedModel> models) const;
};

std::span<const Dialect* const> Dialects();
// By name or by path; nullptr = no such dialect. `model`: the name in the path, unchanged if the path has none.
const Dialect* FindDialect(std::string_view name);
const Dialect* DialectAt(std::string_view path, std::string& model);
const Dialect& ChatDialect();
const Dialect& GenerateContentDialect();
// The dialect for errors of requests to other paths: chat completions, or Anthropic's or Google's if the headers say
// so.
const Dialect& DefaultDialect(const Headers& headers);

}  // namespace ingot::gateway
