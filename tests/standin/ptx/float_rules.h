// Parts of the group of float.cc.
#pragma once

#include "standin/ptx/decoder.h"

namespace ingot::standin::ptx {

// `.approx` and `.full`; returns false for other statements.
bool DecodeApproximate(Decoder& decoder, const Statement& statement, Instruction& in);

// `.rz`, `.rm` and `.rp`; returns false for other statements.
bool DecodeRounded(Decoder& decoder, const Statement& statement, Instruction& in);

}  // namespace ingot::standin::ptx
