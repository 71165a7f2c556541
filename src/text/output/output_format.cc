#include "text/output/output_format.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "base/printable.h"
#include "text/output/output_pattern.h"

namespace ingot::text {
namespace {

const std::vector<std::shared_ptr<const OutputFormat>>& Formats() {
  static const auto* const formats = [] {
    auto* all = new std::vector<std::shared_ptr<const OutputFormat>>;
    for (const OutputRow& row : BuiltinOutputRows()) all->push_back(OutputFormat::Make(row).value());
    return all;
  }();
  return *formats;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const OutputFormat>> OutputFormat::Make(const OutputRow& row) {
  INGOT_ASSIGN_OR_RETURN(CompiledRow compiled, CompileRow(row, {}));
  return std::shared_ptr<const OutputFormat>(new OutputFormat(std::move(compiled)));
}

std::shared_ptr<const OutputFormat> OutputFormat::ForTokenizer(const Tokenizer& tokenizer) const {
  std::vector<std::string> tokens;
  for (std::string& text : PossibleTokens(row_.row)) {
    if (tokenizer.SpecialId(text).has_value()) tokens.push_back(std::move(text));
  }
  // A row that compiled without tokens also compiles with them, because token marks do not change a pattern's
  // structure.
  return std::shared_ptr<const OutputFormat>(new OutputFormat(CompileRow(row_.row, std::move(tokens)).value()));
}

ParsedOutput OutputFormat::Parse(std::string_view output, const ParseOptions& options) const {
  const ParameterTypes types = TypesFor(row_, options.tools);
  const auto machine = MakeMachine(row_, options.calls, types);
  if (!options.prefill.empty()) {
    machine->Push(options.prefill, false);
    machine->EndPrefill();
  }
  machine->Push(output, false);
  machine->Finish();
  return machine->parsed();
}

std::string_view OutputFormat::PrefillOf(std::string_view generation_prompt) const {
  const ChannelRow& channels = row_.row.channels;
  size_t first = std::string_view::npos;
  for (const std::string* text : {&row_.row.think_begin, &row_.row.think_end, &channels.channel}) {
    if (!text->empty()) first = std::min(first, generation_prompt.find(*text));
  }
  return first == std::string_view::npos ? std::string_view() : generation_prompt.substr(first);
}

absl::StatusOr<const OutputFormat*> FindOutputFormat(std::string_view name) {
  for (const auto& format : Formats()) {
    const std::vector<std::string>& aliases = format->row().aliases;
    if (format->name() == name || std::find(aliases.begin(), aliases.end(), name) != aliases.end()) return format.get();
  }
  return absl::NotFoundError(absl::StrCat("unknown output format '", base::Shown(name),
                                          "'; known: ", absl::StrJoin(OutputFormatNames(), ", ")));
}

std::vector<std::string> OutputFormatNames() {
  std::vector<std::string> names;
  for (const auto& format : Formats()) names.push_back(format->name());
  return names;
}

}  // namespace ingot::text
