// A scripted model replaces sampled output with lines from a file. It takes a client through tool calls, malformed
// calls, long streams, and errors, with a real engine and record (`ingot serve MODEL_DIR --script FILE`).
//
// The file has one JSON object per line. A call uses the first unused line that matches its request:
//
//   output       the text to sample, with special tokens written out; alternatively:
//   content      the answer's text, and
//   tool_calls   [{"name": ..., "arguments": an object, or any text}], rendered by the chat format
//   truncated    true = omits the end-of-turn id, but the call ends as if it were there
//   contains     matches a request if its last message contains this string
//   tools        matches a request with (true) or without (false) tools
//   repeat       true = the line can be used repeatedly
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "gateway/api/request.h"
#include "text/chat/chat.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::gateway {

// Thread safe.
class ScriptedModel {
 public:
  // Returns INVALID_ARGUMENT if a line is invalid. The error includes the line number and the problem.
  static absl::StatusOr<std::shared_ptr<ScriptedModel>> Parse(std::string_view text, const text::Tokenizer& tokenizer,
                                                              const text::ChatFormat& format);

  // Returns the ids to sample, or FAILED_PRECONDITION if no remaining line matches this request.
  absl::StatusOr<std::vector<int32_t>> NextAnswer(const GatewayRequest& request);

 private:
  struct Line {
    std::vector<int32_t> ids;
    std::string contains;
    std::optional<bool> tools;
    bool repeat = false;
    bool taken = false;
  };
  static absl::StatusOr<Line> ParseLine(const base::json::value& json, const text::Tokenizer& tokenizer,
                                        const text::ChatFormat& format);

  base::Mutex mu_;
  std::vector<Line> lines_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::gateway
