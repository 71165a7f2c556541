// What the process holds, and what the machine has left.
#pragma once

#include <cstdint>

namespace ingot::base {

// Bytes that can still be had on this machine: the kernel's estimate, or what the control group leaves, if that is
// less. The largest number where neither can be read.
int64_t AvailableMemory();

// The process's resident bytes, and the most since ResetPeakMemory (which also gives freed memory back, so that it is
// not counted twice). 0 and false where the system does not tell.
int64_t ResidentMemory();
int64_t PeakMemory();
bool ResetPeakMemory();

// From now on, and for the whole process, blocks of 1 MB and more are the system's own and go back to it when they are
// freed. Left to itself the allocator comes to put blocks of up to 32 MB on its heap, where what a training step keeps
// stands between what it freed: the process then holds far more than is in use.
void ReturnFreedMemory();

}  // namespace ingot::base
