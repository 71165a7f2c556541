// How instructions reach memory: addresses of lanes, checks of bounds, alignment and order, counts of wavefronts and sectors.
#pragma once

#include <array>

#include "standin/ptx/races.h"
#include "standin/ptx/warp.h"

namespace ingot::standin::ptx {

struct Access {
  AccessKind kind = AccessKind::kRead;
  Space space = Space::kGeneric;
  uint32_t bytes = 4;       // of a lane, a power of two up to 16
  bool every_lane = false;  // all lanes of the warp read what each address holds (ldmatrix)
  bool output = false;      // a plain store: no other block may write the bytes
};

struct Places {
  std::array<uint64_t, kLanes> addresses;  // in the space of the lane
  std::array<std::byte*, kLanes> at;
};

// The addresses in.a + in.immediate of `lanes`.
void Addresses(const Warp& warp, const Instruction& in, uint32_t lanes, std::array<uint64_t, kLanes>& addresses);

// Finds where the lanes' bytes are, after all checks. Returns the lanes that have a place: faults are reported, and their lanes left out.
uint32_t Locate(Warp& warp, const Access& access, uint32_t lanes, Places& places);

}  // namespace ingot::standin::ptx
