// A vendor's chat completions as a model of the gateway (gateway/text_model.h): messages out, text back, encoded here.
//
//   Generate ──▶ the vendor's own thread: POST URL/chat/completions, retried while busy ──▶ VendorTurn ──▶ one chunk
//
// Thread safe. The destructor waits for requests that are under way, at most until their deadlines.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "app/models/text_parts.h"
#include "base/json.h"
#include "base/status.h"
#include "gateway/options.h"
#include "gateway/text_model.h"
#include "text/chat/chat.h"

namespace ingot::app {

// The body of the request. INVALID_ARGUMENT: the request has a field that such a server does not support.
absl::StatusOr<base::json::object> VendorRequest(const gateway::ModelOptions& model,
                                                 const gateway::GatewayRequest& request,
                                                 const v1::SamplingParams& sampling);

struct VendorAnswer {
  text::Message message;
  bool cut = false;       // at its limit of tokens
  bool finished = false;  // it has a finish_reason, or its stream its last event
};
// Of an answer's body: a JSON object, or with `stream` server-sent events. FAILED_PRECONDITION: something else.
absl::StatusOr<VendorAnswer> ReadVendorAnswer(std::string_view body, bool stream);

// INVALID_ARGUMENT: the key's file cannot be read.
absl::StatusOr<std::shared_ptr<gateway::TextModel>> NewChatVendor(const gateway::ModelOptions& model, TextParts text);

// The options' models with a url, by name.
absl::StatusOr<std::map<std::string, std::shared_ptr<gateway::TextModel>>> ConnectChatVendors(
    const gateway::GatewayOptions& gateway, const TextParts& text);

}  // namespace ingot::app
