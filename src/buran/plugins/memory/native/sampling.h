// Accesses that ask together, for the compiler plugins: those of a block without calls in between, less than a line apart.
#ifndef BURAN_SAMPLING_H
#define BURAN_SAMPLING_H

#include <algorithm>
#include <optional>
#include <set>

#include "reuse.h"

namespace {

struct Together {
  int64_t Lowest = 0, Highest = 0; // relative to the first
  std::set<int64_t> Places = {0};  // all of them, relative to the first
};

// Whether an access joins one of the last groups, from the given one on. `Apart` tells how far behind the first of a group
// it is, if that is known.
template <typename List, typename Distance> bool joined(List &Groups, size_t First, Distance Apart) {
  for (size_t N = Groups.size(); N > std::max(First, Groups.size() > Compared ? Groups.size() - Compared : 0); N--) {
    Together &This = Groups[N - 1];
    std::optional<int64_t> Offset = Apart(Groups[N - 1]);
    if (!Offset || std::max(This.Highest, *Offset) - std::min(This.Lowest, *Offset) >= int64_t(BURAN_LINE))
      continue;
    This.Lowest = std::min(This.Lowest, *Offset);
    This.Highest = std::max(This.Highest, *Offset);
    This.Places.insert(*Offset);
    return true;
  }
  return false;
}

} // namespace

#endif
