// Lists the services that a gateway uses.
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
#include "gateway/user_feedback.h"
#include "rollout/client.h"
#include "text/chat/chat.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::gateway {

// All pointers must outlive the gateway.
struct GatewayParts {
  std::shared_ptr<rollout::Client> engine;
  bool pins_episodes = false;  // true = an episode's calls prefer the version of its first call
  std::map<std::string, std::shared_ptr<rollout::Client>> external = {};  // by model name in GatewayOptions::models
  std::map<std::string, std::shared_ptr<TextModel>> text_models = {};     // for models with a url
  datapool::Client* pool = nullptr;                                       // null = nothing is recorded (`ingot serve`)
  Admission* admission = nullptr;  // null = accepts any key and serves every episode
  std::shared_ptr<const text::Tokenizer> tokenizer;
  // Prompts may contain ids below this bound, because a model may have more ids than its tokenizer. 0 = the tokenizer's
  // size.
  int32_t vocab_size = 0;
  std::shared_ptr<const text::ChatFormat> format;
  std::shared_ptr<ScriptedModel> script = nullptr;  // supplies the calls' output; null = the engine samples
  // The admin key. GatewayOptions::admin_key_file overrides it. Empty = any client may open episodes.
  std::string admin_key = {};
  // `name` is this process's Episode.gateway (GatewayName), and `peers` are the run's gateways. Null `peers` = this is
  // the only gateway, and its episodes have no token.
  std::string name = {};
  Peers* peers = nullptr;
  // Users who opted in to training, and their feedback. Their sessions are marked (MetadataOfUser). Null = the gateway
  // does not accept feedback.
  UserFeedback* feedback = nullptr;
  const base::Clock* clock = &base::Clock::Real();
};

}  // namespace ingot::gateway
