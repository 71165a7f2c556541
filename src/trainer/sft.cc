#include "trainer/sft.h"

#include <algorithm>
#include <numeric>

#include "base/rng.h"

namespace ingot::trainer {
namespace {

// "sft" in ASCII. Separates the stage's shuffles from other uses of the run's seed.
constexpr uint64_t kShuffleStream = 0x736674;

std::vector<int64_t> Shuffled(int64_t count, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = count - 1; i > 0; --i) {
    const double draw = base::UniformAt(seed, static_cast<uint64_t>(i));
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(draw * static_cast<double>(i + 1))]);
  }
  return order;
}

int64_t StepsPerEpoch(const SftOptions& options, int64_t conversations) {
  return (conversations + options.batch_size - 1) / options.batch_size;
}

}  // namespace

int64_t SftSteps(const SftOptions& options, int64_t conversations) {
  if (conversations == 0) return 0;
  return options.max_steps > 0 ? options.max_steps : options.epochs * StepsPerEpoch(options, conversations);
}

std::vector<int64_t> SftBatch(const SftOptions& options, int64_t conversations, uint64_t seed, int64_t step) {
  const int64_t per_epoch = StepsPerEpoch(options, conversations);
  const uint64_t stream =
      base::DeriveSeed(base::DeriveSeed(seed, kShuffleStream), static_cast<uint64_t>(step / per_epoch));
  const std::vector<int64_t> order = Shuffled(conversations, stream);
  const int64_t begin = step % per_epoch * options.batch_size;
  const int64_t end = std::min(conversations, begin + options.batch_size);
  return {order.begin() + begin, order.begin() + end};
}

}  // namespace ingot::trainer
