// Reads and writes the config.json keys for sliding-window attention.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "model/config.h"
#include "model/families/family.h"

namespace ingot::model {

// Reads the window keys. A window as long as the context counts as no window. REQUIRES: the layers and
// max_position_embeddings have been read.
absl::Status ReadWindow(const base::json::value& json, const Family& family, ModelConfig* config);
void WriteWindow(const ModelConfig& config, const Family& family, base::json::object* json);

}  // namespace ingot::model
