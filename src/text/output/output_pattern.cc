#include "text/output/output_pattern.h"

#include <algorithm>
#include <optional>

namespace ingot::text {
namespace {

struct Placeholder {
  std::string_view name;
  Element::Kind kind;
};

constexpr Placeholder kPlaceholders[] = {
    {"name", Element::kName},         {"id", Element::kId},       {"json", Element::kJson},
    {"object", Element::kObject},     {"key", Element::kKey},     {"parameters", Element::kParameters},
    {"keywords", Element::kKeywords}, {"value", Element::kValue}, {"is_string", Element::kIsString},
    {"content", Element::kContent},
};

class PatternCompiler {
 public:
  PatternCompiler(std::string_view pattern, std::span<const std::string> tokens) : pattern_(pattern), tokens_(tokens) {}

  absl::StatusOr<Program> Run() {
    INGOT_RETURN_IF_ERROR(Sequence(0));
    INGOT_RETURN_IF_ERROR(BindValues());
    for (size_t i = 0; i + 1 < program_.size(); ++i) {
      const Element::Kind kind = program_[i].kind, next = program_[i + 1].kind;
      if ((kind == Element::kKey || kind == Element::kIsString) && next != Element::kLiteral) {
        return Bad("{key} and {is_string} must be followed by text");
      }
      if ((kind == Element::kName || kind == Element::kId) && (next == Element::kName || next == Element::kId)) {
        return Bad("two names next to each other are ambiguous");
      }
    }
    return std::move(program_);
  }

 private:
  absl::Status Bad(std::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("pattern '", base::View(pattern_), "': ", base::View(what)));
  }

  void Literal(std::string_view text) {
    if (text.empty()) return;
    if (join_ && !program_.empty() && program_.back().kind == Element::kLiteral) {
      program_.back().text += text;
    } else {
      join_ = true;
      program_.push_back({.kind = Element::kLiteral, .text = std::string(text)});
    }
  }

  // Reads elements up to the end or to the brace that closes the current group.
  absl::Status Sequence(int depth) {
    while (at_ < pattern_.size()) {
      const size_t brace = std::min(pattern_.find_first_of("{}", at_), pattern_.size());
      Literal(pattern_.substr(at_, brace - at_));
      at_ = brace;
      if (at_ == pattern_.size()) break;
      if (pattern_[at_] == '}') {
        if (depth == 0) return Bad("a closing brace has no opening brace");
        return absl::OkStatus();
      }
      ++at_;
      INGOT_RETURN_IF_ERROR(Braces());
    }
    return depth == 0 ? absl::OkStatus() : Bad("a brace is not closed");
  }

  absl::Status Braces() {
    if (at_ < pattern_.size() && pattern_[at_] == '?') {
      ++at_;
      const size_t text_end = std::min(pattern_.find_first_of("{}", at_), pattern_.size());
      if (text_end == at_) return Bad("{? needs a string to look for");
      const size_t index = program_.size();
      program_.push_back({.kind = Element::kOptional, .text = std::string(pattern_.substr(at_, text_end - at_))});
      at_ = text_end;
      INGOT_RETURN_IF_ERROR(Sequence(1));
      program_[index].skip = program_.size() - index - 1;
      join_ = false;
      ++at_;
      return absl::OkStatus();
    }
    const size_t close = pattern_.find('}', at_);
    if (close == std::string_view::npos) return Bad("a brace is not closed");
    const std::string_view name = pattern_.substr(at_, close - at_);
    at_ = close + 1;
    if (name.starts_with('~')) {
      if (name.find_first_not_of(kWhiteSpace, 1) != std::string_view::npos) return Bad("{~ accepts only whitespace");
      program_.push_back({.kind = Element::kSpace, .text = std::string(name.substr(1))});
      return absl::OkStatus();
    }
    for (const Placeholder& known : kPlaceholders) {
      if (known.name != name) continue;
      program_.push_back({.kind = known.kind});
      return absl::OkStatus();
    }
    return Bad(absl::StrCat("unknown placeholder {", base::View(name), "}"));
  }

  // Moves the padding and end text of each {value} from the neighboring literals into the element, then marks the
  // tokens.
  absl::Status BindValues() {
    for (size_t i = 0; i < program_.size(); ++i) {
      if (program_[i].kind != Element::kValue) continue;
      if (i == 0 || program_[i - 1].kind != Element::kLiteral || i + 1 >= program_.size() ||
          program_[i + 1].kind != Element::kLiteral) {
        return Bad("{value} must be between two strings");
      }
      std::string& before = program_[i - 1].text;
      const size_t last = before.find_last_not_of(kWhiteSpace);
      std::string end = program_[i + 1].text;
      const size_t first = end.find_first_not_of(kWhiteSpace);
      if (last == std::string::npos || first == std::string::npos) return Bad("{value} must be between two strings");
      program_[i].pad_before = before.substr(last + 1);
      before.resize(last + 1);
      program_[i].pad_after = end.substr(0, first);
      program_[i].text = end.substr(first, end.find_last_not_of(kWhiteSpace) - first + 1);
      program_.erase(program_.begin() + i + 1);
    }
    for (Element& element : program_) {
      if (element.kind == Element::kLiteral || element.kind == Element::kOptional || element.kind == Element::kValue) {
        element.text = WithMarks(element.text, tokens_);
      }
    }
    return absl::OkStatus();
  }

  const std::string_view pattern_;
  const std::span<const std::string> tokens_;
  size_t at_ = 0;
  bool join_ = true;  // false = the next literal stays separate from one inside the preceding group
  Program program_;
};

std::string Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kWhiteSpace);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(kWhiteSpace) - first + 1));
}

absl::Status CheckCall(const CompiledRow& compiled, const SectionRow& source, Section& section) {
  int arguments = 0, names = 0;
  for (size_t i = 0; i < section.call.size(); ++i) {
    const Element::Kind kind = section.call[i].kind;
    names += kind == Element::kName || kind == Element::kId || kind == Element::kObject;
    if (kind == Element::kKey || kind == Element::kValue || kind == Element::kIsString || kind == Element::kContent) {
      return absl::InvalidArgumentError(absl::StrCat(
          "call '", source.call, "': {key}, {value}, {is_string} and {content} are not allowed in a call"));
    }
    if (kind != Element::kJson && kind != Element::kObject && kind != Element::kParameters &&
        kind != Element::kKeywords) {
      continue;
    }
    ++arguments;
    if (kind != Element::kObject && names == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("call '", source.call, "': the name must come before the arguments"));
    }
    section.after_parameters = FirstLiteral(Program(section.call.begin() + i + 1, section.call.end()));
    if (kind == Element::kKeywords && !section.after_parameters.starts_with(')')) {
      return absl::InvalidArgumentError(absl::StrCat("call '", source.call, "': {keywords} must end with )"));
    }
  }
  if (arguments != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("call '", source.call,
                     "' needs exactly one of {json}, {object}, {parameters} and {keywords}, not ", arguments));
  }
  if (Has(section.call, Element::kParameters) && compiled.parameter.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("call '", source.call, "' needs `parameter` in its row"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Section> CompileSection(const SectionRow& row, const CompiledRow& compiled) {
  Section section;
  INGOT_ASSIGN_OR_RETURN(section.begin, CompilePattern(row.begin, compiled.tokens));
  INGOT_ASSIGN_OR_RETURN(section.call, CompilePattern(row.call, compiled.tokens));
  INGOT_ASSIGN_OR_RETURN(section.end, CompilePattern(row.end, compiled.tokens));
  for (const Program* program : {&section.begin, &section.end}) {
    for (const Element& element : *program) {
      if (element.kind == Element::kLiteral || element.kind == Element::kSpace || element.kind == Element::kOptional) {
        continue;
      }
      return absl::InvalidArgumentError("`begin` and `end` of a section must be plain text");
    }
  }
  section.separator = WithMarks(Trimmed(row.between), compiled.tokens);
  section.between = row.between;
  section.before = row.before;
  section.bare = row.bare;
  section.first_call = FirstLiteral(section.call);
  if (section.first_call.empty() && !section.call.empty() && section.call[0].kind == Element::kObject) {
    section.first_call = "{";
  }
  section.end_literal = FirstLiteral(section.end);
  section.call_end = LastLiteral(section.call);
  INGOT_RETURN_IF_ERROR(CheckCall(compiled, row, section));
  if (FirstLiteral(section.begin).empty() && section.first_call.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("call '", row.call, "': its section must begin with text"));
  }
  if (!section.end.empty() && section.end_literal.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("`end` '", row.end, "' must be plain text"));
  }
  return section;
}

absl::Status CompileChannels(CompiledRow& compiled) {
  const ChannelRow& row = compiled.row.channels;
  if (!row.used()) return absl::OkStatus();
  if (row.start.empty() || row.channel.empty() || row.recipient_key.empty() || row.ends.empty()) {
    return absl::InvalidArgumentError("channels need start, channel, message, recipient_key and ends");
  }
  const auto mark = [&](const std::string& text) { return WithMarks(text, compiled.tokens); };
  compiled.start = mark(row.start);
  compiled.channel = mark(row.channel);
  compiled.constrain = mark(row.constrain);
  compiled.message = mark(row.message);
  for (const std::string& end : row.ends) compiled.ends.push_back(mark(end));
  compiled.ends.push_back(compiled.start);
  INGOT_ASSIGN_OR_RETURN(compiled.write_content, CompilePattern(row.write_content, {}));
  INGOT_ASSIGN_OR_RETURN(compiled.write_preamble, CompilePattern(row.write_preamble, {}));
  INGOT_ASSIGN_OR_RETURN(compiled.write_call, CompilePattern(row.write_call, {}));
  INGOT_ASSIGN_OR_RETURN(compiled.write_between, CompilePattern(row.write_between, {}));
  return absl::OkStatus();
}

// Returns the end of a possible token that begins at `at`, or npos if there is none.
size_t PossibleTokenEnd(std::string_view text, size_t at) {
  constexpr std::string_view kBar = "｜";
  size_t end = std::string_view::npos;
  if (text[at] == '<' || text[at] == '[') {
    end = text.find(text[at] == '<' ? '>' : ']', at);
    if (end != std::string_view::npos) ++end;
  } else if (text.substr(at).starts_with(kBar)) {
    end = text.find(kBar, at + kBar.size());
    if (end != std::string_view::npos) end += kBar.size();
  }
  if (end == std::string_view::npos || end - at < 3) return std::string_view::npos;
  const std::string_view inside = text.substr(at + 1, end - at - 2);
  return inside.find_first_of(" \t\r\n{}\"<[") == std::string_view::npos ? end : std::string_view::npos;
}

}  // namespace

void AppendInner(std::string_view text, std::string& inner) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t mark = text.find('\xFF', at);
    inner += text.substr(at, mark == std::string_view::npos ? mark : mark - at);
    if (mark == std::string_view::npos) return;
    inner += "\xFF\x02";
    at = mark + 1;
  }
}

void AppendText(std::string_view inner, std::string& text) {
  size_t at = 0;
  while (at < inner.size()) {
    const size_t mark = inner.find('\xFF', at);
    text += inner.substr(at, mark == std::string_view::npos ? mark : mark - at);
    if (mark == std::string_view::npos) return;
    if (inner.substr(mark + 1).starts_with('\x02')) text += '\xFF';
    at = mark + 2;
  }
}

std::string TextOf(std::string_view inner) {
  std::string text;
  AppendText(inner, text);
  return text;
}

std::string WithMarks(std::string_view literal, std::span<const std::string> tokens) {
  std::string out;
  for (size_t at = 0; at < literal.size();) {
    const auto token = std::find_if(tokens.begin(), tokens.end(), [&](const std::string& candidate) {
      return literal.substr(at).starts_with(candidate);
    });
    if (token == tokens.end()) {
      out += literal[at++];
    } else {
      out += kTokenMark;
      out += *token;
      at += token->size();
    }
  }
  return out;
}

absl::StatusOr<Program> CompilePattern(std::string_view pattern, std::span<const std::string> tokens) {
  return PatternCompiler(pattern, tokens).Run();
}

std::string FirstLiteral(const Program& program) {
  for (const Element& element : program) {
    if (element.kind == Element::kSpace) continue;
    return element.kind == Element::kLiteral ? element.text : "";
  }
  return "";
}

std::string LastLiteral(const Program& program) {
  for (auto element = program.rbegin(); element != program.rend(); ++element) {
    if (element->kind == Element::kSpace || element->kind == Element::kOptional) continue;
    return element->kind == Element::kLiteral ? element->text : "";
  }
  return "";
}

bool Has(const Program& program, Element::Kind kind) {
  return std::any_of(program.begin(), program.end(), [&](const Element& element) { return element.kind == kind; });
}

size_t PartialAtEnd(std::string_view text, std::string_view literal) {
  if (literal.empty()) return 0;
  for (size_t length = std::min(text.size(), literal.size() - 1); length > 0; --length) {
    if (text.ends_with(literal.substr(0, length))) return length;
  }
  return 0;
}

absl::StatusOr<CompiledRow> CompileRow(const OutputRow& row, std::vector<std::string> tokens) {
  CompiledRow compiled;
  compiled.row = row;
  std::sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  compiled.tokens = std::move(tokens);
  const auto annotate = [&](const absl::Status& status) {
    return base::Annotate(status, absl::StrCat("output format '", row.name, "'"));
  };
  if (row.name.empty()) return absl::InvalidArgumentError("an output format needs a name");
  if (row.think_begin.empty() != row.think_end.empty()) {
    return annotate(absl::InvalidArgumentError("think_begin and think_end must be set together"));
  }
  compiled.think_begin = WithMarks(row.think_begin, compiled.tokens);
  compiled.think_end = WithMarks(row.think_end, compiled.tokens);
  auto parameter = CompilePattern(Trimmed(row.parameter), compiled.tokens);
  if (!parameter.ok()) return annotate(parameter.status());
  compiled.parameter = *std::move(parameter);
  compiled.parameter_begin = FirstLiteral(compiled.parameter);
  if (!compiled.parameter.empty() &&
      (compiled.parameter_begin.empty() || compiled.parameter.back().kind != Element::kValue ||
       !Has(compiled.parameter, Element::kKey))) {
    return annotate(absl::InvalidArgumentError("`parameter` must be text, {key}, text, {value}, text"));
  }
  for (const SectionRow& source : row.sections) {
    auto section = CompileSection(source, compiled);
    if (!section.ok()) return annotate(section.status());
    if (!section->bare) {
      std::string first = FirstLiteral(section->begin);
      if (first.empty()) first = section->first_call;
      compiled.triggers.push_back({std::move(first), static_cast<int>(compiled.sections.size())});
    }
    compiled.sections.push_back(*std::move(section));
  }
  for (const std::string& text : row.dropped) compiled.triggers.push_back({WithMarks(text, compiled.tokens), -1});
  std::stable_sort(compiled.triggers.begin(), compiled.triggers.end(),
                   [](const Trigger& a, const Trigger& b) { return a.text.size() > b.text.size(); });
  for (const Trigger& trigger : compiled.triggers) {
    if (trigger.text.empty()) return annotate(absl::InvalidArgumentError("`dropped` has an empty string"));
    compiled.trigger_starts[static_cast<unsigned char>(trigger.text[0])] = true;
    if (trigger.section >= 0 && trigger.text.size() > 1 && trigger.text[0] == '[') compiled.json_stop = trigger.text;
  }
  const absl::Status channels = CompileChannels(compiled);
  if (!channels.ok()) return annotate(channels);
  return compiled;
}

std::vector<std::string> PossibleTokens(const OutputRow& row) {
  std::vector<std::string> texts = {row.think_begin, row.think_end, row.parameter};
  for (const SectionRow& section : row.sections) {
    texts.insert(texts.end(), {section.begin, section.call, section.between, section.end});
  }
  texts.insert(texts.end(), row.dropped.begin(), row.dropped.end());
  const ChannelRow& channels = row.channels;
  texts.insert(texts.end(), {channels.start, channels.channel, channels.constrain, channels.message});
  texts.insert(texts.end(), channels.ends.begin(), channels.ends.end());
  std::vector<std::string> found;
  for (const std::string& text : texts) {
    for (size_t at = 0; at < text.size(); ++at) {
      const size_t end = PossibleTokenEnd(text, at);
      if (end == std::string::npos) continue;
      std::string candidate = text.substr(at, end - at);
      if (std::find(found.begin(), found.end(), candidate) == found.end()) found.push_back(std::move(candidate));
    }
  }
  return found;
}

}  // namespace ingot::text
