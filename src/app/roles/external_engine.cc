// Implements MakeServedEngine.
#include <algorithm>
#include <utility>

#include "app/models/snapshots.h"
#include "app/models/weight_reference.h"
#include "app/roles/assembly.h"
#include "base/secret.h"
#include "engines/external_engine.h"
#include "rollout/torch_runner.h"

namespace ingot::app {
namespace {

constexpr char kHead[] = "lm_head.weight", kEmbedding[] = "model.embed_tokens.weight";

// Returns the snapshot with the tied output head as a tensor of its own, which shares the embedding's memory.
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

absl::StatusOr<std::shared_ptr<const weights::Snapshot>> StartModel(const RunConfig& config, const ModelSetup& model) {
  if (!config.external.url.empty()) return nullptr;
  return config.model.path.empty() ? RandomSnapshot(model.shape, config.seed) : LoadSnapshot(config.model.path, 0);
}

absl::StatusOr<std::unique_ptr<rollout::ServedEngine>> MakeExternalEngine(const RunConfig& config,
                                                                          const ModelSetup& model,
                                                                          const std::string& owner,
                                                                          const std::string& log_path) {
  engines::ExternalEngine::Parts parts;
  parts.api = engines::NewVllmApi();
  parts.model = ServedModelOf(model.shape, config.rollout.context_length);
  parts.max_weight_bytes = rollout::MaxWeightBytes(model.shape);
  parts.command_words = {{"context", absl::StrCat(parts.model.context_length)},
                         {"dtype", model.shape.torch_dtype},
                         {"max_running", absl::StrCat(config.rollout.max_running + 1)}};  // one verifies
  parts.tokenizer = model.text.tokenizer;
  parts.log_path = log_path;
  if (!config.external.api_key_file.empty()) {
    INGOT_ASSIGN_OR_RETURN(parts.key, base::ReadSecret(config.external.api_key_file));
  }
  INGOT_ASSIGN_OR_RETURN(parts.exchange,
                         engines::ExchangeFolder::Open(config.external.exchange, owner, ServedWriter(model.shape)));
  INGOT_ASSIGN_OR_RETURN(parts.start_model, StartModel(config, model));
  parts.reference = NewWeightReference(model.shape, config.rollout.threads);
  return engines::ExternalEngine::Create(config.rollout, config.external, std::move(parts));
}

}  // namespace

absl::StatusOr<std::unique_ptr<rollout::ServedEngine>> MakeServedEngine(const RunConfig& config,
                                                                        const ModelSetup& model,
                                                                        const std::string& owner,
                                                                        const std::string& log_path) {
  if (config.has_external_engine()) return MakeExternalEngine(config, model, owner, log_path);
  return MakeEngine(config.rollout, model);
}

}  // namespace ingot::app
