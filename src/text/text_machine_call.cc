#include <algorithm>
#include <cctype>

#include "text/text_machine.h"

namespace ingot::text {
namespace {

constexpr size_t kMaxName = 256;  // bytes

bool IsNameByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte > 0x20 && byte != 0x7F && byte != 0xFF &&
         std::string_view("\"'`<>{}()[],;=|\\").find(c) == std::string_view::npos;
}

bool IsWordByte(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80 && c != '\xFF'); }

bool Contains(const std::vector<std::string>& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// The name within an id such as functions.get_weather:0.
std::string NameOfId(std::string_view id, const OutputRow& row) {
  if (!row.id_prefix.empty() && id.starts_with(row.id_prefix)) id.remove_prefix(row.id_prefix.size());
  const size_t index = row.id_index.empty() ? std::string_view::npos : id.rfind(row.id_index);
  if (index != std::string_view::npos && index + 1 < id.size() &&
      id.find_first_not_of("0123456789", index + 1) == std::string_view::npos) {
    id = id.substr(0, index);
  }
  return std::string(id);
}

}  // namespace

void TextMachine::StartProgram(const Program& program) {
  program_ = &program;
  element_ = 0;
  part_ = Part::kBegin;
  has_name_ = false;
  close_ = kNone;
  scan_ = at_;
}

void TextMachine::NextProgram() {
  if (program_ == &section_->end) {
    if (!section_has_call_) Content(std::string_view(in_).substr(hold_, at_ - hold_));
    hold_ = at_;
    EndSection();
  } else if (program_ == &section_->call) {
    section_has_call_ = true;
    EndCall();
    hold_ = at_;
    Enter(State::kBetween);
  } else {
    StartProgram(section_->call);
  }
}

bool TextMachine::StepCall() {
  if (element_ == program_->size()) {
    NextProgram();
    return true;
  }
  switch (Run((*program_)[element_])) {
    case Match::kMore:
      if (!final_) return false;
      Fail();
      return true;
    case Match::kFail:
      Fail();
      return true;
    case Match::kDone:
      ++element_;
      part_ = Part::kBegin;
      scan_ = at_;
      if (committed_) hold_ = at_;
      return true;
  }
  return false;
}

void TextMachine::Fail() {
  const std::string_view raw = std::string_view(in_).substr(hold_, at_ - hold_);
  if (program_ == &section_->end) {
    out_.malformed = true;
    if (!section_has_call_) Content(raw);
    hold_ = at_;
    EndSection();
    return;
  }
  if (committed_) {
    out_.malformed = true;
    const Element::Kind kind = (*program_)[element_].kind;
    const bool in_arguments = kind == Element::kJson || (kind == Element::kObject && part_ == Part::kValue &&
                                                         role_ == Role::kArguments && !repeated_);
    broken_ = in_arguments ? Broken::kArguments : Broken::kJunk;
    if (!in_arguments) {
      const size_t first = raw.find_first_not_of(kWhiteSpace);
      junk_begun_ = first != std::string_view::npos;
      if (junk_begun_) Content(raw.substr(first));
      BeginCall();
    }
    hold_ = at_;
    Enter(State::kBroken);
    return;
  }
  const bool is_text = bare_ && !begun_;
  if (is_text && first_call_ == hold_) first_call_ = kNone;
  Content(raw);
  hold_ = at_;
  BeginCall();
  if (is_text) {
    after_call_ = false;
    Enter(State::kContent);
  } else {
    out_.malformed = true;
    broken_ = Broken::kContent;
    Enter(State::kBroken);
  }
}

TextMachine::Match TextMachine::Run(const Element& element) {
  switch (element.kind) {
    case Element::kLiteral:
      return RunLiteral(element.text);
    case Element::kSpace:
      return RunSpace();
    case Element::kOptional:
      if (MayStandAt(at_, element.text)) return Match::kMore;
      if (StandsAt(at_, element.text)) {
        at_ += element.text.size();
      } else {
        element_ += element.skip;
      }
      return Match::kDone;
    case Element::kName:
      return RunName(false);
    case Element::kId:
      return RunName(true);
    case Element::kJson:
      return RunJson();
    case Element::kObject:
      return RunObject();
    case Element::kParameters:
      return RunParameters();
    case Element::kKeywords:
      return RunKeywords();
    default:
      return Match::kFail;  // CompileRow lets no other in
  }
}

TextMachine::Match TextMachine::RunLiteral(std::string_view text) {
  if (StandsAt(at_, text)) {
    at_ += text.size();
    return Match::kDone;
  }
  return MayStandAt(at_, text) ? Match::kMore : Match::kFail;
}

TextMachine::Match TextMachine::RunSpace() {
  const size_t end = SpaceEnd(at_);
  if (end == in_.size() && !final_) return Match::kMore;
  at_ = end;
  return Match::kDone;
}

TextMachine::Match TextMachine::RunName(bool is_id) {
  size_t end = at_;
  while (end < in_.size() && end - at_ <= kMaxName && IsNameByte(in_[end])) ++end;
  if (end - at_ > kMaxName) return Match::kFail;
  if (end == in_.size()) return Match::kMore;
  if (end == at_) return Match::kFail;
  std::string text = in_.substr(at_, end - at_);
  if (is_id) {
    if (!has_name_) call().name = NameOfId(text, row_.row);
    call().id = std::move(text);
  } else {
    call().name = std::move(text);
  }
  has_name_ = !is_id;
  at_ = end;
  return call().name.empty() ? Match::kFail : Match::kDone;
}

TextMachine::Match TextMachine::CheckArguments() {
  if (base::ParseJson(call().arguments_json).ok()) return Match::kDone;
  if (!committed_) return Match::kFail;
  out_.malformed = true;
  return Match::kDone;
}

TextMachine::Match TextMachine::RunJson() {
  if (part_ == Part::kBegin) {
    if (at_ == in_.size()) return Match::kMore;
    if (in_[at_] != '{') return Match::kFail;
    json_ = {};
    CommitCall();
    part_ = Part::kValue;
  }
  size_t used = 0;
  const Scan scan = json_.Feed(Rest(), used);
  AddArguments(Rest().substr(0, used));
  at_ += used;
  if (committed_) hold_ = at_;
  if (scan == Scan::kDone) return CheckArguments();
  return scan == Scan::kMore ? Match::kMore : Match::kFail;
}

// ---- {object} -----------------------------------------------------------------------------------------------------

TextMachine::Match TextMachine::RunObject() {
  while (true) {
    if (part_ == Part::kKey || part_ == Part::kValue) {
      size_t used = 0;
      const Scan scan = json_.Feed(Rest(), used);
      const bool is_arguments = part_ == Part::kValue && role_ == Role::kArguments && !repeated_;
      if (is_arguments) AddArguments(Rest().substr(0, used));
      at_ += used;
      if (is_arguments && committed_) hold_ = at_;
      if (scan != Scan::kDone) return scan == Scan::kMore ? Match::kMore : Match::kFail;
      const Match match = part_ == Part::kKey ? ObjectKeyDone() : ObjectValueDone();
      if (match != Match::kDone) return match;
    }
    if (part_ != Part::kBegin) at_ = SpaceEnd(at_);
    if (at_ == in_.size()) return Match::kMore;
    const char c = in_[at_];
    switch (part_) {
      case Part::kBegin:
        if (c != '{') return Match::kFail;
        has_name_ = has_arguments_ = repeated_ = false;
        part_ = Part::kKeyOrEnd;
        ++at_;
        break;
      case Part::kKeyOrEnd:
      case Part::kNextKey:
        if (c == '}' && part_ == Part::kKeyOrEnd) return Match::kFail;  // no call
        if (c != '"') return Match::kFail;
        json_ = {};
        value_ = at_;
        part_ = Part::kKey;
        break;
      case Part::kColon:
        if (c != ':') return Match::kFail;
        ++at_;
        part_ = Part::kValueBegin;
        break;
      case Part::kValueBegin:
        if (const Match match = ObjectValueBegin(); match != Match::kDone) return match;
        break;
      default:  // kAfterValue
        if (c != ',' && c != '}') return Match::kFail;
        if (c == '}' && !(has_name_ && has_arguments_)) return Match::kFail;
        ++at_;
        if (c == '}') return Match::kDone;
        part_ = Part::kNextKey;
    }
    scan_ = std::max(scan_, at_);
  }
}

TextMachine::Match TextMachine::ObjectKeyDone() {
  const auto parsed = base::ParseJson(TextOf(std::string_view(in_).substr(value_, at_ - value_)));
  if (!parsed.ok()) return Match::kFail;
  const std::string key(parsed->get_string());
  role_ = Contains(row_.row.name_keys, key)       ? Role::kName
          : Contains(row_.row.argument_keys, key) ? Role::kArguments
          : Contains(row_.row.id_keys, key)       ? Role::kId
                                                  : Role::kOther;
  // An object that begins otherwise is an answer, which need not wait for its end.
  if (bare_ && role_ == Role::kOther && !has_name_ && !has_arguments_ && key != "type") return Match::kFail;
  part_ = Part::kColon;
  return Match::kDone;
}

TextMachine::Match TextMachine::ObjectValueBegin() {
  const char c = in_[at_];
  if ((role_ == Role::kName && c != '"') || (role_ == Role::kArguments && c != '{')) return Match::kFail;
  if (committed_ && (role_ == Role::kName || role_ == Role::kArguments)) {
    out_.malformed = true;  // said again after it went out: the first counts
    repeated_ = true;
  } else if (role_ == Role::kArguments) {
    call().arguments_json.clear();
    has_arguments_ = true;
    if (has_name_) CommitCall();
  }
  json_ = {};
  value_ = at_;
  part_ = Part::kValue;
  return Match::kDone;
}

TextMachine::Match TextMachine::ObjectValueDone() {
  part_ = Part::kAfterValue;
  if (role_ == Role::kArguments && !repeated_) return CheckArguments();
  const auto parsed = base::ParseJson(TextOf(std::string_view(in_).substr(value_, at_ - value_)));
  if (!parsed.ok()) {
    if (!committed_) return Match::kFail;
    out_.malformed = true;
    return Match::kDone;
  }
  if (repeated_) {
    repeated_ = false;
  } else if (role_ == Role::kName) {
    call().name = std::string(parsed->get_string());
    if (call().name.empty()) return Match::kFail;
    has_name_ = true;
    if (has_arguments_) CommitCall();
  } else if (role_ == Role::kId) {
    call().id = parsed->is_string() ? std::string(parsed->get_string()) : base::PrintJson(*parsed);
  }
  return Match::kDone;
}

// ---- {parameters} -------------------------------------------------------------------------------------------------

TextMachine::Match TextMachine::RunParameters() {
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

TextMachine::Match TextMachine::RunField(const Element& element) {
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

// Up to the literal that follows in the parameter's pattern.
TextMachine::Match TextMachine::RunShortText(std::string& out) {
  const std::string& end = row_.parameter[field_ + 1].text;
  const std::string_view window = Rest().substr(0, kMaxName + end.size());
  const size_t found = window.find(end);
  if (found == std::string_view::npos) return window.size() < kMaxName + end.size() ? Match::kMore : Match::kFail;
  if (found == 0 || window.substr(0, found).find('\n') != std::string_view::npos) return Match::kFail;
  out = TextOf(window.substr(0, found));
  at_ += found;
  return Match::kDone;
}

// Whether what stands at `at` may follow a value, so that the value ended before it.
bool TextMachine::EndsValue(size_t at, bool& partial) const {
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

TextMachine::Match TextMachine::RunValue(const Element& element) {
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
    close_ = kNone;  // the value quotes its end
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

void TextMachine::AddArgument(const std::string& json) {
  std::string& arguments = call().arguments_json;
  if (argument_count_++ > 0) arguments += ", ";
  arguments += JsonString(key_) + ": " + json;
}

// ---- {keywords} ---------------------------------------------------------------------------------------------------

TextMachine::Match TextMachine::RunKeywords() {
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
      return Match::kDone;
    } else {
      return Match::kFail;
    }
    scan_ = std::max(scan_, at_);
  }
}

TextMachine::Match TextMachine::KeywordBegin() {
  const size_t at = scan_;  // past white space
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

TextMachine::Match TextMachine::KeywordValue() {
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
