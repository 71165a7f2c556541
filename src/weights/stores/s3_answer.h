// Interprets an S3 server's responses. Pure functions.
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
  bool error_in_body = false;  // a 2xx response to this request may contain an error in its body

  std::string Header(const std::string& name) const;  // empty = none
};

// Returns the text of each `name` element in an XML response, in order. Does not support attributes or nested elements
// with the same name, which S3 responses do not contain.
std::vector<std::string> XmlTexts(std::string_view xml, const std::string& name);
// Returns the text of the first `name` element; empty = none.
std::string XmlText(std::string_view xml, const std::string& name);

// Returns OK for 2xx, unless error_in_body is set and the body contains an error. Does not parse an object's bytes.
// Otherwise returns NOT_FOUND if there is no such object, ABORTED if a condition in the request does not hold, or an
// error as in guarantee 4 of ObjectStore.
absl::Status ErrorOf(const S3Answer& answer, const S3Options& options);

// Returns whether the same request may succeed later.
bool MayPass(const S3Answer& answer);

// Returns the size of the whole object, given a response with a range of it, or nullopt if unknown.
std::optional<int64_t> WholeBytes(const S3Answer& answer);

}  // namespace ingot::weights
