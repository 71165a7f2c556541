// What an S3 server answered, and what that means. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "weights/stores/s3_options.h"

namespace ingot::weights {

struct S3Answer {
  int http = 0;
  std::map<std::string, std::string> headers;  // by lower-case name
  std::string body;
  bool error_in_body = false;  // a 2xx answer to this request may tell an error in its body

  std::string Header(const std::string& name) const;  // empty = there is none
};

// The texts of the elements `name` of an XML answer, in their order. Knows no attributes and no nesting of equal names,
// which S3's answers do not have.
std::vector<std::string> XmlTexts(std::string_view xml, const std::string& name);
// The first of them; empty = there is none.
std::string XmlText(std::string_view xml, const std::string& name);

// OK for 2xx, unless error_in_body is set and an error is there. The bytes of an object are not read. Otherwise as obligation 4 of ObjectStore says; NOT_FOUND: no such object.
// ABORTED: a condition of the request does not hold.
absl::Status ErrorOf(const S3Answer& answer, const S3Options& options);

// Whether the same request may succeed later.
bool MayPass(const S3Answer& answer);

// The size of the whole object, of an answer with a range of it; nullopt: the answer does not say.
std::optional<int64_t> WholeBytes(const S3Answer& answer);

}  // namespace ingot::weights
