// Computes content keys for segments.
#pragma once

#include <string>

#include "proto/tree.pb.h"

namespace ingot::tree {

// Returns the content key of a segment, 16 bytes. Equal content has equal keys on every machine. The hash covers the
// source, ids, log-prob bits, versions, and placeholders (little-endian), but not routes.
std::string SegmentKey(const v1::Segment& segment);

}  // namespace ingot::tree
