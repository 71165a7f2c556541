// Counts a text's letters by script for the language-mixing term. Pure. Takes linear time.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace ingot::reward {

// Returns the text without parts that are not natural language: code, TeX, URLs, and JSON.
std::string NaturalLanguage(std::string text);

// Number of letters by script ("Latin", "Han", ...). Letters in rare scripts are counted as "other".
using LetterCounts = std::map<std::string, int64_t>;
LetterCounts CountLetters(const std::string& text);

// Returns the scripts used by a language, given its ISO 639-1 code ("zh": Han). Empty if the code is unknown.
std::set<std::string> ScriptsOf(const std::string& language);
std::string KnownLanguages();  // returns the codes, for errors
// Returns the scripts that have at least a tenth of the letters. If these include kana, returns all three Japanese
// scripts, and if they include Hangul, both Korean scripts.
std::set<std::string> ScriptsIn(const LetterCounts& letters);

// Returns the share of letters in `text` that are not in the `expected` scripts, from 0 to 1. Returns 0 if there are no
// letters. Single Greek letters are never foreign. If Latin is not expected, Latin letters are foreign only in runs of
// at least four lowercase words, so names and technical terms do not count.
double ForeignShare(const std::string& text, const std::set<std::string>& expected);

}  // namespace ingot::reward
