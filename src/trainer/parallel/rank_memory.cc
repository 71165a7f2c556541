#include "trainer/parallel/rank_memory.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/parameters.h"
#include "trainer/parallel/sharded_adamw.h"

namespace ingot::trainer {

MemoryNeed OfRank(MemoryNeed need, const model::ModelConfig& config, int element_bytes, const Ranks* ranks) {
  if (ranks == nullptr) return need;
  std::vector<int64_t> sizes;
  for (const auto& [name, shape] : model::Parameters::Shapes(config)) {
    int64_t size = 1;
    for (const int64_t extent : shape) size *= extent;
    sizes.push_back(size);
  }
  const std::vector<int> owners = OwnersOf(sizes, ranks->size());
  int64_t all = 0, owned = 0, largest = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    all += sizes[i];
    if (owners[i] == ranks->rank()) owned += sizes[i];
    largest = std::max(largest, sizes[i]);
  }
  const int64_t accumulator = std::max(element_bytes, 4);
  const double share = static_cast<double>(owned) / static_cast<double>(std::max<int64_t>(1, all));
  need.optimizer = std::llround(static_cast<double>(need.optimizer) * share);
  const int64_t bucket = std::max(largest, std::min(all, kBucketElements));
  const int64_t sums_of_all = element_bytes < 4 ? all * accumulator : 0;  // those of one rank's bf16 gradients
  // The fullest moment may be one before any gradient.
  need.gradients = std::max<int64_t>(0, need.gradients - sums_of_all) + owned * accumulator +
                   bucket * element_bytes * (ranks->size() + 1);
  return need;
}

int RanksHere(const Ranks* ranks) { return ranks == nullptr ? 1 : ranks->size(); }

}  // namespace ingot::trainer
