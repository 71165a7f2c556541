// The parser of rows without channels: turns of text with sections of calls.
//
//   kStart --think_begin--> kReasoning --think_end--> kAfterReasoning --> kVisible (a bare section?) --> kContent
//   kContent --a section begins--> kCall --complete--> kBetween --another call--> kCall
//                                    |                   `--end, or no other call--> kContent
//                                    `--breaks--> kBroken --the call's end text--> kBetween, kContent
#pragma once

#include "text/output/output_machine.h"
#include "text/output/value_scanner.h"

namespace ingot::text {

class TextMachine final : public OutputMachine {
 public:
  TextMachine(const CompiledRow& row, CallMode mode, const ParameterTypes& types)
      : OutputMachine(row, mode), types_(types) {}

 private:
  enum class State { kStart, kReasoning, kAfterReasoning, kVisible, kContent, kCall, kBetween, kBroken };
  // The destination of a broken call's text, up to its end.
  enum class BrokenPart { kContent, kArguments, kJunk };
  // The result of one element of a pattern: continue after it, wait for more text, or give the call up.
  enum class Match { kDone, kMore, kFail };

  bool Step() override;
  void Enter(State state);

  // ---- Around calls (text_machine.cc) ----
  bool StepStart();
  bool StepReasoning();
  bool StepAfterReasoning();
  bool StepVisible();
  bool StepContent();
  bool StepSpaceAfterCall();
  bool StepBetween();
  bool StepBroken();
  // The number of bytes before `limit` that belong to a section if one begins there.
  size_t HeldBefore(size_t limit, bool may_begin_here) const;
  // The longest trigger at `at`. `partial`: there is no trigger, but more text may complete one.
  const Trigger* TriggerAt(size_t at, bool& partial) const;
  void BeginSection(int section, size_t at, bool bare);
  void EndSection();
  size_t SpaceEnd(size_t from);  // end of the white space from `from` >= at_; advances scan_
  bool StandsAt(size_t at, std::string_view literal) const;
  bool MayStandAt(size_t at, std::string_view literal) const;  // whether more text may complete `literal` at `at`

  // ---- A call (text_machine_call.cc) ----
  bool StepCall();
  void StartProgram(const Program& program);
  void NextProgram();
  void Fail();
  Match Run(const Element& element);
  Match RunLiteral(std::string_view text);
  Match RunSpace();
  Match RunName(bool is_id);
  Match RunJson();
  Match RunObject();
  Match ObjectKeyDone();
  Match ObjectValueBegin();
  Match ObjectValueDone();
  Match RunParameters();
  Match RunField(const Element& element);
  Match RunShortText(std::string& out);
  Match RunValue(const Element& element);
  bool EndsValue(size_t at, bool& partial) const;
  Match RunKeywords();
  Match KeywordBegin();
  Match KeywordValue();
  void AddArgument(const std::string& json);
  Match CheckArguments();
  void ArgumentsDone(size_t written);
  void BeginArguments();
  void TakeArguments(size_t used);
  std::vector<std::string_view> EnvelopeLiterals() const;

  const ParameterTypes& types_;
  State state_ = State::kStart;
  size_t scan_ = 0;  // end of the text that a waiting search has seen; at_ when a state or element begins
  bool reasoning_begun_ = false;
  bool after_call_ = false;  // only white space since the last call

  // The current section.
  const Section* section_ = nullptr;
  bool bare_ = false;
  bool section_has_call_ = false;
  const Program* program_ = nullptr;  // begin, call or end of section_, or the white space after a separator
  size_t element_ = 0;                // index in program_
  BrokenPart broken_ = BrokenPart::kContent;
  EnvelopeScanner envelope_;  // after JSON arguments
  bool junk_begun_ = false;

  // The current element.
  enum class Part { kBegin, kKeyOrEnd, kNextKey, kKey, kColon, kValueBegin, kValue, kAfterValue };
  enum class Role { kOther, kName, kArguments, kId };
  Part part_ = Part::kBegin;
  JsonScanner json_;
  PythonScanner python_;
  size_t after_arguments_ = 0;  // while arguments are held: the end of the call's text so far
  size_t value_ = 0;            // where the key or value begins
  Role role_ = Role::kOther;    // of the current value in {object}
  bool repeated_ = false;       // `arguments` occur again after the call was committed: read and ignored
  bool has_name_ = false, has_arguments_ = false;
  size_t field_ = 0;      // index in row_.parameter
  size_t close_ = kNone;  // where the {value} may end; kNone = not found yet
  size_t argument_count_ = 0;
  std::string key_;
  int is_string_ = -1;  // {is_string}: 0, 1, or -1 = not stated
};

}  // namespace ingot::text
