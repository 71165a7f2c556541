// What the process holds, and what the machine has left.
#pragma once

#include <cstdint>
#include <string>

namespace ingot::base {

// Bytes that this process can still have: the kernel's estimate for the machine, what its control groups leave (both
// versions, each group up to the mount's root, files' pages that the kernel would give up not counted as used), or what
// its limit on the address space leaves, whichever is least. The largest number where nothing can be read.
int64_t AvailableMemory();

// Without the process's own limit; `root` is put before /proc and /sys.
int64_t MachineMemoryLeft(const std::string& root);

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
