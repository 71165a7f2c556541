// Finds the fenced code blocks in Markdown according to CommonMark (0.31, sections 4.5, 5.1, and 5.2): fences of three
// or more backticks or tildes, longer fences around shorter ones, blocks in list items and block quotes, and blocks
// that are never closed. A fence indented by four columns is plain text, so a fence in a docstring does not end a
// block. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ingot::reward {

// Returns the content of each block in order, without the fences, the info string, and the container's indentation.
// Lines end with "\n".
std::vector<std::string> FencedBlocks(std::string_view markdown);

}  // namespace ingot::reward
