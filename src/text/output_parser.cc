#include "text/output_parser.h"

#include <algorithm>
#include <optional>

namespace ingot::text {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

size_t SkipSpace(std::string_view text, size_t at) { return std::min(text.find_first_not_of(kSpace, at), text.size()); }

// As deep as base::ParseJson goes. Giving up there also keeps a run of unclosed calls linear.
constexpr size_t kMaxDepth = 100;

// Where the JSON value that begins at `at` ends, npos if it does not. Counts brackets outside strings: whether it is
// well-formed is for the JSON parser to say.
size_t JsonValueEnd(std::string_view text, size_t at) {
  size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      ++at;
      while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
      if (at >= text.size()) return std::string_view::npos;
      if (depth == 0) return at + 1;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) return std::string_view::npos;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return at;  // the end of what this scalar stands in
      if (--depth == 0) return at + 1;
    } else if (depth == 0 && (c == ',' || kSpace.find(c) != std::string_view::npos)) {
      return at;
    }
    ++at;
  }
  return std::string_view::npos;
}

// The text of field `key` of an object that is known to be well-formed JSON; the last one if there are several.
std::optional<std::string_view> RawField(std::string_view object, std::string_view key) {
  std::optional<std::string_view> found;
  size_t at = SkipSpace(object, 1);
  while (at < object.size() && object[at] == '"') {
    const size_t key_end = JsonValueEnd(object, at);
    const auto name = base::ParseJson(object.substr(at, key_end - at));
    at = SkipSpace(object, SkipSpace(object, key_end) + 1);  // past ':'
    const size_t end = JsonValueEnd(object, at);
    if (end == std::string_view::npos) return std::nullopt;
    if (name.ok() && name->is_string() && std::string_view(name->get_string()) == key) {
      found = object.substr(at, end - at);
    }
    at = SkipSpace(object, end);
    if (at < object.size() && object[at] == ',') at = SkipSpace(object, at + 1);
  }
  return found;
}

// One call; `begin` is just past call_begin. Sets `end` past call_end. nullopt: not what the format says.
std::optional<ToolCall> ParseCall(const FormatSpec& spec, std::string_view output, size_t begin, size_t& end) {
  const size_t open = SkipSpace(output, begin);
  if (open >= output.size() || output[open] != '{') return std::nullopt;
  const size_t close = JsonValueEnd(output, open);
  if (close == std::string_view::npos) return std::nullopt;
  const size_t after = SkipSpace(output, close);
  if (!output.substr(after).starts_with(spec.call_end)) return std::nullopt;
  const std::string_view object = output.substr(open, close - open);
  const auto parsed = base::ParseJson(object);
  if (!parsed.ok()) return std::nullopt;
  const base::json::value* name = base::Find(*parsed, "name");
  const base::json::value* arguments = base::Find(*parsed, "arguments");
  if (name == nullptr || !name->is_string() || name->get_string().empty()) return std::nullopt;
  if (arguments == nullptr || !arguments->is_object()) return std::nullopt;
  const auto raw = RawField(object, "arguments");
  if (!raw.has_value()) return std::nullopt;
  ToolCall call;
  call.name = std::string(name->get_string());
  call.arguments_json = std::string(*raw);
  end = after + spec.call_end.size();
  return call;
}

// Where the visible text begins, after the reasoning if there is any.
struct Opening {
  std::string_view reasoning;
  size_t content = 0;
  bool open_reasoning = false;  // the output ends inside it
};

std::string_view TrimNewlines(std::string_view text) {
  const size_t first = text.find_first_not_of('\n');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of('\n') - first + 1);
}

Opening ParseOpening(const FormatSpec& spec, std::string_view output) {
  Opening opening;
  const size_t at = SkipSpace(output, 0);
  if (spec.think_begin.empty() || !output.substr(at).starts_with(spec.think_begin)) return opening;
  const size_t begin = at + spec.think_begin.size();
  const size_t end = output.find(spec.think_end, begin);
  if (end == std::string_view::npos) {
    opening.reasoning = TrimNewlines(output.substr(begin));
    opening.content = output.size();
    opening.open_reasoning = true;
    return opening;
  }
  opening.reasoning = TrimNewlines(output.substr(begin, end - begin));
  opening.content = std::min(output.find_first_not_of('\n', end + spec.think_end.size()), output.size());
  return opening;
}

// How much of the end of `text` could be the beginning of `marker`, preceded by `before` if that is not empty.
size_t HeldBack(std::string_view text, std::string_view before, std::string_view marker) {
  size_t held = 0;
  for (size_t length = std::min(text.size(), marker.size() - 1); length > 0; --length) {
    if (text.ends_with(marker.substr(0, length))) {
      held = length;
      break;
    }
  }
  const std::string_view rest = text.substr(0, text.size() - held);
  for (size_t length = std::min(rest.size(), before.size()); length > 0; --length) {
    // Before a partial marker the whole separator must stand; at the very end a part of it may.
    if (held > 0 && length < before.size()) break;
    if (rest.ends_with(before.substr(0, length))) return held + length;
  }
  return held;
}

}  // namespace

ParsedOutput ParseOutput(const FormatSpec& spec, std::string_view output) {
  ParsedOutput parsed;
  const Opening opening = ParseOpening(spec, output);
  parsed.reasoning = std::string(opening.reasoning);
  size_t at = opening.content;
  bool after_call = false;
  while (at <= output.size()) {
    const size_t begin = output.find(spec.call_begin, at);
    std::string_view text = output.substr(at, begin == std::string_view::npos ? begin : begin - at);
    // Only white space around calls is the format's, not the message's.
    if (after_call && text.find_first_not_of(kSpace) == std::string_view::npos) text = {};
    if (begin == std::string_view::npos) {
      parsed.content += text;
      break;
    }
    size_t end = 0;
    std::optional<ToolCall> call = ParseCall(spec, output, begin + spec.call_begin.size(), end);
    if (call.has_value()) {
      if (!spec.call_separator.empty() && text.ends_with(spec.call_separator)) {
        text.remove_suffix(spec.call_separator.size());
      }
      parsed.content += text;
      parsed.tool_calls.push_back(*std::move(call));
    } else {
      parsed.malformed = true;
      const size_t closing = output.find(spec.call_end, begin);
      end = closing == std::string_view::npos ? output.size() : closing + spec.call_end.size();
      parsed.content += output.substr(at, end - at);
    }
    after_call = call.has_value();
    at = end;
  }
  return parsed;
}

size_t SettledPrefix(const FormatSpec& spec, std::string_view output) {
  const size_t start = SkipSpace(output, 0);
  const std::string_view beginning = output.substr(start);
  if (!spec.think_begin.empty() && beginning.size() < spec.think_begin.size() &&
      std::string_view(spec.think_begin).starts_with(beginning)) {
    return 0;  // reasoning may be about to begin
  }
  const Opening opening = ParseOpening(spec, output);
  if (opening.open_reasoning) {
    // Trailing newlines are the format's padding if the reasoning ends after them.
    std::string_view text = output.substr(start + spec.think_begin.size());
    text.remove_suffix(HeldBack(text, "", spec.think_end));
    const size_t last = text.find_last_not_of('\n');
    return start + spec.think_begin.size() + (last == std::string_view::npos ? 0 : last + 1);
  }
  const size_t begin = output.find(spec.call_begin, opening.content);
  const std::string_view text =
      output.substr(opening.content, begin == std::string_view::npos ? begin : begin - opening.content);
  if (begin == std::string_view::npos) {
    return opening.content + text.size() - HeldBack(text, spec.call_separator, spec.call_begin);
  }
  const bool separated = !spec.call_separator.empty() && text.ends_with(spec.call_separator);
  return opening.content + text.size() - (separated ? spec.call_separator.size() : 0);
}

}  // namespace ingot::text
