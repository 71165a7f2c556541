#include "app/run/learn_options.h"

#include "base/config.h"
#include "tree/reward_bounds.h"

namespace ingot::app {
namespace {

constexpr base::Bound kReward{.low = -tree::kMaxReward, .high = tree::kMaxReward};

}  // namespace

void Bind(base::Schema& schema, LearnJudgeOptions& o) {
  schema.Field(
      "model", &o.server.model,
      "name of a model that reads from a user's next message whether the answer before it was good; empty: only "
      "explicit feedback counts");
  schema.Field(
      "url", &o.server.url,
      "base URL of a server for OpenAI's chat completions with that model; empty: this server, where the model "
      "is gateway.model_name or in gateway.models");
  schema.Field("key_file", &o.server.key_file, "file with the bearer key; empty: none is sent");
  schema.Field("timeout_s", &o.server.timeout_s, "timeout of one request, in seconds", base::LeftOpen(0, 86400));
  schema.Field("max_tokens", &o.server.max_tokens, "maximum number of tokens in an answer", base::AtLeast(1));
  schema.Field("concurrency", &o.concurrency, "maximum number of concurrent requests", base::AtLeast(1));
  schema.Field("satisfied", &o.satisfied, "reward of an answer after which the user is satisfied", kReward);
  schema.Field("dissatisfied", &o.dissatisfied, "reward of an answer after which the user is dissatisfied", kReward);
}

void Bind(base::Schema& schema, LearnOptions& o) {
  schema.Field("users_file", &o.users_file,
               "owner-only file with the users who opted in, one per line: NAME KEY; `ingot serve --learn` records and "
               "trains on the calls with these keys; empty: this configuration is not for `ingot serve --learn`");
  schema.Field("round_answers", &o.round_answers,
               "number of answers with feedback in a round, which makes one optimizer step per "
               "scheduler.groups_per_step of them; must be a multiple of it",
               base::Positive());
  schema.Field("round_seconds", &o.round_seconds,
               "seconds after the oldest unused feedback at which a round begins with fewer answers, in whole steps; "
               "0: only with round_answers answers",
               base::NotNegative());
  schema.Field(
      "require", &o.require,
      "conditions on the evaluation of a round's version, as in `ingot eval --require`, all of which must hold "
      "for the version to be deployed; best is the value of the deployed version");
  schema.Field("max_rejected", &o.max_rejected,
               "number of rejected rounds in a row after which training stops and the server only serves; 0: no limit",
               base::NotNegative());
  schema.Field("max_answers", &o.max_answers,
               "maximum number of answers that can get feedback; beyond it, the oldest ones without feedback no "
               "longer can",
               base::Positive());
  schema.Section("judge", o.judge);
}

}  // namespace ingot::app
