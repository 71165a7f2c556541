// The post_processor of tokenizer.json, for a single sequence: adds special ids around a text.
#pragma once

#include <cstdint>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace ingot::text {

// A list of parts; each is special ids or the text's own ids.
class PostProcessor {
 public:
  // UNIMPLEMENTED names an unsupported component; INVALID_ARGUMENT names the fault.
  static absl::StatusOr<PostProcessor> Read(const base::json::value* json);
  std::vector<int32_t> Apply(std::vector<int32_t> ids) const;

 private:
  struct Part {
    bool text = false;         // true: the text's own ids
    std::vector<int32_t> ids;  // otherwise: these ids
  };
  absl::Status ReadOne(const base::json::value& component, int depth);
  absl::Status ReadTemplate(const base::json::value& component);
  absl::Status ReadPair(const base::json::value& component, const std::string& type);

  std::vector<Part> parts_;  // empty = nothing is added
};

}  // namespace ingot::text
