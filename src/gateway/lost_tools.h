// A call's tools that its model cannot use: the chat template does not write them into the prompt, or the output format
// reads no calls. Agents that always send tools continue, and get text. So the log reports it once, and a counter
// counts the calls (ingot_gateway_lost_tools_total).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "text/chat/chat.h"

namespace ingot::gateway {

// How to get a chat format with tools, for error messages.
inline constexpr char kWayToTools[] =
    "set a chat format that has tools: `ingot serve --chat-format hermes`, or model.chat_format: hermes in a run";

// Why calls with this format lose their tools, for people; empty = they do not. Renders two short conversations.
std::string WhyToolsAreLost(const text::ChatFormat& format);

// Thread safe.
class LostTools {
 public:
  explicit LostTools(std::shared_ptr<const text::ChatFormat> format) : format_(std::move(format)) {}

  // Notes a call with this number of tools. The first call checks the format and logs the result.
  void Note(size_t tools);
  // Calls that lost their tools.
  int64_t calls() const { return calls_; }

 private:
  const std::shared_ptr<const text::ChatFormat> format_;
  std::once_flag looked_;
  bool lost_ = false;
  std::atomic<int64_t> calls_{0};
};

}  // namespace ingot::gateway
