// The incremental parser behind OutputFormat and OutputStream: text goes in, the message grows. Streaming and not give
// the same message because both come from here, and cutting the stream anywhere changes nothing because every step
// either sees enough text or waits. Nothing that was added to content, reasoning or a streamed call is ever taken back.
// Every byte is looked at a bounded number of times. Not thread safe.
//
//   in_:  | delivered, or the format's | not yet decided | not yet looked at |
//         0                          hold_              at_
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/argument_values.h"
#include "text/chat.h"
#include "text/output_pattern.h"

namespace ingot::text {

// What becomes of tool calls.
enum class CallMode {
  kText,      // none are looked for: what looks like a call is content
  kWhole,     // a call counts once it is complete and right; else its text stays in the content, and is malformed
  kStreamed,  // a call counts once its name is known and its arguments begin. What breaks after that stays a call with
              // its arguments as the model wrote them, and is malformed; text of a call that is not part of its
              // arguments goes to the content. The last brace of its arguments counts only once the call is closed as
              // the format says: nobody is to take a broken call for a sound one, least of all a policy that is
              // rewarded for it. A call that breaks before its arguments is as in kWhole.
};

class OutputMachine {
 public:
  virtual ~OutputMachine() = default;

  // REQUIRES: a token's text comes in one piece.
  void Push(std::string_view text, bool is_token);
  void Finish();
  // Forgets content and reasoning so far: they were in the prompt.
  void EndPrefill();

  const ParsedOutput& parsed() const { return out_; }
  // Bytes pushed since EndPrefill whose meaning is decided, and whose part of the message, if any, is in parsed().
  size_t settled_bytes() const;
  // Calls of parsed() to which nothing can be added any more.
  size_t closed_calls() const { return out_.tool_calls.size() - (committed_ ? 1 : 0); }
  // Bytes at the end of the last call's arguments that are taken back if the call is not closed.
  size_t held_arguments() const { return held_; }

 protected:
  OutputMachine(const CompiledRow& row, CallMode mode) : row_(row), mode_(mode) {}

  // One step. False: more text is needed (never with final_ and text left).
  virtual bool Step() = 0;

  std::string_view Rest() const { return std::string_view(in_).substr(at_); }
  // Adds inner text to the message.
  void Content(std::string_view inner) { AppendText(inner, out_.content); }
  void Reasoning(std::string_view inner) { AppendText(inner, out_.reasoning); }
  size_t SettledAt(size_t inner) const;  // bytes pushed before in_[inner]

  // ---- The call that is being read ----
  void BeginCall() { call_ = {}, committed_ = begun_ = false, held_ = 0; }
  ToolCall& call() { return committed_ ? out_.tool_calls.back() : call_; }
  void AddArguments(std::string_view inner) { AppendText(inner, call().arguments_json); }
  // The arguments begin: from here on a kStreamed call stays one.
  void CommitCall();
  // The arguments are complete, and end with a brace.
  void HoldArguments() { held_ = committed_ ? 1 : 0; }
  void DropHeldArguments();
  void EndCall();

  const CompiledRow& row_;
  const CallMode mode_;
  std::string in_;  // inner alphabet
  size_t at_ = 0, hold_ = 0;
  bool final_ = false;
  static constexpr size_t kNone = static_cast<size_t>(-1);
  ParsedOutput out_;
  bool committed_ = false;  // the call is in out_.tool_calls already
  bool begun_ = false;      // it has a name and arguments

 private:
  ToolCall call_;
  size_t held_ = 0;
  std::vector<size_t> marks_;  // where in in_ an extra byte stands
  size_t prefill_ = 0;         // bytes
  size_t pushed_ = 0;          // bytes
};

// What a row's machine is told of the tools: nothing where it does not read parameters one by one.
ParameterTypes TypesFor(const CompiledRow& row, std::span<const base::json::value> tools);

// `row` and `types` outlive the machine.
std::unique_ptr<OutputMachine> MakeMachine(const CompiledRow& row, CallMode mode, const ParameterTypes& types);

}  // namespace ingot::text
