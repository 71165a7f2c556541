// Implements a gateway model that calls a vendor's chat completions API (gateway/text_model.h). It sends messages,
// receives text, and tokenizes the text itself.
//
//   Generate ──▶ the vendor's own thread: POST URL/chat/completions, retried while busy ──▶ VendorTurn ──▶ one chunk
//
// Thread safe. The destructor waits for running requests, at most until their deadlines.
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

// Returns the request body. Returns INVALID_ARGUMENT if the request has a field that the API does not support.
absl::StatusOr<base::json::object> VendorRequest(const gateway::ModelOptions& model,
                                                 const gateway::GatewayRequest& request,
                                                 const v1::SamplingParams& sampling);

struct VendorAnswer {
  text::Message message;
  bool cut = false;       // stopped at its token limit
  bool finished = false;  // has a finish_reason, or the stream ended with the last event
};
// Parses a response body: a JSON object or, with `stream`, server-sent events. Returns FAILED_PRECONDITION for anything
// else.
absl::StatusOr<VendorAnswer> ReadVendorAnswer(std::string_view body, bool stream);

// Returns INVALID_ARGUMENT if the key file cannot be read.
absl::StatusOr<std::shared_ptr<gateway::TextModel>> NewChatVendor(const gateway::ModelOptions& model, TextParts text);

// Creates a client for each configured model that has a URL, by name.
absl::StatusOr<std::map<std::string, std::shared_ptr<gateway::TextModel>>> ConnectChatVendors(
    const gateway::GatewayOptions& gateway, const TextParts& text);

}  // namespace ingot::app
