// The memory of this process and of its machine, in bytes.
#pragma once

#include <cstdint>
#include <string>

namespace ingot::base {

// The bytes that this process can still allocate if `processes` equal processes share the machine: the smaller of its
// share of MachineMemoryLeft and what is left of its address-space limit. The largest int64 = no bound is known.
int64_t AvailableMemory(int processes = 1);

// The available bytes of the machine: the smallest of the kernel's estimate and what is left in each of this process's
// control groups. It reads both versions of control groups, every group up to the mount's root. Reclaimable file pages
// do not count as used. `root`: a prefix for /proc and /sys; empty = the real folders.
int64_t MachineMemoryLeft(const std::string& root);

// The resident bytes of the process, and their peak since ResetPeakMemory. 0 = unknown. ResetPeakMemory first returns
// freed memory to the system, so that the peak does not count it. False: the system cannot reset the peak.
int64_t ResidentMemory();
int64_t PeakMemory();
bool ResetPeakMemory();

// Makes glibc's allocator map blocks of 1 MiB and more separately, for the rest of the process. Such blocks return to
// the system when they are freed. By default glibc starts to put blocks of up to 32 MiB on its heap. There, blocks that
// a training step keeps lie between freed blocks, and the process holds far more memory than it uses. Has no effect
// with jemalloc, which returns free pages by itself within ten seconds.
void ReturnFreedMemory();

}  // namespace ingot::base
