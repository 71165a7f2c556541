// Detects calls with tools that the model cannot use because the chat template does not write them into the prompt or
// because the output format cannot parse calls. Agents that always send tools continue to work and get text. The log
// reports the problem once, and a counter counts the calls (ingot_gateway_lost_tools_total).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "text/chat/chat.h"

namespace ingot::gateway {

// Describes how to get a chat format with tools. Used in error messages.
inline constexpr char kWayToTools[] =
    "set a chat format that has tools: `ingot serve --chat-format hermes`, or model.chat_format: hermes in a run";

// Returns why calls with this format lose their tools, or "" if they do not. Renders two short conversations to
// check.
std::string WhyToolsAreLost(const text::ChatFormat& format);

// Thread safe.
class LostTools {
 public:
  explicit LostTools(std::shared_ptr<const text::ChatFormat> format) : format_(std::move(format)) {}

  // Counts a call with this number of tools. The first call checks the format and logs the result.
  void Note(size_t tools);
  // Returns the number of calls that lost their tools.
  int64_t calls() const { return calls_; }

 private:
  const std::shared_ptr<const text::ChatFormat> format_;
  std::once_flag looked_;
  bool lost_ = false;
  std::atomic<int64_t> calls_{0};
};

}  // namespace ingot::gateway
