#include "app/models/text_parts.h"

#include <algorithm>
#include <filesystem>

#include "app/run/model_options.h"
#include "base/file.h"
#include "base/json.h"
#include "base/written_files.h"
#include "text/chat/chat_template.h"
#include "text/output/format_spec.h"

namespace ingot::app {
namespace {

constexpr char kInfoFile[] = "ingot.json";
constexpr char kBuiltin[] = "hermes";  // for a folder without a format

// Returns every delimiter in every built-in format, so that a byte-level model can change its format without changing
// its vocabulary.
std::vector<std::string> ByteTokenizerSpecials() {
  std::vector<std::string> specials;
  const auto add = [&specials](const std::string& token) {
    if (std::find(specials.begin(), specials.end(), token) == specials.end()) specials.push_back(token);
  };
  for (const text::FormatSpec& format : text::BuiltinFormats()) {
    add(format.stop_token);
    for (const std::string& marker : format.Markers()) add(marker);
  }
  return specials;
}

std::string InfoJson(const std::string& chat_format) {
  return base::PrintJson(base::json::object{{"chat_format", chat_format}}) + "\n";
}

// Returns whether `name` is "template" or "template:NAME": the folder's own template, with the output format NAME.
bool NamesTemplate(const std::string& name) {
  return name == kTemplateFormat || name.starts_with(kTemplateFormatPrefix);
}

// Returns the ids where an engine stops for this model.
absl::StatusOr<std::vector<int32_t>> ModelEnds(const std::string& model_dir) {
  const std::string path = model_dir + "/config.json";
  const absl::StatusOr<std::string> config = base::ReadFile(path);
  if (absl::IsNotFound(config.status())) return std::vector<int32_t>();  // a folder with only a tokenizer
  INGOT_RETURN_IF_ERROR(config.status());
  auto ends = text::EosIdsIn(*config);
  if (!ends.ok()) return base::Annotate(ends.status(), path);
  return ends;
}

absl::StatusOr<std::shared_ptr<const text::ChatFormat>> MakeFormat(const std::string& name,
                                                                   const std::string& model_dir,
                                                                   std::shared_ptr<const text::Tokenizer> tokenizer,
                                                                   const std::string& chat_template) {
  if (!NamesTemplate(name)) {
    INGOT_ASSIGN_OR_RETURN(const std::vector<int32_t> ends, ModelEnds(model_dir));
    return text::MakeChatFormat(name, std::move(tokenizer), ends);
  }
  const std::string output = name == kTemplateFormat ? "" : name.substr(std::string(kTemplateFormatPrefix).size());
  return text::LoadChatFormat(model_dir, std::move(tokenizer), output, chat_template);
}

// Returns whether the name has the form ORG/NAME. If a folder ORG exists, the name is treated as a mistyped path
// instead.
bool IsHubName(const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos || slash == 0 || slash != name.rfind('/') || name.starts_with(".")) return false;
  std::error_code error;
  return slash + 1 < name.size() && !std::filesystem::exists(name.substr(0, slash), error);
}

// Guesses what the user meant by a folder without a tokenizer; empty = no guess.
std::string MeantBy(const std::string& model_dir) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (model_dir.ends_with(".gguf")) {
    return absl::StrCat("; convert a GGUF file first: `ingot model convert ", model_dir, " DIR`");
  }
  if (!fs::exists(model_dir, error)) {
    const std::string missing = absl::StrCat("; there is no folder ", model_dir);
    if (!IsHubName(model_dir)) return missing;
    return absl::StrCat(missing, ", and models are not downloaded from the Hub: `hf download ", model_dir,
                        " --local-dir DIR`");
  }
  std::string newest;
  for (fs::directory_iterator entry(model_dir + "/checkpoints", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("step-")) newest = std::max(newest, name);
  }
  return newest.empty() ? "" : absl::StrCat("; did you mean ", model_dir, "/checkpoints/", newest, "?");
}

// Returns the chat format in a folder's ingot.json, or else the folder's template, or else hermes.
absl::StatusOr<std::string> FormatNamedBy(const std::string& model_dir) {
  const std::string path = absl::StrCat(model_dir, "/", kInfoFile);
  if (!std::filesystem::exists(path)) {
    const auto own = text::ChatTemplate::Load(model_dir);
    if (absl::IsNotFound(own.status())) return std::string(kBuiltin);
    INGOT_RETURN_IF_ERROR(own.status());
    return std::string(kTemplateFormat);
  }
  INGOT_ASSIGN_OR_RETURN(const std::string text, base::ReadFile(path));
  absl::StatusOr<base::json::value> info = base::ParseJson(text);
  if (!info.ok()) return base::Annotate(info.status(), path);
  const base::json::value* name = base::Find(*info, "chat_format");
  if (name == nullptr || !name->is_string()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": chat_format must be a string"));
  }
  return std::string(name->get_string());
}

// Returns DATA_LOSS if a file in the folder, other than its tensors, has changed since it was written.
absl::Status CheckTexts(const std::string& model_dir) {
  INGOT_ASSIGN_OR_RETURN(const base::WrittenFiles written, base::WrittenFiles::Of(model_dir));
  return written.CheckContents([](std::string_view name) { return !name.ends_with(".safetensors"); });
}

}  // namespace

absl::StatusOr<TextParts> MakeTextParts(const std::string& chat_format) {
  TextParts parts;
  const std::vector<std::string> specials = ByteTokenizerSpecials();
  parts.tokenizer = text::MakeByteTokenizer(specials);
  const std::string name = chat_format == kAutoFormat ? kBuiltin : chat_format;
  INGOT_ASSIGN_OR_RETURN(parts.format, text::MakeChatFormat(name, parts.tokenizer));
  parts.files = {{"tokenizer.json", text::ByteTokenizerJson(specials)}, {kInfoFile, InfoJson(name)}};
  return parts;
}

absl::StatusOr<TextParts> LoadTextParts(const std::string& model_dir, const std::string& chat_format,
                                        const std::string& chat_template) {
  TextParts parts;
  INGOT_RETURN_IF_ERROR(CheckTexts(model_dir));
  auto tokenizer = text::LoadTokenizer(model_dir);
  if (absl::IsNotFound(tokenizer.status())) {
    return absl::NotFoundError(absl::StrCat(tokenizer.status().message(), MeantBy(model_dir)));
  }
  INGOT_ASSIGN_OR_RETURN(parts.tokenizer, std::move(tokenizer));
  std::string name = chat_format;
  const bool is_auto = name.empty() || name == kAutoFormat;
  if (is_auto && chat_template.empty()) {
    INGOT_ASSIGN_OR_RETURN(name, FormatNamedBy(model_dir));
  } else if (is_auto) {
    name = kTemplateFormat;
  } else if (!chat_template.empty() && !NamesTemplate(name)) {
    return absl::InvalidArgumentError(absl::StrCat("the chat format is ", name, ", which uses no template, but ",
                                                   chat_template, " is set as the chat template: set the format to ",
                                                   kTemplateFormat, " or ", kAutoFormat, ", or remove the template"));
  }
  auto format = MakeFormat(name, model_dir, parts.tokenizer, chat_template);
  if (!format.ok() && !chat_template.empty()) return base::Annotate(format.status(), "the chat template");
  INGOT_ASSIGN_OR_RETURN(parts.format, std::move(format));
  INGOT_ASSIGN_OR_RETURN(std::string tokenizer_json, base::ReadFile(model_dir + "/tokenizer.json"));
  parts.files = {{"tokenizer.json", std::move(tokenizer_json)}, {kInfoFile, InfoJson(name)}};
  if (!NamesTemplate(name)) {  // the file's added_tokens_decoder is part of the tokenizer
    auto config = base::ReadFile(model_dir + "/tokenizer_config.json");
    if (config.ok()) parts.files["tokenizer_config.json"] = *std::move(config);
    return parts;
  }
  INGOT_ASSIGN_OR_RETURN(auto texts, text::ChatTemplateTexts(model_dir, chat_template));
  parts.files.merge(texts);
  return parts;
}

}  // namespace ingot::app
