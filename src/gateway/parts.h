// The services below a gateway.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "datapool/client.h"
#include "gateway/admission.h"
#include "gateway/peers.h"
#include "gateway/script.h"
#include "gateway/text_model.h"
#include "rollout/client.h"
#include "text/chat/chat.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::gateway {

// They outlive the gateway.
struct GatewayParts {
  std::shared_ptr<rollout::Client> engine;
  std::map<std::string, std::shared_ptr<rollout::Client>> external = {};  // by name of GatewayOptions::models
  std::map<std::string, std::shared_ptr<TextModel>> text_models = {};     // of models with a url
  datapool::Client* pool = nullptr;                                       // null = nothing is recorded (`ingot serve`)
  Admission* admission = nullptr;  // null = any key is accepted, and every episode is served
  std::shared_ptr<const text::Tokenizer> tokenizer;
  // Ids below it may stand in prompts: the model may know more than its tokenizer. 0 = the tokenizer's.
  int32_t vocab_size = 0;
  std::shared_ptr<const text::ChatFormat> format;
  std::shared_ptr<ScriptedModel> script = nullptr;  // the text that calls sample; null = the engine draws
  // The admin key; GatewayOptions::admin_key_file replaces it. Empty = any client may open episodes.
  std::string admin_key = {};
  // Episode.gateway of this process (GatewayName), and the run's gateways. Null = this is always the only gateway, and
  // its episodes carry no token.
  std::string name = {};
  Peers* peers = nullptr;
  const base::Clock* clock = &base::Clock::Real();
};

}  // namespace ingot::gateway
