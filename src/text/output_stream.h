// An output that arrives in pieces, as deltas: reasoning, content, and tool calls with their arguments as they come.
//
// All deltas together are exactly the message of Finish, which is exactly what Parse of the whole output gives with the
// same options, wherever the stream is cut and whatever comes later: nothing is ever taken back. Not thread safe.
//
//   OutputStream stream(format, {.tools = tools, .prefill = prefill, .calls = CallMode::kStreamed});
//   for each sampled id:  send(stream.Push(text_of_id, id_is_a_token_written_out));
//   send(stream.Finish());  // then stream.message()
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/output_format.h"

namespace ingot::text {

// What one push adds to a call.
struct CallDelta {
  size_t index = 0;     // among the message's calls
  bool begins = false;  // the first delta of this call: id and name are set, and final
  std::string id = {}, name = {};
  std::string arguments = {};  // to be appended
};

struct OutputDelta {
  std::string content;
  std::string reasoning;
  std::vector<CallDelta> calls;  // in order; after content and reasoning
  bool empty() const { return content.empty() && reasoning.empty() && calls.empty(); }
};

class OutputStream {
 public:
  // Keeps `format`; reads the other options' memory only here.
  OutputStream(std::shared_ptr<const OutputFormat> format, const ParseOptions& options);

  // `is_token`: `text` is the whole text of one special or added token, as opposed to ordinary text that reads the
  // same. It only matters for formats of OutputFormat::ForTokenizer. Text is best cut at whole characters (Utf8Stream):
  // what is cut otherwise comes out cut.
  OutputDelta Push(std::string_view text, bool is_token = false);
  // No more text comes.
  OutputDelta Finish();

  // What the deltas so far add up to; after Finish, the message.
  const ParsedOutput& message() const { return machine_->parsed(); }
  // How many of its calls nothing can be added to any more.
  size_t closed_calls() const { return machine_->closed_calls(); }
  // How many of the bytes pushed are decided: they are in the deltas so far, or are the format's own.
  size_t settled_bytes() const { return machine_->settled_bytes(); }

 private:
  OutputDelta Take();

  const std::shared_ptr<const OutputFormat> format_;
  const ParameterTypes types_;
  const std::unique_ptr<OutputMachine> machine_;
  size_t content_ = 0, reasoning_ = 0;  // bytes delivered
  size_t calls_ = 0;                    // begun
  size_t arguments_ = 0;                // bytes delivered of the last of them
};

// Whether the id is a token written out in the text (a special or an added one): what Push wants to know.
bool IsWrittenToken(const Tokenizer& tokenizer, int32_t id, std::string_view text);

}  // namespace ingot::text
