// A block's mbarrier objects: their words in shared memory, the order that their phases carry, and arrivals that wait for copies.
#pragma once

#include <map>
#include <vector>

#include "standin/ptx/races.h"

namespace ingot::standin::ptx {

class Warp;

// The 64 bits of an object, which PTX leaves open. Memory that no mbarrier.init has written has another mark.
struct MBarrierWord {
  static constexpr uint64_t kMark = 0x5b;
  static constexpr uint32_t kMostCount = (1u << 20) - 1;

  uint32_t pending = 0, expected = 0;  // arrivals, of this phase and of each later one
  uint32_t phase = 0;
  bool valid = false;

  static MBarrierWord Of(uint64_t bits) {
    return {static_cast<uint32_t>(bits & kMostCount), static_cast<uint32_t>(bits >> 20 & kMostCount),
            static_cast<uint32_t>(bits >> 40 & 0xffff), bits >> 56 == kMark};
  }
  uint64_t Bits() const {
    return uint64_t{pending} | uint64_t{expected} << 20 | uint64_t{phase & 0xffff} << 40 | kMark << 56;
  }
};

class MBarriers {
 public:
  void Clear() { *this = {}; }

  // By lanes of `warp` at `address`, for the check of races (`races` may be null). Release returns the arrival's knowledge.
  static Races::Clock Release(Races* races, uint32_t warp, uint32_t lane);
  void AddArrival(uint32_t address, const Races::Clock& clock);
  void Complete(uint32_t address);  // a phase
  void Acquire(Races* races, uint32_t warp, uint32_t lane, uint32_t address);

  // cp.async.mbarrier.arrive: an arrival of `lane` after its copies up to `serial` have landed.
  struct Deferred {
    Warp* warp;
    uint32_t lane;
    uint64_t serial;
    Races::Clock clock;
  };
  void Defer(uint32_t address, Deferred arrival) { deferred_[address].push_back(std::move(arrival)); }
  std::vector<Deferred> TakeDeferred(uint32_t address);

  uint64_t changes() const { return changes_; }  // grows with everything that a wait can notice
  void Change() { ++changes_; }

 private:
  struct Clocks {
    Races::Clock arriving, completed;  // of the phase, and of the one before
  };

  std::map<uint32_t, Clocks> clocks_;
  std::map<uint32_t, std::vector<Deferred>> deferred_;
  uint64_t changes_ = 0;
};

}  // namespace ingot::standin::ptx
