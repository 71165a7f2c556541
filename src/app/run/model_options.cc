#include "app/run/model_options.h"

#include <string_view>

#include "absl/strings/str_join.h"
#include "base/config.h"
#include "text/output/format_spec.h"
#include "text/output/output_format.h"

namespace ingot::app {
namespace {

// Returns what a chat format must be, or empty if `name` is valid. Configurations of earlier versions have "" for auto.
std::string DemandOfChatFormat(const std::string& name) {
  if (name.empty() || name == kAutoFormat || name == kTemplateFormat) return "";
  const bool names_output = name.starts_with(kTemplateFormatPrefix);
  if (names_output && text::FindOutputFormat(name.substr(std::string_view(kTemplateFormatPrefix).size())).ok())
    return "";
  std::string wanted = kAutoFormat;
  for (const text::FormatSpec& format : text::BuiltinFormats()) {
    if (format.name == name) return "";
    absl::StrAppend(&wanted, ", ", format.name);
  }
  return absl::StrCat(wanted, ", ", kTemplateFormat, ", or ", kTemplateFormatPrefix, "NAME, where NAME is ",
                      absl::StrJoin(text::OutputFormatNames(), ", "));
}

}  // namespace

void Bind(base::Schema& schema, ModelOptions& o) {
  schema.Field("path", &o.path, "Hugging Face model folder to start from; empty: random weights at the shape below");
  schema.Choice("tokenizer", &o.tokenizer, {"bytes"},
                "tokenizer of a model with random weights; a model in model.path uses its folder's tokenizer.json");
  schema.Field("chat_format", &o.chat_format,
               "how conversations become prompts and output becomes tool calls: hermes, compact, template (the model's "
               "own chat template), template:NAME (with the output format NAME), or auto: the format in the folder's "
               "ingot.json, otherwise its template, otherwise hermes",
               DemandOfChatFormat);
  schema.Field("chat_template", &o.chat_template,
               "Jinja file that replaces the chat template in model.path, and is saved with every checkpoint; empty: "
               "the folder's own template");
  schema.Field("hidden_size", &o.hidden_size, "width of the residual stream", base::Positive());
  schema.Field("intermediate_size", &o.intermediate_size, "width of the SwiGLU", base::Positive());
  schema.Field("layers", &o.layers, "transformer blocks", base::Positive());
  schema.Field("heads", &o.heads, "query heads", base::Positive());
  schema.Field("kv_heads", &o.kv_heads, "key and value heads; must divide model.heads", base::Positive());
  schema.Field("head_dim", &o.head_dim, "size of a head; must be even", base::AtLeast(2));
  schema.Field("context_length", &o.context_length, "maximum number of tokens in a prompt and its answer together",
               base::Positive());
  schema.Field("rope_theta", &o.rope_theta, "base of the rotary embedding's frequencies");
}

void BindLora(base::Schema& schema, ModelOptions& o) {
  schema.Field("rank", &o.lora.rank,
               "rank of the low-rank adapters, which are then the only trained weights; 0: train all weights",
               base::NotNegative());
  schema.Field("alpha", &o.lora.alpha,
               "scale of the adapters' output, which is multiplied by alpha / rank; 0: the value in "
               "trainer.lora.init's folder, otherwise 32",
               base::NotNegative());
  schema.Field("targets", &o.lora.targets,
               "linear layers that get an adapter, by the last word of their names; experts.WORD for routed experts; "
               "default for model families without these names: all except those of routed experts");
  schema.Field("dropout", &o.lora_dropout,
               "must be 0, because dropout would make the trained policy differ from the sampled one");
  schema.Field("init", &o.lora_init,
               "PEFT folder to continue from; default: A uniform, B zero, so the run starts from the base model");
}

absl::Status ModelOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(base::Annotate(base::CheckBounds(*this), "model"));
  INGOT_RETURN_IF_ERROR(base::Annotate(base::CheckBounds(*this, BindLora), "trainer.lora"));
  if (heads % kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.kv_heads ", kv_heads, " does not divide model.heads ", heads));
  }
  const bool needs_folder = chat_format == kTemplateFormat || chat_format.starts_with(kTemplateFormatPrefix);
  if (needs_folder && path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("model.chat_format is ", chat_format,
                                                   ", but model.path is not set: name the folder whose template is "
                                                   "used, or set model.chat_format to ",
                                                   kAutoFormat));
  }
  if (!chat_template.empty() && path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("model.chat_template is ", chat_template,
                                                   ", but model.path is not set: a template needs the tokenizer of a "
                                                   "model folder; name one, or leave model.chat_template out"));
  }
  if (lora_dropout != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("trainer.lora.dropout is ", lora_dropout,
                     ": it must be 0, because dropout would make the trained policy differ from the sampled one"));
  }
  if (lora_init != "default" && (lora.rank == 0 || path.empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat("trainer.lora.init is ", lora_init, ", and ",
                     lora.rank == 0 ? "trainer.lora.rank is 0, which trains all weights: set it to the adapter's rank"
                                    : "model.path is not set: an adapter needs the folder of its base",
                     ", or leave trainer.lora.init out"));
  }
  return absl::OkStatus();
}

}  // namespace ingot::app
