// Converts protobuf messages to and from the bytes in the store.
#pragma once

#include <google/protobuf/message_lite.h>

#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::datapool {

// Serializes a message. Equal messages have equal bytes, even if they contain maps.
std::string DeterministicBytes(const google::protobuf::MessageLite& message);

// Parses a record. If it is damaged, returns DATA_LOSS with `name`.
template <typename Message>
absl::StatusOr<Message> ParseRecord(std::string_view bytes, const std::string& name) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::DataLossError(name + " is damaged in the pool");
  }
  return message;
}

}  // namespace ingot::datapool
