// The kinds of parts in an answer.
#pragma once

namespace ingot::gateway {

enum class PartKind { kReasoning, kContent, kCall };

}  // namespace ingot::gateway
