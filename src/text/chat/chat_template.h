// A model folder's chat template with the variables that Hugging Face passes to it besides the messages.
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

// Immutable, thread safe.
class ChatTemplate {
 public:
  // Reads from the folder DIR:
  //   the templates      chat_template.jinja ("default") and additional_chat_templates/NAME.jinja; without such a file,
  //                      chat_template in tokenizer_config.json: a text, or a list of named templates. "tool_use" is
  //                      for conversations with tools, "default" for all others
  //   special tokens     tokenizer_config.json: bos_token and so on, as text or object
  //   ends of turns      eos_token_id in generation_config.json and config.json
  // NOT_FOUND: the folder has no template. INVALID_ARGUMENT names the file and its fault.
  // `template_file`: a file whose template replaces all the folder's templates; empty = the folder's own.
  static absl::StatusOr<std::shared_ptr<const ChatTemplate>> Load(const std::string& model_dir,
                                                                  const std::string& template_file = "");
  // The same from the files' texts; an empty text = no such file. `templates`: text by file, for the template files.
  static absl::StatusOr<std::shared_ptr<const ChatTemplate>> Make(const std::string& template_jinja,
                                                                  const std::string& tokenizer_config,
                                                                  const std::string& generation_config,
                                                                  const std::string& model_config = "");
  static absl::StatusOr<std::shared_ptr<const ChatTemplate>> Make(const std::map<std::string, std::string>& templates,
                                                                  const std::string& tokenizer_config,
                                                                  const std::string& generation_config,
                                                                  const std::string& model_config);

  using Variables = std::vector<std::pair<std::string, jinja::Value>>;
  // Renders with the special tokens and with `variables`, which override them. `tools` and `documents` are None unless
  // given. `tracked`: jinja::RenderOptions::tracked.
  absl::StatusOr<jinja::RenderedText> Render(const Variables& variables, std::vector<jinja::Value> tracked,
                                             std::timespec now = {}) const;
  // jinja::Template::RenderAtPrompt.
  absl::StatusOr<jinja::PromptRendering> RenderAtPrompt(const Variables& variables, std::vector<jinja::Value> tracked,
                                                        bool add_generation_prompt) const;
  // The same for variables as a JSON object. All its texts except the names of roles count as text from outside.
  absl::StatusOr<jinja::RenderedText> RenderJson(const base::json::object& variables, std::timespec now = {}) const;

  // Whether the template names this variable.
  bool Mentions(std::string_view name) const {
    return template_->Mentions(name) || (tool_template_ != nullptr && tool_template_->Mentions(name));
  }
  const std::string& source() const { return source_; }  // all templates
  const std::string& eos_token() const { return eos_token_; }
  const std::vector<int32_t>& eos_ids() const { return eos_ids_; }  // of both configurations
  const Variables& special_tokens() const { return special_tokens_; }

 private:
  ChatTemplate() = default;
  jinja::RenderOptions OptionsFor(const Variables& variables, std::vector<jinja::Value> tracked) const;
  const jinja::Template& TemplateFor(const Variables& variables) const;
  absl::Status ReadTokenizerConfig(const std::string& text, bool template_given);
  // Named templates that no client asks for (rag and the like) are ignored.
  absl::Status AddTemplate(std::string_view name, const std::string& source);

  std::shared_ptr<const jinja::Template> template_;
  std::shared_ptr<const jinja::Template> tool_template_;  // for conversations with tools; null: template_
  std::string source_;
  Variables special_tokens_;
  std::string eos_token_;
  std::vector<int32_t> eos_ids_;
};

// The files of the folder that ChatTemplate::Load reads, by their names below the folder. They must stay together: a
// checkpoint keeps them all.
absl::StatusOr<std::vector<std::string>> ChatTemplateFiles(const std::string& model_dir);
// The same, by name with their texts, for a model that uses the template of `template_file`; empty = the folder's own.
absl::StatusOr<std::map<std::string, std::string>> ChatTemplateTexts(const std::string& model_dir,
                                                                     const std::string& template_file);

// The ids in eos_token_id of a generation_config.json or config.json, which is an id, a list or missing.
absl::StatusOr<std::vector<int32_t>> EosIdsIn(const std::string& config_json);

// The mark's source for text from outside that does not belong to a message.
inline constexpr int32_t kOutsideSource = 1 << 24;

// A message as a template reads it. Every text is marked with `source`, except the name of a known role, because a
// template may build a token from it, such as <|user|>.
jinja::Value MessageValue(const base::json::value& message, int32_t source);

// Changes messages as newer versions of transformers do before they render them: null fields are left out, and
// reasoning is given under both of its names (reasoning_content, thinking).
void NormalizeAsTransformers(base::json::object& variables);

}  // namespace ingot::text
