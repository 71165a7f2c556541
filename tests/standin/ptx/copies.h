// The asynchronous copies of a warp's lanes (cp.async) that have not landed.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "standin/ptx/program.h"

namespace ingot::standin::ptx {

struct Copy {
  uint32_t lane = 0;
  uint32_t group = 0;   // of the lane, counted from 0
  uint32_t shared = 0;  // address
  uint32_t bytes = 0;   // 4, 8 or 16
  uint32_t statement = 0;
  uint64_t serial = 0;  // of the warp, counted from 1
  bool landed = false;  // the data is there, but nobody may know yet
  std::array<std::byte, 16> data = {};
};

class Copies {
 public:
  void Clear() {
    pending_.clear();
    committed_.fill(0);
  }
  void Add(Copy copy) {
    copy.group = committed_[copy.lane];
    copy.serial = ++serial_;
    pending_.push_back(copy);
  }
  void Commit(uint32_t lanes) {
    for (int lane = 0; lane < kLanes; ++lane) committed_[lane] += lanes >> lane & 1;
  }
  // Removes those of `lanes` that are not among the lane's `kept` newest groups, and calls land(copy) for each, oldest first.
  template <typename F>
  void Wait(uint32_t lanes, uint32_t kept, bool uncommitted, const F& land) {
    std::erase_if(pending_, [&](const Copy& copy) {
      if ((lanes >> copy.lane & 1) == 0) return false;
      if (!uncommitted && copy.group + kept >= committed_[copy.lane]) return false;
      land(copy);
      return true;
    });
  }

  // Removes the lane's copies up to `serial`, and calls land(copy) for each.
  template <typename F>
  void LandUpTo(uint32_t lane, uint64_t serial, const F& land) {
    std::erase_if(pending_, [&](const Copy& copy) {
      if (copy.lane != lane || copy.serial > serial) return false;
      land(copy);
      return true;
    });
  }
  uint64_t serial() const { return serial_; }  // of the newest copy

 private:
  uint64_t serial_ = 0;
  std::vector<Copy> pending_;
  std::array<uint32_t, kLanes> committed_ = {};
};

}  // namespace ingot::standin::ptx
