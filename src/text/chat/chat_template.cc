#include "text/chat/chat_template.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/file.h"

namespace ingot::text {
namespace {

using base::Find;
namespace json = base::json;

constexpr int64_t kMaxFileBytes = 64u << 20;
constexpr char kDefault[] = "default", kToolUse[] = "tool_use";  // template names
constexpr char kTemplateFile[] = "chat_template.jinja";
constexpr char kTemplateFolder[] = "additional_chat_templates";
constexpr std::string_view kTemplateSuffix = ".jinja";
constexpr char kTokenizerConfig[] = "tokenizer_config.json", kGenerationConfig[] = "generation_config.json",
               kModelConfig[] = "config.json";
constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool", "function", "ipython"};

std::string_view View(const json::string& text) { return {text.data(), text.size()}; }

// Returns the file's content, or "" if there is no such file.
absl::StatusOr<std::string> ReadOptional(const std::filesystem::path& path) {
  absl::StatusOr<std::string> text = base::ReadFile(path, kMaxFileBytes);
  if (absl::IsNotFound(text.status())) return std::string();
  return text;
}

// Returns the source of a template that replaces a folder's templates. Returns INVALID_ARGUMENT if it is not a
// template.
absl::StatusOr<std::string> ReadTemplate(const std::string& path) {
  INGOT_ASSIGN_OR_RETURN(std::string source, base::ReadFile(path, kMaxFileBytes));
  if (source.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": the file is empty"));
  INGOT_RETURN_IF_ERROR(base::Annotate(jinja::Template::Parse(source).status(), path));
  return source;
}

// Returns a token from tokenizer_config.json, which stores a string or an object with `content`.
const json::string* TokenText(const json::value& token) {
  if (token.is_string()) return &token.get_string();
  const json::value* content = Find(token, "content");
  return content != nullptr && content->is_string() ? &content->get_string() : nullptr;
}

// Returns the name of the template in this file.
std::string NameOf(const std::string& file) {
  return file == kTemplateFile ? kDefault : std::filesystem::path(file).stem().string();
}

jinja::Value PlainText(std::string_view text) { return jinja::Value::Text(std::string(text)); }

}  // namespace

absl::StatusOr<std::shared_ptr<const ChatTemplate>> ChatTemplate::Load(const std::string& model_dir,
                                                                       const std::string& template_file) {
  const std::filesystem::path dir(model_dir);
  std::map<std::string, std::string> templates;
  if (template_file.empty()) {
    INGOT_ASSIGN_OR_RETURN(const std::vector<std::string> files, ChatTemplateFiles(model_dir));
    for (const std::string& file : files) {
      if (!std::string_view(file).ends_with(kTemplateSuffix)) continue;
      INGOT_ASSIGN_OR_RETURN(std::string source, ReadOptional(dir / file));
      if (!source.empty()) templates[file] = std::move(source);
    }
  } else {
    INGOT_ASSIGN_OR_RETURN(templates[kTemplateFile], ReadTemplate(template_file));
  }
  INGOT_ASSIGN_OR_RETURN(const std::string tokenizer_config, ReadOptional(dir / kTokenizerConfig));
  INGOT_ASSIGN_OR_RETURN(const std::string generation_config, ReadOptional(dir / kGenerationConfig));
  INGOT_ASSIGN_OR_RETURN(const std::string model_config, ReadOptional(dir / kModelConfig));
  auto made = Make(templates, tokenizer_config, generation_config, model_config);
  if (!made.ok()) return base::Annotate(made.status(), model_dir);
  return made;
}

absl::StatusOr<std::shared_ptr<const ChatTemplate>> ChatTemplate::Make(const std::string& template_jinja,
                                                                       const std::string& tokenizer_config,
                                                                       const std::string& generation_config,
                                                                       const std::string& model_config) {
  std::map<std::string, std::string> templates;
  if (!template_jinja.empty()) templates[kTemplateFile] = template_jinja;
  return Make(templates, tokenizer_config, generation_config, model_config);
}

absl::StatusOr<std::shared_ptr<const ChatTemplate>> ChatTemplate::Make(
    const std::map<std::string, std::string>& templates, const std::string& tokenizer_config,
    const std::string& generation_config, const std::string& model_config) {
  std::map<std::string, std::string> by_name;  // an additional "default" takes precedence, as in transformers
  for (const bool additional : {false, true}) {
    for (const auto& [file, source] : templates) {
      if ((file != kTemplateFile) == additional) by_name[NameOf(file)] = file;
    }
  }
  std::shared_ptr<ChatTemplate> made(new ChatTemplate);
  for (const auto& [name, file] : by_name) {
    INGOT_RETURN_IF_ERROR(base::Annotate(made->AddTemplate(name, templates.at(file)), file));
  }
  if (!tokenizer_config.empty()) {
    INGOT_RETURN_IF_ERROR(
        base::Annotate(made->ReadTokenizerConfig(tokenizer_config, !templates.empty()), kTokenizerConfig));
  }
  for (const auto& [name, config] :
       {std::pair(kGenerationConfig, &generation_config), std::pair(kModelConfig, &model_config)}) {
    if (config->empty()) continue;
    const absl::StatusOr<std::vector<int32_t>> ids = EosIdsIn(*config);
    if (!ids.ok()) return base::Annotate(ids.status(), name);
    made->eos_ids_.insert(made->eos_ids_.end(), ids->begin(), ids->end());
  }
  if (made->template_ == nullptr) made->template_ = made->tool_template_;
  if (made->template_ == nullptr) {
    return absl::NotFoundError(absl::StrCat("there is no chat template: neither ", kTemplateFile,
                                            ", nor a 'default' in ", kTemplateFolder, ", nor chat_template in ",
                                            kTokenizerConfig, ". Use a built-in chat format instead"));
  }
  return std::shared_ptr<const ChatTemplate>(std::move(made));
}

absl::Status ChatTemplate::AddTemplate(std::string_view name, const std::string& source) {
  if (name != kDefault && name != kToolUse) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(auto parsed, jinja::Template::Parse(source));
  (name == kToolUse ? tool_template_ : template_) = std::move(parsed);
  absl::StrAppend(&source_, source_.empty() ? "" : "\n", source);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ChatTemplateFiles(const std::string& model_dir) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const char* file : {kTemplateFile, kTokenizerConfig, kGenerationConfig}) {
    if (fs::exists(fs::path(model_dir) / file)) files.emplace_back(file);
  }
  const fs::path folder = fs::path(model_dir) / kTemplateFolder;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  if (error == std::errc::no_such_file_or_directory) return files;
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with('.') && std::string_view(name).ends_with(kTemplateSuffix)) {
      files.push_back(absl::StrCat(kTemplateFolder, "/", name));
    }
  }
  if (error) return absl::UnavailableError(absl::StrCat("cannot list ", folder.string(), ": ", error.message()));
  std::sort(files.begin(), files.end());
  return files;
}

absl::StatusOr<std::map<std::string, std::string>> ChatTemplateTexts(const std::string& model_dir,
                                                                     const std::string& template_file) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<std::string> files, ChatTemplateFiles(model_dir));
  std::map<std::string, std::string> texts;
  for (const std::string& file : files) {
    if (!template_file.empty() && std::string_view(file).ends_with(kTemplateSuffix)) continue;
    INGOT_ASSIGN_OR_RETURN(texts[file], base::ReadFile(absl::StrCat(model_dir, "/", file)));
  }
  if (template_file.empty()) return texts;
  INGOT_ASSIGN_OR_RETURN(texts[kTemplateFile], ReadTemplate(template_file));
  return texts;
}

absl::Status ChatTemplate::ReadTokenizerConfig(const std::string& text, bool template_given) {
  INGOT_ASSIGN_OR_RETURN(const json::value config, base::ParseJson(text));
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    const json::value* token = Find(config, name);
    if (token == nullptr || token->is_null()) continue;
    const json::string* content = TokenText(*token);
    if (content == nullptr) return absl::InvalidArgumentError(absl::StrCat(name, " must be a string"));
    special_tokens_.emplace_back(name, PlainText(View(*content)));
    if (std::string_view(name) == "eos_token") eos_token_ = View(*content);
  }
  const json::value* chat = Find(config, "chat_template");
  if (template_given || chat == nullptr || chat->is_null()) return absl::OkStatus();
  if (chat->is_string()) return AddTemplate(kDefault, std::string(View(chat->get_string())));
  if (!chat->is_array()) return absl::InvalidArgumentError("chat_template must be a string or a list");
  for (const json::value& entry : chat->get_array()) {
    const json::value *name = Find(entry, "name"), *source = Find(entry, "template");
    if (name == nullptr || source == nullptr || !name->is_string() || !source->is_string()) {
      return absl::InvalidArgumentError("each entry of chat_template needs the strings 'name' and 'template'");
    }
    INGOT_RETURN_IF_ERROR(AddTemplate(View(name->get_string()), std::string(View(source->get_string()))));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> EosIdsIn(const std::string& config_json) {
  INGOT_ASSIGN_OR_RETURN(const json::value config, base::ParseJson(config_json));
  std::vector<int32_t> ids;
  const json::value* eos = Find(config, "eos_token_id");
  if (eos == nullptr || eos->is_null()) return ids;
  const auto add = [&ids](const json::value& id) {
    if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() > INT32_MAX) return false;
    ids.push_back(static_cast<int32_t>(id.get_int64()));
    return true;
  };
  bool good = true;
  if (eos->is_array()) {
    for (const json::value& id : eos->get_array()) good = good && add(id);
  } else {
    good = add(*eos);
  }
  if (!good) return absl::InvalidArgumentError("eos_token_id must be a token id or a list of token ids");
  return ids;
}

jinja::RenderOptions ChatTemplate::OptionsFor(const Variables& variables, std::vector<jinja::Value> tracked) const {
  jinja::RenderOptions options;
  options.variables = {{"tools", jinja::Value()}, {"documents", jinja::Value()}};
  options.variables.insert(options.variables.end(), special_tokens_.begin(), special_tokens_.end());
  options.variables.insert(options.variables.end(), variables.begin(), variables.end());
  options.tracked = std::move(tracked);
  return options;
}

const jinja::Template& ChatTemplate::TemplateFor(const Variables& variables) const {
  const bool tools = std::any_of(variables.begin(), variables.end(), [](const auto& variable) {
    return variable.first == "tools" && !variable.second.is_none();
  });
  return tools && tool_template_ != nullptr ? *tool_template_ : *template_;
}

absl::StatusOr<jinja::RenderedText> ChatTemplate::Render(const Variables& variables, std::vector<jinja::Value> tracked,
                                                         std::timespec now) const {
  jinja::RenderOptions options = OptionsFor(variables, std::move(tracked));
  options.now = now;
  return TemplateFor(variables).Render(options);
}

absl::StatusOr<jinja::PromptRendering> ChatTemplate::RenderAtPrompt(const Variables& variables,
                                                                    std::vector<jinja::Value> tracked,
                                                                    bool add_generation_prompt) const {
  return TemplateFor(variables).RenderAtPrompt(OptionsFor(variables, std::move(tracked)), add_generation_prompt);
}

absl::StatusOr<jinja::RenderedText> ChatTemplate::RenderJson(const json::object& variables, std::timespec now) const {
  Variables values;
  values.emplace_back("add_generation_prompt", jinja::Value(false));
  for (const auto& field : variables) {
    const std::string_view name(field.key().data(), field.key().size());
    if (name == "messages" && field.value().is_array()) {
      std::vector<jinja::Value> messages;
      for (const json::value& message : field.value().get_array()) {
        messages.push_back(MessageValue(message, kOutsideSource));
      }
      values.emplace_back(name, jinja::MakeList(std::move(messages)));
    } else {
      values.emplace_back(name, jinja::FromJson(field.value(), kOutsideSource));
    }
  }
  return Render(values, {}, now);
}

jinja::Value MessageValue(const json::value& message, int32_t source) {
  if (!message.is_object()) return jinja::FromJson(message, source);
  jinja::DictBuilder dict;
  for (const auto& field : message.get_object()) {
    const std::string_view name(field.key().data(), field.key().size());
    const bool role =
        name == "role" && field.value().is_string() &&
        std::find(std::begin(kRoles), std::end(kRoles), View(field.value().get_string())) != std::end(kRoles);
    dict.Set(jinja::FromJson(json::value(field.key()), source), jinja::FromJson(field.value(), role ? -1 : source));
  }
  return dict.Release();
}

void NormalizeAsTransformers(json::object& variables) {
  json::value* messages = variables.if_contains("messages");
  if (messages == nullptr || !messages->is_array()) return;
  for (json::value& message : messages->get_array()) {
    if (!message.is_object()) continue;
    json::object kept;
    const json::value* reasoning = nullptr;
    for (const char* name : {"reasoning", "thinking", "reasoning_content"}) {  // the last existing field is used
      const json::value* found = Find(message, name);
      if (found != nullptr && !found->is_null()) reasoning = found;
    }
    if (reasoning != nullptr) kept["thinking"] = *reasoning;
    for (const auto& field : message.get_object()) {
      if (!field.value().is_null()) kept[field.key()] = field.value();
    }
    if (reasoning != nullptr) kept["reasoning_content"] = *reasoning;
    message = std::move(kept);
  }
}

}  // namespace ingot::text
