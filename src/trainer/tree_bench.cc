#include "trainer/tree_bench.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/process_memory.h"
#include "model/parameters.h"
#include "model/transformer.h"
#include "trainer/pass/forest_pass.h"
#include "trainer/pass/memory.h"
#include "trainer/pass/step_bound.h"
#include "trainer/pass/tensor_memory.h"
#include "tree/cut.h"
#include "tree/documents.h"
#include "tree/shapes.h"

namespace ingot::trainer {
namespace {

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Returns the medians of the two clocks separately.
ProcessSeconds Median(const std::vector<ProcessSeconds>& values) {
  std::vector<double> wall, cpu;
  for (const ProcessSeconds& value : values) {
    wall.push_back(value.wall);
    cpu.push_back(value.cpu);
  }
  return {Median(wall), Median(cpu)};
}

struct Variant {
  std::string name;
  tree::PackedForest forest;
  std::vector<ProcessSeconds> seconds;
  int64_t peak_bytes = 0;
  PassResult result;
};

model::ModelConfig ConfigOf(const TreeBenchOptions& o, int64_t positions) {
  model::ModelConfig config;
  config.vocab_size = o.vocab;
  config.hidden_size = o.hidden;
  config.intermediate_size = o.intermediate;
  config.num_hidden_layers = o.layers;
  config.num_attention_heads = o.heads;
  config.num_key_value_heads = o.kv_heads;
  config.head_dim = o.head_dim;
  config.max_position_embeddings = positions;
  config.qk_norm = true;
  config.torch_dtype = o.dtype == "bf16" ? "bfloat16" : "float32";
  return config;
}

int64_t Longest(const std::vector<tree::CallPath>& calls) {
  int64_t longest = 0;
  for (const tree::CallPath& call : calls) longest = std::max(longest, call.size());
  return longest;
}

int64_t SampledTokens(const std::vector<tree::CallPath>& calls) {
  int64_t sampled = 0;
  for (const tree::CallPath& call : calls) sampled += static_cast<int64_t>(call.logprobs.size());
  return sampled;
}

// Makes a batch with advantages of both signs, and the weights of loss_aggregation token.
PreparedBatch BatchOf(std::vector<tree::CallPath> calls) {
  PreparedBatch batch;
  batch.loss_tokens = SampledTokens(calls);
  for (size_t c = 0; c < calls.size(); ++c) {
    batch.advantages.push_back(c % 2 == 0 ? 1.0 : -0.5);
    batch.weights.push_back(1.0 / static_cast<double>(batch.loss_tokens));
    batch.episodes = std::max(batch.episodes, calls[c].episode + 1);
  }
  batch.calls = std::move(calls);
  batch.bears_loss.resize(batch.calls.size());
  return batch;
}

class ShapeBench {
 public:
  ShapeBench(const TreeBenchOptions& options, std::string shape)
      : o_(options), shape_(std::move(shape)), dtype_(o_.dtype == "bf16" ? at::kBFloat16 : at::kFloat) {
    pass_.part_tokens = o_.micro_batch_tokens;
    pass_.checkpoint_layers = o_.checkpoint_layers;
    pass_.recompute_prefix = o_.recompute_prefix;
  }

  absl::Status Run(const std::function<void(const std::string&)>& emit) {
    // Choosing the scale measures with operands as large as the weights.
    INGOT_RETURN_IF_ERROR(CheckBytes(kWeightCopies * WeightBytes(ConfigOf(o_, 1), ElementBytes()),
                                     absl::StrFormat("%d copies of the weights", kWeightCopies),
                                     "lower --layers, --hidden, --intermediate or --vocab"));
    INGOT_RETURN_IF_ERROR(ChooseScale());
    INGOT_RETURN_IF_ERROR(PackVariants());
    INGOT_RETURN_IF_ERROR(CheckVariants());
    INGOT_ASSIGN_OR_RETURN(model::Parameters parameters, MakeWeights());
    INGOT_ASSIGN_OR_RETURN(const model::Transformer model, model::Transformer::Create(config_, std::move(parameters)));
    for (int round = 0; round < o_.rounds; ++round) {
      MeasureRates();
      for (Variant& variant : variants_) Step(model, variant);
    }
    Emit(emit);
    return absl::OkStatus();
  }

 private:
  static constexpr int kWeightCopies = 2;  // while they are created

  int ElementBytes() const { return static_cast<int>(c10::elementSize(dtype_)); }

  absl::StatusOr<model::Parameters> MakeWeights() const {
    std::map<std::string, at::Tensor> weights;
    const model::Parameters made = model::Parameters::Init(config_, 1, dtype_);
    for (const auto& [name, tensor] : made.tensors()) {
      weights[name] = tensor.clone().requires_grad_(true);  // Init's tensors have no history
    }
    return model::Parameters::FromTensors(config_, std::move(weights));
  }

  absl::Status CheckBytes(int64_t bytes, const std::string& what, const std::string& advice) const {
    const int64_t available = base::AvailableMemory();
    if (bytes <= available) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrFormat("%s need %d MB, but %d MB are available; %s", what, bytes >> 20, available >> 20, advice));
  }

  std::string Advice() const {
    std::string advice = absl::StrFormat("lower --scale (%g), --micro-batch-tokens (%d) or the model's size", scale_,
                                         o_.micro_batch_tokens);
    if (!o_.checkpoint_layers) advice += ", set --checkpoint-layers";
    if (!o_.recompute_prefix) advice += ", set --recompute-prefix";
    if (o_.baselines) advice += ", or skip the baselines with --no-baselines";
    return advice;
  }

  MemoryNeed NeedOf(const Variant& variant) const {
    return PredictPasses(config_, ElementBytes(), pass_, tree::CutForest(variant.forest, pass_.part_tokens),
                         /*gradients_stay=*/true);
  }

  absl::Status CheckVariants() const {
    for (const Variant& variant : variants_) {
      const MemoryNeed need = NeedOf(variant);
      const std::string what = absl::StrFormat("the weights and a step of shape %s, variant %s,", shape_, variant.name);
      INGOT_RETURN_IF_ERROR(CheckBytes(need.weights + std::max(need.weights, need.step()), what, Advice()));
    }
    return absl::OkStatus();
  }

  int64_t LinearRows(int64_t rows) const { return std::min({rows, o_.micro_batch_tokens, int64_t{4096}}); }

  void MeasureRates() {
    const int64_t deepest = Longest(batch_.calls), sampled = SampledTokens(batch_.calls);
    const int64_t chunk = HeadRows(pass_.logits_chunk_elements, o_.vocab, dtype_ == at::kBFloat16).gradient;
    rates_.push_back(StepRates::Measure(config_, dtype_, at::kCPU, LinearRows(deepest), std::min(sampled, chunk),
                                        std::min<int64_t>(deepest, 8192)));
  }

  // Chooses the scale based on the baselines' time, because the tree takes less.
  absl::Status ChooseScale() {
    scale_ = o_.scale > 0 ? o_.scale : 1;
    for (;; scale_ /= 2) {
      INGOT_ASSIGN_OR_RETURN(std::vector<tree::CallPath> calls, tree::MakeWorkload(shape_, scale_, VocabOf()));
      batch_ = BatchOf(std::move(calls));
      config_ = ConfigOf(o_, Longest(batch_.calls));
      INGOT_RETURN_IF_ERROR(config_.Validate());
      if (o_.scale > 0) return absl::OkStatus();
      if (rates_.empty()) {
        config_.max_position_embeddings = 2048;
        rates_.push_back(StepRates::Measure(config_, dtype_, at::kCPU, 1024, 256, 1024));
      }
      StepWork work;
      for (const auto& documents : {tree::SeparateCalls(batch_.calls), tree::ChainedCalls(batch_.calls)}) {
        if (!o_.baselines && documents.size() == batch_.calls.size()) continue;
        for (const std::vector<int32_t>& document : documents) {
          int64_t length = 0;
          for (const int32_t call : document) {
            length = std::max(length, batch_.calls[static_cast<size_t>(call)].size());
          }
          work.Add(SequenceWork(config_, length));
        }
        work.head_rows += batch_.loss_tokens;
      }
      constexpr double kOfBound = 0.7;  // share of the bound's rate that a step is assumed to reach
      const double seconds = BoundSeconds(config_, work, rates_[0]).wall / kOfBound * (1 + o_.rounds);
      if (seconds <= o_.seconds || scale_ < 1e-3) {
        config_ = ConfigOf(o_, Longest(batch_.calls));
        rates_.clear();
        return absl::OkStatus();
      }
    }
  }

  int32_t VocabOf() const { return static_cast<int32_t>(o_.vocab); }

  absl::Status PackVariants() {
    INGOT_ASSIGN_OR_RETURN(tree::PackedForest tree,
                           tree::PackForest(batch_.calls, tree::OrderChainFirst(batch_.calls)));
    variants_.push_back({"tree", std::move(tree), {}, 0, {}});
    if (!o_.baselines) return absl::OkStatus();
    INGOT_ASSIGN_OR_RETURN(tree::PackedForest chained,
                           tree::PackDocuments(batch_.calls, tree::ChainedCalls(batch_.calls)));
    variants_.push_back({"chained", std::move(chained), {}, 0, {}});
    INGOT_ASSIGN_OR_RETURN(tree::PackedForest separate,
                           tree::PackDocuments(batch_.calls, tree::SeparateCalls(batch_.calls)));
    variants_.push_back({"separate", std::move(separate), {}, 0, {}});
    return absl::OkStatus();
  }

  // Runs the variant's step. The first run is not timed. Only the first run shows the peak memory, because later runs
  // start with cached memory.
  void Step(const model::Transformer& model, Variant& variant) {
    if (variant.seconds.empty()) {
      ReleaseTensorMemory();
      base::ResetPeakMemory();
      const int64_t held = base::ResidentMemory();
      Run(model, variant);
      variant.peak_bytes = base::PeakMemory() - held;
    }
    variant.seconds.push_back(Run(model, variant));
  }

  ProcessSeconds Run(const model::Transformer& model, Variant& variant) {
    const auto objective = MakeCispo(1.0, 4.0);
    StepLoss loss(*objective, {}, batch_);
    const ProcessSeconds start = ClockNow();
    variant.result = AccumulateGradients(model, variant.forest, batch_.calls, loss, pass_);
    const ProcessSeconds end = ClockNow();
    for (const auto& [name, tensor] : model.parameters().tensors()) at::Tensor(tensor).mutable_grad().reset();
    return {end.wall - start.wall, end.cpu - start.cpu};
  }

  std::string Common(const std::string& figure) const {
    return absl::StrFormat(
        R"({"bench":"tree","figure":"%s","shape":"%s","scale":%g,"dtype":"%s","threads":%d,"rounds":%d,)"
        R"("parameters":%d,"hidden":%d,"layers":%d,"heads":%d,"kv_heads":%d,"head_dim":%d,"vocab":%d,)"
        R"("micro_batch_tokens":%d,"checkpoint_layers":%s,"recompute_prefix":%s,"calls":%d,"depth":%d,)",
        figure, shape_, scale_, o_.dtype, at::get_num_threads(), o_.rounds, config_.ParameterCount(), o_.hidden,
        o_.layers, o_.heads, o_.kv_heads, o_.head_dim, o_.vocab, o_.micro_batch_tokens,
        o_.checkpoint_layers ? "true" : "false", o_.recompute_prefix ? "true" : "false", batch_.calls.size(),
        Longest(batch_.calls));
  }

  StepRates MedianRates() const {
    StepRates rates;
    for (ProcessSeconds StepRates::* of :
         {&StepRates::per_flop, &StepRates::per_head_flop, &StepRates::per_pair, &StepRates::per_window_pair}) {
      std::vector<ProcessSeconds> values;
      for (const StepRates& round : rates_) values.push_back(round.*of);
      rates.*of = Median(values);
    }
    return rates;
  }

  void Emit(const std::function<void(const std::string&)>& emit) const {
    const StepRates rates = MedianRates();
    emit(Common("rates") + absl::StrFormat(R"("linear_gflops":%.1f,"head_gflops":%.1f,"attention_gflops":%.1f})",
                                           1e-9 / rates.per_flop.wall, 1e-9 / rates.per_head_flop.wall,
                                           1e-9 * AttentionFlopsPerSecond(config_, rates)));
    std::vector<ProcessSeconds> bounds, seconds;
    for (const Variant& v : variants_) {
      bounds.push_back(BoundSeconds(config_, WorkOf(config_, v.forest, v.result, pass_), rates));
      seconds.push_back(Median(v.seconds));
      const ProcessSeconds &bound = bounds.back(), &step = seconds.back();
      std::vector<double> wall;
      for (const ProcessSeconds& round : v.seconds) wall.push_back(round.wall);
      const auto parts = tree::CutForest(v.forest, pass_.part_tokens);
      const MemoryNeed need = NeedOf(v);
      emit(Common("step") +
           absl::StrFormat(R"("variant":"%s","tokens":%d,"loss_rows":%d,"parts":%d,"visible_pairs":%d,"seconds":%.6f,)"
                           R"("seconds_min":%.6f,"seconds_max":%.6f,"bound_seconds":%.6f,"of_bound":%.3f,)"
                           R"("cpu_seconds":%.6f,"cpu_bound_seconds":%.6f,"cpu_of_bound":%.3f,)"
                           R"("tokens_per_second":%.0f,"peak_bytes":%d,"predicted_bytes":%d})",
                           v.name, v.forest.size(), v.result.head_rows, v.result.parts, v.forest.visible_pairs,
                           step.wall, *std::min_element(wall.begin(), wall.end()),
                           *std::max_element(wall.begin(), wall.end()), bound.wall, bound.wall / step.wall, step.cpu,
                           bound.cpu, bound.cpu / step.cpu, static_cast<double>(v.forest.size()) / step.wall,
                           v.peak_bytes, need.step()));
    }
    if (!o_.baselines) {
      std::vector<int32_t> all(batch_.calls.size());
      std::iota(all.begin(), all.end(), 0);
      const StepWork separate = UnmergedWork(config_, batch_.calls, all, batch_.loss_tokens);
      const double bound = BoundSeconds(config_, separate, rates).wall;
      emit(Common("least_speedup") +
           absl::StrFormat(R"("against":"separate","tokens":%d,"bound_seconds":%.6f,"least_speedup":%.2f})",
                           separate.rows, bound, bound / seconds[0].wall));
    }
    for (size_t i = 1; i < variants_.size(); ++i) {
      const double difference = std::abs(variants_[i].result.loss - variants_[0].result.loss);
      emit(Common("speedup") +
           absl::StrFormat(
               R"("against":"%s","speedup":%.2f,"cpu_speedup":%.2f,"speedup_bound":%.2f,"of_bound":%.3f,)"
               R"("cpu_of_bound":%.3f,"token_ratio":%.2f,"peak_ratio":%.2f,"loss_difference":%.2g})",
               variants_[i].name, seconds[i].wall / seconds[0].wall, seconds[i].cpu / seconds[0].cpu,
               seconds[i].wall / bounds[0].wall, bounds[0].wall / seconds[0].wall, bounds[0].cpu / seconds[0].cpu,
               static_cast<double>(variants_[i].forest.size()) / static_cast<double>(variants_[0].forest.size()),
               static_cast<double>(variants_[i].peak_bytes) /
                   static_cast<double>(std::max<int64_t>(1, variants_[0].peak_bytes)),
               difference / std::max(1e-300, std::abs(variants_[0].result.loss))));
    }
  }

  const TreeBenchOptions& o_;
  const std::string shape_;
  const at::ScalarType dtype_;
  PassOptions pass_;
  double scale_ = 1;
  model::ModelConfig config_;
  PreparedBatch batch_;
  std::vector<Variant> variants_;
  std::vector<StepRates> rates_;  // one per round
};

}  // namespace

absl::Status TreeBenchOptions::Validate() const {
  if (!(scale >= 0 && scale <= 16) || !(seconds > 0) || rounds < 1 || micro_batch_tokens < 1 || vocab < 2) {
    return absl::InvalidArgumentError(
        "scale must be in [0, 16], seconds above 0, rounds and micro-batch tokens at least 1, vocab at least 2");
  }
  if (dtype != "fp32" && dtype != "bf16") {
    return absl::InvalidArgumentError(absl::StrCat("dtype is '", dtype, "': use fp32 or bf16"));
  }
  return ConfigOf(*this, 1).Validate();
}

absl::Status RunTreeBench(const TreeBenchOptions& options, const std::function<void(const std::string&)>& emit) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  const auto shapes = options.shapes.empty() ? tree::WorkloadShapes() : options.shapes;
  for (const std::string& shape : shapes) INGOT_RETURN_IF_ERROR(tree::MakeWorkload(shape, 1e-6, 2).status());
  base::ReturnFreedMemory();
  KeepTensorMemory();
  for (const std::string& shape : shapes) INGOT_RETURN_IF_ERROR(ShapeBench(options, shape).Run(emit));
  return absl::OkStatus();
}

}  // namespace ingot::trainer
