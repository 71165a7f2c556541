#include "text/output/output_machine.h"

#include <algorithm>

#include "text/output/channel_machine.h"
#include "text/output/text_machine.h"

namespace ingot::text {

void OutputMachine::Push(std::string_view text, bool is_token) {
  pushed_ += text.size();
  if (is_token && std::find(row_.tokens.begin(), row_.tokens.end(), text) != row_.tokens.end()) {
    marks_.insert(marks_.end(), {in_.size(), in_.size() + 1});
    in_ += kTokenMark;
    in_ += text;
  } else {
    const size_t before = in_.size();
    AppendInner(text, in_);
    if (in_.size() != before + text.size()) {
      for (size_t at = before; at < in_.size(); ++at) {
        if (in_[at] == '\xFF') marks_.push_back(at);
      }
    }
  }
  while (Step()) {
  }
}

void OutputMachine::Finish() {
  final_ = true;
  while (Step()) {
  }
}

void OutputMachine::EndPrefill() {
  out_.content.clear();
  out_.reasoning.clear();
  out_.malformed = false;
  prefill_ = pushed_;
}

size_t OutputMachine::SettledAt(size_t inner) const {
  const size_t extra = std::lower_bound(marks_.begin(), marks_.end(), inner) - marks_.begin();
  const size_t bytes = inner - extra;
  return bytes < prefill_ ? 0 : bytes - prefill_;
}

size_t OutputMachine::settled_bytes() const { return SettledAt(hold_); }

void OutputMachine::CommitCall() {
  begun_ = true;
  if (mode_ != CallMode::kStreamed || committed_) return;
  out_.tool_calls.push_back(std::move(call_));
  committed_ = true;
}

void OutputMachine::DropHeldArguments() {
  std::string& arguments = call().arguments_json;
  arguments.resize(arguments.size() - held_);
  held_ = 0;
}

void OutputMachine::EndCall() {
  if (!committed_) out_.tool_calls.push_back(std::move(call_));
  BeginCall();
}

ParameterTypes TypesFor(const CompiledRow& row, std::span<const base::json::value> tools) {
  return ParameterTypes(row.row.parameter.empty() ? std::span<const base::json::value>() : tools);
}

std::unique_ptr<OutputMachine> MakeMachine(const CompiledRow& row, CallMode mode, const ParameterTypes& types) {
  if (row.row.channels.used()) return std::make_unique<ChannelMachine>(row, mode);
  return std::make_unique<TextMachine>(row, mode, types);
}

}  // namespace ingot::text
