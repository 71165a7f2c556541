// Implements CallMachine for non-JSON arguments: {parameters} and {keywords}.
#include <algorithm>
#include <cctype>

#include "text/output/call_machine.h"
#include "text/output/python_literal.h"

namespace ingot::text {
namespace {

constexpr size_t kMaxName = 256;  // bytes

bool IsWordByte(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80 && c != '\xFF'); }

}  // namespace

// ---- {parameters} -------------------------------------------------------------------------------------------------

CallMachine::Match CallMachine::RunParameters() {
  if (part_ == Part::kBegin) {
    CommitCall();
    call().arguments_json = "{";
    argument_count_ = 0;
    if (committed_) hold_ = at_;
    part_ = Part::kKeyOrEnd;
  }
  while (true) {
    if (part_ == Part::kKeyOrEnd) {
      const size_t at = SpaceEnd(at_);
      if (at == in_.size() || MayStandAt(at, row_.parameter_begin)) return Match::kMore;
      at_ = at;
      if (!StandsAt(at, row_.parameter_begin)) {
        call().arguments_json += '}';
        ArgumentsDone(0);
        return Match::kDone;
      }
      field_ = 0;
      is_string_ = -1;
      part_ = Part::kKey;
    }
    const Element& field = row_.parameter[field_];
    if (const Match match = RunField(field); match != Match::kDone) return match;
    scan_ = at_;
    ++field_;
    if (field_ < row_.parameter.size()) continue;
    part_ = Part::kKeyOrEnd;
    if (committed_) hold_ = at_;
  }
}

CallMachine::Match CallMachine::RunField(const Element& element) {
  switch (element.kind) {
    case Element::kLiteral:
      return RunLiteral(element.text);
    case Element::kSpace:
      return RunSpace();
    case Element::kKey:
      return RunShortText(key_);
    case Element::kValue:
      return RunValue(element);
    case Element::kIsString: {
      std::string word;
      const Match match = RunShortText(word);
      if (match != Match::kDone) return match;
      if (word != "true" && word != "false") return Match::kFail;
      is_string_ = word == "true";
      return Match::kDone;
    }
    default:
      return Match::kFail;
  }
}

// Reads text up to the next literal of the parameter's pattern.
CallMachine::Match CallMachine::RunShortText(std::string& out) {
  const std::string& end = row_.parameter[field_ + 1].text;
  const std::string_view window = Rest().substr(0, kMaxName + end.size());
  const size_t found = window.find(end);
  if (found == std::string_view::npos) return window.size() < kMaxName + end.size() ? Match::kMore : Match::kFail;
  if (found == 0 || window.substr(0, found).find('\n') != std::string_view::npos) return Match::kFail;
  out = TextOf(window.substr(0, found));
  at_ += found;
  return Match::kDone;
}

// Returns true if the text at `at` may follow a value, so the value ended before it.
bool CallMachine::EndsValue(size_t at, bool& partial) const {
  if (final_ && at == in_.size()) return true;
  if (section_->after_parameters.empty()) return true;
  partial = false;
  for (const std::string* next :
       {&row_.parameter_begin, &section_->after_parameters, &section_->call_end, &section_->end_literal}) {
    if (StandsAt(at, *next)) return true;
    partial = partial || MayStandAt(at, *next);
  }
  return false;
}

CallMachine::Match CallMachine::RunValue(const Element& element) {
  while (true) {
    if (close_ == kNone) {
      close_ = in_.find(element.text, scan_);
      if (close_ == std::string::npos) {
        scan_ = in_.size() - PartialAtEnd(std::string_view(in_).substr(scan_), element.text);
        return Match::kMore;
      }
      scan_ = close_ + element.text.size();
    }
    bool partial = false;
    if (EndsValue(SpaceEnd(scan_), partial)) break;
    if (partial) return Match::kMore;
    close_ = kNone;  // the value contains its end text
  }
  std::string_view value = std::string_view(in_).substr(at_, close_ - at_);
  if (value.starts_with(element.pad_before)) value.remove_prefix(element.pad_before.size());
  if (value.ends_with(element.pad_after)) value.remove_suffix(element.pad_after.size());
  const unsigned types = is_string_ == 1   ? unsigned{kStringBit}
                         : is_string_ == 0 ? ~unsigned{kStringBit}
                                           : types_.Of(call().name, key_);
  AddArgument(JsonOfText(TextOf(value), types));
  at_ = close_ + element.text.size();
  close_ = kNone;
  return Match::kDone;
}

void CallMachine::AddArgument(const std::string& json) {
  std::string& arguments = call().arguments_json;
  if (argument_count_++ > 0) arguments += ", ";
  arguments += JsonString(key_) + ": " + json;
}

// ---- {keywords} ---------------------------------------------------------------------------------------------------

CallMachine::Match CallMachine::RunKeywords() {
  if (part_ == Part::kBegin) {
    argument_count_ = 0;
    part_ = Part::kKeyOrEnd;
  }
  while (true) {
    if (part_ == Part::kValue) {
      if (const Match match = KeywordValue(); match != Match::kDone) return match;
    }
    const size_t at = SpaceEnd(at_);
    if (at == in_.size()) return Match::kMore;
    const char c = in_[at];
    if (part_ == Part::kKeyOrEnd && c != ')') {
      if (const Match match = KeywordBegin(); match != Match::kDone) return match;
    } else if (part_ == Part::kColon) {
      if (c != '=') return Match::kFail;
      at_ = at + 1;
      if (!begun_) {
        CommitCall();
        call().arguments_json = "{";
        if (committed_) hold_ = value_;
      }
      part_ = Part::kValueBegin;
    } else if (part_ == Part::kValueBegin) {
      at_ = value_ = at;
      python_ = {};
      part_ = Part::kValue;
    } else if (part_ == Part::kAfterValue && c == ',') {
      at_ = at + 1;
      part_ = Part::kKeyOrEnd;
    } else if (c == ')') {
      if (!begun_) {
        CommitCall();
        call().arguments_json = "{";
      }
      call().arguments_json += '}';
      at_ = at;
      ArgumentsDone(0);
      return Match::kDone;
    } else {
      return Match::kFail;
    }
    scan_ = std::max(scan_, at_);
  }
}

CallMachine::Match CallMachine::KeywordBegin() {
  const size_t at = scan_;  // after the whitespace
  size_t end = at;
  while (end < in_.size() && end - at <= kMaxName && IsWordByte(in_[end])) ++end;
  if (end == at || end - at > kMaxName) return Match::kFail;
  if (end == in_.size()) return Match::kMore;
  key_ = in_.substr(at, end - at);
  value_ = at;
  at_ = scan_ = end;
  part_ = Part::kColon;
  return Match::kDone;
}

CallMachine::Match CallMachine::KeywordValue() {
  size_t used = 0;
  const Scan scan = python_.Feed(Rest(), final_, used);
  at_ += used;
  if (scan != Scan::kDone) return scan == Scan::kMore ? Match::kMore : Match::kFail;
  const auto json = JsonOfPython(TextOf(std::string_view(in_).substr(value_, at_ - value_)));
  if (!json.has_value()) return Match::kFail;
  AddArgument(*json);
  scan_ = at_;
  if (committed_) hold_ = at_;
  part_ = Part::kAfterValue;
  return Match::kDone;
}

}  // namespace ingot::text
