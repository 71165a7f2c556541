#include "text/output/format_spec.h"

#include "base/status.h"

namespace ingot::text {
namespace {

// The Hermes convention in the exact words that Qwen 2.5 and Qwen 3 were trained on.
FormatSpec Hermes() {
  FormatSpec spec;
  spec.name = "hermes";
  spec.tools_separator = "\n\n";
  spec.tools_begin =
      "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
      "You are provided with function signatures within <tools></tools> XML tags:\n<tools>";
  spec.tool_prefix = "\n";
  spec.tools_end =
      "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
      "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n"
      "</tool_call>";
  return spec;
}

// A short form of the same turns and calls for models of a million parameters with a byte-level tokenizer, where every
// character is a token. One line lists the tools, and there is no padding.
FormatSpec Compact() {
  FormatSpec spec;
  spec.name = "compact";
  spec.tools_separator = "\n";
  spec.tools_begin = "Tools:";
  spec.tool_prefix = " ";
  spec.tools_as_signatures = true;
  spec.think_pad = "";
  spec.after_think = "";
  spec.call_pad = "";
  spec.call_separator = "";
  spec.response_pad = "";
  spec.response_separator = "";
  return spec;
}

}  // namespace

std::string FormatSpec::Definition() const {
  std::string out;
  for (const std::string* field : {&name,         &turn_begin,        &role_end,       &turn_end,       &after_turn,
                                   &stop_token,   &tools_separator,   &tools_begin,    &tool_prefix,    &tools_end,
                                   &think_begin,  &think_pad,         &think_end,      &after_think,    &call_begin,
                                   &call_pad,     &call_end,          &call_separator, &response_begin, &response_pad,
                                   &response_end, &response_separator}) {
    absl::StrAppend(&out, field->size(), ":", *field, "\n");
  }
  absl::StrAppend(&out, tools_as_signatures ? "signatures" : "definitions");
  return out;
}

std::span<const FormatSpec> BuiltinFormats() {
  static const auto* const formats = new std::vector<FormatSpec>{Hermes(), Compact()};
  return *formats;
}

OutputRow RowOf(const FormatSpec& spec) {
  OutputRow row;
  row.name = spec.name;
  row.think_begin = spec.think_begin;
  row.think_end = spec.think_end;
  SectionRow section;
  const std::string pad = "{~" + spec.call_pad + "}";
  section.call = spec.call_begin + pad + "{object}" + pad + spec.call_end;
  section.between = spec.call_separator;
  section.before = spec.call_separator;
  row.sections.push_back(std::move(section));
  return row;
}

}  // namespace ingot::text
