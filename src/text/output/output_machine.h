// OutputMachine: the incremental parser of OutputFormat and OutputStream. Text goes in, and the message grows.
// Parsing at once and streaming give equal messages, because both use this class. Cuts between pushes change nothing,
// because a step waits until it has seen enough text. Content, reasoning and the arguments of streamed calls never
// shrink. The work per byte is bounded. Not thread safe.
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

// How the parser treats tool calls.
enum class CallMode {
  kText,   // does not look for calls: their text is content
  kWhole,  // adds a call when it is complete and well-formed; otherwise its text stays in the content, as malformed
  // Adds a call once its name is known and its arguments begin. A call that breaks later stays a call, malformed, with
  // the arguments as the model wrote them; text outside the arguments goes to the content. The machine withholds the
  // last brace of the arguments until the call is closed as the format says. So no reader mistakes a broken call for a
  // complete call, and no policy is rewarded for it. A call that breaks before its arguments is treated as in kWhole.
  kStreamed,
};

class OutputMachine {
 public:
  virtual ~OutputMachine() = default;

  // Adds output text. `is_token`: `text` is the whole text of one token. REQUIRES: a token's text comes in one call.
  void Push(std::string_view text, bool is_token);
  void Finish();
  // Drops the content and reasoning so far, because they were the prefill.
  void EndPrefill();

  const ParsedOutput& parsed() const { return out_; }
  // The number of bytes pushed since EndPrefill whose meaning is decided. Their part of the message is in parsed().
  size_t settled_bytes() const;
  // The number of calls in parsed() that can no longer grow.
  size_t closed_calls() const { return out_.tool_calls.size() - (committed_ ? 1 : 0); }
  // The number of bytes at the end of the last call's arguments that are dropped if the call is not closed.
  size_t held_arguments() const { return held_; }

 protected:
  OutputMachine(const CompiledRow& row, CallMode mode) : row_(row), mode_(mode) {}

  // Does one step. False: it needs more text; not returned while text is left and final_ is set.
  virtual bool Step() = 0;

  std::string_view Rest() const { return std::string_view(in_).substr(at_); }
  // Adds text in the inner alphabet (output_pattern.h) to the message.
  void Content(std::string_view inner) { AppendText(inner, out_.content); }
  void Reasoning(std::string_view inner) { AppendText(inner, out_.reasoning); }
  size_t SettledAt(size_t inner) const;  // the number of bytes pushed before in_[inner]

  // ---- The current call ----
  void BeginCall() { call_ = {}, committed_ = begun_ = false, held_ = 0; }
  ToolCall& call() { return committed_ ? out_.tool_calls.back() : call_; }
  void AddArguments(std::string_view inner) { AppendText(inner, call().arguments_json); }
  // The arguments begin: from here on, a kStreamed call stays a call.
  void CommitCall();
  // The arguments are complete and end with a brace, which is held until the call is closed.
  void HoldArguments() { held_ = committed_ ? 1 : 0; }
  void DropHeldArguments();
  void EndCall();

  const CompiledRow& row_;
  const CallMode mode_;
  std::string in_;  // the output so far, in the inner alphabet
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
  size_t prefill_ = 0;         // bytes of the prefill
  size_t pushed_ = 0;          // bytes
};

// The parameter types that a row's machine needs; empty if the row does not read parameters one by one.
ParameterTypes TypesFor(const CompiledRow& row, std::span<const base::json::value> tools);

// REQUIRES: `row` and `types` outlive the machine.
std::unique_ptr<OutputMachine> MakeMachine(const CompiledRow& row, CallMode mode, const ParameterTypes& types);

}  // namespace ingot::text
