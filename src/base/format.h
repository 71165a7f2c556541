// Numbers of the formats that outlive a process or cross the network. One version of Ingot reads what another version
// wrote, or rejects it with an error that names the format. Raise the number for a change that an older reader
// misreads.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ingot::base {

// Of what was written before it had a number.
inline constexpr int64_t kFirstFormat = 1;

struct Format {
  const char* name;  // "run folder"
  int64_t number;    // what this program reads and writes
};

// FAILED_PRECONDITION: `where` has another number. The message names both and ends with `remedy`.
inline absl::Status CheckFormat(const Format& format, int64_t found, const std::string& where,
                                const std::string& remedy) {
  if (found == format.number) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(where, " has ", format.name, " format ", found,
                                                    ", and this version of ingot has format ", format.number, ": ",
                                                    remedy));
}

}  // namespace ingot::base
