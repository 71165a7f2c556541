// Content keys of segments.
#pragma once

#include <string>

#include "proto/tree.pb.h"

namespace ingot::tree {

// The content key of a segment, 16 bytes. Equal content gives equal keys on every machine: the hash covers source, ids,
// log-prob bits, versions and placeholders in little-endian, not protobuf's encoding. It does not cover routes.
std::string SegmentKey(const v1::Segment& segment);

}  // namespace ingot::tree
