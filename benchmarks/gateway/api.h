// The APIs that agents speak: the bodies of a conversation and the events of its answers.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"

namespace ingot::bench {

// The sum of an answer's events.
struct Answer {
  std::string call_id;
  std::string content, arguments;     // chat
  std::string items;                  // messages, responses: as the next request repeats them, in JSON
  std::string type, text, signature;  // messages: the block under way
};

// A body is head() + dialogue + tail(), where a dialogue begins with Opening and has each turn appended to it.
class Api {
 public:
  virtual ~Api() = default;
  virtual std::string_view target() const = 0;
  virtual const std::string& head() const = 0;  // options and tools
  virtual std::string_view tail() const = 0;
  // Texts as they stand in JSON, without quotes around them.
  virtual std::string Opening(const std::string& system, const std::string& task) const = 0;
  // The answer, which has one tool call, as a client sends it back, and the call's result.
  virtual std::string Turn(const Answer& answer, const std::string& result) const = 0;
  // Returns false if the event is not one of the API.
  virtual bool Read(const base::json::value& event, Answer& answer) const = 0;
};

// chat (/v1/chat/completions; reasoning is dropped, as most clients do), messages (/v1/messages, with thinking, which
// is sent back, and a mark for the cache that moves to each request's last block) or responses (/v1/responses, with
// encrypted reasoning, which is sent back). Null: not known.
std::unique_ptr<const Api> MakeApi(std::string_view name);

}  // namespace ingot::bench
