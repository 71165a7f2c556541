// Content keys of segments, and building a call's path from them.
#pragma once

#include <string>

#include "proto/tree.pb.h"

namespace ingot::tree {

// 16 bytes. Equal content gives equal keys on every machine: computed over source, ids, log-prob bits and versions in
// little-endian, not over protobuf's encoding.
std::string SegmentKey(const v1::Segment& segment);

}  // namespace ingot::tree
