// TextModel is the interface between the gateway and a model that takes messages and returns text, without token ids,
// such as a vendor's chat completions. Its answers are encoded (Call.encoded): for supervised training, never for a
// policy gradient.
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

  // As rollout::Client::Generate, with one chunk: the ids of the model's turn as the chat format writes it, with
  // log-probs of 0. `prompt`: the sampling parameters and the ids of the prompt.
  //   INVALID_ARGUMENT     the model does not support the request: a prompt without messages, log-probs
  //   UNAVAILABLE          the server cannot be reached, or is too busy
  //   FAILED_PRECONDITION  the server rejected the request, or answered with something else
  virtual std::unique_ptr<Request> Generate(std::shared_ptr<const GatewayRequest> request, v1::GenerateRequest prompt,
                                            OnChunk on_chunk) = 0;
};

}  // namespace ingot::gateway
