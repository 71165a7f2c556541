// OutputStream: an output that arrives in pieces, as deltas of reasoning, content, and tool calls with their arguments.
//
// All deltas together equal the message after Finish, which equals Parse of the whole output with the same options,
// wherever the stream is cut. A stream never takes text back. Not thread safe.
//
//   OutputStream stream(format, {.tools = tools, .prefill = prefill, .calls = CallMode::kStreamed});
//   for each sampled id:  send(stream.Push(text_of_id, id_is_a_token_written_out));
//   send(stream.Finish());  // then stream.message()
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/output/output_format.h"

namespace ingot::text {

// The part of a call that one push adds.
struct CallDelta {
  size_t index = 0;     // index in the message's calls
  bool begins = false;  // the first delta of this call: id and name are set, and final
  std::string id = {}, name = {};
  std::string arguments = {};  // appended to the arguments so far
};

struct OutputDelta {
  std::string content;
  std::string reasoning;
  std::vector<CallDelta> calls;  // in order, after content and reasoning
  bool empty() const { return content.empty() && reasoning.empty() && calls.empty(); }
};

class OutputStream {
 public:
  // Keeps `format`; reads the memory of the other options only here.
  OutputStream(std::shared_ptr<const OutputFormat> format, const ParseOptions& options);

  // `is_token`: `text` is the whole text of one special or added token, not ordinary text with the same spelling. It
  // only matters for formats of OutputFormat::ForTokenizer. `text` should be cut between characters (Utf8Stream);
  // otherwise the deltas are cut within characters.
  OutputDelta Push(std::string_view text, bool is_token = false);
  // Ends the output.
  OutputDelta Finish();

  // The sum of the deltas so far; after Finish, the message.
  const ParsedOutput& message() const { return machine_->parsed(); }
  // The number of its calls that can no longer grow.
  size_t closed_calls() const { return machine_->closed_calls(); }
  // The number of bytes pushed whose meaning is decided: they are in the deltas so far, or are the format's own.
  size_t settled_bytes() const { return machine_->settled_bytes(); }

 private:
  OutputDelta TakeDelta();

  const std::shared_ptr<const OutputFormat> format_;
  const ParameterTypes types_;
  const std::unique_ptr<OutputMachine> machine_;
  size_t content_ = 0, reasoning_ = 0;  // bytes delivered
  size_t calls_ = 0;                    // calls begun
  size_t arguments_ = 0;                // delivered bytes of the last call
};

// Whether the id is a token written out in the text (special or added): the argument `is_token` of Push.
bool IsWrittenToken(const Tokenizer& tokenizer, int32_t id, std::string_view text);

}  // namespace ingot::text
