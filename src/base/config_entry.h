// The bound keys of a Schema. Only Schema's own sources include this header.
#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <string>

#include "base/config.h"

namespace ingot::base {

// The origin of a key that nothing has set.
inline constexpr char kUnset[] = "default";

struct Schema::Entry {
  std::string key;
  std::string type;
  std::string doc;
  Bound bound;
  YAML::Node default_value;
  std::string origin = kUnset;
  std::function<absl::Status(const YAML::Node&)> set;  // an error says only which value was expected
  std::function<YAML::Node()> get;
  // Why the field's value is not allowed, such as " is 0: it must be greater than 0"; empty = it is allowed.
  std::function<std::string()> fault = [] { return std::string(); };

  // The type with the bound, for people: "int, greater than 0".
  std::string TypeText() const;
};

struct Schema::ListEntry {
  std::string key;
  std::string doc;
  std::string origin = kUnset;
  std::function<void()> clear;
  std::function<void(Schema&)> append;
  std::function<size_t()> size;
  std::function<void(size_t, Schema&)> bind_at;
  std::function<void(Schema&)> bind_prototype;
};

// A value in YAML's flow style, on one line.
std::string FlowYaml(const YAML::Node& node);

}  // namespace ingot::base
