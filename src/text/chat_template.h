// A model folder's chat template with what Hugging Face hands to it beside the messages.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/jinja/template.h"

namespace ingot::text {

// Immutable, thread safe.
class ChatTemplate {
 public:
  // Reads DIR/chat_template.jinja, or else chat_template of DIR/tokenizer_config.json (a text, or a list of named ones,
  // of which "default" and, where there are tools, "tool_use" are used), the special tokens of tokenizer_config.json
  // (bos_token and so on, as text or object), and eos_token_id of DIR/generation_config.json and DIR/config.json.
  // NOT_FOUND: the folder has no template. INVALID_ARGUMENT names the file and what is wrong in it.
  static absl::StatusOr<std::shared_ptr<const ChatTemplate>> Load(const std::string& model_dir);
  // The same from the texts of the files; an empty one stands for none.
  static absl::StatusOr<std::shared_ptr<const ChatTemplate>> Make(const std::string& template_jinja,
                                                                  const std::string& tokenizer_config,
                                                                  const std::string& generation_config,
                                                                  const std::string& model_config = "");

  using Variables = std::vector<std::pair<std::string, jinja::Value>>;
  // Renders with `variables` over the special tokens; `tools` and `documents` are none unless given.
  absl::StatusOr<jinja::Rendered> Render(const Variables& variables, std::vector<jinja::Value> tracked,
                                         std::timespec now = {}) const;
  // jinja::Template::RenderAtPrompt.
  absl::StatusOr<jinja::PromptRendering> RenderAtPrompt(const Variables& variables, std::vector<jinja::Value> tracked,
                                                        bool add_generation_prompt) const;
  // The same for an object of variables as JSON; all its texts come from outside, but the names of roles.
  absl::StatusOr<jinja::Rendered> RenderJson(const base::json::object& variables, std::timespec now = {}) const;

  // Whether a variable of this name could matter.
  bool Mentions(std::string_view name) const {
    return template_->Mentions(name) || (tool_template_ != nullptr && tool_template_->Mentions(name));
  }
  const std::string& source() const { return source_; }  // all templates
  const std::string& eos_token() const { return eos_token_; }
  const std::vector<int32_t>& eos_ids() const { return eos_ids_; }  // of both configs
  const Variables& special_tokens() const { return special_tokens_; }

 private:
  ChatTemplate() = default;
  jinja::RenderOptions OptionsFor(const Variables& variables, std::vector<jinja::Value> tracked) const;
  const jinja::Template& TemplateFor(const Variables& variables) const;
  absl::Status ReadTokenizerConfig(const std::string& text, bool template_given);
  absl::Status AddTemplate(const std::string& name, const std::string& source);

  std::shared_ptr<const jinja::Template> template_, tool_template_;  // tool_template_: null if there is none of its own
  std::string source_;
  Variables special_tokens_;
  std::string eos_token_;
  std::vector<int32_t> eos_ids_;
};

// eos_token_id of a generation_config.json or config.json: one, a list, or none.
absl::StatusOr<std::vector<int32_t>> EosIdsIn(const std::string& config_json);

// Marks of texts from outside in RenderJson.
inline constexpr int32_t kOutsideSource = 1 << 24;

// A message as a template reads it: every text is marked with `source`, but the role where it is a known one (its
// name may be part of a token that the template builds, such as <|user|>).
jinja::Value MessageValue(const base::json::value& message, int32_t source);

// What newer versions of transformers do to messages before they render them: fields that are null are left out, and
// reasoning goes by each of its names (reasoning_content, thinking).
void NormalizeAsTransformers(base::json::object& variables);

}  // namespace ingot::text
