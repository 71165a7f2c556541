#include "app/roles/term_servers.h"

#include <memory>
#include <string>
#include <utility>

#include "app/cluster/role_addresses.h"
#include "app/models/asked_models.h"
#include "app/models/model_places.h"
#include "app/models/reward_servers.h"
#include "app/models/text_parts.h"
#include "app/run/named_models.h"

namespace ingot::app {

absl::StatusOr<reward::TermParts> ServersOfTerms(const RoleContext& context) {
  reward::TermParts servers = HttpTermParts("", "");
  const RunConfig& config = context.config;
  if (!AsksModels(config.rewards)) return servers;
  INGOT_ASSIGN_OR_RETURN(auto external, ConnectExternalModels(config));
  INGOT_ASSIGN_OR_RETURN(TextParts text,
                         config.model.path.empty()
                             ? MakeTextParts(config.model.chat_format)
                             : LoadTextParts(config.model.path, config.model.chat_format, config.model.chat_template));
  const std::string fingerprint = text.tokenizer->fingerprint();
  AddAskedModels(
      std::make_shared<ModelPlaces>(config.gateway, ConnectEngines(*context.registry, config.cluster.rollout_engines),
                                    std::move(external)),
      std::move(text), servers);
  INGOT_RETURN_IF_ERROR(CheckTeachers(config.rewards, servers, fingerprint));
  return servers;
}

}  // namespace ingot::app
