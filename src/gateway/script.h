// A scripted model: what calls sample is written in a file, so that a client can be driven through tool calls,
// malformed ones, long streams and errors, on the real path through engine and record (`ingot serve MODEL_DIR --script
// FILE`).
//
// The file holds a JSON object per line, taken in order; a call takes the first line that is left and that it matches:
//
//   output       text as the model would sample it, special tokens written out; or, written as the chat format does,
//   content      the answer's text, and
//   tool_calls   [{"name": ..., "arguments": an object, or the text of what should be one}]
//   truncated    true: no end-of-turn id follows; the call still ends as if it had
//   contains     only for a request whose last message has this text
//   tools        only for a request with (true) or without (false) tools
//   repeat       true: the line stays, and may be taken again
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
#include "text/chat.h"
#include "text/tokenizer.h"

namespace ingot::gateway {

// Thread safe.
class ScriptedModel {
 public:
  // INVALID_ARGUMENT names the line and what is wrong with it.
  static absl::StatusOr<std::shared_ptr<ScriptedModel>> Parse(std::string_view text, const text::Tokenizer& tokenizer,
                                                              const text::ChatFormat& format);

  // The ids to sample; FAILED_PRECONDITION if no line is left for this request.
  absl::StatusOr<std::vector<int32_t>> Take(const GatewayRequest& request);

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
