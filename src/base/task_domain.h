// The domain that a task belongs to: for metrics, recipes, reward terms and the scheduler's sampling alike. Pure.
#pragma once

#include <string>

namespace ingot::base {

// `field`: the task's `domain`; empty = the task does not name a domain, and its domain is `default`.
inline const std::string& DomainOf(const std::string& field) {
  static const std::string* const unnamed = new std::string("default");
  return field.empty() ? *unnamed : field;
}

}  // namespace ingot::base
