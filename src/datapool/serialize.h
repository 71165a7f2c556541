// Protobuf messages as the bytes that the store holds, and back.
#pragma once

#include <google/protobuf/message_lite.h>

#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::datapool {

// Equal messages give equal bytes, even with maps.
std::string DeterministicBytes(const google::protobuf::MessageLite& message);

// DATA_LOSS names the damaged record by `name`.
template <typename Message>
absl::StatusOr<Message> ParseRecord(std::string_view bytes, const std::string& name) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::DataLossError(name + " is damaged in the pool");
  }
  return message;
}

}  // namespace ingot::datapool
