// The kinds of an answer's parts.
#pragma once

namespace ingot::gateway {

enum class PartKind { kReasoning, kContent, kCall };

}  // namespace ingot::gateway
