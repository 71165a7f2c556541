// Parses formats without channels, where a turn consists of text and sections of calls.
//
//   kStart --think_begin--> kReasoning --think_end--> kAfterReasoning --> kVisible (a bare section?) --> kContent
//   kContent --a section begins--> kCall --complete--> kBetween --another call--> kCall
//                                    |                   `--end, or no other call--> kContent
//                                    `--breaks--> kBroken --the call's end text--> kBetween, kContent
#pragma once

#include "text/output/call_machine.h"

namespace ingot::text {

class TextMachine final : public CallMachine {
 public:
  TextMachine(const CompiledRow& row, CallMode mode, const ParameterTypes& types) : CallMachine(row, mode, types) {}

 private:
  enum class State { kStart, kReasoning, kAfterReasoning, kVisible, kContent, kCall, kBetween, kBroken };
  // Destination of a broken call's text, until the end of the call.
  enum class BrokenPart { kContent, kArguments, kJunk };

  bool Step() override;
  void Enter(State state);

  // ---- Around calls ----
  bool StepStart();
  bool StepReasoning();
  bool StepAfterReasoning();
  bool StepVisible();
  bool StepContent();
  bool StepSpaceAfterCall();
  bool StepBetween();
  bool StepBroken();
  // Returns the number of bytes before `limit` that belong to a section if one begins there.
  size_t HeldBefore(size_t limit, bool may_begin_here) const;
  // Returns the longest trigger at `at`. Sets `partial` if there is none, but more text could complete one.
  const Trigger* TriggerAt(size_t at, bool& partial) const;
  void BeginSection(int section, size_t at, bool bare);
  void EndSection();

  // ---- A call ----
  bool StepCall();
  void NextProgram();
  void Fail();

  State state_ = State::kStart;
  bool reasoning_begun_ = false;
  bool after_call_ = false;        // only whitespace has followed the last call
  bool section_has_call_ = false;  // in the current section
  BrokenPart broken_ = BrokenPart::kContent;
  bool junk_begun_ = false;
};

}  // namespace ingot::text
