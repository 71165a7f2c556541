#pragma once

#include <cstddef>
#include <cstdint>

#include "standin/ptx/machine.h"

// What the environment orders of the stand-in, read once. A value that cannot be read ends the process with its name.
namespace ingot::standin {

// When a stream's work runs: kLazy = only when somebody waits for it, which is the latest time that CUDA allows; kEager = at once;
// kRandom = at times that the seed draws, at the latest when somebody waits.
enum class StreamMode { kLazy, kEager, kRandom };

struct Settings {
  StreamMode streams = StreamMode::kLazy;    // INGOT_STANDIN_STREAMS=lazy|eager|random
  uint64_t seed = 0;                         // INGOT_STANDIN_SEED, of random streams and of the machine
  int devices = 1;                           // INGOT_STANDIN_DEVICES
  size_t memory_bytes = size_t{4096} << 20;  // INGOT_STANDIN_MEMORY_MB, of each device
  int capability = 80;                       // INGOT_STANDIN_CAPABILITY: 80 or 90
  int driver_version = 0;  // INGOT_STANDIN_DRIVER: CUDA version of the driver, 12040 for 12.4; 0 = none
  // Allocations of device memory and of pinned memory are counted together, from 1; 0 = none fails.
  int64_t failing_allocation = 0;        // INGOT_STANDIN_FAIL_MALLOC=N: the Nth fails
  int64_t first_failing_allocation = 0;  // INGOT_STANDIN_FAIL_MALLOC_FROM=N: the Nth and all later ones fail
  // Memory of each device that another process takes, once this process has made `other_after` allocations.
  size_t other_bytes = 0;   // INGOT_STANDIN_OTHER_MB
  int64_t other_after = 0;  // INGOT_STANDIN_OTHER_AFTER
  // The device fails at the Nth launch of a kernel, and never works again (BreakDevice).
  int fault = 0;                // INGOT_STANDIN_FAULT=illegal|launch|ecc: cudaError_t
  int64_t faulting_launch = 0;  // INGOT_STANDIN_FAULT_AT=N, counted from 1; 0 = none
  // INGOT_STANDIN_FAULT_ONCE=FILE: only in the process that creates the file, so that its successor runs; null = in each.
  const char* fault_file = nullptr;
  int fresh_byte = 0xff;    // INGOT_STANDIN_FRESH=nan|zero: what fresh device memory holds; all ones are not-a-number
  bool statistics = false;  // INGOT_STANDIN_STATISTICS=1: a line of counts at the end of the process
  ptx::Options
      machine;  // INGOT_STANDIN_ARRIVAL=late|early|random, INGOT_STANDIN_RACES=0|1, INGOT_STANDIN_EMPTY_COPIES=wait|land
};

const Settings& GetSettings();

// Prints "stand-in: " and the message to stderr, and aborts.
[[noreturn]] void Die(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace ingot::standin
