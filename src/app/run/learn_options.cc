#include "app/run/learn_options.h"

#include "base/config.h"

namespace ingot::app {

void Bind(base::Schema& schema, LearnOptions& o) {
  schema.Field("users_file", &o.users_file,
               "owner-only file with the users who opted in, one per line: NAME KEY; `ingot serve --learn` records and "
               "trains on the calls with these keys; empty: this configuration is not for `ingot serve --learn`");
  schema.Field("round_answers", &o.round_answers,
               "answers with feedback that a round trains on, a multiple of scheduler.groups_per_step: that many "
               "optimizer steps each",
               base::Positive());
  schema.Field("round_seconds", &o.round_seconds,
               "a round also begins this long after the oldest feedback that no round has trained on, with as many "
               "whole steps as there are answers for; 0: only after round_answers answers",
               base::NotNegative());
  schema.Field(
      "require", &o.require,
      "conditions on the evaluation of a round's version, as in `ingot eval --require`, all of which must hold "
      "for the version to be deployed; best is the value of the deployed version");
  schema.Field("max_rejected", &o.max_rejected,
               "rejected rounds in a row after which training stops and the server only serves; 0: no limit",
               base::NotNegative());
  schema.Field("max_answers", &o.max_answers,
               "answers that can get feedback; beyond it, the oldest answer without feedback no longer can",
               base::Positive());
}

}  // namespace ingot::app
