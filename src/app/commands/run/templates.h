// File templates for `ingot init`. The build generates the definitions from src/app/commands/run/templates.
#pragma once

#include <string_view>

namespace ingot::app::templates {

extern const std::string_view kRunYaml, kAgent, kRewards, kReadme, kAgents, kSkillTrain, kSkillDebug, kSkillPort;

}  // namespace ingot::app::templates
