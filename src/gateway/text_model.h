// The interface to a model that accepts messages and returns text without token ids, such as a vendor's chat
// completions. Its answers are encoded (Call.encoded). They are used only for supervised training and never for policy
// gradients.
#pragma once

#include <memory>

#include "gateway/api/request.h"
#include "rollout/client.h"

namespace ingot::gateway {

class TextModel {
 public:
  using Request = rollout::Client::Request;
  using OnChunk = rollout::Client::OnChunk;

  virtual ~TextModel() = default;

  // Like rollout::Client::Generate, but with a single chunk: the ids of the model's turn as rendered by the chat
  // format, with log-probs of 0. `prompt` contains the sampling parameters and the prompt ids.
  //   INVALID_ARGUMENT     the model does not support the request: a prompt without messages, log-probs
  //   UNAVAILABLE          the server cannot be reached or is too busy
  //   FAILED_PRECONDITION  the server rejected the request, or its response was invalid
  virtual std::unique_ptr<Request> Generate(std::shared_ptr<const GatewayRequest> request, v1::GenerateRequest prompt,
                                            OnChunk on_chunk) = 0;
};

}  // namespace ingot::gateway
