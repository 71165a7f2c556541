// Wraps the pool for the gateway of `ingot serve --learn`, so that only conversations of users who opted in are stored.
// They stay open in the pool after the gateway has ended their session, because feedback may come later.
#pragma once

#include <memory>

#include "app/learning/rated_answers.h"
#include "datapool/client.h"

namespace ingot::app {

// REQUIRES: both arguments outlive the result.
std::unique_ptr<datapool::Client> MakeOptedInPool(datapool::Client& pool, RatedAnswers& answers);

}  // namespace ingot::app
