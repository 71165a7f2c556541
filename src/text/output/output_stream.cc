#include "text/output/output_stream.h"

namespace ingot::text {

OutputStream::OutputStream(std::shared_ptr<const OutputFormat> format, const ParseOptions& options)
    : format_(std::move(format)),
      types_(TypesFor(format_->compiled(), options.tools)),
      machine_(MakeMachine(format_->compiled(), options.calls, types_)) {
  if (options.prefill.empty()) return;
  // The prefill is part of the prompt, so delimiters that are tokens count as tokens.
  std::string_view rest = options.prefill;
  while (!rest.empty()) {
    size_t at = rest.size(), length = 0;
    for (const std::string& token : format_->tokens()) {
      const size_t found = rest.find(token);
      if (found < at) {
        at = found;
        length = token.size();
      }
    }
    machine_->Push(rest.substr(0, at), false);
    if (length > 0) machine_->Push(rest.substr(at, length), true);
    rest.remove_prefix(at + length);
  }
  machine_->EndPrefill();
}

OutputDelta OutputStream::Push(std::string_view text, bool is_token) {
  machine_->Push(text, is_token);
  return TakeDelta();
}

OutputDelta OutputStream::Finish() {
  machine_->Finish();
  return TakeDelta();
}

OutputDelta OutputStream::TakeDelta() {
  const ParsedOutput& parsed = machine_->parsed();
  OutputDelta delta;
  delta.content = parsed.content.substr(content_);
  delta.reasoning = parsed.reasoning.substr(reasoning_);
  content_ = parsed.content.size();
  reasoning_ = parsed.reasoning.size();
  // Only the last call can still grow.
  for (size_t i = calls_ == 0 ? 0 : calls_ - 1; i < parsed.tool_calls.size(); ++i) {
    const ToolCall& call = parsed.tool_calls[i];
    CallDelta more{.index = i};
    if (i >= calls_) {
      more.begins = true;
      more.id = call.id;
      more.name = call.name;
      arguments_ = 0;
    }
    const bool last = i + 1 == parsed.tool_calls.size();
    const size_t emitted = call.arguments_json.size() - (last ? machine_->held_arguments() : 0);
    more.arguments = call.arguments_json.substr(arguments_, emitted - arguments_);
    arguments_ = emitted;
    if (more.begins || !more.arguments.empty()) delta.calls.push_back(std::move(more));
  }
  calls_ = parsed.tool_calls.size();
  return delta;
}

bool IsWrittenToken(const Tokenizer& tokenizer, int32_t id, std::string_view text) {
  return tokenizer.IsSpecial(id) || tokenizer.SpecialId(text) == id;
}

}  // namespace ingot::text
