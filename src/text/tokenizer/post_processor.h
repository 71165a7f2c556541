// Implements the post_processor in tokenizer.json for a single sequence, which adds special ids around the text's ids.
#pragma once

#include <cstdint>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace ingot::text {

// A list of parts. Each part is a list of special ids or the text's own ids.
class PostProcessor {
 public:
  // Returns UNIMPLEMENTED, naming an unsupported component, or INVALID_ARGUMENT, with the problem.
  static absl::StatusOr<PostProcessor> Read(const base::json::value* json);
  std::vector<int32_t> Apply(std::vector<int32_t> ids) const;

 private:
  struct Part {
    bool text = false;         // true = the text's own ids
    std::vector<int32_t> ids;  // used if `text` is false
  };
  absl::Status ReadOne(const base::json::value& component, int depth);
  absl::Status ReadTemplate(const base::json::value& component);
  absl::Status ReadPair(const base::json::value& component, const std::string& type);

  std::vector<Part> parts_;  // empty = add nothing
};

}  // namespace ingot::text
