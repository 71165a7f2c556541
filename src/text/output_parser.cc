#include "text/output_parser.h"

#include "text/output_format.h"

namespace ingot::text {
namespace {

// A spec of one's own is compiled anew; the built-in ones were compiled once.
const OutputFormat& FormatOf(const FormatSpec& spec, std::shared_ptr<const OutputFormat>& owner) {
  for (const FormatSpec& known : BuiltinFormats()) {
    if (known == spec) return **FindOutputFormat(spec.name);
  }
  owner = OutputFormat::Make(RowOf(spec)).value();
  return *owner;
}

}  // namespace

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

ParsedOutput ParseOutput(const FormatSpec& spec, std::string_view output) {
  std::shared_ptr<const OutputFormat> owner;
  return FormatOf(spec, owner).Parse(output);
}

size_t SettledPrefix(const FormatSpec& spec, std::string_view output) {
  std::shared_ptr<const OutputFormat> owner;
  return FormatOf(spec, owner).SettledPrefix(output);
}

}  // namespace ingot::text
