// Implements MakeServedEngine.
#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "app/cluster/run_roles.h"
#include "app/models/snapshots.h"
#include "app/models/weight_reference.h"
#include "app/roles/assembly.h"
#include "base/secret.h"
#include "engines/external/adapter_versions.h"
#include "engines/external/external_engine.h"
#include "model/peft.h"
#include "rollout/engine/torch_runner.h"
#include "trainer/weights_of.h"

namespace ingot::app {
namespace {

constexpr char kHead[] = "lm_head.weight", kEmbedding[] = "model.embed_tokens.weight";

// Returns the snapshot with the tied output head as a separate tensor, which shares the embedding's memory.
absl::StatusOr<std::shared_ptr<const weights::Snapshot>> Untied(
    const std::shared_ptr<const weights::Snapshot>& snapshot) {
  for (size_t i = 0; i < snapshot->size(); ++i) {
    weights::TensorView view = snapshot->view(i);
    if (view.name != kEmbedding) continue;
    view.name = kHead;
    return weights::Snapshot::Extend(snapshot, snapshot->version(), {view});
  }
  return absl::InvalidArgumentError(absl::StrCat("the model ties its output head, but has no tensor ", kEmbedding,
                                                 ": rollout.engine: ingot can sample from it"));
}

}  // namespace

engines::ExchangeFolder::WriteModel ServedWriter(const model::ModelConfig& shape) {
  return [shape](const std::string& dir, const std::shared_ptr<const weights::Snapshot>& snapshot) -> absl::Status {
    if (!shape.tie_word_embeddings) return SaveSnapshot(dir, shape, snapshot);
    model::ModelConfig served = shape;
    served.tie_word_embeddings = false;
    INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<const weights::Snapshot> untied, Untied(snapshot));
    return SaveSnapshot(dir, served, untied);
  };
}

engines::ServedModel ServedModelOf(const model::ModelConfig& shape, int32_t context_length) {
  engines::ServedModel served;
  served.vocab_size = static_cast<int32_t>(shape.vocab_size);
  served.context_length = context_length > 0 ? context_length : static_cast<int32_t>(shape.max_position_embeddings);
  served.eos_ids.assign(shape.eos_token_ids.begin(), shape.eos_token_ids.end());
  return served;
}

namespace {

// Writes the base model of adapters.
engines::ExchangeFolder::WriteModel BaseWriter(const model::ModelConfig& shape) {
  model::ModelConfig base = shape;
  base.lora = {};
  return [write = ServedWriter(base)](const std::string& dir,
                                      const std::shared_ptr<const weights::Snapshot>& snapshot) -> absl::Status {
    std::vector<weights::TensorView> views;
    for (size_t i = 0; i < snapshot->size(); ++i) {
      if (!engines::IsFactor(snapshot->view(i).name)) views.push_back(snapshot->view(i));
    }
    INGOT_ASSIGN_OR_RETURN(const auto tensors, weights::Snapshot::Copy(snapshot->version(), views));
    return write(dir, tensors);
  };
}

engines::ExchangeFolder::WriteModel AdapterWriter(const model::ModelConfig& shape, const std::string& base_name) {
  return [=](const std::string& dir, const std::shared_ptr<const weights::Snapshot>& snapshot) {
    return model::SaveAdapter(dir, shape, trainer::ParametersOf(snapshot), base_name);
  };
}

absl::StatusOr<std::unique_ptr<engines::ExchangeFolder>> OpenExchange(const RunConfig& config, const ModelSetup& model,
                                                                      const std::string& owner) {
  const std::string& root = config.external.exchange;
  if (model.shape.lora.rank == 0) return engines::ExchangeFolder::Open(root, owner, ServedWriter(model.shape));
  return engines::ExchangeFolder::Open(root, owner, AdapterWriter(model.shape, config.model.path),
                                       BaseWriter(model.shape));
}

// Returns the words that stand for ${adapters} in rollout.external.command.
std::vector<std::string> AdapterWords(const engines::EngineApi& api, const RunConfig& config, const ModelSetup& model) {
  if (model.shape.lora.rank == 0) return {};
  return api.AdapterFlags(model.shape.lora.rank, config.rollout.max_retained_versions + 1);  // and the newest
}

// Returns the words that stand for ${tokenizer}. A model that is not a folder with a tokenizer gets none.
std::vector<std::string> TokenizerWords(const engines::EngineApi& api, const RunConfig& config) {
  std::error_code error;
  const bool has = !config.model.path.empty() && std::filesystem::exists(config.model.path + "/tokenizer.json", error);
  return api.TokenizerFlags(has ? std::filesystem::absolute(config.model.path).string() : "");
}

std::vector<std::string> WithWords(const std::vector<std::string>& command, const std::string& name,
                                   const std::vector<std::string>& words) {
  std::vector<std::string> expanded;
  for (const std::string& word : command) {
    if (word == name) {
      expanded.insert(expanded.end(), words.begin(), words.end());
    } else {
      expanded.push_back(word);
    }
  }
  return expanded;
}

absl::StatusOr<std::shared_ptr<const weights::Snapshot>> StartModel(const RunConfig& config, const ModelSetup& model) {
  if (!config.external.url.empty() || model.shape.lora.rank > 0) return nullptr;
  return config.model.path.empty() ? RandomSnapshot(model.shape, config.seed) : LoadSnapshot(config.model.path, 0);
}

absl::StatusOr<std::unique_ptr<rollout::ServedEngine>> MakeExternalEngine(const RunConfig& config,
                                                                          const ModelSetup& model,
                                                                          const ServedEnginePlace& place) {
  engines::ExternalEngine::Parts parts;
  parts.api = engines::NewEngineApi(config.engine);
  parts.model = ServedModelOf(model.shape, config.rollout.context_length);
  parts.max_weight_bytes = rollout::MaxWeightBytes(model.shape);
  parts.command_words = {{"context", absl::StrCat(parts.model.context_length)},
                         {"dtype", model.shape.torch_dtype},
                         {"max_running", absl::StrCat(config.rollout.max_running + 1)},  // one verifies
                         // the first GPU of this machine that no trainer rank or earlier engine uses
                         {"gpu", absl::StrCat(DevicePlaceOf(config, {"rollout", place.index}))}};
  parts.tokenizer = model.text.tokenizer;
  parts.log_path = place.log_path;
  if (!config.external.api_key_file.empty()) {
    INGOT_ASSIGN_OR_RETURN(parts.key, base::ReadSecret(config.external.api_key_file));
  }
  INGOT_ASSIGN_OR_RETURN(parts.exchange, OpenExchange(config, model, place.owner));
  INGOT_ASSIGN_OR_RETURN(parts.start_model, StartModel(config, model));
  parts.adapters = model.shape.lora.rank > 0;
  parts.reference = NewWeightReference(model.shape, config.rollout.threads);
  engines::ExternalOptions external = config.external;
  external.command = engines::CommandOf(config.engine, external);
  external.command = WithWords(external.command, "${adapters}", AdapterWords(*parts.api, config, model));
  external.command = WithWords(external.command, "${tokenizer}", TokenizerWords(*parts.api, config));
  return engines::ExternalEngine::Create(config.rollout, external, std::move(parts));
}

}  // namespace

absl::StatusOr<std::unique_ptr<rollout::ServedEngine>> MakeServedEngine(
    const RunConfig& config, const ModelSetup& model, const ServedEnginePlace& place,
    std::shared_ptr<kernels::ComputeMember> compute) {
  if (config.has_external_engine()) return MakeExternalEngine(config, model, place);
  rollout::EngineOptions options = config.rollout;
  if (place.store != nullptr && !place.writes) {
    options.kv_store.write = kv::Write::kNone;
    options.router.prefill_engines = 0;  // this engine hands over nothing
  }
  return MakeEngine(options, model, /*initial=*/nullptr, std::move(compute), place.store);
}

}  // namespace ingot::app
