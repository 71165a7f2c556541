// The scripts in which a text is written: letters by script, for the language-mixing term. Pure, linear in the text.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace ingot::reward {

// The text without the parts that are not language: code, TeX, URLs, JSON.
std::string ProseOf(std::string text);

// Letters by script ("Latin", "Han", ...); a letter of a rarer script counts under "other".
using LetterCounts = std::map<std::string, int64_t>;
LetterCounts CountLetters(const std::string& text);

// The scripts of a language by its ISO 639-1 code ("zh": Han); empty = unknown code.
std::set<std::string> ScriptsOf(const std::string& language);
std::string KnownLanguages();  // their codes, for errors
// The scripts with at least a tenth of the letters. A text with kana has all three Japanese scripts; a text with Hangul
// has both Korean scripts.
std::set<std::string> ScriptsIn(const LetterCounts& letters);

// The share of the letters of `text` that are foreign to a text in these scripts, from 0 to 1; 0 = it has no letters.
// Single Greek letters are never foreign. In a text of another script, Latin letters are foreign only in runs of at
// least four lower-case words, so that names and terms do not count.
double ForeignShare(const std::string& text, const std::set<std::string>& expected);

}  // namespace ingot::reward
