// `ingot engine check`: checks whether another project's server can sample for a run.
#pragma once

#include <iosfwd>
#include <string>

#include "engines/external/external_options.h"

namespace ingot::app {

struct EngineCheckArgs {
  std::string url;
  std::string engine = "vllm";  // or "sglang"
  std::string model_dir;
  std::string write_dir;                                       // empty = the server's weights are not changed
  std::string exchange = engines::ExternalOptions().exchange;  // a run that uses it and this server ends the check
  std::string api_key_file;                                    // empty = no key
  int context_length = 0;                                      // 0 = the model's
  int timeout_s = 120;                                         // timeout per request
  int threads = 0;                                             // 0 = all cores
  bool may_crash = false;
  bool json = false;
};

int CheckEngineCommand(const EngineCheckArgs& args, std::ostream& out, std::ostream& err);

}  // namespace ingot::app
