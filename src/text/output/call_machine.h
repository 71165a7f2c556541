// The part of a TextMachine that reads one call: a program of elements, one after another, into the current call.
//
//   StartProgram --> StepElement: kDone, the next one --> ... --> AtProgramEnd
//                         |--> kMore: more text may complete the element
//                         '--> kFail: the text is not what the program says
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/output/output_machine.h"
#include "text/output/value_scanner.h"

namespace ingot::text {

class CallMachine : public OutputMachine {
 protected:
  // The result of one element of a pattern: continue after it, wait for more text, or give the call up.
  enum class Match { kDone, kMore, kFail };

  CallMachine(const CompiledRow& row, CallMode mode, const ParameterTypes& types)
      : OutputMachine(row, mode), types_(types) {}

  // ---- The text at at_
  size_t SpaceEnd(size_t from);  // end of the white space from `from` >= at_; advances scan_
  bool StandsAt(size_t at, std::string_view literal) const;
  bool MayStandAt(size_t at, std::string_view literal) const;  // whether more text may complete `literal` at `at`

  // ---- The program
  void StartProgram(const Program& program);
  bool AtProgramEnd() const { return element_ == program_->size(); }
  // Reads the current element; kDone = the next one is current now. REQUIRES: !AtProgramEnd().
  Match StepElement();
  // The text broke within the arguments of a committed call.
  bool InArguments() const;
  // Adds the broken arguments' text, which ends at at_, and awaits the envelope that may follow. REQUIRES:
  // InArguments().
  void BreakArguments(std::string_view raw);

  size_t scan_ = 0;  // end of the text that a waiting search has seen; at_ when a state or element begins
  // The current section.
  const Section* section_ = nullptr;
  bool bare_ = false;
  const Program* program_ = nullptr;  // begin, call or end of section_, or the white space after a separator
  EnvelopeScanner envelope_;          // after JSON arguments
  size_t after_arguments_ = 0;        // while arguments are held: the end of the call's text so far

 private:
  Match Run(const Element& element);
  Match RunLiteral(std::string_view text);
  Match RunSpace();
  Match RunName(bool is_id);
  Match RunJson();
  Match RunObject();
  Match ObjectKeyDone();
  Match ObjectValueBegin();
  Match ObjectValueDone();
  Match CheckArguments();
  void ArgumentsDone(size_t written);
  void BeginArguments();
  void TakeArguments(size_t used);
  std::vector<std::string_view> EnvelopeLiterals() const;

  // ---- Arguments that are not JSON (call_machine_arguments.cc)
  Match RunParameters();
  Match RunField(const Element& element);
  Match RunShortText(std::string& out);
  Match RunValue(const Element& element);
  bool EndsValue(size_t at, bool& partial) const;
  Match RunKeywords();
  Match KeywordBegin();
  Match KeywordValue();
  void AddArgument(const std::string& json);

  const ParameterTypes& types_;
  size_t element_ = 0;  // index in program_

  // The current element.
  enum class Part { kBegin, kKeyOrEnd, kNextKey, kKey, kColon, kValueBegin, kValue, kAfterValue };
  enum class Role { kOther, kName, kArguments, kId };
  Part part_ = Part::kBegin;
  JsonScanner json_;
  PythonScanner python_;
  size_t value_ = 0;          // where the key or value begins
  Role role_ = Role::kOther;  // of the current value in {object}
  bool repeated_ = false;     // `arguments` occur again after the call was committed: read and ignored
  bool has_name_ = false, has_arguments_ = false;
  size_t field_ = 0;      // index in row_.parameter
  size_t close_ = kNone;  // where the {value} may end; kNone = not found yet
  size_t argument_count_ = 0;
  std::string key_;
  int is_string_ = -1;  // {is_string}: 0, 1, or -1 = not stated
};

}  // namespace ingot::text
