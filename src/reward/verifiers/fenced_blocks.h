// The fenced code blocks of a Markdown text, by CommonMark's rules (0.31, sections 4.5, 5.1 and 5.2): fences of three or
// more backticks or tildes, longer fences around shorter ones, blocks in list items and block quotes, and a block whose
// fence is never closed. An indented fence of four columns is text, so a fence in a docstring ends nothing. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ingot::reward {

// The text of each block in order, without its fences, its info string and its container's indentation. Lines end
// with "\n".
std::vector<std::string> FencedBlocks(std::string_view markdown);

}  // namespace ingot::reward
