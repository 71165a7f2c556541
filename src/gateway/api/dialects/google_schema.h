// Schemas in Google's form, the subset of OpenAPI in which types are spelled "STRING". Internal to the folder. Pure.
#pragma once

#include "base/json.h"

namespace ingot::gateway {

// The same schema as JSON Schema: types in lower case, "nullable" as the type "null", bounds as numbers, properties in
// their propertyOrdering. A schema that is already JSON Schema stays unchanged except for these members.
base::json::value JsonSchemaOf(const base::json::value& schema);

}  // namespace ingot::gateway
