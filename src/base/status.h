// Defines the project's error types (absl::Status and absl::StatusOr) and two macros for early returns.
//
// An error message states what happened, where, and what to do next. Callers branch on the code, or on a payload if the
// code is too coarse, but never on the message.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace ingot::base {

// Converts a std::string_view for absl functions. In Debian's build, absl::string_view is a different type.
inline absl::string_view View(std::string_view text) { return absl::string_view(text.data(), text.size()); }

// Returns `status` with "context: " before its message and the same code and payloads. OK stays OK.
inline absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), absl::StrCat(View(context), ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { annotated.SetPayload(url, payload); });
  return annotated;
}

}  // namespace ingot::base

#define INGOT_CONCAT_INNER_(a, b) a##b
#define INGOT_CONCAT_(a, b) INGOT_CONCAT_INNER_(a, b)

// Evaluates an absl::Status and returns it from the enclosing function unless it is OK.
#define INGOT_RETURN_IF_ERROR(expr)                                                     \
  do {                                                                                  \
    if (absl::Status ingot_status_ = (expr); !ingot_status_.ok()) return ingot_status_; \
  } while (false)

// INGOT_ASSIGN_OR_RETURN(auto x, F()) sets x to the value of F(), or returns F()'s error from the enclosing function.
#define INGOT_ASSIGN_OR_RETURN(lhs, expr) INGOT_ASSIGN_OR_RETURN_IMPL_(INGOT_CONCAT_(ingot_or_, __LINE__), lhs, expr)
#define INGOT_ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr) \
  auto tmp = (expr);                                 \
  if (!tmp.ok()) return tmp.status();                \
  lhs = std::move(tmp).value()
