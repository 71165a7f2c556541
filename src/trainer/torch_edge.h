// Converts c10::Error and torch's other exceptions to absl::Status.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "base/status.h"
#include "model/torch_error.h"

namespace ingot::trainer {

// What to do if the trainer has no memory left.
inline constexpr char kMemoryAdvice[] = "lower trainer.micro_batch_tokens, or end other processes on the device";

// Carries an absl::Status out of code that torch calls back or that throws like torch. AtTorchEdge returns that status
// with its context.
class StatusError final : public std::exception {
 public:
  explicit StatusError(absl::Status status) : status_(std::move(status)), text_(status_.message()) {}
  const absl::Status& status() const { return status_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  absl::Status status_;
  std::string text_;
};

// Throws an error as StatusError.
inline void OrThrow(const absl::Status& status) {
  if (!status.ok()) throw StatusError(status);
}
template <typename T>
T OrThrow(absl::StatusOr<T> value) {
  OrThrow(value.status());
  return *std::move(value);
}

// Runs `body`, which returns an absl::Status or StatusOr. A torch error becomes a status (model/torch_error.h), prefixed
// with `context`.
template <typename Body>
auto AtTorchEdge(const std::string& context, Body&& body) -> decltype(body()) {
  try {
    return std::forward<Body>(body)();
  } catch (const StatusError& error) {
    return base::Annotate(error.status(), context);
  } catch (const std::exception& error) {
    return base::Annotate(model::FromTorchException(error, kMemoryAdvice), context);
  }
}

}  // namespace ingot::trainer
