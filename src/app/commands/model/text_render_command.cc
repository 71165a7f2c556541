#include "app/commands/model/text_render_command.h"

#include <memory>

#include "text/chat/chat_template.h"
#include "text/chat/marked_encoder.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::app {
namespace {

namespace json = base::json;

absl::Status CheckInput(const json::value& input) {
  if (!input.is_object()) return absl::InvalidArgumentError("expected a JSON object with 'messages'");
  const json::value* messages = base::Find(input, "messages");
  if (messages == nullptr || !messages->is_array() || messages->get_array().empty()) {
    return absl::InvalidArgumentError("'messages' must be a list with at least one message");
  }
  for (size_t i = 0; i < messages->get_array().size(); ++i) {
    if (messages->get_array()[i].is_object()) continue;
    return absl::InvalidArgumentError(absl::StrCat("messages[", i, "] must be an object"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::function<absl::StatusOr<json::value>(const json::value&)>> MakeTextRender(
    const std::string& tokenizer_dir, bool like_transformers) {
  INGOT_ASSIGN_OR_RETURN(auto tokenizer, text::LoadTokenizer(tokenizer_dir));
  INGOT_ASSIGN_OR_RETURN(const auto chat_template, text::ChatTemplate::Load(tokenizer_dir));
  const auto encoder = std::make_shared<const text::MarkedEncoder>(std::move(tokenizer), chat_template->source());
  return [=](const json::value& input) -> absl::StatusOr<json::value> {
    INGOT_RETURN_IF_ERROR(CheckInput(input));
    json::object variables = input.get_object();
    if (like_transformers) text::NormalizeAsTransformers(variables);
    INGOT_ASSIGN_OR_RETURN(const text::jinja::RenderedText rendered, chat_template->RenderJson(variables));
    const std::vector<int32_t> ids = encoder->Encode(rendered.text, rendered.marks, {}).ids;
    return json::value(json::object{{"text", rendered.text}, {"ids", json::array(ids.begin(), ids.end())}});
  };
}

}  // namespace ingot::app
