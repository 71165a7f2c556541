#include "standin/ptx/counters.h"

#include <algorithm>
#include <bit>

namespace ingot::standin::ptx {
namespace {

constexpr size_t kBanks = 32;

// The lanes' words, each once, ascending.
size_t Distinct(uint64_t* words, size_t count) {
  if (!std::is_sorted(words, words + count)) std::sort(words, words + count);
  return static_cast<size_t>(std::unique(words, words + count) - words);
}

void CountTurn(Counters& counters, uint64_t* words, size_t count) {
  count = Distinct(words, count);
  if (count == 0) return;
  counters.ideal_wavefronts += (count + kBanks - 1) / kBanks;
  if (words[count - 1] - words[0] < kBanks) {  // no two share a bank
    counters.wavefronts += 1;
    return;
  }
  uint8_t banks[kBanks] = {};
  uint8_t most = 0;
  for (size_t i = 0; i < count; ++i) most = std::max(most, ++banks[words[i] % kBanks]);
  counters.wavefronts += most;
}

}  // namespace

void CountShared(Counters& counters, const std::array<uint64_t, kLanes>& addresses, uint32_t lanes, uint32_t bytes) {
  const uint32_t per_lane = std::max(bytes / 4, 1u);  // words
  const int lanes_per_turn = static_cast<int>(kLanes / per_lane);
  for (int first = 0; first < kLanes; first += lanes_per_turn) {
    uint64_t words[kLanes];
    size_t count = 0;
    for (int lane = first; lane < first + lanes_per_turn; ++lane) {
      if ((lanes >> lane & 1) == 0) continue;
      for (uint32_t i = 0; i < per_lane; ++i) words[count++] = addresses[lane] / 4 + i;
    }
    CountTurn(counters, words, count);
  }
}

void CountGlobal(Counters& counters, const std::array<uint64_t, kLanes>& addresses, uint32_t lanes, uint32_t bytes) {
  constexpr uint64_t kSector = 32;
  uint64_t sectors[kLanes];
  size_t count = 0;
  for (; lanes != 0; lanes &= lanes - 1) sectors[count++] = addresses[std::countr_zero(lanes)] / kSector;
  counters.global_bytes += count * bytes;
  counters.global_sectors += Distinct(sectors, count);
}

}  // namespace ingot::standin::ptx
