#include "gateway/request.h"

#include <algorithm>

namespace ingot::gateway {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// What is left with the first `elements` of the list, which made so many messages.
void Cut(GatewayRequest& request, size_t elements, size_t messages) {
  request.elements.resize(elements);
  if (messages == request.conversation.messages.size()) return;
  request.conversation.messages.resize(messages);
  request.echoed_ids.resize(messages);
  std::erase_if(request.references, [&](const auto& reference) { return reference.message >= messages; });
}

}  // namespace

void Headers::Add(std::string_view name, std::string_view text) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), Lower);
  fields_.emplace_back(std::move(lower), text);
}

std::string_view Headers::Get(std::string_view name) const {
  const auto same = [&](const auto& field) {
    return std::equal(field.first.begin(), field.first.end(), name.begin(), name.end(),
                      [](char a, char b) { return a == Lower(b); });
  };
  const auto found = std::find_if(fields_.begin(), fields_.end(), same);
  return found == fields_.end() ? std::string_view() : std::string_view(found->second);
}

const Tool* GatewayRequest::FindTool(std::string_view name) const {
  const auto found = std::find_if(tools.begin(), tools.end(), [&](const Tool& tool) { return tool.name == name; });
  return found == tools.end() ? nullptr : &*found;
}

std::optional<size_t> GatewayRequest::MessagesOf(size_t count) const {
  if (count == 0 || count > elements.size()) return std::nullopt;
  const size_t messages = elements[count - 1].count;
  const auto behind = elements.begin() + static_cast<std::ptrdiff_t>(count);
  const auto joins = [&](const ListElement& element) { return element.first < messages; };
  if (std::any_of(behind, elements.end(), joins)) return std::nullopt;
  return messages;
}

std::optional<GatewayRequest> GatewayRequest::Beginning(size_t count) const {
  const std::optional<size_t> messages = MessagesOf(count);
  if (!messages.has_value()) return std::nullopt;
  GatewayRequest beginning = *this;
  Cut(beginning, count, *messages);
  return beginning;
}

bool GatewayRequest::TakeBeginning(const GatewayRequest& other, size_t count) {
  const std::optional<size_t> messages = other.MessagesOf(count);
  const text::MessageList& own = conversation.messages;
  if (!messages.has_value() || own.size() != other.elements.front().first) return false;
  for (size_t i = 0; i < own.size(); ++i) {
    const text::Message& theirs = other.conversation.messages[i];
    if (own[i].role != theirs.role || own[i].content != theirs.content) return false;
  }
  conversation.messages = other.conversation.messages;
  echoed_ids = other.echoed_ids;
  elements = other.elements;
  references = other.references;
  Cut(*this, count, *messages);
  // Equal ones are theirs, with what was made of them.
  const text::ToolList &tools = conversation.tools, &their_tools = other.conversation.tools;
  if (std::equal(tools.begin(), tools.end(), their_tools.begin(), their_tools.end())) conversation.tools = their_tools;
  return true;
}

}  // namespace ingot::gateway
