// Reports this process's and its machine's memory, in bytes.
#pragma once

#include <cstdint>
#include <string>

namespace ingot::base {

// Returns the number of bytes that this process can still allocate if `processes` equal processes share the machine:
// the smaller of its share of MachineMemoryLeft and the remainder of its address-space limit. Returns the largest int64
// if there is no known bound.
int64_t AvailableMemory(int processes = 1);

// Returns the machine's available memory in bytes: the minimum of the kernel's estimate and the remaining limit of each
// of this process's cgroups. Supports cgroups v1 and v2, and checks every group up to the mount's root. Reclaimable
// file pages do not count as used. `root` is prepended to /proc and /sys; empty = the real directories.
int64_t MachineMemoryLeft(const std::string& root);

// Return the process's resident bytes and their peak since ResetPeakMemory; 0 = unknown. ResetPeakMemory first returns
// freed memory to the system, so the peak does not include it. It returns false on failure.
int64_t ResidentMemory();
int64_t PeakMemory();
bool ResetPeakMemory();

// Makes the glibc allocator permanently mmap blocks of 1 MiB or more, so they are returned to the system when freed. By
// default, glibc eventually places blocks of up to 32 MiB on its heap. Blocks that outlive a training step would then
// sit between freed blocks, and the process would hold far more memory than it uses. Has no effect with jemalloc, which
// returns free pages to the system within ten seconds.
void ReturnFreedMemory();

}  // namespace ingot::base
