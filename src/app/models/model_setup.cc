#include "app/models/model_setup.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_join.h"
#include "base/file.h"
#include "model/adapter_targets.h"
#include "model/peft.h"

namespace ingot::app {
namespace {

model::ModelConfig ShapeOf(const ModelOptions& options, const TextParts& text) {
  model::ModelConfig config;
  config.model_type = "qwen3";
  config.qk_norm = true;
  config.tie_word_embeddings = true;
  config.vocab_size = text.tokenizer->vocab_size();
  config.hidden_size = options.hidden_size;
  config.intermediate_size = options.intermediate_size;
  config.num_hidden_layers = options.layers;
  config.num_attention_heads = options.heads;
  config.num_key_value_heads = options.kv_heads;
  config.head_dim = options.head_dim;
  config.max_position_embeddings = options.context_length;
  config.rope_theta = options.rope_theta;
  for (const int32_t id : text.format->end_of_turn_ids()) config.eos_token_ids.push_back(id);
  return config;
}

bool HasDefaultTargets(const ModelOptions& options) { return options.lora.targets == ModelOptions().lora.targets; }

constexpr double kDefaultAlpha = 32;

model::LoraConfig LoraOf(const ModelOptions& options, const model::ModelConfig& base) {
  if (options.lora.rank == 0) return {};
  model::LoraConfig lora = options.lora;
  if (lora.alpha == 0) lora.alpha = kDefaultAlpha;
  if (HasDefaultTargets(options)) lora.targets = model::DefaultTargets(base);
  std::sort(lora.targets.begin(), lora.targets.end());
  return lora;
}

// Returns INVALID_ARGUMENT if a key conflicts with the folder in trainer.lora.init, which takes precedence.
absl::Status CheckInit(const ModelOptions& options, const model::LoraConfig& given) {
  const auto differs = [&](const char* key, const std::string& wanted, const std::string& found) {
    return absl::InvalidArgumentError(absl::StrCat(key, " is ", wanted, ", but the adapter of trainer.lora.init (",
                                                   options.lora_init, ") has ", found, ": set the key to ", found));
  };
  const model::LoraConfig& lora = options.lora;
  if (lora.rank != given.rank) return differs("trainer.lora.rank", absl::StrCat(lora.rank), absl::StrCat(given.rank));
  if (lora.alpha != 0 && std::abs(lora.alpha - given.alpha) > 1e-5 * given.alpha) {
    return differs("trainer.lora.alpha", absl::StrCat(lora.alpha), absl::StrCat(given.alpha));
  }
  std::vector<std::string> targets = lora.targets;
  std::sort(targets.begin(), targets.end());
  if (HasDefaultTargets(options) || targets == given.targets) return absl::OkStatus();
  const auto list = [](const std::vector<std::string>& names) {
    return absl::StrCat("[", absl::StrJoin(names, ", "), "]");
  };
  return differs("trainer.lora.targets", list(targets), list(given.targets));
}

}  // namespace

absl::StatusOr<TextParts> TextPartsOf(const ModelOptions& options) {
  if (options.path.empty()) return MakeTextParts(options.chat_format);
  return LoadTextParts(options.path, options.chat_format, options.chat_template);
}

absl::StatusOr<ModelSetup> SetUpModel(const ModelOptions& options, const std::string& device) {
  ModelSetup setup;
  setup.device = device;
  INGOT_ASSIGN_OR_RETURN(setup.text, TextPartsOf(options));
  if (options.path.empty()) {
    setup.shape = ShapeOf(options, setup.text);
    INGOT_RETURN_IF_ERROR(base::Annotate(setup.shape.Validate(), "model"));
    setup.shape.lora = LoraOf(options, setup.shape);
    INGOT_RETURN_IF_ERROR(base::Annotate(setup.shape.Validate(), "model"));
    return setup;
  }
  INGOT_ASSIGN_OR_RETURN(setup.shape, model::ModelConfig::FromFile(options.path + "/config.json"));
  if (options.lora.rank == 0) return setup;
  if (setup.shape.lora.rank > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.path, " already has adapters: fold them with `ingot model merge`"));
  }
  setup.shape.lora = LoraOf(options, setup.shape);
  if (options.lora_init != "default") {
    INGOT_ASSIGN_OR_RETURN(model::AdapterFolder adapter, model::LoadAdapter(options.lora_init, setup.shape));
    INGOT_RETURN_IF_ERROR(CheckInit(options, adapter.lora));
    setup.shape.lora = std::move(adapter.lora);
  }
  INGOT_RETURN_IF_ERROR(base::Annotate(setup.shape.Validate(), "trainer.lora"));
  return setup;
}

absl::StatusOr<std::shared_ptr<gateway::ScriptedModel>> LoadScript(const std::string& path, const TextParts& text) {
  const absl::StatusOr<std::string> lines = base::ReadFile(path);
  if (!lines.ok()) return base::Annotate(lines.status(), "--script");
  auto script = gateway::ScriptedModel::Parse(*lines, *text.tokenizer, *text.format);
  if (!script.ok()) return base::Annotate(script.status(), path);
  return script;
}

}  // namespace ingot::app
