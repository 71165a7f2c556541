// What a test program has in use of its heap, to the byte: linking counting_malloc.cc replaces malloc and its kin by
// themselves, counted. Torch's tensors, new and std::vector all come from there.
#pragma once

#include <cstdint>

namespace ingot::testing {

int64_t LiveBytes();
int64_t PeakLiveBytes();  // since ResetPeakLive
void ResetPeakLive();
bool CountsMalloc();  // false under sanitizers, which bring a malloc of their own

}  // namespace ingot::testing
