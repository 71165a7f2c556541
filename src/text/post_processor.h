// What a tokenizer puts around a text: the post_processor of tokenizer.json, for a single sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace ingot::text {

// A list of parts: special ids, or the text's own ids.
class PostProcessor {
 public:
  // UNIMPLEMENTED names the component, INVALID_ARGUMENT the fault.
  static absl::StatusOr<PostProcessor> Read(const base::json::value* json);
  std::vector<int32_t> Apply(std::vector<int32_t> ids) const;

 private:
  struct Part {
    bool text = false;
    std::vector<int32_t> ids;
  };
  absl::Status ReadOne(const base::json::value& component, int depth);
  absl::Status ReadTemplate(const base::json::value& component);
  absl::Status ReadPair(const base::json::value& component, const std::string& type);

  std::vector<Part> parts_;  // empty: the ids as they are
};

}  // namespace ingot::text
