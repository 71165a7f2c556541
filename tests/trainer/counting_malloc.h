// Counts the bytes of the heap that a test program has in use. Linking counting_malloc.cc replaces malloc and its kin
// by counting versions; torch's tensors, new and std::vector all use them.
#pragma once

#include <cstdint>

namespace ingot::testing {

int64_t LiveBytes();
int64_t PeakLiveBytes();  // since ResetPeakLive
void ResetPeakLive();
bool CountsMalloc();  // false under sanitizers, which have their own malloc

}  // namespace ingot::testing
