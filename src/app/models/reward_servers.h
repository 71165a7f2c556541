// The HTTP servers that reward terms call: judges' models by OpenAI's chat completions, and external scorers.
#pragma once

#include <memory>
#include <string>

#include "reward/term_parts.h"

namespace ingot::app {

// `gateway_url`: base URL of this run's own gateway ("http://127.0.0.1:8080/v1"), for judges without a URL; empty =
// such judges are errors. `gateway_key`: its bearer key; empty = none.
reward::TermParts HttpTermParts(const std::string& gateway_url, const std::string& gateway_key);

}  // namespace ingot::app
