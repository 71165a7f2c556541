#include "app/commands/model/model_info.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "app/checks/memory_plan.h"
#include "app/models/gpu_card.h"
#include "base/json.h"
#include "model/adapter_targets.h"
#include "model/layer_spec.h"
#include "rollout/engine/engine_memory.h"
#include "rollout/engine/engine_options.h"
#include "trainer/pass/memory.h"

namespace ingot::app {
namespace {

namespace json = base::json;

json::object Sizes(const ModelArgs& args, const model::ModelConfig& config) {
  const model::ModelSpec spec = model::SpecOf(config);
  int64_t active = 0;
  for (const model::LayerSpec& layer : spec.layers) active += static_cast<int64_t>(layer.row_products());
  const bool narrow = config.torch_dtype == "bfloat16" || config.torch_dtype == "float16";
  const int element = narrow ? 2 : 4;
  const int cache_element = config.torch_dtype == "bfloat16" ? 2 : 4;
  const int64_t weights = trainer::WeightBytes(config, element);
  const int64_t cache = spec.cache_elements() * cache_element, state = spec.state_bytes(cache_element);
  rollout::EngineOptions served;
  served.kv_cache_tokens = args.kv_cache_tokens;
  trainer::PassOptions pass;
  pass.part_tokens = args.micro_batch_tokens;
  const tree::ForestPart part = trainer::UncutPart(args.micro_batch_tokens);
  const trainer::MemoryNeed need = trainer::PredictMemory(config, element, pass, std::span(&part, 1));
  return {{"family", config.model_type},
          {"parameters", spec.elements()},
          {"trained_parameters", spec.trained_elements()},
          {"layer_products_per_token", active},
          {"layers", config.num_hidden_layers},
          {"vocabulary", config.vocab_size},
          {"context", config.max_position_embeddings},
          {"experts", config.experts.count},
          {"dtype", config.torch_dtype},
          {"weight_bytes", weights},
          {"cache_bytes_per_token", cache},
          {"state_bytes_per_block", state},
          {"serve_bytes", weights + rollout::CacheBytes(config, served, cache_element)},
          {"train_bytes", need.total()},
          {"train", need.Describe()}};
}

absl::Status AddAdapters(int64_t rank, model::ModelConfig& config) {
  if (rank == 0) return absl::OkStatus();
  if (config.lora.rank > 0) {
    return absl::InvalidArgumentError("--lora-rank: the model already has adapters; leave out the option");
  }
  config.lora = {.rank = rank, .alpha = 32, .targets = model::DefaultTargets(config)};
  return base::Annotate(config.Validate(), "--lora-rank");
}

// Returns the work of a GPU with a trainer rank and an engine.
GpuWork PlannedWork(const ModelArgs& args, const model::ModelConfig& config) {
  GpuWork work{.shape = config, .trainer = {}, .rollout = {}};
  work.trainer.micro_batch_tokens = args.micro_batch_tokens;
  work.trainer.checkpoint_layers = args.checkpoint_layers;
  if (args.ranks > 1) work.trainer.sharding = "layers";
  work.rollout.kv_cache_tokens = args.kv_cache_tokens;
  work.ranks = args.ranks;
  work.processes = args.ranks > 1 ? 2 : 1;
  work.context = config.max_position_embeddings;
  if (args.context_length > 0) work.context = std::min<int64_t>(args.context_length, work.context);
  return work;
}

// The plans of a GPU for the trainer and an engine, and for each alone.
struct InfoPlans {
  GpuWork both;
  MemoryPlan together, trainer, engine;
};

InfoPlans PlansOf(const ModelArgs& args, const model::ModelConfig& config, int64_t available) {
  InfoPlans plans{.both = PlannedWork(args, config), .together = {}, .trainer = {}, .engine = {}};
  plans.together = PlanMemory(plans.both, available);
  GpuWork alone = plans.both;
  alone.processes = 1;
  alone.engines = 0;
  plans.trainer = PlanMemory(alone, available);
  alone.engines = 1;
  alone.rank = -1;
  plans.engine = PlanMemory(alone, available);
  return plans;
}

json::object PlanJson(const MemoryPlan& plan) {
  json::object rows;
  for (const MemoryPlan::Row& row : plan.rows) rows[row.name] = row.bytes;
  return {
      {"total_bytes", plan.total()},          {"available_bytes", plan.available},           {"fits", plan.fits()},
      {"kv_cache_tokens", plan.cache_tokens}, {"kv_cache_tokens_that_fit", plan.cache_rest}, {"rows", std::move(rows)}};
}

std::string Verdict(const std::string& what, const MemoryPlan& plan) {
  return absl::StrFormat("%s: %.1f of %.1f GB, %s\n", what, static_cast<double>(plan.total()) * 1e-9,
                         static_cast<double>(plan.available) * 1e-9,
                         !plan.fits() ? "does not fit"
                         : plan.cache_rest == 0
                             ? "fits"
                             : absl::StrCat("fits; the KV cache may have ", plan.cache_rest, " tokens"));
}

std::string Table(const ModelArgs& args, const model::ModelConfig& config, const GpuMachine& gpu,
                  const InfoPlans& plans) {
  const model::ModelSpec spec = model::SpecOf(config);
  std::string text = absl::StrFormat(
      "%s, %.4g billion parameters, %s trained, %s; micro-batches of %d tokens%s, context of %d tokens\n",
      config.model_type, static_cast<double>(spec.elements()) * 1e-9,
      config.lora.rank > 0 ? absl::StrCat("adapters of rank ", config.lora.rank) : "all", config.torch_dtype,
      args.micro_batch_tokens, args.checkpoint_layers ? " with recomputed layers" : "", plans.both.context);
  absl::StrAppend(&text, "one ", gpu.card, " with ",
                  args.ranks > 1 ? absl::StrCat("rank 0 of ", args.ranks, " (sharding layers)") : "the trainer",
                  " and an engine:\n", PlanTable(plans.together), Verdict("together", plans.together),
                  Verdict("the trainer alone", plans.trainer), Verdict("the engine alone", plans.engine));
  if (plans.together.fits()) return text;
  const std::vector<std::string> ways = WaysToFit(plans.both, gpu.card_bytes);
  absl::StrAppend(&text, "together they fit with: ",
                  ways.empty() ? "nothing that was tried" : absl::StrJoin(ways, "\n                    or: "), "\n");
  return text;
}

}  // namespace

absl::StatusOr<std::string> ModelInfo(const ModelArgs& args) {
  INGOT_ASSIGN_OR_RETURN(model::ModelConfig config, model::ModelConfig::FromFile(args.dir + "/config.json"));
  INGOT_RETURN_IF_ERROR(AddAdapters(args.lora_rank, config));
  json::object info = Sizes(args, config);
  if (args.device.empty()) return base::PrintJson(info) + "\n";
  INGOT_ASSIGN_OR_RETURN(const GpuMachine gpu, ParseGpus(args.device));
  INGOT_RETURN_IF_ERROR(config.CheckDevice("cuda:0"));
  const InfoPlans plans = PlansOf(args, config, gpu.card_bytes);
  if (!args.json) return Table(args, config, gpu, plans);
  info["plan"] = PlanJson(plans.together);
  info["trainer_plan"] = PlanJson(plans.trainer);
  info["engine_plan"] = PlanJson(plans.engine);
  return base::PrintJson(info) + "\n";
}

}  // namespace ingot::app
