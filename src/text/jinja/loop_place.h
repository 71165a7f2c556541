// Numbers in a loop's body that tell where its item stands, counted from the loop's end.
//
//   {% for message in messages[::-1] %}
//     {% set index = (messages | length - 1) - loop.index0 %}
//
// Such a number is what it was however many items have come to stand before this one, though what it is made of is not.
#pragma once

#include <vector>

#include "text/jinja/ast.h"

namespace ingot::text::jinja {

// Whether `expr` adds and subtracts numbers, attributes of `loop` and lengths of lists so that, if each of these lists
// is as long as the loop, nothing but the number of items behind the current one decides what it gives. Adds the slots
// of these lists to `lists`.
bool CountsFromEnd(const Expr& expr, int loop_slot, std::vector<int>& lists);

}  // namespace ingot::text::jinja
