// A scripted model: a file with the text that calls sample. It drives a client through tool calls, malformed calls,
// long streams and errors, on the real path through engine and record (`ingot serve MODEL_DIR --script FILE`).
//
// The file has a JSON object per line. A call uses the first unused line that matches its request:
//
//   output       the text to sample, special tokens written out; or instead
//   content      the answer's text, and
//   tool_calls   [{"name": ..., "arguments": an object, or any text}], which the chat format writes
//   truncated    true: no end-of-turn id follows, but the call ends as if one did
//   contains     matches a request whose last message contains this text
//   tools        matches a request with (true) or without (false) tools
//   repeat       true: the line stays for more calls
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
  // INVALID_ARGUMENT names the line and its fault.
  static absl::StatusOr<std::shared_ptr<ScriptedModel>> Parse(std::string_view text, const text::Tokenizer& tokenizer,
                                                              const text::ChatFormat& format);

  // The ids to sample. FAILED_PRECONDITION: no line is left that matches this request.
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
