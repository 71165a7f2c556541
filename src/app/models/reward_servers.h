// Creates clients for the HTTP servers that reward terms call: judge models with OpenAI's chat completions API, and
// external scorers.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "reward/term_parts.h"

namespace ingot::app {

// `gateway_url` is the base URL of this run's gateway ("http://127.0.0.1:8080/v1"), used by judges without a URL. Empty
// = such judges fail. `gateway_key` is the gateway's bearer token; empty = none. `cancelled`: true = a judge's request
// returns CANCELLED; null = never.
reward::TermParts HttpTermParts(const std::string& gateway_url, const std::string& gateway_key,
                                std::function<bool()> cancelled = nullptr);

}  // namespace ingot::app
