#include "reward/python/python_options.h"

#include <cstdlib>

#include "base/config.h"
#include "base/python_name.h"

namespace ingot::reward {

std::string PythonOptions::File() const {
  const base::PythonName split = base::SplitPythonName(function);
  return split.in_file() ? split.place : "";
}

absl::Status PythonOptions::Validate() const {
  return base::CheckPythonName("python.function", function, "rewards.py:score");
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
