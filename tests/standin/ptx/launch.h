// What all blocks of a launch share: its options, what it reports and counts, and which block wrote which byte of global memory.
#pragma once

#include <array>
#include <memory>
#include <set>
#include <unordered_map>

#include "standin/ptx/machine.h"
#include "standin/ptx/program.h"

namespace ingot::standin::ptx {

// Remembers which block wrote each byte.
class OutputOwners {
 public:
  // Returns the index of another block that wrote one of the bytes, or -1.
  int64_t Write(uint64_t address, size_t bytes, uint32_t block);

 private:
  static constexpr size_t kPageBytes = 4096;
  using Page = std::array<uint32_t, kPageBytes>;  // index of the block + 1; 0 = nobody

  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  uint64_t last_ = ~uint64_t{0};
  Page* page_ = nullptr;
};

// Ends a launch that has committed enough faults.
struct EndLaunch {};

struct LaunchState {
  const Program& program;
  const Kernel& kernel;
  const Launch& launch;
  const Options& options;
  Memory& memory;
  std::span<const std::byte> parameters;
  Outcome outcome = {};
  OutputOwners owners = {};
  std::set<std::pair<std::string_view, uint32_t>> reported = {};

  // Of an instruction by its index in the code, at most one report of a kind. Throws EndLaunch after the last report that the options allow.
  void Report(std::string_view kind, uint32_t statement, const std::string& where, const std::string& what);
};

}  // namespace ingot::standin::ptx
