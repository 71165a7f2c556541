// Defines the system call filter's rules as data. MakeFilter (seccomp_filter.h) compiles all of them into one program.
// A test removes each rule individually (tests/sandbox/seccomp_rules_test.cc).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "sandbox/seccomp_filter.h"

namespace ingot::sandbox {

// A condition on one system call argument. Compares all 64 bits of the register.
struct ArgumentTest {
  enum class Kind { kEquals, kMaskedEquals, kIsAbove };
  unsigned index = 0;
  Kind kind = Kind::kEquals;
  uint64_t value = 0;
  uint64_t mask = 0;  // kMaskedEquals: (argument & mask) == value
};

// Calls that satisfy all tests fail with `error`.
struct FilterRule {
  std::string name;  // unique
  std::string call;  // "" = every call for another architecture, such as 32-bit calls
  int error = 0;     // errno
  std::vector<ArgumentTest> arguments;
};

std::vector<FilterRule> RulesOf(const FilterOptions& options);

// Returns the bytes of an array of struct sock_filter. Skips rules for calls that libseccomp or the architecture lacks.
absl::StatusOr<std::string> MakeProgram(const std::vector<FilterRule>& rules);

}  // namespace ingot::sandbox
