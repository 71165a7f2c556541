// Parses one call for TextMachine. It runs a program of elements in order and fills in the current call.
//
//   StartProgram --> StepElement: kDone, the next one --> ... --> AtProgramEnd
//                         |--> kMore: more text may complete the element
//                         '--> kFail: the text does not match the program
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/output/output_machine.h"
#include "text/output/value_scanner.h"

namespace ingot::text {

class CallMachine : public OutputMachine {
 protected:
  // Result of matching one pattern element: continue after it, wait for more text, or abandon the call.
  enum class Match { kDone, kMore, kFail };

  CallMachine(const CompiledRow& row, CallMode mode, const ParameterTypes& types)
      : OutputMachine(row, mode), types_(types) {}

  // ---- Text at at_
  size_t SpaceEnd(size_t from);  // end of the whitespace that starts at `from` >= at_; advances scan_
  bool StandsAt(size_t at, std::string_view literal) const;
  bool MayStandAt(size_t at, std::string_view literal) const;  // whether more text could complete `literal` at `at`

  // ---- The program
  void StartProgram(const Program& program);
  bool AtProgramEnd() const { return element_ == program_->size(); }
  // Parses the current element. kDone = the next element is now current. REQUIRES: !AtProgramEnd().
  Match StepElement();
  // Returns whether the text became invalid inside the arguments of a committed call.
  bool InArguments() const;
  // Adds the broken arguments' text, which ends at at_, and prepares for an envelope that may follow. REQUIRES:
  // InArguments().
  void BreakArguments(std::string_view raw);

  size_t scan_ = 0;  // end of the text that a pending search has examined; equals at_ when a state or element begins
  // The current section.
  const Section* section_ = nullptr;
  bool bare_ = false;
  const Program* program_ = nullptr;  // begin, call, or end of section_, or whitespace after a separator
  EnvelopeScanner envelope_;          // matches the text that follows JSON arguments
  size_t after_arguments_ = 0;        // end of the call's text so far, while its arguments are held

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

  // ---- Non-JSON arguments (call_machine_arguments.cc)
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
  size_t value_ = 0;          // start of the key or value
  Role role_ = Role::kOther;  // role of the current value in {object}
  bool repeated_ = false;     // `arguments` occurs again after the call was committed; it is parsed but ignored
  bool has_name_ = false, has_arguments_ = false;
  size_t field_ = 0;      // index in row_.parameter
  size_t close_ = kNone;  // where {value} may end; kNone = not found yet
  size_t argument_count_ = 0;
  std::string key_;
  int is_string_ = -1;  // {is_string}: 0 or 1; -1 = not specified
};

}  // namespace ingot::text
