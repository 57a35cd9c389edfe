// A shortest way to complete a text.
#pragma once

#include <vector>

#include "match/constraint.hpp"

namespace narrows {

struct Completion;

// Bytes and named tokens that complete the text, fewest bytes first (a named token counts one). Under the exclusive
// lock.
std::vector<Completion> shortest_completion(Constraint& constraint, ConfigId config, Work& work);
// The same by the longest match; not always the fewest.
std::vector<Completion> searched_completion(Constraint& constraint, ConfigId config, Work& work);

}  // namespace narrows
