// Reads and writes the config.json keys for rotary position embeddings.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "model/config.h"
#include "model/families/family.h"

namespace ingot::model {

// REQUIRES: head_dim and max_position_embeddings have been read.
absl::Status ReadRope(const base::json::value& json, const Family& family, ModelConfig* config);
absl::Status CheckRope(const RopeScaling& scaling);
// Writes the keys in the formats of transformers 4 and 5.
void WriteRope(const ModelConfig& config, base::json::object* json);

}  // namespace ingot::model
