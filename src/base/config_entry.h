// Defines the bound keys of a Schema. Included only by the Schema source files.
#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <string>

#include "base/config.h"

namespace ingot::base {

// The origin of a key that has not been set.
inline constexpr char kUnset[] = "default";

struct Schema::Entry {
  std::string key;
  std::string type;
  std::string doc;
  Bound bound;
  YAML::Node default_value;
  std::string origin = kUnset;
  std::function<absl::Status(const YAML::Node&)> set;  // errors describe only the expected value
  std::function<YAML::Node()> get;
  // Describes why the field's value is not allowed, such as " is 0: it must be greater than 0". Empty = the value is
  // allowed.
  std::function<std::string()> fault = [] { return std::string(); };

  // Returns the type and the bound in human-readable form: "int, greater than 0".
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

// Returns a value as one line of YAML in flow style.
std::string FlowYaml(const YAML::Node& node);

}  // namespace ingot::base
