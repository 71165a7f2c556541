#include "reward/python/python_options.h"

#include <cstdlib>

#include "base/config.h"

namespace ingot::reward {

std::string PythonOptions::File() const {
  const std::string place = function.substr(0, function.rfind(':'));
  return place.ends_with(".py") ? place : "";
}

absl::Status PythonOptions::Validate() const {
  const size_t colon = function.rfind(':');
  const bool has_both = colon != std::string::npos && colon > 0 && colon + 1 < function.size();
  if (has_both && function.find('/', colon) == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("python.function is '", function,
                                                 "': write FILE.py:NAME, such as rewards.py:score, or "
                                                 "PACKAGE.MODULE:NAME"));
}

void Bind(base::Schema& schema, PythonOptions& o) {
  schema.Field("function", &o.function, "FILE.py:NAME or PACKAGE.MODULE:NAME of your function");
  schema.Field("interpreter", &o.interpreter,
               "Python interpreter for the function; empty: the key `python`, the active environment, or python3");
  schema.Field("timeout_s", &o.timeout_s, "timeout of one call, in seconds; after that it is an error",
               base::LeftOpen(0, 86400));
  schema.Field("workers", &o.workers, "number of Python processes", base::InRange(1, 64));
}

std::string UserPython() {
  if (const char* own = std::getenv("INGOT_PYTHON"); own != nullptr && *own != 0) return own;
  if (const char* active = std::getenv("VIRTUAL_ENV"); active != nullptr && *active != 0) {
    return absl::StrCat(active, "/bin/python");
  }
  return "python3";
}

}  // namespace ingot::reward
