#include "gateway/api/request.h"

#include <algorithm>

namespace ingot::gateway {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

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

std::string_view QueryValue(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == name) return pair.substr(equals + 1);
  }
  return "";
}

const Tool* GatewayRequest::FindTool(std::string_view name) const {
  const auto found = std::find_if(tools.begin(), tools.end(), [&](const Tool& tool) { return tool.name == name; });
  return found == tools.end() ? nullptr : &*found;
}

}  // namespace ingot::gateway
