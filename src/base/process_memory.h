// What the process holds, and what the machine has left.
#pragma once

#include <cstdint>
#include <string>

namespace ingot::base {

// Bytes that this process can still have where `processes` alike share the machine: its part of what the machine has
// left, or what its own limit on the address space leaves, whichever is less. The largest number where nothing can be
// read.
int64_t AvailableMemory(int processes = 1);

// The kernel's estimate for the machine, or what the process's control groups leave (both versions, each group up to
// the mount's root, files' pages that the kernel would give up not counted as used). `root` is put before /proc and
// /sys.
int64_t MachineMemoryLeft(const std::string& root);

// The process's resident bytes, and the most since ResetPeakMemory (which also gives freed memory back, so that it is
// not counted twice). 0 and false where the system does not tell.
int64_t ResidentMemory();
int64_t PeakMemory();
bool ResetPeakMemory();

// From now on, and for the whole process, blocks of 1 MB and more are the system's own and go back to it when they are
// freed. Left to itself glibc's allocator comes to put blocks of up to 32 MB on its heap, where what a training step
// keeps stands between what it freed: the process then holds far more than is in use. Does nothing in a program that is
// linked with jemalloc, which gives free pages back by itself, the last of them after ten seconds.
void ReturnFreedMemory();

}  // namespace ingot::base
