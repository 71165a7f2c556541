// Returns a task's domain. Used by metrics, recipes, reward terms, and the scheduler's sampling. Pure function.
#pragma once

#include <string>

namespace ingot::base {

// `field` is the task's `domain` field. If it is empty, returns "default".
inline const std::string& DomainOf(const std::string& field) {
  static const std::string* const unnamed = new std::string("default");
  return field.empty() ? *unnamed : field;
}

}  // namespace ingot::base
