// Turns as text with sections of calls in it: every row without channels.
//
//   kStart --think_begin--> kReasoning --think_end--> kAfterReasoning --> kVisible (a bare section?) --> kContent
//   kContent --a section begins--> kCall --whole--> kBetween --another--> kCall
//                                    |                 `--end, or no other--> kContent
//                                    `--breaks--> kBroken --where the call would have ended--> kBetween, kContent
#pragma once

#include "text/output_machine.h"
#include "text/value_scanner.h"

namespace ingot::text {

class TextMachine final : public OutputMachine {
 public:
  TextMachine(const CompiledRow& row, CallMode mode, const ParameterTypes& types)
      : OutputMachine(row, mode), types_(types) {}

 private:
  enum class State { kStart, kReasoning, kAfterReasoning, kVisible, kContent, kCall, kBetween, kBroken };
  // What a broken call's text, up to its end, becomes.
  enum class Broken { kContent, kArguments, kJunk };
  // Answer of one element of a pattern: go on behind it, wait for more text, or give the call up.
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
  // Bytes before `limit` that belong to a section if one begins there.
  size_t HeldBefore(size_t limit, bool may_begin_here) const;
  // The longest trigger that stands at `at`. `partial`: none does, but one may with more text.
  const Trigger* TriggerAt(size_t at, bool& partial) const;
  void BeginSection(int section, size_t at, bool bare);
  void EndSection();
  size_t SpaceEnd(size_t from);  // where white space from `from` >= at_ ends; remembers how far it looked
  bool StandsAt(size_t at, std::string_view literal) const;
  bool MayStandAt(size_t at, std::string_view literal) const;  // with more text

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

  const ParameterTypes& types_;
  State state_ = State::kStart;
  size_t scan_ = 0;  // how far a search that waits has looked; at_ on entering a state or an element
  bool reasoning_begun_ = false;
  bool after_call_ = false;  // only white space since the last call

  // The section that is being read.
  const Section* section_ = nullptr;
  bool bare_ = false;
  bool section_has_call_ = false;
  const Program* program_ = nullptr;  // begin, call or end of section_, or the white space after a separator
  size_t element_ = 0;                // of program_
  Broken broken_ = Broken::kContent;
  bool junk_begun_ = false;

  // The element that is being read.
  enum class Part { kBegin, kKeyOrEnd, kNextKey, kKey, kColon, kValueBegin, kValue, kAfterValue };
  enum class Role { kOther, kName, kArguments, kId };
  Part part_ = Part::kBegin;
  JsonScanner json_;
  PythonScanner python_;
  size_t after_arguments_ = 0;  // while they are held: how far the call is read
  size_t value_ = 0;            // where the key or value begins
  Role role_ = Role::kOther;    // of the object's current value
  bool repeated_ = false;       // `arguments` again, after the call was sent: read, not kept
  bool has_name_ = false, has_arguments_ = false;
  size_t field_ = 0;      // element of row_.parameter
  size_t close_ = kNone;  // where the {value} may end
  size_t argument_count_ = 0;
  std::string key_;
  int is_string_ = -1;  // {is_string}: 0, 1, or not said
};

}  // namespace ingot::text
