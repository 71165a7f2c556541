// Parses an output that arrives in pieces. Returns deltas of reasoning, content, and tool calls with their arguments.
//
// After Finish, the deltas add up to the message, which equals what Parse returns for the entire output with the same
// options, however the stream is split. A stream never retracts text. Not thread safe.
//
//   OutputStream stream(format, {.tools = tools, .prefill = prefill, .calls = CallMode::kStreamed});
//   for each sampled id:  send(stream.Push(text_of_id, id_is_a_written_token));
//   send(stream.Finish());  // then stream.message()
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/output/output_format.h"

namespace ingot::text {

// The part that one push adds to a call.
struct CallDelta {
  size_t index = 0;     // index in the message's calls
  bool begins = false;  // first delta of this call: id and name are set and final
  std::string id = {}, name = {};
  std::string arguments = {};  // appended to the arguments so far
};

struct OutputDelta {
  std::string content;
  std::string reasoning;
  std::vector<CallDelta> calls;  // in order; they follow content and reasoning
  bool empty() const { return content.empty() && reasoning.empty() && calls.empty(); }
};

class OutputStream {
 public:
  // Keeps a reference to `format`. Data that `options` points to is read only in the constructor.
  OutputStream(std::shared_ptr<const OutputFormat> format, const ParseOptions& options);

  // `is_token`: true = `text` is the complete text of one special or added token, and not ordinary text with the same
  // spelling. It matters only for formats from OutputFormat::ForTokenizer. `text` should consist of whole characters
  // (Utf8Stream); otherwise, deltas may contain partial characters.
  OutputDelta Push(std::string_view text, bool is_token = false);
  // Ends the output.
  OutputDelta Finish();

  // Returns the message so far. After Finish, it is complete.
  const ParsedOutput& message() const { return machine_->parsed(); }
  // Returns the number of calls that can no longer grow.
  size_t closed_calls() const { return machine_->closed_calls(); }
  // Returns the number of pushed bytes that have been interpreted. They are in the deltas so far or are part of the
  // format.
  size_t settled_bytes() const { return machine_->settled_bytes(); }

 private:
  OutputDelta TakeDelta();

  const std::shared_ptr<const OutputFormat> format_;
  const ParameterTypes types_;
  const std::unique_ptr<OutputMachine> machine_;
  size_t content_ = 0, reasoning_ = 0;  // bytes delivered
  size_t calls_ = 0;                    // calls started
  size_t arguments_ = 0;                // delivered bytes of the last call
};

// Returns whether the id is a special or added token that is written as text (Push's argument `is_token`).
bool IsWrittenToken(const Tokenizer& tokenizer, int32_t id, std::string_view text);

}  // namespace ingot::text
