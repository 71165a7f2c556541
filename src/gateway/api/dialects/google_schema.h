// Converts schemas from Google's format, a subset of OpenAPI with types such as "STRING". Internal to this directory.
// Pure.
#pragma once

#include "base/json.h"

namespace ingot::gateway {

// Converts a schema to JSON Schema: lowercases types, turns "nullable" into the type "null" and bounds into numbers,
// and sorts properties by propertyOrdering. Everything else stays unchanged.
base::json::value JsonSchemaOf(const base::json::value& schema);

}  // namespace ingot::gateway
