#include "text/output_format.h"

#include "absl/strings/str_join.h"
#include "text/format_spec.h"
#include "text/output_parser.h"

namespace ingot::text {
namespace {

class SpecFormat final : public OutputFormat {
 public:
  explicit SpecFormat(const FormatSpec& spec) : spec_(spec) {}
  const std::string& name() const override { return spec_.name; }
  ParsedOutput Parse(std::string_view output) const override { return ParseOutput(spec_, output); }
  size_t SettledPrefix(std::string_view output) const override { return text::SettledPrefix(spec_, output); }

 private:
  const FormatSpec& spec_;
};

const std::vector<SpecFormat>& Formats() {
  static const auto* const formats = [] {
    auto* all = new std::vector<SpecFormat>;
    for (const FormatSpec& spec : BuiltinFormats()) all->emplace_back(spec);
    return all;
  }();
  return *formats;
}

}  // namespace

absl::StatusOr<const OutputFormat*> FindOutputFormat(std::string_view name) {
  for (const SpecFormat& format : Formats()) {
    if (format.name() == name) return &format;
  }
  return absl::NotFoundError(
      absl::StrCat("no output format '", base::View(name), "'; known: ", absl::StrJoin(OutputFormatNames(), ", ")));
}

std::vector<std::string> OutputFormatNames() {
  std::vector<std::string> names;
  for (const SpecFormat& format : Formats()) names.push_back(format.name());
  return names;
}

}  // namespace ingot::text
