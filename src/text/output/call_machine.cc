#include "text/output/call_machine.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace ingot::text {
namespace {

constexpr size_t kMaxName = 256;  // bytes

bool IsNameByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte > 0x20 && byte != 0x7F && byte != 0xFF &&
         std::string_view("\"'`<>{}()[],;=|\\").find(c) == std::string_view::npos;
}

bool Contains(const std::vector<std::string>& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

void AppendLiterals(const Program& program, size_t first, std::vector<std::string_view>& literals) {
  for (size_t i = first; i < program.size(); ++i) {
    if (program[i].kind == Element::kOptional) {
      i += program[i].skip;
    } else if (program[i].kind == Element::kLiteral) {
      literals.push_back(program[i].text);
    }
  }
}

// Returns the name in an id such as functions.get_weather:0.
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

size_t CallMachine::SpaceEnd(size_t from) {
  const size_t end = in_.find_first_not_of(kWhiteSpace, std::max(from, scan_));
  scan_ = std::min(end, in_.size());
  return scan_;
}

bool CallMachine::StandsAt(size_t at, std::string_view literal) const {
  return !literal.empty() && std::string_view(in_).substr(at).starts_with(literal);
}

bool CallMachine::MayStandAt(size_t at, std::string_view literal) const {
  return !final_ && !literal.empty() && in_.size() - at < literal.size() &&
         literal.starts_with(std::string_view(in_).substr(at));
}

void CallMachine::StartProgram(const Program& program) {
  program_ = &program;
  element_ = 0;
  part_ = Part::kBegin;
  has_name_ = false;
  close_ = kNone;
  scan_ = at_;
}

CallMachine::Match CallMachine::StepElement() {
  const Match match = Run((*program_)[element_]);
  if (match != Match::kDone) return match;
  ++element_;
  part_ = Part::kBegin;
  scan_ = at_;
  if (committed_) (held_arguments() == 0 ? hold_ : after_arguments_) = at_;
  return Match::kDone;
}

bool CallMachine::InArguments() const {
  const Element::Kind kind = (*program_)[element_].kind;
  return kind == Element::kJson ||
         (kind == Element::kObject && part_ == Part::kValue && role_ == Role::kArguments && !repeated_);
}

void CallMachine::BreakArguments(std::string_view raw) {
  // An unclosed string has consumed the whole text.
  if (!json_.in_string() || !envelope_.whole()) AddArguments(raw);
  std::vector<std::string_view> literals = EnvelopeLiterals();
  if (!section_->call_end.empty()) literals.pop_back();  // the broken text ends before it
  const size_t needed = literals.size();
  const bool braces = (*program_)[element_].kind == Element::kObject;
  envelope_ = EnvelopeScanner(std::move(literals), needed, braces ? std::optional(json_.depth()) : std::nullopt);
}

CallMachine::Match CallMachine::Run(const Element& element) {
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
      return Match::kFail;  // CompileRow rejects all others
  }
}

CallMachine::Match CallMachine::RunLiteral(std::string_view text) {
  if (StandsAt(at_, text)) {
    at_ += text.size();
    return Match::kDone;
  }
  return MayStandAt(at_, text) ? Match::kMore : Match::kFail;
}

CallMachine::Match CallMachine::RunSpace() {
  const size_t end = SpaceEnd(at_);
  if (end == in_.size() && !final_) return Match::kMore;
  at_ = end;
  return Match::kDone;
}

CallMachine::Match CallMachine::RunName(bool is_id) {
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

// `written` is the size of the arguments' last brace in the text, directly before at_; 0 = the brace was added and is
// not in the text.
void CallMachine::ArgumentsDone(size_t written) {
  HoldArguments();
  if (held_arguments() == 0) return;
  hold_ = at_ - written;
  after_arguments_ = at_;
}

CallMachine::Match CallMachine::CheckArguments() {
  if (base::ParseJson(call().arguments_json).ok()) {
    ArgumentsDone(1);
    return Match::kDone;
  }
  if (!committed_) return Match::kFail;
  out_.malformed = true;
  return Match::kDone;
}

// Adds bytes of the text to the arguments. Holds back the end of a string while it may instead be the call's envelope,
// after an unclosed string.
void CallMachine::TakeArguments(size_t used) {
  const size_t end = at_ + used;
  for (; at_ < end; ++at_) envelope_.Read(in_[at_]);
  const size_t from = committed_ ? hold_ : end - used;
  const size_t last = committed_ && json_.in_string() ? end - envelope_.held() : end;
  if (last > from) AddArguments(std::string_view(in_).substr(from, last - from));
  if (committed_) hold_ = last;
}

// Returns the literals of the current call after its arguments.
std::vector<std::string_view> CallMachine::EnvelopeLiterals() const {
  std::vector<std::string_view> literals;
  if ((*program_)[element_].kind == Element::kObject) literals.emplace_back("}");
  AppendLiterals(*program_, element_ + 1, literals);
  return literals;
}

void CallMachine::BeginArguments() {
  if (committed_) hold_ = at_;
  json_ = {};
  std::vector<std::string_view> literals = EnvelopeLiterals();
  const size_t needed = literals.size();
  AppendLiterals(section_->end, 0, literals);
  envelope_ = EnvelopeScanner(std::move(literals), needed, std::nullopt);
}

CallMachine::Match CallMachine::RunJson() {
  if (part_ == Part::kBegin) {
    if (at_ == in_.size()) return Match::kMore;
    if (in_[at_] != '{') return Match::kFail;
    CommitCall();
    BeginArguments();
    part_ = Part::kValue;
  }
  size_t used = 0;
  const Scan scan = json_.Feed(Rest(), row_.json_stop, final_, used);
  TakeArguments(used);
  if (scan == Scan::kDone) return CheckArguments();
  return scan == Scan::kMore ? Match::kMore : Match::kFail;
}

// ---- {object} -----------------------------------------------------------------------------------------------------

CallMachine::Match CallMachine::RunObject() {
  while (true) {
    if (part_ == Part::kKey || part_ == Part::kValue) {
      size_t used = 0;
      const Scan scan = json_.Feed(Rest(), row_.json_stop, final_, used);
      const bool is_arguments = part_ == Part::kValue && role_ == Role::kArguments && !repeated_;
      if (is_arguments) TakeArguments(used);
      if (!is_arguments) at_ += used;
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
        if (c == '}' && part_ == Part::kKeyOrEnd) return Match::kFail;  // {} is not a call
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

CallMachine::Match CallMachine::ObjectKeyDone() {
  const auto parsed = base::ParseJson(TextOf(std::string_view(in_).substr(value_, at_ - value_)));
  if (!parsed.ok()) return Match::kFail;
  const std::string key(parsed->get_string());
  role_ = Contains(row_.row.name_keys, key)       ? Role::kName
          : Contains(row_.row.argument_keys, key) ? Role::kArguments
          : Contains(row_.row.id_keys, key)       ? Role::kId
                                                  : Role::kOther;
  // A bare object with a different first member is an answer, so there is no need to wait for its end.
  if (bare_ && role_ == Role::kOther && !has_name_ && !has_arguments_ && key != "type") return Match::kFail;
  part_ = Part::kColon;
  return Match::kDone;
}

CallMachine::Match CallMachine::ObjectValueBegin() {
  const char c = in_[at_];
  if ((role_ == Role::kName && c != '"') || (role_ == Role::kArguments && c != '{')) return Match::kFail;
  if (committed_ && (role_ == Role::kName || role_ == Role::kArguments)) {
    out_.malformed = true;  // a second name or arguments after the call was committed; the first ones are used
    repeated_ = true;
  } else if (role_ == Role::kArguments) {
    call().arguments_json.clear();
    has_arguments_ = true;
    if (has_name_) CommitCall();
    BeginArguments();
  }
  json_ = {};
  value_ = at_;
  part_ = Part::kValue;
  return Match::kDone;
}

CallMachine::Match CallMachine::ObjectValueDone() {
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
    if (has_arguments_) {
      CommitCall();
      HoldArguments();
      after_arguments_ = at_;
    }
  } else if (role_ == Role::kId) {
    call().id = parsed->is_string() ? std::string(parsed->get_string()) : base::PrintJson(*parsed);
  }
  return Match::kDone;
}

}  // namespace ingot::text
