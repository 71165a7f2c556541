#include "trainer/parallel/rank_memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "model/layer_spec.h"
#include "trainer/parallel/layer_shards.h"
#include "trainer/parallel/sharded_adamw.h"

namespace ingot::trainer {
namespace {

// Returns the number of elements in the largest unit, without the rank's own parameters.
int64_t LargestUnit(const model::ModelConfig& config, const RankPlace& place, const std::vector<int>& owners) {
  const model::ModelSpec spec = model::SpecOf(config);
  const std::map<std::string, const model::TensorSpec*> tensors = spec.Tensors();
  int64_t largest = 0;
  for (const std::vector<std::string>& unit : spec.Units()) {
    int64_t size = 0;
    for (const std::string& name : unit) {
      const auto found = tensors.find(name);
      if (owners[static_cast<size_t>(std::distance(tensors.begin(), found))] == place.rank) continue;
      size += found->second->elements();
    }
    largest = std::max(largest, size);
  }
  return largest;
}

}  // namespace

MemoryNeed PredictRankMemory(const model::ModelConfig& config, int element_bytes, const PassOptions& options,
                             std::span<const tree::ForestPart> parts, const std::optional<RankPlace>& place,
                             bool by_layer, Operators operators) {
  if (!place.has_value()) return PredictMemory(config, element_bytes, options, parts, operators);
  MemoryNeed need = PredictPasses(config, element_bytes, options, parts, /*gradients_stay=*/false, operators);
  const model::ModelSpec spec = model::SpecOf(config);
  const std::vector<int> owners = OwnersOf(spec, place->size);
  auto owner = owners.begin();
  // Elements of the trained parameters, and of all parameters that other ranks own.
  int64_t all = 0, owned = 0, largest = 0, others = 0, largest_of_all = 0, whole_again = 0;
  for (const auto& [name, tensor] : spec.Tensors()) {
    const int64_t size = tensor->elements();
    const bool own = *owner++ == place->rank;
    if (tensor->part == model::Part::kCorrectionBias) continue;  // every rank holds this bias
    if (!own) others += size;
    largest_of_all = std::max(largest_of_all, size);
    if (!tensor->trained) continue;
    all += size;
    if (own) owned += size;
    largest = std::max(largest, size);
  }
  if (by_layer) {
    const int64_t visiting = LargestUnit(config, *place, owners) + largest_of_all;
    need.weights -= std::max<int64_t>(0, others - visiting) * element_bytes;
    whole_again = place->leads() ? others * element_bytes : 0;
  }
  const int64_t accumulator = std::max(element_bytes, 4);
  const double share = static_cast<double>(owned) / static_cast<double>(std::max<int64_t>(1, all));
  need.optimizer = std::llround(static_cast<double>(need.optimizer) * share);
  // A publishing rank on a device also has the marks of the other ranks' parameters.
  const bool on_device = operators == Operators::kAten;
  if (on_device && place->leads() && !by_layer && element_bytes <= 4) need.optimizer += (all - owned) / 8;
  const int64_t bucket = std::max(largest, std::min(all, kBucketElements));
  // The owner holds a bucket from every rank, its own bucket, and for bf16 their sum. Gloo's receive buffer, on the CPU,
  // holds all of them again. NCCL receives in place.
  const int64_t received = (operators == Operators::kNative ? 2 : 1) * place->size;
  const int64_t gathered = bucket * element_bytes * (received + 1) + (element_bytes < 4 ? bucket * accumulator : 0);
  // The peak of any pass is at least the end of a part, with its gradients and the waiting parts. The first part's
  // gradients become sums bucket by bucket. In later parts, the sums are additional.
  need.gradients += owned * (parts.size() > 1 ? accumulator : accumulator - element_bytes) + gathered;
  // As on one rank, the update of the owned parameters may need more.
  const int64_t root = on_device ? 0 : owned * accumulator;
  if (need.step() < owned * accumulator + root) {
    need.waiting = need.running = 0;
    need.gradients = owned * accumulator;
    need.transient = root;
  }
  need.transient += std::max<int64_t>(0, whole_again - need.step());
  return need;
}

std::optional<RankPlace> PlaceOf(const Ranks* ranks) {
  if (ranks == nullptr) return std::nullopt;
  return RankPlace{ranks->rank(), ranks->size()};
}

int RanksHere(const Ranks* ranks) { return ranks == nullptr ? 1 : ranks->size(); }

}  // namespace ingot::trainer
