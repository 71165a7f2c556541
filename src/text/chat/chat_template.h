// Loads a model folder's chat template and renders it with the variables that Hugging Face passes to it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/jinja/template.h"

namespace ingot::text {

// Immutable and thread safe.
class ChatTemplate {
 public:
  // Reads from the folder DIR:
  //   the templates      chat_template.jinja ("default") and additional_chat_templates/NAME.jinja. If these are
  //                      missing, chat_template in tokenizer_config.json, which is a string or a list of named
  //                      templates. "tool_use" is used for conversations with tools, and "default" for all others
  //   special tokens     tokenizer_config.json: bos_token and so on, as a string or object
  //   ends of turns      eos_token_id in generation_config.json and config.json
  // `template_file` replaces all of the folder's templates; empty = use the folder's templates. Returns NOT_FOUND if
  // the folder has no template, and INVALID_ARGUMENT, with the file, if a file is invalid.
  static absl::StatusOr<std::shared_ptr<const ChatTemplate>> Load(const std::string& model_dir,
                                                                  const std::string& template_file = "");
  // Same as Load, but takes file contents; empty = no such file. `templates` maps the names of template files to their
  // contents.
  static absl::StatusOr<std::shared_ptr<const ChatTemplate>> Make(const std::string& template_jinja,
                                                                  const std::string& tokenizer_config,
                                                                  const std::string& generation_config,
                                                                  const std::string& model_config = "");
  static absl::StatusOr<std::shared_ptr<const ChatTemplate>> Make(const std::map<std::string, std::string>& templates,
                                                                  const std::string& tokenizer_config,
                                                                  const std::string& generation_config,
                                                                  const std::string& model_config);

  using Variables = std::vector<std::pair<std::string, jinja::Value>>;
  // Renders with the special tokens and `variables`, which override the special tokens. `tools` and `documents` default
  // to None. `tracked` is RenderOptions::tracked.
  absl::StatusOr<jinja::RenderedText> Render(const Variables& variables, std::vector<jinja::Value> tracked,
                                             std::timespec now = {}) const;
  // See jinja::Template::RenderAtPrompt.
  absl::StatusOr<jinja::PromptRendering> RenderAtPrompt(const Variables& variables, std::vector<jinja::Value> tracked,
                                                        bool add_generation_prompt) const;
  // Same as Render, but takes variables as a JSON object. All of its strings except role names are untrusted.
  absl::StatusOr<jinja::RenderedText> RenderJson(const base::json::object& variables, std::timespec now = {}) const;

  // Returns whether the template contains this variable's name.
  bool Mentions(std::string_view name) const {
    return template_->Mentions(name) || (tool_template_ != nullptr && tool_template_->Mentions(name));
  }
  const std::string& source() const { return source_; }  // all templates
  const std::string& eos_token() const { return eos_token_; }
  const std::vector<int32_t>& eos_ids() const { return eos_ids_; }  // from both configuration files
  const Variables& special_tokens() const { return special_tokens_; }

 private:
  ChatTemplate() = default;
  jinja::RenderOptions OptionsFor(const Variables& variables, std::vector<jinja::Value> tracked) const;
  const jinja::Template& TemplateFor(const Variables& variables) const;
  absl::Status ReadTokenizerConfig(const std::string& text, bool template_given);
  // Ignores named templates that no client uses, such as "rag".
  absl::Status AddTemplate(std::string_view name, const std::string& source);

  std::shared_ptr<const jinja::Template> template_;
  std::shared_ptr<const jinja::Template> tool_template_;  // for conversations with tools; null = use template_
  std::string source_;
  Variables special_tokens_;
  std::string eos_token_;
  std::vector<int32_t> eos_ids_;
};

// Returns the names of the files that ChatTemplate::Load reads from the folder. A checkpoint must contain all of
// them.
absl::StatusOr<std::vector<std::string>> ChatTemplateFiles(const std::string& model_dir);
// Returns these files with their contents, for a model that uses the template in `template_file`; empty = use the
// folder's template.
absl::StatusOr<std::map<std::string, std::string>> ChatTemplateTexts(const std::string& model_dir,
                                                                     const std::string& template_file);

// Returns the ids in eos_token_id of a generation_config.json or config.json. The field is an id, a list, or missing.
absl::StatusOr<std::vector<int32_t>> EosIdsIn(const std::string& config_json);

// The mark source for untrusted text that does not belong to a message.
inline constexpr int32_t kOutsideSource = 1 << 24;

// Converts a message to the value that a template reads. All strings are marked with `source`, except the names of
// known roles, because a template may build tokens such as <|user|> from them.
jinja::Value MessageValue(const base::json::value& message, int32_t source);

// Prepares messages as newer versions of transformers do: drops null fields, and sets both reasoning fields
// (reasoning_content, thinking).
void NormalizeAsTransformers(base::json::object& variables);

}  // namespace ingot::text
