// Checks the version numbers of formats that outlive a process or cross the network. Ingot either reads what another
// version wrote or rejects it with an error that names the format. Increment a format's number if older readers would
// misread data written after a change.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ingot::base {

// The format number for data written before formats had numbers.
inline constexpr int64_t kFirstFormat = 1;

struct Format {
  const char* name;  // "run folder"
  int64_t number;    // the number that this program reads and writes
};

// Returns FAILED_PRECONDITION if `found`, the number in `where`, is different. The message contains both numbers and
// ends with `remedy`.
inline absl::Status CheckFormat(const Format& format, int64_t found, const std::string& where,
                                const std::string& remedy) {
  if (found == format.number) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(where, " has ", format.name, " format ", found,
                                                    ", and this version of ingot has format ", format.number, ": ",
                                                    remedy));
}

}  // namespace ingot::base
