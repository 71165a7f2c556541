// Counts what accesses of 32 lanes cost on a card.
#pragma once

#include <array>

#include "standin/ptx/machine.h"
#include "standin/ptx/program.h"

namespace ingot::standin::ptx {

// Shared memory has 32 banks of 4 bytes. A wavefront serves each bank once; accesses of 8 and 16 bytes take two and four turns of the lanes.
void CountShared(Counters& counters, const std::array<uint64_t, kLanes>& addresses, uint32_t lanes, uint32_t bytes);

// Global memory is moved in sectors of 32 bytes.
void CountGlobal(Counters& counters, const std::array<uint64_t, kLanes>& addresses, uint32_t lanes, uint32_t bytes);

}  // namespace ingot::standin::ptx
