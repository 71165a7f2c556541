// The rules of the filter of system calls, as data: seccomp_filter.h makes the program for sandboxes of all of them,
// and a test takes each away by itself (tests/sandbox/seccomp_rules_test.cc).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "sandbox/seccomp_filter.h"

namespace ingot::sandbox {

// A condition on one argument of a call, over all 64 bits of its register.
struct ArgumentTest {
  enum class Kind { kEquals, kMaskedEquals, kIsAbove };
  unsigned index = 0;
  Kind kind = Kind::kEquals;
  uint64_t value = 0;
  uint64_t mask = 0;  // kMaskedEquals: (argument & mask) == value
};

// Calls for which all tests hold fail with `error`.
struct FilterRule {
  std::string name;  // unique
  std::string call;  // "" = every call of another architecture, such as 32-bit ones
  int error = 0;     // errno
  std::vector<ArgumentTest> arguments;
};

std::vector<FilterRule> RulesOf(const FilterOptions& options);

// Returns struct sock_filter's bytes. Rules for calls that libseccomp or the architecture does not have are left out.
absl::StatusOr<std::string> MakeProgram(const std::vector<FilterRule>& rules);

}  // namespace ingot::sandbox
