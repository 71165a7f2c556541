// Implements the incremental parser used by OutputFormat and OutputStream. As text is pushed, the message grows.
// Complete and streamed outputs give equal messages because both use this class. It does not matter how the text is
// split into pushes, because each step waits until it has enough text. Content, reasoning, and the arguments of
// streamed calls never shrink. The work per byte is bounded. Not thread safe.
//
//   in_:  | in the message, or delimiters | undecided | unread |
//         0                               hold_       at_
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/message.h"
#include "text/output/argument_values.h"
#include "text/output/output_pattern.h"

namespace ingot::text {

// Specifies how tool calls are parsed.
enum class CallMode {
  kText,  // do not look for calls; their text is content
  // Add a call once it is complete and well formed. Otherwise keep its text in the content, and set `malformed`.
  kWhole,
  // Add a call once its name is known and its arguments begin. If a call becomes invalid later, it remains a call but
  // is malformed, with the arguments as the model wrote them. Text outside the arguments becomes content. The last
  // brace of the arguments is withheld until the call is properly closed, so that clients cannot mistake a broken call
  // for a complete one and a policy is not rewarded for one. A call that becomes invalid before its arguments begin is
  // treated as in kWhole.
  kStreamed,
};

class OutputMachine {
 public:
  virtual ~OutputMachine() = default;

  // Adds output text. `is_token`: true = `text` is the complete text of one token. REQUIRES: a token's text is pushed
  // in one call.
  void Push(std::string_view text, bool is_token);
  void Finish();
  // Drops the content and reasoning so far, because they come from the prefill.
  void EndPrefill();

  const ParsedOutput& parsed() const { return out_; }
  // Returns the number of bytes pushed since EndPrefill that have been interpreted. parsed() includes
  // them.
  size_t settled_bytes() const;
  // Returns the number of calls in parsed() that can no longer grow.
  size_t closed_calls() const { return out_.tool_calls.size() - (committed_ ? 1 : 0); }
  // Returns the number of bytes at the end of the last call's arguments that are dropped if the call is not closed.
  size_t held_arguments() const { return held_; }

 protected:
  OutputMachine(const CompiledRow& row, CallMode mode) : row_(row), mode_(mode) {}

  // Performs one step. Returns false if it needs more text. If final_ is set, returns false only when no text is left.
  virtual bool Step() = 0;

  std::string_view Rest() const { return std::string_view(in_).substr(at_); }
  // Adds text in the inner alphabet (output_pattern.h) to the message.
  void Content(std::string_view inner) { AppendText(inner, out_.content); }
  void Reasoning(std::string_view inner) { AppendText(inner, out_.reasoning); }
  size_t SettledAt(size_t inner) const;  // number of bytes pushed before in_[inner]

  // ---- The current call ----
  void BeginCall() { call_ = {}, committed_ = begun_ = false, held_ = 0; }
  ToolCall& call() { return committed_ ? out_.tool_calls.back() : call_; }
  void AddArguments(std::string_view inner) { AppendText(inner, call().arguments_json); }
  // Must be called when the arguments begin. After that, a kStreamed call remains a call.
  void CommitCall();
  // Must be called when the arguments are complete. They end with a brace, which is held until the call is closed.
  void HoldArguments() { held_ = committed_ ? 1 : 0; }
  void DropHeldArguments();
  void EndCall();

  const CompiledRow& row_;
  const CallMode mode_;
  std::string in_;  // the output so far in the inner alphabet
  size_t at_ = 0, hold_ = 0;
  bool final_ = false;
  static constexpr size_t kNone = static_cast<size_t>(-1);
  ParsedOutput out_;
  bool committed_ = false;  // the current call is in out_.tool_calls
  bool begun_ = false;      // the current call has a name and arguments

 private:
  ToolCall call_;
  size_t held_ = 0;
  std::vector<size_t> marks_;  // positions in in_ of bytes that were not pushed
  size_t prefill_ = 0;         // size of the prefill in bytes
  size_t pushed_ = 0;          // bytes
};

// Returns the parameter types that a row's parser needs. The result is empty if the row does not parse individual
// parameters.
ParameterTypes TypesFor(const CompiledRow& row, std::span<const base::json::value> tools);

// REQUIRES: `row` and `types` outlive the machine.
std::unique_ptr<OutputMachine> MakeMachine(const CompiledRow& row, CallMode mode, const ParameterTypes& types);

}  // namespace ingot::text
