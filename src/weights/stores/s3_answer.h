// An S3 server's response, and its meaning. Pure.
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
  bool error_in_body = false;  // a 2xx response to this request may have an error in its body

  std::string Header(const std::string& name) const;  // empty = none
};

// The texts of the elements `name` of an XML response, in their order. Does not support attributes and nesting of equal
// names, which S3's responses do not have.
std::vector<std::string> XmlTexts(std::string_view xml, const std::string& name);
// The first text; empty = none.
std::string XmlText(std::string_view xml, const std::string& name);

// OK for 2xx, unless error_in_body is set and the body has an error. Does not parse the bytes of an object. Otherwise
// an error as in obligation 4 of ObjectStore; NOT_FOUND: no such object. ABORTED: a condition of the request does not
// hold.
absl::Status ErrorOf(const S3Answer& answer, const S3Options& options);

// Whether the same request may succeed later.
bool MayPass(const S3Answer& answer);

// The size of the whole object, from a response with a range of it; nullopt = unknown.
std::optional<int64_t> WholeBytes(const S3Answer& answer);

}  // namespace ingot::weights
