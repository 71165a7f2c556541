// Reads JSON lines {"template": text, "variables": object, "now": unix seconds}; writes JSON lines {"text": ...} or
// {"error": ...}.
#include <iostream>
#include <string>

#include "base/json.h"
#include "text/jinja/template.h"

namespace {

using ingot::base::json::object;

object RenderLine(const std::string& line) {
  const auto input = ingot::base::ParseJson(line);
  if (!input.ok()) return {{"error", std::string(input.status().message())}};
  const auto* source = ingot::base::Find(*input, "template");
  const auto* variables = ingot::base::Find(*input, "variables");
  if (source == nullptr || !source->is_string() || variables == nullptr || !variables->is_object()) {
    return {{"error", "a line needs a string 'template' and an object 'variables'"}};
  }
  const auto parsed = ingot::text::jinja::Template::Parse(std::string_view(source->get_string()));
  if (!parsed.ok()) return {{"error", std::string(parsed.status().message())}};
  ingot::text::jinja::RenderOptions options;
  for (const auto& field : variables->get_object()) {
    options.variables.emplace_back(std::string(field.key()), ingot::text::jinja::FromJson(field.value(), 0));
  }
  if (const auto* now = ingot::base::Find(*input, "now")) options.now.tv_sec = now->to_number<int64_t>();
  const auto rendered = (*parsed)->Render(options);
  if (!rendered.ok()) return {{"error", std::string(rendered.status().message())}};
  return {{"text", rendered->text}};
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  std::string line;
  while (std::getline(std::cin, line)) std::cout << ingot::base::PrintJson(RenderLine(line)) << "\n" << std::flush;
  return 0;
}
