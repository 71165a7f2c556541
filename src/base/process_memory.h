// The memory of this process and of its machine, in bytes.
#pragma once

#include <cstdint>
#include <string>

namespace ingot::base {

// The bytes that this process can still allocate, if `processes` equal ones share the machine. It is the lesser of its
// share of MachineMemoryLeft and the rest of its own limit on address space. The largest int64 = no bound is known.
int64_t AvailableMemory(int processes = 1);

// The available bytes of the machine: the least of the kernel's estimate and the rests of this process's control groups.
// It reads both versions of control groups, every group up to the mount's root. Reclaimable file pages do not count as
// used. `root`: put before /proc and /sys; empty = the real ones.
int64_t MachineMemoryLeft(const std::string& root);

// The resident bytes of the process, and their peak since ResetPeakMemory. 0 = unknown. ResetPeakMemory first returns
// freed memory to the system, so that the peak does not count it. False: the system cannot reset the peak.
int64_t ResidentMemory();
int64_t PeakMemory();
bool ResetPeakMemory();

// Makes glibc's allocator map blocks of 1 MiB and more separately, for the rest of the process. Such blocks return to
// the system when they are freed. By default glibc comes to put blocks of up to 32 MiB on its heap. There the blocks that
// a training step keeps lie between freed ones, and the process holds far more memory than it uses. Has no effect with
// jemalloc, which returns free pages by itself within ten seconds.
void ReturnFreedMemory();

}  // namespace ingot::base
